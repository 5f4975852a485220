"""Whatever a directory holds, loading gives a memory that predicts or one sentence, and touches nothing else."""

import copy
import hashlib
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import warnings
from functools import reduce
from operator import getitem
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdmn import DGDMN, load
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.memory.task_log import TaskInfo, TaskLog
from dgdmn.storage import directory as saved

NAMES = ("ant", "bee", "cat")


def rows(task):
    """Twenty rows of four features; the feature of the task's number is high."""
    X = np.where(np.arange(4) == task, 2.5, -0.5) + np.linspace(-0.4, 0.4, 80).reshape(20, 4)
    return X, np.full(20, NAMES[task])


def save_memory():
    """The files of a small memory with a long-term memory, one awake task, a prior and codes."""
    memory = DGDMN(
        "deep",
        n_stm=2,
        generator_layers=(6,),
        latent_dim=2,
        learner_layers=(5,),
        sttm_generator_layers=(4,),
        sttm_latent_dim=2,
        sttm_learner_layers=(4,),
        min_steps=5,
        value_range=(-1, 3),
        random_state=0,
        threads=1,
    )
    for task in range(3):  # the second fills the short-term memory
        memory.partial_fit(*rows(task), task=NAMES[task])
    with tempfile.TemporaryDirectory() as home:
        memory.save(Path(home) / "memory")
        return {path.name: path.read_bytes() for path in sorted((Path(home) / "memory").iterdir())}


FILES = save_memory()
MANIFEST = json.loads(FILES["manifest.json"])
QUESTIONS = np.linspace(-1, 3, 40).reshape(10, 4)
MANY = pytest.mark.parametrize("examples", [100, pytest.param(3400, marks=pytest.mark.slow)])
WRITING = {
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.symlink"),
    *("os.link", "subprocess.Popen", "os.system", "os.exec", "os.fork", "socket.connect"),
    "pickle.find_class",
}
seen = []
watching = []


def note(event, arguments):
    """Note everything but reading while watching; an audit hook cannot be removed."""
    if watching and (
        event in WRITING or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR))
    ):
        seen.append((event, arguments))


sys.addaudithook(note)


@pytest.fixture
def place(tmp_path):
    """Where the memory goes; beside it is a file that must not be touched."""
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
    """The bytes of a manifest with a correct checksum, as an attacker would write it."""
    manifest.pop("sha256", None)
    return json.dumps({**manifest, "sha256": saved._digest(manifest)}).encode()


def check(place):
    """Loading raises one of our errors in one line, or returns a memory that predicts."""
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
    """Try many cases and return their results."""
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


def test_the_memory_itself_loads_and_a_write_would_be_seen(place, tmp_path):
    laid_out(place, FILES)
    assert check(place)
    watching.append(True)
    (tmp_path / "new").write_text("x")
    watching.clear()
    assert seen.pop()[0] == "open"


@MANY
def test_changed_bytes(place, examples):
    def attempt(case):
        name, changes = case
        laid_out(place, {**FILES, name: edited(FILES[name], changes)})
        return check(place)

    results = fuzz(st.tuples(st.sampled_from(sorted(FILES)), edits), examples, attempt)
    assert not all(results), "damage is found"


def paths(tree, path=()):
    """The paths of all values of a manifest except its checksum."""
    for key, child in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if key != "sha256":
            yield (*path, key)
            yield from paths(child, (*path, key)) if isinstance(child, dict | list) else ()


def at(tree, path):
    return reduce(getitem, path, tree)


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
leaves |= st.sampled_from(
    [2**31, 2**63, -(2**63), 10**9, 10**400, 1e308, "cpu", "manifest.json", "../x"]
)
names = st.text(max_size=4)
trees = st.recursive(
    leaves, lambda t: st.lists(t, max_size=4) | st.dictionaries(names, t, max_size=3)
)
places = st.sampled_from(list(paths(MANIFEST)))
others = places.map(lambda path: at(MANIFEST, path))
changes = st.lists(st.tuples(places, trees | others | st.just(...)), min_size=1, max_size=3)


