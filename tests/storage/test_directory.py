"""A saved state comes back whole, or with a sentence that says why not."""

import hashlib
import json
import os
import stat

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdmn import disk, storage
from dgdmn.errors import DgdmnError, UsageError
from dgdmn.storage import directory as saved

STATE = {
    "ltm": {"weights": torch.arange(6.0).reshape(2, 3), "age": 7, "name": "α", "none": None, "flag": True},
    "stm": [{"rows": torch.tensor([[0, 255]], dtype=torch.uint8)}, {"rows": torch.zeros(0, 2)}],
    "numbers": [1, 2.5],
}


@pytest.fixture
def memory(tmp_path):
    storage.write(tmp_path / "memory", {"algorithm": "x"}, STATE)
    return tmp_path / "memory"


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def manifest_of(memory):
    return json.loads((memory / "manifest.json").read_text())


def forge(memory, change):
    """A changed manifest with the right checksum: what somebody malicious would write."""
    manifest = manifest_of(memory)
    change(manifest)
    manifest.pop("sha256", None)
    manifest["sha256"] = saved._digest(manifest)
    (memory / "manifest.json").write_text(json.dumps(manifest))


def test_what_is_written_is_read(memory):
    about, state = storage.read(memory)
    assert about == {"format": 1, "algorithm": "x"}
    assert same(state, STATE)


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
)
leaves |= st.text(st.characters(codec="utf-8"), max_size=5)
leaves |= st.lists(st.floats(width=32, allow_nan=False), max_size=3).map(torch.tensor)
keys = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=4)
trees = st.recursive(
    leaves, lambda t: st.lists(t, max_size=3) | st.dictionaries(keys, t, max_size=3), max_leaves=12
)


@given(state=st.dictionaries(keys, trees, max_size=3))
@settings(max_examples=60, deadline=None)
def test_any_tree_survives(tmp_path_factory, state):
    place = tmp_path_factory.mktemp("any") / "memory"
    storage.write(place, {}, state)
    assert same(storage.read(place)[1], state)


def test_files_are_named_by_content_and_what_did_not_change_stays(memory):
    before = {path.name: path.stat().st_ino for path in memory.glob("*.safetensors")}
    assert all(
        hashlib.sha256((memory / name).read_bytes()).hexdigest() + ".safetensors" == name for name in before
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
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "memory").iterdir()} == {0o640}


@pytest.mark.parametrize("step", range(1, 5))
def test_a_save_that_fails_at_any_write_leaves_the_old_memory(memory, monkeypatch, step):
    calls = []

    def failing(path, content):
        calls.append(path)
        if len(calls) == step:
            raise DgdmnError(f"cannot write {path}: No space left on device; free space there")
        disk.replace(path, content)

    monkeypatch.setattr(saved, "replace", failing)
    new = {key: {"weights": torch.full((3,), float(number))} for number, key in enumerate("abc")}
    with pytest.raises(DgdmnError, match="free space"):
        storage.write(memory, {}, new)
    monkeypatch.undo()
    assert same(storage.read(memory)[1], STATE)
    storage.write(memory, {}, new)
    assert same(storage.read(memory)[1], new)
    assert len(list(memory.iterdir())) == 4, "nothing is left over"


def test_the_manifest_comes_last_and_all_is_flushed(tmp_path, monkeypatch):
    order, flushed = [], []
    monkeypatch.setattr(
        saved, "replace", lambda path, content: (order.append(path.name), disk.replace(path, content))
    )
    monkeypatch.setattr(
        os, "fsync", lambda descriptor, real=os.fsync: (flushed.append(descriptor), real(descriptor))
    )
    storage.write(tmp_path / "memory", {}, STATE)
    assert order[-1] == "manifest.json"
    assert len(flushed) == 2 * len(order), "each file and its directory"


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _tensor_file(memory):
    return next(iter(sorted(memory.glob("*.safetensors"))))


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda m: _flip(_tensor_file(m)), "checksum is wrong"),
        (lambda m: _flip(m / "manifest.json"), "damaged"),
        (lambda m: _tensor_file(m).unlink(), "is missing"),
        (lambda m: (m / "manifest.json").unlink(), "no manifest.json"),
        (lambda m: _tensor_file(m).write_bytes(b""), "checksum is wrong"),
        (lambda m: _tensor_file(m).write_bytes(b"x" * 9999), "expected .* at most"),
        (lambda m: forge(m, lambda made: made.update(format=2)), "newer dgdmn.*upgrade"),
        (lambda m: forge(m, lambda made: made.update(format=0)), "checksum"),
        (lambda m: forge(m, lambda made: made["files"].update({"../secret.safetensors": 4})), "no name"),
        (lambda m: forge(m, lambda made: made["files"].update({"/etc/passwd": 4})), "no name"),
        (lambda m: forge(m, lambda made: made.pop("files")), "does not fit"),
        (lambda m: forge(m, lambda made: made.update(files=3)), "does not fit"),
        (lambda m: forge(m, lambda made: made.update(state=[])), "does not fit"),
        (lambda m: forge(m, lambda made: made["state"].pop("ltm")), "does not fit"),
        (lambda m: forge(m, lambda made: made["state"].update(twice=made["state"]["stm"])), "does not fit"),
        (lambda m: (m / "manifest.json").write_text("[" * 100_000), "damaged"),
        (lambda m: (m / "manifest.json").write_text('{"format": "one"}'), "names no format"),
    ],
)  # fmt: skip
def test_what_is_damaged_is_refused_with_a_sentence(memory, harm, why):
    harm(memory)
    with pytest.raises(DgdmnError, match=why) as raised:
        storage.read(memory)
    assert "\n" not in str(raised.value)


def test_a_link_is_refused_unread(memory, tmp_path):
    file = _tensor_file(memory)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DgdmnError, match="never links"):
        storage.read(memory)


def test_a_header_that_promises_ten_gigabytes_is_refused(memory):
    header = json.dumps(
        {"w": {"dtype": "F32", "shape": [2_500_000_000], "data_offsets": [0, 10**10]}}
    ).encode()
    content = len(header).to_bytes(8, "little") + header
    name = f"{hashlib.sha256(content).hexdigest()}.safetensors"
    (memory / name).write_bytes(content)
    forge(memory, lambda made: made["files"].update({name: len(content)}))
    with pytest.raises(DgdmnError, match="damaged"):
        storage.read(memory)


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds 'notes.txt' and no memory"):
        storage.write(tmp_path, {}, STATE)
    with pytest.raises(UsageError, match="is a file"):
        storage.write(tmp_path / "notes.txt", {}, STATE)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
