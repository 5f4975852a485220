"""Hostile run directories: links, pipes and mutated files. Nothing but a DgdmnError comes out.

DGDMN_MUTATIONS says how many mutated directories are tried. Kinds of memory are found in the registry.
"""

import contextlib
import json
import math
import os
import random
import shutil
import signal
import warnings
from dataclasses import replace

import numpy as np
import pytest

from dgdmn.config import PRESETS, resolve
from dgdmn.config.registry import ALGORITHMS
from dgdmn.core.errors import DgdmnError, Interrupted
from dgdmn.core.files import json_bytes
from dgdmn.records import RunRecord, find_runs
from dgdmn.report.load import load_runs
from dgdmn.report.page import render
from dgdmn.runs.runner import execute
from dgdmn.runs.spec import RunSpec
from dgdmn.service.status import summarize, watched_runs
from dgdmn.streams import from_arrays

pytestmark = pytest.mark.slow

MUTATIONS = int(os.environ.get("DGDMN_MUTATIONS", "200"))
BATCH = 50  # mutated directories that share a page
TINY = {"samples_per_task": 4, "generator_epochs": 1, "learner_epochs": 1, "joint_epochs": 1}
TINY |= {"min_steps": 0, "sttm_min_steps": 0, "n_stm": 2, "batch_size": 16}
TINY |= {"generator_layers": (8,), "sttm_generator_layers": (4,), "learner_layers": (8,)}
DUAL = [name for name, info in ALGORITHMS.items() if info.short_term]
KINDS = [("nn", "quick"), *((name, preset) for name in DUAL for preset in PRESETS)]


def spec(algorithm, preset):
    return RunSpec("mine", algorithm, preset, replace(resolve(preset), **TINY))


def run(what, out, **options):
    """Execute a run on three small tasks."""
    x = np.random.default_rng(0).random((8, 4, 4), dtype=np.float32)
    stream = from_arrays([(name, x, np.repeat([name], 8)) for name in "abc"], name="mine")
    return execute(what, out, stream=stream, **options)


@pytest.fixture(autouse=True)
def limited(monkeypatch):
    """A call that waits for a pipe fails; a damaged checkpoint may warn; nothing has to reach the disk."""

    def late(*_):
        raise AssertionError("it waits")

    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    before = signal.signal(signal.SIGALRM, late)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """`interrupted(kind)`: a run that was stopped in its last task, with checkpoints and artifacts."""
    made = {}

    def make(kind):
        if kind not in made:
            out, what = tmp_path_factory.mktemp("interrupted"), spec(*kind)
            directory = out / what.name
            learned = lambda: len(find_rows(directory)) >= 2  # noqa: E731
            with contextlib.suppress(Interrupted):
                run(what, out, every=0.0, stop=learned)
            assert (directory / "checkpoints").exists()
            made[kind] = directory
        return made[kind]

    return make


def find_rows(directory):
    return RunRecord.read(directory).order if (directory / "config.json").exists() else ()


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


THINGS = ("link", "dangling link", "link to a directory", "pipe", "directory")


def plant(path, kind, outside):
    """Put something else in the place of a file or a directory of a run."""
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(outside / {"link": "file", "dangling link": "new"}.get(kind, ""))


def content(directory):
    return {path: path.is_file() and path.read_bytes() for path in directory.rglob("*")}


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_nothing_outside_a_run_is_written_or_removed(kind, thing, tmp_path, interrupted):
    base, what, outside = interrupted(kind), spec(*kind), tmp_path / "outside"
    for place in (outside, outside / "000001", outside / "000099"):
        place.mkdir()
        for name in ("file", "manifest.json", f".file.{'0' * 16}.tmp"):
            (place / name).write_text("kept")
    before = content(outside)
    found = {
        path.parent / path.suffix if path.suffix == ".safetensors" else path: path
        for path in sorted(base.rglob("*"))
    }  # one array file of each checkpoint
    paths = [str(path.relative_to(base)) for path in found.values()]
    paths += ["summary.json", "artifacts", "artifacts/resilience.npz", ".lock"]
    tried = completed = 0
    for number, path in enumerate(dict.fromkeys(paths)):
        for start in ("interrupted",) if "checkpoints/" in path else ("new", "interrupted"):
            out = tmp_path / f"{number}-{start}"
            if start == "interrupted":
                shutil.copytree(base, out / what.name)
            plant(out / what.name / path, thing, outside)
            signal.alarm(60)
            tried += 1
            with contextlib.suppress(DgdmnError):
                completed += run(what, out).complete
            signal.alarm(0)
            assert content(outside) == before, (path, start)
            shutil.rmtree(out)
    assert completed, "what is in the place of a file that is replaced does no harm"
    print(f"{tried} times a {thing} in a run of {base.name}, {completed} completed")


