"""Mutated memories of every algorithm and preset: each loads and predicts, or is refused in one line.

The mutations know nothing of an algorithm: they walk the tree of the manifest and the arrays. So a new
algorithm, preset or kind of memory goes through them as soon as it is registered. DGDMN_ATTACKS is the total
number of mutated memories.
"""

import copy
import hashlib
import io
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load as arrays_from_bytes
from safetensors.numpy import save as bytes_from_arrays

from dgdmn import load
from dgdmn.algorithms import algorithm
from dgdmn.cli.app import main
from dgdmn.config import PRESETS
from dgdmn.config.registry import ALGORITHMS
from dgdmn.core.errors import DgdmnError
from dgdmn.storage import directory as saved

ATTACKS = int(os.environ.get("DGDMN_ATTACKS", "500"))
KINDS = [(name, preset) for name in ALGORITHMS for preset in PRESETS]
SECONDS, MEGABYTES = 5.0, 600
SMALL = {"learner_layers": (4,), "generator_layers": (4,), "latent_dim": 2, "min_steps": 2}
SMALL |= {"sttm_learner_layers": (3,), "sttm_generator_layers": (3,), "sttm_latent_dim": 2}
SMALL |= {"generator_epochs": 1, "learner_epochs": 1, "joint_epochs": 1, "sttm_min_steps": 2}
EXTREME = [0, -1, 1, 2**31, 2**63, 10**9, 10**12, 10**15, 10**300, -(10**12), 1e308, -1e308, 5e-324]
EXTREME += [0.5, math.inf, -math.inf, math.nan, True, None, "", "x", "\x1b[31m\n", [], {}, [[]]]
EXTREME += ["x" * 10**5, [1] * 10**4, [10**9] * 3]


def memory_files(name, preset):
    """The files of a small memory of three tasks; a short-term memory holds the third."""
    kind = algorithm(name)
    known = kind._get_param_names()
    model = kind(preset, random_state=0, **{k: v for k, v in SMALL.items() if k in known})
    rng = np.random.default_rng(0)
    for task in range(3):
        X = rng.uniform(0, 1, (12, 4)) + 2.0 * (np.arange(4) == task)
        model.partial_fit(X, np.full(12, "abc"[task]), task=f"task {task}")
    with tempfile.TemporaryDirectory() as home:
        model.save(Path(home) / "memory")
        return {path.name: path.read_bytes() for path in sorted(Path(home, "memory").iterdir())}


def values(tree, path=()):
    """The place of every value: the holder and the key."""
    for key, child in list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)):
        if key != "sha256":
            yield tree, key
            yield from values(child) if isinstance(child, dict | list) else ()


def seal(files, manifest):
    """The files with this manifest and a correct checksum, as an attacker would write it."""
    manifest.pop("sha256", None)
    manifest["sha256"] = saved._digest(manifest)
    return {**files, "manifest.json": json.dumps(manifest).encode()}


def change_value(rng, files, manifest):
    """A value becomes an extreme one, or that of another place."""
    places = list(values(manifest))
    for _ in range(rng.integers(1, 3)):
        holder, key = places[rng.integers(len(places))]
        other, other_key = places[rng.integers(len(places))]
        new = EXTREME[rng.integers(len(EXTREME))] if rng.random() < 0.7 else other[other_key]
        holder[key] = copy.deepcopy(new)
    return seal(files, manifest)


def scale_number(rng, files, manifest):
    """A number becomes another number of its kind."""
    places = [
        (holder, key)
        for holder, key in values(manifest)
        if type(holder[key]) in (int, float) and key != "format"
    ]
    holder, key = places[rng.integers(len(places))]
    if isinstance(holder[key], int):
        holder[key] = int(rng.choice([-1, 0, 1, 2, 3, 7, 100, 10**4, 10**6, 10**9, 10**12]))
    else:
        holder[key] = float(rng.choice([-1.0, 0.0, 1e-30, 1e-9, 0.999, 1e9, 1e30, 1e300]))
    return seal(files, manifest)


