"""The bottom layer: batches, random streams, events, files, locks and errors."""

import copy
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dgdmn.core.batch import Batch, concat
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.core.events import Context, EpochDone, Replayed, SleepEnded
from dgdmn.core.files import (
    append_bytes,
    directory_lock,
    json_bytes,
    npz_bytes,
    os_errors,
    read_json,
    write_atomic,
)
from dgdmn.core.rng import SeedStream
from dgdmn.core.text import (
    MISSING,
    count_noun,
    format_bytes,
    format_duration,
    format_mean_sem,
    format_option,
    format_percent,
    format_ratio,
    join_names,
    shorten,
)


def make(kind, n, start=0):
    x, y = np.arange(start, start + n, dtype=np.float32)[:, None], np.arange(start, start + n)
    return Batch(torch.from_numpy(x), torch.from_numpy(y)) if kind == "torch" else Batch(x, y)


KINDS = pytest.mark.parametrize("kind", ["numpy", "torch"])


def test_inputs_and_labels_have_equal_lengths():
    with pytest.raises(ValueError, match="3 inputs but 2 labels"):
        Batch(np.zeros((3, 1)), np.zeros(2))


@KINDS
def test_subsample_draws_without_replacement_and_keeps_pairs(kind):
    drawn = make(kind, 10).subsample(6, SeedStream(0).next())
    assert type(drawn.x) is type(make(kind, 1).x)
    assert len(set(drawn.y.tolist())) == len(drawn) == 6
    assert drawn.x[:, 0].tolist() == drawn.y.tolist()
    assert drawn.y.tolist() != make(kind, 10).subsample(6, SeedStream(1).next()).y.tolist()


def test_subsample_draws_the_same_rows_from_arrays_and_tensors():
    drawn = [make(kind, 50).subsample(20, SeedStream(4).next()).y for kind in ("numpy", "torch")]
    assert drawn[0].tolist() == drawn[1].tolist()


@KINDS
def test_concat_keeps_order_and_copies_only_if_needed(kind):
    assert concat(make(kind, 2), make(kind, 3, 2)).y.tolist() == [0, 1, 2, 3, 4]
    alone = make(kind, 2)
    assert concat(alone, make(kind, 0)) is alone
    assert len(concat(make(kind, 0), make(kind, 0))) == 0
    weighted = replace(alone, weight=np.ones(2))
    with pytest.raises(ValueError, match="batches with weights"):
        concat(alone, weighted)


@KINDS
def test_classes_and_copies(kind):
    batch = make(kind, 4)[[2, 0, 2]]
    assert batch.classes() == {0, 2}
    assert all(type(label) is int for label in batch.classes())
    assert copy.deepcopy(batch) is batch


def test_seeds_are_independent_and_repeatable_and_can_continue():
    first = [torch.rand(2, generator=SeedStream(3, used).next()).tolist() for used in range(3)]
    seeds = SeedStream(3)
    assert [torch.rand(2, generator=seeds.next()).tolist() for _ in range(3)] == first
    assert len({str(numbers) for numbers in first}) == 3
    assert torch.rand(2, generator=SeedStream(4).next()).tolist() not in first
    assert seeds.used == 3


def test_numpy_and_torch_generators_use_the_same_numbering():
    seeds = SeedStream(3)
    seeds.next_numpy()
    assert seeds.next().initial_seed() == SeedStream(3, used=1).next().initial_seed()


def test_seeds_never_change():
    """Every published result depends on these numbers."""
    found = [SeedStream(0, used).next().initial_seed() for used in range(2)]
    assert found == [4334430513956379144, 2440950710608614359]


def test_a_side_stream_does_not_advance_the_stream():
    seeds = SeedStream(3, used=2)
    side = [seeds.side_stream().next().initial_seed() for _ in range(2)]
    assert side[0] == side[1]
    assert seeds.used == 2
    assert side[0] not in [SeedStream(3, used).next().initial_seed() for used in range(50)]


def test_a_context_names_the_memory_of_its_events():
    events, rng = [], SeedStream(0)
    ctx = Context(rng, events.append).in_memory("ltm")
    assert ctx.rng is rng
    sent = (EpochDone("learner", 1, 2, 3, 0.5), Replayed(("a",), 1, 2, 3), SleepEnded(("a",)))
    for event in sent:
        ctx.callback(event)
    assert [getattr(event, "memory", None) for event in events] == ["ltm", "ltm", None]
    assert events[2] is sent[2]


# Files


def test_a_file_is_written_completely_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_atomic(path, b"old")

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DgdmnError, match=r"cannot write .*a.json: No space left.*free space there"):
        write_atomic(path, b"new")
    with pytest.raises(DgdmnError, match="cannot write"):
        append_bytes(path, b"more", durable=True)
    with pytest.raises(DgdmnError, match="cannot write"):
        append_bytes(tmp_path / "b", b"more", durable=True)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    left = {one.name: one.stat().st_size for one in tmp_path.iterdir()}
    assert left.pop("b", 0) == 0
    assert left == {"a.json": 3}, "no temporary file"
    append_bytes(path, b" and new", durable=False)
    assert path.read_bytes() == b"old and new"


