"""Whatever a directory holds: a memory that answers, or one sentence; no file elsewhere, no memory to speak of."""

import copy
import hashlib
import json
import os
import resource
import shutil
import sys
import time
import warnings
from functools import reduce
from operator import getitem
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdmn import load
from dgdmn.errors import DgdmnError
from dgdmn.storage import directory as saved

MEMORY = Path(__file__).parent / "format-1" / "memory"
MANIFEST = json.loads((MEMORY / "manifest.json").read_text())
FILES = {path.name: path.read_bytes() for path in sorted(MEMORY.iterdir())}
QUESTIONS = np.linspace(-1, 3, 40).reshape(10, 4)
MANY = pytest.mark.parametrize("examples", [150, pytest.param(3400, marks=pytest.mark.slow)])
WRITING = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.symlink", "os.link",
           "subprocess.Popen", "os.system", "os.exec", "os.fork", "socket.connect", "pickle.find_class"}  # fmt: skip
seen = []
watching = []


def hear(event, arguments):
    """Note whatever is not reading while somebody watches; a hook is there to stay."""
    if watching and (event in WRITING or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR))):
        seen.append((event, arguments))


sys.addaudithook(hear)


@pytest.fixture
def place(tmp_path):
    """A memory, and a file beside it that is nobody's business."""
    (tmp_path / f"{'0' * 64}.safetensors").write_bytes(b"secret")
    return tmp_path / "memory"


def contents(place):
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


def laid_out(place, files):
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)


def forged(manifest):
    """The bytes of a manifest with the right checksum: what somebody malicious would write."""
    manifest.pop("sha256", None)
    return json.dumps({**manifest, "sha256": saved._digest(manifest)}).encode()


def check(place):
    """Only an error of ours may come out, in one line, or a memory that predicts."""
    before, memory, why = contents(place.parent), None, ""
    watching.append(True)
    try:
        memory = load(place)
    except DgdmnError as error:
        why = str(error)
    finally:
        watching.clear()
    assert not seen
    assert contents(place.parent) == before
    assert not [word for word in ("\n", "MemoryError", "allocate") if word in why]
    if memory is None:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = [memory.predict_proba(QUESTIONS, task) for task in (None, "cat", "ant")]
    assert all(answer.shape == (10, len(memory.classes_)) for answer in answers)
    return True


def fuzz(cases, examples, attempt):
    """Make the attempt in so many cases; what came of them."""
    results = []

    @settings(max_examples=examples, deadline=None, database=None)
    @given(cases)
    def one(case):
        results.append(attempt(case))

    one()
    assert len(results) >= examples
    return results


edits = st.lists(
    st.tuples(
        st.integers(0, 700) | st.integers(-700, -10),
        st.sampled_from(["put", "put", "put", "insert", "cut"]),
        st.binary(min_size=1, max_size=9),
    ),
    min_size=1,
    max_size=3,
)


def edited(content, changes):
    for where, how, new in changes:
        where %= len(content) + 1
        rest = {"insert": where, "put": where + len(new), "cut": where + 20 * len(new)}[how]
        content = content[:where] + (b"" if how == "cut" else new) + content[rest:]
    return content


def test_the_memory_itself_is_fine_and_a_breach_would_be_seen(place, tmp_path):
    laid_out(place, FILES)
    assert check(place)
    watching.append(True)
    (tmp_path / "new").write_text("x")
    watching.clear()
    assert seen.pop()[0] == "open"


@MANY
def test_bytes_changed_anywhere(place, examples):
    def attempt(case):
        name, changes = case
        laid_out(place, {**FILES, name: edited(FILES[name], changes)})
        return check(place)

    results = fuzz(st.tuples(st.sampled_from(sorted(FILES)), edits), examples, attempt)
    assert not all(results), "damage is found"


def paths(tree, path=()):
    """Where the values of a manifest are, its checksum left out."""
    for key, child in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if key != "sha256":
            yield (*path, key)
            yield from paths(child, (*path, key)) if isinstance(child, dict | list) else ()


def at(tree, path):
    return reduce(getitem, path, tree)


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
leaves |= st.sampled_from([2**31, 2**63, -(2**63), 10**9, 10**400, 1e308, "cpu", "manifest.json", "../x"])
names = st.text(max_size=4)
trees = st.recursive(leaves, lambda t: st.lists(t, max_size=4) | st.dictionaries(names, t, max_size=3))
places = st.sampled_from(list(paths(MANIFEST)))
others = places.map(lambda path: at(MANIFEST, path))
changes = st.lists(st.tuples(places, trees | others | st.just(...)), min_size=1, max_size=3)


@MANY
def test_values_changed_with_a_right_checksum(place, examples):
    def attempt(case):
        manifest = copy.deepcopy(MANIFEST)
        for path, value in case:
            try:
                holder = at(manifest, path[:-1])
                holder[path[-1]] = copy.deepcopy(value)
                if value is ...:
                    del holder[path[-1]]
            except (KeyError, IndexError, TypeError):
                pass  # an earlier change took the place away
        laid_out(place, {**FILES, "manifest.json": forged(manifest)})
        return check(place)

    assert set(fuzz(changes, examples, attempt)) == {True, False}, "some changes are harmless"


@MANY
def test_tensor_files_changed_with_right_names_and_checksums(place, examples):
    def attempt(case):
        name, changed = case
        content = edited(FILES[name], changed)
        new = f"{hashlib.sha256(content).hexdigest()}.safetensors"
        manifest = json.loads(FILES["manifest.json"].decode().replace(name, new))
        manifest["files"][new] = len(content)
        laid_out(place, {**FILES, new: content, "manifest.json": forged(manifest)})
        return check(place)

    tensor_files = st.sampled_from(sorted(MANIFEST["files"]))
    assert set(fuzz(st.tuples(tensor_files, edits), examples, attempt)) == {True, False}, "weights may be any"


LAYERS = [key for key in MANIFEST["parameters"] if key.endswith(("_layers", "_convolutions"))]
HUGE = [
    *((("parameters", key), [10**9]) for key in LAYERS),
    *((("parameters", key), 10**12) for key in ("latent", "sttm_latent", "n_stm", "n_classes", "batch_size")),
    *((("state", "ltm", key), 10**9) for key in ("outputs", "n_classes", "age")),
    *((("state", "stm", 0, key), 10**9) for key in ("outputs", "n_classes", "seen")),
    (("learnt", "outputs"), 10**9), (("learnt", "shape"), [10**9]), (("learnt", "shape"), [1] * 10**5),
    (("learnt", "labels"), list(range(10**5))), (("parameters", "generator_layers"), [1] * 10**5),
    (("parameters", "threads"), 10**6), (("features",), 10**9), (("parameters", "gamma"), 10**30),
]  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="nowhere else is an address space limited")
@pytest.mark.skipif(
    "DGDMN_MAY_FORK" not in os.environ, reason="forks, so it has a process of its own: see test_sizes.py"
)
@pytest.mark.parametrize(
    ("path", "size"),
    # a fork costs seconds: the quick suite takes every third
    [pytest.param(*case, marks=() if n % 3 == 0 else pytest.mark.slow) for n, case in enumerate(HUGE)],
    ids=lambda value: str(value)[:60],
)
def test_a_size_that_is_a_lie_costs_nothing(path, size, place):
    manifest = copy.deepcopy(MANIFEST)
    at(manifest, path[:-1])[path[-1]] = size
    laid_out(place, {**FILES, "manifest.json": forged(manifest)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if not pid:  # it never comes back into pytest
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + (400 << 20)
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            since = time.process_time()
            check(place)
            os._exit(0 if time.process_time() - since < 5 else 2)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
