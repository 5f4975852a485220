"""A saved state is read completely, or refused in one sentence."""

import hashlib
import json
import os
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdmn import storage
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.core.files import write_atomic
from dgdmn.storage import arrays_in, bytes_in, map_arrays
from dgdmn.storage import directory as saved

STATE = {
    "ltm": {
        "weights": torch.arange(6.0).reshape(2, 3),
        "half": torch.ones(2, dtype=torch.float16),
        "age": 7,
        "name": "α",
        "none": None,
        "flag": True,
    },
    "stm": [{"rows": np.array([[0, 255]], dtype=np.uint8)}, {"rows": np.zeros((0, 2))}],
    "numbers": [1, 2.5],
}


@pytest.fixture
def memory(tmp_path):
    storage.write(tmp_path / "memory", {"algorithm": "x"}, STATE)
    return tmp_path / "memory"


def same(a, b):
    """Whether b, as read, is a, as written; tensors are read as numpy arrays."""
    if isinstance(a, torch.Tensor | np.ndarray):
        a = np.asarray(a)
        return type(b) is np.ndarray and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def manifest_of(memory):
    return json.loads((memory / "manifest.json").read_text())


def forge(memory, change):
    """Write a changed manifest with a correct checksum, as an attacker would."""
    manifest = manifest_of(memory)
    change(manifest)
    manifest.pop("sha256", None)
    manifest["sha256"] = saved._digest(manifest)
    (memory / "manifest.json").write_text(json.dumps(manifest))


def test_what_is_written_is_read(memory):
    about, state = storage.read(memory)
    assert about == {"format": 2, "algorithm": "x"}
    assert same(STATE, state)
    assert all(array.flags.aligned and array.flags.writeable for _, array in arrays_in(state))


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
)
leaves |= st.text(st.characters(codec="utf-8"), max_size=5)
leaves |= st.lists(st.floats(width=32, allow_nan=False), max_size=3).map(np.float32)
keys = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=4)
trees = st.recursive(
    leaves, lambda t: st.lists(t, max_size=3) | st.dictionaries(keys, t, max_size=3), max_leaves=12
)


@given(state=st.dictionaries(keys, trees, max_size=3))
@settings(max_examples=60, deadline=None)
def test_any_tree_survives(tmp_path_factory, state):
    place = tmp_path_factory.mktemp("any") / "memory"
    storage.write(place, {}, state)
    assert same(state, storage.read(place)[1])


def test_files_are_named_by_content_and_unchanged_ones_stay(memory):
    before = {path.name: path.stat().st_ino for path in memory.glob("*.safetensors")}
    assert all(
        hashlib.sha256((memory / name).read_bytes()).hexdigest() + ".safetensors" == name
        for name in before
    )
    storage.write(memory, {}, {**STATE, "ltm": {"weights": torch.ones(2)}})
    after = {path.name: path.stat().st_ino for path in memory.glob("*.safetensors")}
    kept = before.keys() & after.keys()
    assert len(kept) == 2, "both short-term memories"
    assert all(before[name] == after[name] for name in kept)
    assert len(after) == 3, "the old long-term memory is gone"


def test_files_have_the_permissions_the_user_asked_for(tmp_path):
    before = os.umask(0o027)
    try:
        storage.write(tmp_path / "memory", {}, STATE)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "memory").iterdir()} == {
        0o640
    }


@pytest.mark.parametrize("step", range(1, 5))
def test_a_save_that_fails_at_any_write_keeps_the_old_memory(memory, monkeypatch, step):
    calls = []

    def failing(path, content):
        calls.append(path)
        if len(calls) == step:
            raise DgdmnError(f"cannot write {path}: No space left on device; free space there")
        write_atomic(path, content)

    monkeypatch.setattr(saved, "write_atomic", failing)
    new = {key: {"weights": torch.full((3,), float(number))} for number, key in enumerate("abc")}
    with pytest.raises(DgdmnError, match="free space"):
        storage.write(memory, {}, new)
    monkeypatch.undo()
    assert same(STATE, storage.read(memory)[1])
    storage.write(memory, {}, new)
    assert same(new, storage.read(memory)[1])
    assert len(list(memory.iterdir())) == 4, "nothing is left over"