def change_keys(rng, files, manifest):
    """A key is removed, added or renamed."""
    dicts = [(holder, key) for holder, key in values(manifest) if isinstance(holder, dict)]
    holder, key = dicts[rng.integers(len(dicts))]
    how = rng.integers(3)
    child = copy.deepcopy(holder[key])
    if how != 1:
        del holder[key]
    if how:
        holder[str(rng.choice(["", "x", "$array", "file", "state", "n_stm", "\ud800"]))] = child
    return seal(files, manifest)


def lengthen_list(rng, files, manifest):
    """A list becomes long, or empty."""
    lists = [holder[key] for holder, key in values(manifest) if isinstance(holder[key], list)]
    chosen = lists[rng.integers(len(lists))]
    one = copy.deepcopy(chosen[:1]) or [1]
    chosen[:] = [] if rng.random() < 0.2 else one * int(rng.choice([2, 10, 1000, 20_000]))
    return seal(files, manifest)


def swap_files(rng, files, manifest):
    """Array files, or arrays of one file, change places."""
    arrays = [holder[key] for holder, key in values(manifest) if is_place(holder[key])]
    one, two = (arrays[i] for i in rng.integers(len(arrays), size=2))
    field = "$array" if rng.random() < 0.7 else "file"
    one[field], two[field] = two[field], one[field]
    if rng.random() < 0.5:
        one["file"], two["file"] = two["file"], one["file"]
    return seal(files, manifest)


def is_place(value):
    return isinstance(value, dict) and "$array" in value


def replace_array(rng, files, manifest):
    """An array gets other values, another shape or another type."""
    name = str(rng.choice(sorted(manifest["files"])))
    arrays = {key: array.copy() for key, array in arrays_from_bytes(files[name]).items()}
    key = str(rng.choice(sorted(arrays)))
    array = arrays[key]
    numbers = [np.nan, np.inf, -1.0, 0.0, 1e-30, 1e30, 3e38, 127, -(2**31)]
    how = rng.integers(6)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if how == 0 and array.size:
            array.flat[rng.integers(array.size)] = np.array(rng.choice(numbers)).astype(array.dtype)
        elif how == 1:
            array[...] = np.array(rng.choice(numbers)).astype(array.dtype)
        elif how == 2:
            array = array.reshape(-1) if array.ndim > 1 else array[None]
        elif how == 3:
            array = np.concatenate([array, array]) if array.ndim else array[None]
        elif how == 4:
            array = array[:0] if array.ndim else array
        else:
            array = array.astype(rng.choice([np.float16, np.float64, np.int8, np.int64, np.uint8]))
        arrays[key] = np.ascontiguousarray(array)
    return with_file(files, manifest, name, bytes_from_arrays(arrays))


def lie_about_shape(rng, files, manifest):
    """The header of an array file is edited."""
    name = str(rng.choice(sorted(manifest["files"])))
    content = files[name]
    n = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + n])
    entry = header[str(rng.choice(sorted(header)))]
    number = int(rng.choice([0, 1, 3, 10**9, 2**62]))
    entry[str(rng.choice(["shape", "data_offsets"]))] = [number] * int(rng.integers(0, 3))
    text = json.dumps(header).encode()
    size = len(text) if rng.random() < 0.8 else 2**40
    return with_file(files, manifest, name, size.to_bytes(8, "little") + text + content[8 + n :])


def with_file(files, manifest, name, content):
    """Files in which an array file has another content, with a correct name, size and checksum."""
    new = f"{hashlib.sha256(content).hexdigest()}.safetensors"
    manifest = json.loads(json.dumps(manifest).replace(name, new))
    manifest["files"][new] = len(content)
    return seal({**files, new: content}, manifest)