ODD = (
    math.nan,
    math.inf,
    1.7e308,
    -1,
    0,
    10**400,
    "soon",
    "",
    None,
    [],
    {},
    True,
    "\ud800",
    "a\nb",
)
ODD = (*ODD, "../../x", [[[[]]]], {"kind": 5}, [math.nan, 1.7e308, 10**400, "x"])


def leaves(value, path=()):
    """The path of every value in a JSON document."""
    pairs = value.items() if isinstance(value, dict) else ()
    pairs = enumerate(value) if isinstance(value, list) else pairs
    for key, child in pairs:
        yield (*path, key)
        yield from leaves(child, (*path, key))


def mutate_json(text, rng):
    """A JSON document with a value replaced or removed; a damaged one as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text.decode(errors="replace")
    *above, last = rng.choice(list(leaves(value)) or [("new",)])
    place = value
    for key in above:
        place = place[key]
    if rng.random() < 0.2 and isinstance(place, dict):
        place.pop(last, None)
    else:
        place[last] = rng.choice(ODD)
    return json.dumps(value)


def mutate(path, rng, outside):
    """Change one file of a run."""
    data = path.read_bytes()
    lines = data.splitlines(keepends=True) or [b""]
    at, line = rng.randrange(len(data) + 1), rng.randrange(len(lines))
    how = rng.choice(("json", "json", "json", "bytes", "cut", "remove", "line", "twice", "thing"))
    if how == "thing":
        return plant(path, rng.choice(THINGS), outside)
    if how == "remove":
        return path.unlink()
    if how == "json" and path.suffix == ".json":
        data = mutate_json(data, rng).encode(errors="backslashreplace")
    elif how == "json" and path.suffix == ".jsonl":
        lines[line] = mutate_json(lines[line], rng).encode(errors="backslashreplace") + b"\n"
        data = b"".join(lines)
    elif how == "json" and path.suffix == ".csv":
        cells = lines[line].split(b",")
        cells[rng.randrange(len(cells))] = str(rng.choice(ODD)).encode(errors="replace")
        lines[line] = b",".join(cells)
        data = b"".join(lines)
    elif how == "cut":
        data = data[:at]
    elif how == "line":
        data = b"".join(lines[:line] + lines[line + 1 :])
    elif how == "twice":
        data = b"".join(lines[: line + 1] + lines[line:])
    else:
        data = data[:at] + rng.randbytes(rng.randint(1, 8)) + data[at + 1 :]
    return path.write_bytes(data)


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_mutated_run_directories_are_read_or_refused_in_one_line(kind, tmp_path, interrupted):
    base, rng, outside = interrupted(kind), random.Random(f"{kind}"), tmp_path / "outside"
    whole = run(spec(*kind), tmp_path / "whole").directory
    tried, refused = 0, 0
    for batch in range(math.ceil(MUTATIONS / len(KINDS) / BATCH)):
        out = tmp_path / str(batch)
        shutil.copytree(whole, outside, dirs_exist_ok=True)
        (outside / "file").touch()
        before = content(outside)
        for number in range(min(BATCH, math.ceil(MUTATIONS / len(KINDS)))):
            directory = out / f"{number}" / base.name
            shutil.copytree(rng.choice([base, whole]), directory)
            for _ in range(rng.randint(1, 3)):
                files = [
                    p for p in sorted(directory.rglob("*")) if p.is_file() and not p.is_symlink()
                ]
                mutate(rng.choice(files), rng, outside)
            tried += 1
            signal.alarm(120)
            message = ""
            try:
                record = RunRecord.read(directory)
                sum(1 for _ in record.iter_events())
                for name in record.artifacts:
                    with contextlib.suppress(DgdmnError):
                        record.artifact(name)
                run(RunSpec.from_record(record), directory.parent, stop=lambda: True)
            except DgdmnError as error:
                message, refused = str(error), refused + 1
            assert "\n" not in message
        runs, problems = load_runs(sorted(out.iterdir()))
        assert not [problem for problem in problems if "not a run: " in problem.reason]
        assert render(runs, problems).rstrip().endswith("</html>")
        state = summarize(watched_runs(sorted(out.iterdir())), 0.0)
        json.loads(json_bytes(state), parse_constant=lambda name: pytest.fail(name))
        assert len(find_runs(out)) <= BATCH
        signal.alarm(0)
        assert content(outside) == before
        shutil.rmtree(out)
    print(f"{tried} mutated directories of {base.name}, {refused} refused")