def test_the_manifest_is_written_last_and_everything_is_synced(tmp_path, monkeypatch):
    order, synced = [], []
    monkeypatch.setattr(
        saved,
        "write_atomic",
        lambda path, content: (order.append(path.name), write_atomic(path, content)),
    )
    monkeypatch.setattr(
        os, "fsync", lambda descriptor, real=os.fsync: (synced.append(descriptor), real(descriptor))
    )
    storage.write(tmp_path / "memory", {}, STATE)
    assert order[-1] == "manifest.json"
    assert len(synced) == 2 * len(order), "each file and its directory"


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _array_file(memory):
    return next(iter(sorted(memory.glob("*.safetensors"))))


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda m: _flip(_array_file(m)), "checksum is wrong"),
        (lambda m: _flip(m / "manifest.json"), "damaged"),
        (lambda m: _array_file(m).unlink(), "is missing"),
        (lambda m: (m / "manifest.json").unlink(), "no manifest.json"),
        (lambda m: _array_file(m).write_bytes(b""), r"it has 0 bytes, expected \d+"),
        (lambda m: _array_file(m).write_bytes(b"x" * 9999), r"it has 9,999 bytes, expected \d+"),
        (
            lambda m: forge(m, lambda made: made.update(format=1)),
            r"saved in format 1; this version reads format 2, so load",
        ),
        (
            lambda m: forge(m, lambda made: made.update(format=3)),
            r"saved in format 3; this version reads format 2",
        ),
        (
            lambda m: forge(m, lambda made: made["files"].update({"../secret.safetensors": 4})),
            "is not the name of an array file",
        ),
        (
            lambda m: forge(m, lambda made: made["files"].update({"/etc/passwd": 4})),
            "is not the name of an array file",
        ),
        (lambda m: forge(m, lambda made: made.pop("files")), "does not fit"),
        (lambda m: forge(m, lambda made: made.update(files=3)), "does not fit"),
        (lambda m: forge(m, lambda made: made.update(state=[])), "does not fit"),
        (lambda m: forge(m, lambda made: made["state"].pop("ltm")), "does not fit"),
        (
            lambda m: forge(m, lambda made: made["state"].update(twice=made["state"]["stm"])),
            "does not fit",
        ),
        (lambda m: (m / "manifest.json").write_text("[" * 100_000), "damaged"),
        (lambda m: (m / "manifest.json").write_text('{"format": "one"}'), "has no format number"),
        (lambda m: (m / "manifest.json").write_text("3"), "has no format number"),
    ],
)
def test_damage_is_refused_in_one_sentence(memory, harm, why):
    harm(memory)
    with pytest.raises(DgdmnError, match=why) as raised:
        storage.read(memory)
    assert "\n" not in str(raised.value)


def test_a_link_is_refused_unread(memory, tmp_path):
    file = _array_file(memory)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DgdmnError, match="not a regular file"):
        storage.read(memory)


def test_a_header_that_claims_ten_gigabytes_is_refused(memory):
    header = json.dumps(
        {"w": {"dtype": "F32", "shape": [2_500_000_000], "data_offsets": [0, 10**10]}}
    ).encode()
    content = len(header).to_bytes(8, "little") + header
    name = f"{hashlib.sha256(content).hexdigest()}.safetensors"
    (memory / name).write_bytes(content)
    forge(memory, lambda made: made["files"].update({name: len(content)}))
    with pytest.raises(DgdmnError, match="damaged"):
        storage.read(memory)


@pytest.mark.parametrize("header", [0, 200])
def test_a_sparse_file_of_any_size_is_refused_in_bounded_memory(memory, header):
    file, size = memory / f"{'0' * 64}.safetensors", 200 << 20
    with file.open("wb") as sparse:
        sparse.write(header.to_bytes(8, "little"))
        sparse.truncate(size)
    forge(memory, lambda made: made["files"].update({file.name: size}))
    tracemalloc.start()
    with pytest.raises(DgdmnError, match=r"is damaged: its (header|checksum) is wrong"):
        storage.read(memory)
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


def test_a_file_larger_than_this_machine_is_refused_in_one_sentence(memory, monkeypatch):
    def fail(content):
        raise MemoryError

    monkeypatch.setattr(saved, "arrays_from_bytes", fail)
    with pytest.raises(DgdmnError, match=r"bytes; load it with more memory"):
        storage.read(memory)