def damage_bytes(rng, files, manifest):
    """Bytes are flipped, cut off or appended; a manifest that is still JSON gets a correct checksum."""
    name = str(rng.choice(sorted(files)))
    content = bytearray(files[name])
    how = rng.integers(3)
    if how == 0 and content:
        for _ in range(rng.integers(1, 4)):
            content[rng.integers(len(content))] = rng.integers(256)
    elif how == 1:
        del content[rng.integers(len(content) + 1) :]
    else:
        content += rng.bytes(9)
    if name == "manifest.json":
        try:
            return seal(files, dict(json.loads(content)))
        except (ValueError, TypeError):
            pass
    return {**files, name: bytes(content)}


MUTATIONS = [change_value, change_value, scale_number, change_keys, lengthen_list, swap_files]
MUTATIONS += [replace_array, replace_array, lie_about_shape, damage_bytes]


def inspect(place):
    """None if `dgdmn inspect` prints no control character and does not crash."""
    with (
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
        suppress(SystemExit),
    ):
        main(["inspect", str(place)])
    text = (out.getvalue() + err.getvalue()).replace("\n", " ")
    return None if text.isprintable() and "a bug" not in text else f"inspect says {text[-300:]!r}"


def attempt(place):
    """None if the memory is refused in one line, or loads and predicts; else what is wrong with it."""
    X = np.linspace(-3, 4, 20).reshape(5, 4)
    try:
        model = load(place, threads=1)
        info = model.info()
        for task in (None, "", *info.awake):
            answers = model.predict_proba(np.resize(X, (5, *model.fitted_.shape)), task)
            if not np.isfinite(answers).all() or abs(answers.sum(axis=1) - 1).max() > 1e-6:
                return "its answers are no probabilities"
        if info.generative and info.consolidated:
            model.sample(3)
        if (shown := inspect(place)) is not None:
            return shown
    except DgdmnError as error:
        text = str(error)
        if not text.isprintable() or len(text) > 1000:
            return f"its message is not one short line: {text[:300]!r}"
        return None
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return "loaded"


def attack(name, preset, count, seed):
    """Report as JSON what every mutated memory did; runs in a process of its own."""
    warnings.simplefilter("ignore")
    files = {key: value for key, value in memory_files(name, preset).items() if key != ".lock"}
    manifest, report = json.loads(files["manifest.json"]), {"loaded": 0, "refused": 0, "broken": []}
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    honest = sum(
        map(len, files.values())
    )  # ridge has tens of megabytes, and the attack copies them
    limit = pages * resource.getpagesize() + (MEGABYTES << 20) + 8 * honest
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for number in range(count):
        rng = np.random.default_rng([seed, number, zlib.crc32(f"{name} {preset}".encode())])
        mutate = MUTATIONS[number % len(MUTATIONS)]
        with tempfile.TemporaryDirectory() as home:
            try:
                mutated = mutate(rng, files, copy.deepcopy(manifest))
            except (KeyError, UnicodeError, ValueError, OverflowError):
                continue  # nothing that could be written
            for key, content in mutated.items():
                Path(home, key).write_bytes(content)
            since = time.process_time()
            result = attempt(Path(home))
            took = time.process_time() - since
        if took > SECONDS:
            result = f"it took {took:.1f} s"
        report["loaded"] += result == "loaded"
        report["refused"] += result is None
        if result not in (None, "loaded"):
            report["broken"].append(f"{name} {preset} {mutate.__name__} {seed} {number}: {result}")
    print(json.dumps(report))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space need Linux")
@pytest.mark.parametrize(("name", "preset"), KINDS)
def test_mutated_memories_load_and_predict_or_are_refused_in_one_line(name, preset):
    count, seed = math.ceil(ATTACKS / len(KINDS)), int(os.environ.get("DGDMN_ATTACK_SEED", "0"))
    result = subprocess.run(
        [sys.executable, __file__, name, preset, str(count), str(seed)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60 + 5 * count,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["broken"] == []
    assert report["refused"] > 0 or count < 10, "of ten mutations, some are refused"


if __name__ == "__main__":
    attack(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