@MANY
def test_changed_values_with_a_correct_checksum(place, examples):
    def attempt(case):
        manifest = copy.deepcopy(MANIFEST)
        for path, value in case:
            try:
                holder = at(manifest, path[:-1])
                holder[path[-1]] = copy.deepcopy(value)
                if value is ...:
                    del holder[path[-1]]
            except (KeyError, IndexError, TypeError):
                pass  # an earlier change removed the place
        laid_out(place, {**FILES, "manifest.json": forged(manifest)})
        return check(place)

    assert set(fuzz(changes, examples, attempt)) == {True, False}, "some changes are harmless"


@MANY
def test_changed_array_files_with_correct_names_and_checksums(place, examples):
    def attempt(case):
        name, changed = case
        content = edited(FILES[name], changed)
        new = f"{hashlib.sha256(content).hexdigest()}.safetensors"
        manifest = json.loads(FILES["manifest.json"].decode().replace(name, new))
        manifest["files"][new] = len(content)
        laid_out(place, {**FILES, new: content, "manifest.json": forged(manifest)})
        return check(place)

    array_files = st.sampled_from(sorted(MANIFEST["files"]))
    assert set(fuzz(st.tuples(array_files, edits), examples, attempt)) == {True, False}, (
        "weights may have any value"
    )


def forge_labels(manifest):
    manifest["fitted"]["labels"].pop()


def forge_tasks(manifest):
    (one,) = manifest["state"]["ltm"]["tasks"][:1]
    manifest["state"]["ltm"]["tasks"] = [{**one, "task": f"task {n}"} for n in range(10_001)]


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        (forge_labels, "task 'cat' has a class beyond the 2 labels"),
        (forge_tasks, "10,001 tasks; at most 10,000 are recorded"),
    ],
)
def test_a_forged_task_log_is_refused_in_one_sentence(place, forge, why):
    manifest = copy.deepcopy(MANIFEST)
    forge(manifest)
    laid_out(place, {**FILES, "manifest.json": forged(manifest)})
    with pytest.raises(DgdmnError, match=why) as raised:
        load(place)
    assert "\n" not in str(raised.value)


def test_no_more_tasks_are_learned_than_can_be_loaded():
    log = TaskLog().add({f"task {n}": TaskInfo(1, frozenset()) for n in range(10_000)})
    log.add({"task 7": TaskInfo(1, frozenset())})
    with pytest.raises(UsageError, match="at most 10,000 tasks; reuse a task's name"):
        log.add({"new": TaskInfo(1, frozenset())})


LAYERS = [key for key in MANIFEST["parameters"] if key.endswith(("_layers", "_convolutions"))]
NUMBERS = ("latent_dim", "sttm_latent_dim", "n_stm", "n_classes", "batch_size", "prior_components")
HUGE = [
    *((("parameters", key), [10**9]) for key in LAYERS),
    *((("config", key), [10**9]) for key in LAYERS),
    *((("config", key), 10**12) for key in NUMBERS),
    *((("state", "ltm", key), 10**9) for key in ("outputs", "n_classes", "age")),
    *((("state", "stm", 0, key), 10**9) for key in ("outputs", "n_classes", "n_seen")),
    (("state", "largest_buffer"), 10**15),
    (("fitted", "outputs"), 10**9),
    (("fitted", "shape"), [10**9]),
    (("fitted", "shape"), [1] * 10**5),
    (("fitted", "labels"), list(range(10**5))),
    (("fitted", "rng"), {"entropy": 10**300, "used": 10**300}),
    (("config", "generator_layers"), [1] * 10**5),
    (("parameters", "generator_layers"), [1] * 10**5),
    (("features",), 10**9),
    (("config", "gamma"), 10**30),
]


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space need Linux")
@pytest.mark.skipif(
    "DGDMN_MAY_FORK" not in os.environ,
    reason="forks, so test_directory.py runs it in a process of its own",
)
@pytest.mark.parametrize(("path", "size"), HUGE, ids=lambda value: str(value)[:60])
def test_a_false_size_costs_nothing(path, size, place):
    manifest = copy.deepcopy(MANIFEST)
    at(manifest, path[:-1])[path[-1]] = size
    laid_out(place, {**FILES, "manifest.json": forged(manifest)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if not pid:  # the child never returns to pytest
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