@pytest.mark.parametrize(
    "content",
    ['{"name": "my app", "version": "1.0"}', '{"format": 2}', "[]", "not JSON", "", "[" * 10**5],
)
def test_the_manifest_of_another_program_is_left_alone(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    for attempt in (storage.check_place, lambda path: storage.write(path, {}, STATE)):
        with pytest.raises(UsageError, match=r"holds 'manifest.json' and no memory"):
            attempt(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]
    assert (tmp_path / "manifest.json").read_text() == content


def test_a_directory_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds 'notes.txt' and no memory"):
        storage.write(tmp_path, {}, STATE)
    with pytest.raises(UsageError, match="is a file"):
        storage.write(tmp_path / "notes.txt", {}, STATE)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_what_an_interrupted_save_left_is_replaced_or_discarded(tmp_path):
    home = tmp_path / "memory"
    home.mkdir()
    for name in (".manifest.json.tmp", f"{'a' * 64}.safetensors", f".{'b' * 64}.safetensors.tmp"):
        (home / name).write_bytes(b"")
    (home / ".lock").write_bytes(b"")
    assert not storage.holds_memory(home)
    storage.check_place(home)
    storage.discard(home)
    assert not home.exists()
    storage.write(home, {}, STATE)
    assert storage.holds_memory(home)
    (home / "mine.txt").write_text("mine")
    storage.discard(home)
    assert [path.name for path in home.iterdir() if path.suffix != ".json"] == ["mine.txt"]


def test_two_arrays_of_one_name_are_refused(tmp_path):
    with pytest.raises(UsageError, match="two arrays of the state are called 'a/b'"):
        storage.write(tmp_path / "memory", {}, {"a": {"b": np.ones(1)}, "a/b": np.ones(1)})


def test_arrays_are_found_mapped_and_counted():
    assert [path for path, _ in arrays_in(STATE)] == [
        "ltm/weights",
        "ltm/half",
        "stm/0/rows",
        "stm/1/rows",
    ]
    assert bytes_in(STATE) == 6 * 4 + 2 * 2 + 2
    doubled = map_arrays(STATE, lambda array: array + array)
    assert doubled["ltm"]["weights"].tolist() == [[0, 2, 4], [6, 8, 10]]
    assert STATE["ltm"]["weights"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert doubled["numbers"] == [1, 2.5]


FUZZ = Path(__file__).with_name("test_fuzz.py")


@pytest.mark.slow
def test_false_sizes_cost_nothing():
    """The size cases of test_fuzz.py fork, so they run in a process of their own with one thread."""
    words = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", FUZZ, "-k", "false_size"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=FUZZ.parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1", "DGDMN_MAY_FORK": "yes"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert result.returncode == 0, result.stdout
    assert " passed" in result.stdout
    assert "skipped" not in result.stdout


@pytest.fixture
def outside(tmp_path):
    """A file and a directory that nothing may touch, and how they are."""
    place = tmp_path / "outside"
    place.mkdir()
    storage.write(place / "memory", {}, {"a": np.ones(3)})
    for name in ("file", f"{'a' * 64}.safetensors", f".{'b' * 64}.safetensors.tmp"):
        (place / name).write_bytes(b"mine")
    before = {path: path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}
    yield place
    after = {path: path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}
    assert after == before


def refused(call, *arguments):
    with pytest.raises(DgdmnError) as raised:
        call(*arguments)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_link_in_place_of_an_array_file_is_replaced_and_not_followed(memory, outside):
    for file in sorted(memory.glob("*.safetensors")):
        content = file.read_bytes()
        (outside / "copy").write_bytes(content)  # even if it has the right content
        file.unlink()
        file.symlink_to(outside / "copy")
        assert "not a regular file" in refused(storage.read, memory)
        storage.write(memory, {}, STATE)
        assert not file.is_symlink()
        (outside / "copy").unlink()
    assert same(STATE, storage.read(memory)[1])


def test_a_linked_manifest_is_neither_read_nor_written(memory, outside):
    (memory / "manifest.json").unlink()
    (memory / "manifest.json").symlink_to(outside / "memory" / "manifest.json")
    assert not storage.holds_memory(memory)
    assert "not a regular file" in refused(storage.read, memory)
    assert "holds 'manifest.json' and no memory" in refused(storage.write, memory, {}, STATE)


def test_a_linked_directory_is_refused(tmp_path, outside):
    """A checkpoint that is a link; a memory that the user names is resolved before."""
    for target in ("memory", "empty"):
        link = tmp_path / f"link to {target}"
        link.symlink_to(outside / target)
        assert "is a link, not a directory; remove it" in refused(storage.read, link)
        assert "is a link, not a directory; remove it" in refused(storage.write, link, {}, STATE)
        storage.discard(link)
        assert link.is_symlink()


def test_old_files_that_are_links_or_directories_do_not_lead_outside(memory, outside):
    names = [f"{letter * 64}.safetensors" for letter in "cdef"]
    (memory / names[0]).symlink_to(outside / "file")
    (memory / names[1]).symlink_to(outside)
    (memory / names[2]).mkdir()
    (memory / names[2] / "mine").write_text("x")
    os.mkfifo(memory / names[3])
    storage.write(memory, {}, STATE)
    assert (memory / names[2] / "mine").read_text() == "x"
    assert not [name for name in names if (memory / name).exists() and name != names[2]]
    assert same(STATE, storage.read(memory)[1])


@pytest.mark.parametrize("name", ["manifest.json", "array"])
def test_a_pipe_is_refused_without_waiting(memory, name):
    file = memory / name if name != "array" else _array_file(memory)
    file.unlink()
    os.mkfifo(file)
    assert "is not a regular file" in refused(storage.read, memory)
    if name == "array":
        storage.write(memory, {}, STATE)
        assert same(STATE, storage.read(memory)[1])
    else:
        assert "and no memory" in refused(storage.write, memory, {}, STATE)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "9" * 5000])
def test_numbers_that_are_not_finite_are_refused(memory, number):
    text = (memory / "manifest.json").read_text().replace('"age": 7', f'"age": {number}')
    (memory / "manifest.json").write_text(text)
    assert ("digits" if number.isdigit() else "not a finite number") in refused(
        storage.read, memory
    )


def test_a_manifest_that_could_not_be_read_is_not_written(memory, monkeypatch):
    monkeypatch.setattr(saved, "MAX_MANIFEST_BYTES", 3000)
    assert "would have" in refused(storage.write, memory, {"notes": "x" * 3000}, STATE)
    assert same(STATE, storage.read(memory)[1])