def test_a_missing_directory_is_one_sentence(tmp_path):
    with pytest.raises(DgdmnError, match="No such file or directory; check the path") as raised:
        write_atomic(tmp_path / "no" / "a", b"")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b"{", b"[1]", b'"text"', b"\xff", b"", b"[" * 100_000])
def test_damaged_json_is_one_sentence(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(DgdmnError, match=r"a.json is damaged: .*; restore it or run it again"):
        read_json(tmp_path / "a.json")


@dataclass
class Point:
    x: float
    names: tuple[str, ...]


def test_json_of_arrays_dataclasses_and_numbers_that_are_not_finite():
    value = {
        "array": np.arange(3),
        "number": np.float32(0.5),
        "nan": [float("nan"), np.inf],
        "point": Point(1.5, ("α", "\ud800")),
        Path("a"): Path("b"),
        1: None,
        "flag": np.bool_(True),
    }
    content = json_bytes(value)
    assert content.endswith(b"\n")
    assert json.loads(content) == {
        "array": [0, 1, 2],
        "number": 0.5,
        "nan": [None, None],
        "point": {"x": 1.5, "names": ["α", "\ud800"]},
        "a": "b",
        "1": None,
        "flag": True,
    }
    assert json_bytes({"a": [1]}, indent=1).count(b"\n") == 5
    with pytest.raises(UsageError, match="cannot save <object "):
        json_bytes({"a": object()})


def test_npz_holds_no_pickles(tmp_path):
    (tmp_path / "a.npz").write_bytes(npz_bytes({"x": np.arange(3), "names": np.array(["a", "é"])}))
    with np.load(tmp_path / "a.npz") as found:
        assert found["x"].tolist() == [0, 1, 2]
        assert found["names"].tolist() == ["a", "é"]
    with pytest.raises(UsageError, match="'x' has dtype object"):
        npz_bytes({"x": np.array([None])})
    with pytest.raises(UsageError, match="'file' is reserved"):
        npz_bytes({"file": np.zeros(1)})


HOLD = """
import sys, time
from pathlib import Path
from dgdmn.core.files import directory_lock
with directory_lock(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_lock_refuses_a_second_process_and_ends_with_the_first(tmp_path):
    home = tmp_path / "run"
    command = [sys.executable, "-c", HOLD, str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        refused = pytest.raises(DgdmnError, match="run is in use by another process")
        with refused as raised, directory_lock(home):
            pytest.fail("the other process holds it")
        assert "\n" not in str(raised.value)
        other.send_signal(signal.SIGKILL)
    with directory_lock(home):
        assert home.is_dir()
    with directory_lock(home):
        pass


def test_a_lock_is_released_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError) as raised, directory_lock(tmp_path):
        _ = 1 / 0
    with directory_lock(tmp_path):
        assert raised.tb, "its traceback keeps the lock object alive"


def test_a_lock_where_nothing_can_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DgdmnError, match="cannot write"), directory_lock(tmp_path / "file"):
        pytest.fail("a file is no directory")


def test_only_errors_of_the_system_are_translated():
    with pytest.raises(KeyError), os_errors("read", Path("a")):
        raise KeyError
    with pytest.raises(DgdmnError, match="cannot read a: OSError"), os_errors("read", Path("a")):
        raise OSError


# Text; the examples in the docstrings cover the usual cases


@pytest.mark.parametrize("formatter", [format_duration, format_bytes, format_ratio, format_percent])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_missing(formatter, value):
    assert formatter(value) == MISSING


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (format_duration(89.6), "90 s"),
        (format_duration(90), "2 min"),
        (format_duration(5400), "1.5 h"),
        (format_bytes(1000), "1 kB"),
        (format_bytes(1e6), "1.0 MB"),
        (format_ratio(-0.0004), ".000"),
        (format_ratio(0.9996), "1.000"),
        (format_ratio(0.12345, 2), ".12"),
        (format_mean_sem([0.1, 0.2, 0.3]), ".200 ± .058"),
        (format_option(None), "none"),
        (format_option(True), "True"),
        (join_names(range(3)), "0, 1, 2"),
        (join_names(range(14), limit=2), "0, 1, … (14 in all)"),
        (count_noun(0, "row"), "0 rows"),
        (shorten("abcd", 4), "abcd"),
    ],
)
def test_edges_of_the_formatters(found, expected):
    assert found == expected


def test_a_device_is_never_replaced():
    with pytest.raises(DgdmnError, match="is a device"):
        write_atomic(Path(os.devnull), b"x")
    assert Path(os.devnull).is_char_device()


def test_a_hard_link_is_not_written_through(tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.write_text("precious")
    os.link(outside, inside)
    with pytest.raises(DgdmnError, match="hard link"):
        append_bytes(inside, b"x", durable=False)
    assert outside.read_text() == "precious"
    write_atomic(inside, b"new")  # a rename replaces the name, not the content
    assert (outside.read_text(), inside.read_text()) == ("precious", "new")
