"""The run directory on a real disk: round trips, torn lines, resuming, full disks."""

import contextlib
import csv
import errno
import json
import math
import os
import shutil
import tracemalloc
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdmn import records
from dgdmn.config import resolve, to_dict
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.metrics import bwt
from dgdmn.records import RunRecord, RunWriter, find_runs, read_status, run_key

TASKS = ["zero", 'a "quoted", name', "क"]
CONFIG = {"format": 2, "key": "k0", "stream": "digits", "tasks": TASKS}
ROWS = [[0.1 + 0.2, math.nan, 1 / 3], [0.5, 1.0, 0.0], [0.25, 2**-1074, 0.75]]


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "runs" / "digits-dgdmn-paper-seed0"


@pytest.fixture
def writer(directory):
    """A run that has learned three tasks."""
    writer = RunWriter(directory, CONFIG)
    for name, values in zip(TASKS, ROWS, strict=True):
        writer.event("task_learned", task=name)
        writer.row("accuracy", name, values)
        writer.row("accuracy_ltm", name, values[::-1])
    return writer


def cut(path, count):
    path.write_bytes(path.read_bytes()[:-count])


def same(left, right):
    return np.array_equal(left, np.asarray(right), equal_nan=True)


def no_temporaries(directory):
    return [path for path in directory.rglob("*") if ".tmp" in path.name] == []


def run_config(**changes):
    options = to_dict(resolve("paper", "digits")) | changes.pop("options", {})
    config = {
        "stream": "digits",
        "algorithm": "dgr",
        "preset": "paper",
        "seed": 0,
        "options": options,
    }
    return config | {"evaluate_on": "test", "revise": [], "together": False} | changes


def test_key_depends_on_everything_that_decides_the_numbers_and_on_nothing_else():
    key = run_key(run_config())
    assert run_key(run_config(preset="best", threads=4, device="cuda")) == key
    unused = {"options": {"n_stm": 7, "sttm_latent_dim": 3}}
    assert run_key(run_config(**unused)) == key, "DGR has no short-term memory"
    assert run_key(run_config(algorithm="dgdmn", **unused)) != run_key(
        run_config(algorithm="dgdmn")
    )
    others = [{"stream": "hindi"}, {"algorithm": "nn"}, {"seed": 1}, {"evaluate_on": "validation"}]
    others += [{"revise": [1]}, {"together": True}, {"options": {"kappa": 0.1}}]
    assert len({run_key(run_config(**other)) for other in others} | {key}) == len(others) + 1


def test_runs_are_found_by_key(tmp_path):
    for name, key in {"a": "k1", "b": "k2", "c": "k2", "d": "k2"}.items():
        writer = RunWriter(tmp_path / name, CONFIG | {"key": key})
        if name == "c":
            writer.summary({})
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.json").write_text('{"key": "k3"}')
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "config.json").write_text('{"format": 2, "key"')
    assert find_runs(tmp_path) == {"k1": tmp_path / "a", "k2": tmp_path / "c"}
    assert find_runs(tmp_path / "absent") == {}


def test_status_is_replaced_and_a_damaged_one_is_none(writer, directory):
    assert read_status(directory) is None
    writer.status("loading", share=0.0)
    writer.status("learning", share=0.5, acc=math.nan)
    status = read_status(directory)
    assert abs(datetime.fromisoformat(status.pop("heartbeat")) - datetime.now(UTC)).seconds < 5
    assert status == {"phase": "learning", "share": 0.5, "acc": None}
    assert no_temporaries(directory)
    cut(directory / "status.json", 5)
    assert read_status(directory) is None
    assert not RunRecord.read(directory).complete


def test_what_is_written_is_read(writer, directory):
    writer.summary({"acc": 0.5})
    record = RunRecord.read(directory)
    assert record.name == "digits-dgdmn-paper-seed0"
    assert record.config == CONFIG
    assert record.task_names == record.order == tuple(TASKS)
    assert record.columns == (0, 1, 2)
    assert same(record.accuracy, ROWS)
    assert same(record.accuracy_ltm, [row[::-1] for row in ROWS])
    assert [event["task"] for event in record.events] == TASKS
    assert record.summary == {"done": True, "acc": 0.5}
    assert record.complete
    assert no_temporaries(directory)


def test_the_csv_is_plain(writer, directory):
    with (directory / "accuracy.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["step", "after", *TASKS]
    assert lines[1] == ["1", "zero", "0.30000000000000004", "", "0.3333333333333333"]
    assert len(lines) == 4


@settings(deadline=None)  # it waits for the disk
@given(values=st.lists(st.floats(0, 1) | st.just(math.nan), min_size=3, max_size=3))
def test_every_bit_of_an_accuracy_survives(tmp_path_factory, values):
    directory = tmp_path_factory.mktemp("run")
    RunWriter(directory, CONFIG).row("accuracy", "zero", np.array(values))
    assert RunRecord.read(directory).accuracy.tobytes() == np.array([values]).tobytes()


def test_a_run_that_has_just_begun(directory):
    RunWriter(directory, CONFIG)
    record = RunRecord.read(directory)
    assert record.accuracy.shape == (0, 3)
    assert (record.accuracy_ltm, record.summary, record.events, record.order) == (
        None,
        None,
        [],
        (),
    )
    assert not record.complete


def test_a_summary_may_say_that_the_run_is_not_done(writer, directory):
    writer.summary({"done": False, "acc": math.nan})
    record = RunRecord.read(directory)
    assert record.summary == {"done": False, "acc": None}
    assert not record.complete


def test_events_carry_their_time(directory):
    writer = RunWriter(directory, CONFIG)
    before = datetime.now(UTC)
    writer.event("slept", dreams=10)
    writer.event("slept", dreams=20)
    first, second = RunRecord.read(directory).events
    assert (first["kind"], first["dreams"], second["dreams"]) == ("slept", 10, 20)
    assert abs((datetime.fromisoformat(first["time"]) - before).total_seconds()) < 5
    assert 0 <= first["seconds"] <= second["seconds"] < 5
    with pytest.raises(UsageError, match="'seconds' is set by the writer"):
        writer.event("slept", seconds=3)


def test_numpy_and_dataclasses_become_plain_json(directory):
    @dataclass(frozen=True)
    class Config:
        kappa: float = 0.05
        layers: tuple[int, ...] = (400, 200)

    values = {
        "preset": Config(),
        "count": np.int64(3),
        "loss": np.float64("nan"),
        "bound": -math.inf,
        "on": np.bool_(True),
        "sizes": np.array([[1, 2]]),
        "where": Path("runs"),
        "odd": "\udc80",
        np.int64(7): None,
    }
    RunWriter(directory, {**CONFIG, **values})
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    assert config == {
        **CONFIG,
        "preset": {"kappa": 0.05, "layers": [400, 200]},
        "count": 3,
        "loss": None,
        "bound": None,
        "on": True,
        "sizes": [[1, 2]],
        "where": "runs",
        "odd": "\udc80",
        "7": None,
    }
    with pytest.raises(UsageError, match="cannot save"):
        RunWriter(directory / "other", {**CONFIG, "loss": {1, 2}})
    assert not (directory / "other").exists()


def test_artifacts(writer, directory):
    dreams = np.arange(12, dtype=np.uint8).reshape(3, 4)
    path = writer.artifact("dreams-1", x=dreams, name=np.array(["a"]))
    assert path == directory / "artifacts" / "dreams-1.npz"
    writer.artifact("blank", x=np.zeros(2))
    (directory / "artifacts" / ".half.npz.tmp").touch()
    record = RunRecord.read(directory)
    assert record.artifacts == ("blank", "dreams-1")
    read = record.artifact("dreams-1")
    assert read["x"].dtype == np.uint8
    assert same(read["x"], dreams)
    assert read["name"].tolist() == ["a"]


def test_artifacts_that_cannot_be(writer, directory):
    for call, message in [
        (lambda: writer.artifact("../config", x=[1]), "artifact is '../config'"),
        (lambda: writer.artifact("a", x=np.array([{}])), "pickled data is not supported"),
        (lambda: writer.artifact("a", file=[1]), "'file' is reserved by numpy"),
        (lambda: RunRecord.read(directory).artifact("a"), "artifact 'a' is not in"),
    ]:
        with pytest.raises(UsageError, match=message):
            call()
    assert RunRecord.read(directory).artifacts == ()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half", b"not an archive"])
def test_a_damaged_artifact_is_an_error(writer, directory, content):
    writer.artifact("a", x=[1]).write_bytes(content)
    with pytest.raises(DgdmnError, match=r"a\.npz is damaged"):
        RunRecord.read(directory).artifact("a")


@pytest.mark.parametrize("count", [1, 3, 6, 20])
def test_a_torn_last_row_is_ignored(writer, directory, count):
    cut(directory / "accuracy.csv", count)
    cut(directory / "accuracy_ltm.csv", 1)
    record = RunRecord.read(directory)
    assert same(record.accuracy, ROWS[:-1])
    assert record.order == tuple(TASKS[:-1])
    assert same(record.accuracy_ltm, [row[::-1] for row in ROWS[:-1]])


def test_any_tear_leaves_a_readable_run(writer, directory):
    for name in ("accuracy.csv", "accuracy_ltm.csv", "events.jsonl"):
        whole = (directory / name).read_bytes()
        for size in range(len(whole)):
            (directory / name).write_bytes(whole[:size])
            RunRecord.read(directory)
        (directory / name).write_bytes(whole)
    assert len(RunRecord.read(directory).order) == 3


def test_a_missing_ltm_row_is_unknown(writer, directory):
    writer.row("accuracy", "zero", [0.5, 0.5, 0.5])
    record = RunRecord.read(directory)
    assert record.accuracy_ltm.shape == (4, 3)
    assert np.isnan(record.accuracy_ltm[3]).all()


def test_an_ltm_row_ahead_of_accuracy_is_left_out(writer, directory):
    writer.row("accuracy_ltm", "zero", [0.5, 0.5, 0.5])
    assert RunRecord.read(directory).accuracy_ltm.shape == (3, 3)


@pytest.mark.parametrize("end", ['{"kind": "slept", "ti', "{", "\x00\x00\n", "3\n"])
def test_a_torn_last_event_is_ignored(writer, directory, end):
    with (directory / "events.jsonl").open("a") as file:
        file.write(end)
    assert len(RunRecord.read(directory).events) == 3


def test_a_whole_last_event_without_line_break_counts(writer, directory):
    cut(directory / "events.jsonl", 1)
    assert len(RunRecord.read(directory).events) == 3


def test_of_rows_with_one_step_the_last_wins(writer, directory):
    writer.row("accuracy", TASKS[2], [0.1, 0.2, 0.3], step=3)
    assert same(RunRecord.read(directory).accuracy, [*ROWS[:2], [0.1, 0.2, 0.3]])
    writer.row("accuracy", TASKS[0], [0.4, 0.4, 0.4], step=1)
    writer.row("accuracy", TASKS[0], [0.6, 0.6, 0.6])
    record = RunRecord.read(directory)
    assert same(record.accuracy, [[0.4] * 3, ROWS[1], [0.1, 0.2, 0.3], [0.6] * 3])
    assert record.columns == (0, 1, 2, 0)
    expected = ((0.6 - 1.0) + (0.6 - 0.3)) / 2  # tasks 1 and 2
    assert bwt(record.accuracy, record.columns) == pytest.approx(expected)


def test_resuming_drops_later_rows_and_goes_on(writer, directory):
    writer.summary({"acc": 0.5})
    with (directory / "events.jsonl").open("a") as file:
        file.write('{"kind": "to')
    with (directory / "accuracy.csv").open("a") as file:
        file.write("4,zero,0.")
    again = RunWriter.resume(directory, steps=1)
    assert not RunRecord.read(directory).complete
    assert len(RunRecord.read(directory).order) == 1
    again.row("accuracy", TASKS[2], [0.7, 0.8, 0.9])
    again.row("accuracy_ltm", TASKS[2], [0.9, 0.8, 0.7])
    record = RunRecord.read(directory)
    assert record.order == (TASKS[0], TASKS[2])
    assert same(record.accuracy, [ROWS[0], [0.7, 0.8, 0.9]])
    assert same(record.accuracy_ltm, [ROWS[0][::-1], [0.9, 0.8, 0.7]])
    assert [event["kind"] for event in record.events] == ["task_learned"] * 3 + ["resumed"]
    assert record.events[3]["steps"] == 1
    assert no_temporaries(directory)


def test_resuming_at_the_end_changes_no_byte_of_the_rows(writer, directory):
    writer.row("accuracy", TASKS[2], [0.1, 0.2, 0.3], step=3)
    before = (directory / "accuracy.csv").read_bytes()
    RunWriter.resume(directory, steps=3)
    assert (directory / "accuracy.csv").read_bytes() == before


def test_resuming_from_nothing_starts_again(writer, directory):
    RunWriter.resume(directory, steps=0).row("accuracy", TASKS[1], [0.7, 0.8, 0.9])
    record = RunRecord.read(directory)
    assert record.order == (TASKS[1],)
    assert same(record.accuracy, [[0.7, 0.8, 0.9]])


def test_seconds_go_on_after_resuming(writer, directory):
    with (directory / "events.jsonl").open("a") as file:
        file.write('{"kind": "slept", "seconds": 1000.0}\n')
    RunWriter.resume(directory, steps=3)
    assert 1000 <= RunRecord.read(directory).events[-1]["seconds"] < 1005


@pytest.mark.parametrize("steps", [-1, 4])
def test_resuming_after_rows_that_are_not_there(writer, directory, steps):
    with pytest.raises(UsageError, match=f"steps is {steps}: .* holds 3 rows"):
        RunWriter.resume(directory, steps=steps)
    assert len(RunRecord.read(directory).order) == 3


def test_a_new_run_does_not_write_over_an_old_one(writer, directory):
    with pytest.raises(UsageError, match="already holds a run"):
        RunWriter(directory, CONFIG | {"tasks": ["other"]})
    assert RunRecord.read(directory).config == CONFIG


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (None, "is missing"),
        ([], "is missing"),
        ("abc", "is missing"),
        (["a", "a"], "repeats a name"),
        (["a\nb"], "without line breaks"),
        (["a\r"], "without line breaks"),
        ([""], "without line breaks"),
        (["\udc80"], "without line breaks"),
        ([3], "task name is 3"),
    ],
)
def test_task_names_are_checked(directory, tasks, message):
    with pytest.raises(UsageError, match=message) as caught:
        RunWriter(directory, CONFIG | {"tasks": tasks})
    assert "\n" not in str(caught.value)
    assert not directory.exists()


@pytest.mark.parametrize(
    ("arguments", "step", "message"),
    [
        (("accuracy", "nine", [0, 0, 0]), None, "after is 'nine'"),
        (("accuracy", "zero", [0, 0]), None, "row has 2 values; give one for each of 3"),
        (("accuracy", "zero", [0, 0, 1.5]), None, "row holds 1.5"),
        (("accuracy", "zero", [0, -0.5, 0]), None, "row holds -0.5"),
        (("accuracy", "zero", [0, 0, 0]), 5, "step is 5; it must be 1 to 4"),
        (("accuracy", "zero", [0, 0, 0]), 0, "step is 0"),
    ],
)
def test_wrong_rows_are_refused(writer, directory, arguments, step, message):
    with pytest.raises(UsageError, match=message):
        writer.row(*arguments, step=step)
    assert same(RunRecord.read(directory).accuracy, ROWS)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("accuracy.csv", "step,after,one\n", "header does not name the tasks"),
        (
            "accuracy.csv",
            'step,after,zero,"a ""quoted"", name",क\n1,zero,x,0,0\n',
            "line 2: could not convert",
        ),
        (
            "accuracy.csv",
            'step,after,zero,"a ""quoted"", name",क\n1,zero,0,0\n',
            "line 2: row has 2 values",
        ),
        (
            "accuracy.csv",
            'step,after,zero,"a ""quoted"", name",क\n1,nine,0,0,0\n',
            "line 2: after is 'nine'",
        ),
        (
            "accuracy.csv",
            'step,after,zero,"a ""quoted"", name",क\n2,zero,0,0,0\n',
            "a row is missing",
        ),
        (
            "accuracy_ltm.csv",
            'step,after,zero,"a ""quoted"", name",क\n0,zero,0,0,0\n',
            "line 2: step is 0",
        ),
        ("events.jsonl", '{"kind": "a"}\n{"ki\n{"kind": "b"}\n', "line 2 is not a JSON object"),
        ("summary.json", '{"done": tr', "summary.json is damaged"),
        ("summary.json", "[]", "not a JSON object"),
        ("config.json", "{}", "run format is None, this version reads 2; run it again"),
        ("config.json", '{"format": 2, "key": "k"}', '\\["tasks"\\] is missing'),
        (
            "config.json",
            '{"format": 2, "tasks": ["a"]}',
            "config.json has key None; it must be text",
        ),
        ("config.json", "{", "config.json is damaged"),
    ],
)
def test_damage_elsewhere_is_an_error_in_one_line(writer, directory, name, content, message):
    (directory / name).write_text(content, encoding="utf-8")
    with pytest.raises(DgdmnError, match=message) as caught:
        list(RunRecord.read(directory).iter_events())
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_a_directory_that_is_not_a_run(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(DgdmnError, match="is not a run directory"):
            RunRecord.read(path)
        with pytest.raises(DgdmnError, match="is not a run directory"):
            RunWriter.resume(path, steps=0)
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_directory_that_cannot_be_made(tmp_path, below):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(
        DgdmnError, match=r"cannot write .*runs.* choose another directory"
    ) as caught:
        RunWriter(tmp_path / "runs" / below, CONFIG)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "runs").read_text() == "a file"


def test_a_directory_that_has_gone(writer, directory):
    directory.rename(directory.with_name("moved"))
    with pytest.raises(DgdmnError, match=r"cannot write .*events\.jsonl: No such file"):
        writer.event("slept")


@pytest.mark.parametrize(
    ("path", "write"),
    [
        ("accuracy.csv", lambda writer: writer.row("accuracy", "zero", [0.5, 0.5, 0.5])),
        ("summary.json", lambda writer: writer.summary({"acc": 1.0})),
        ("artifacts/a.npz", lambda writer: writer.artifact("a", x=[1, 2])),
    ],
)
def test_a_full_disk_is_named_and_leaves_the_run_as_it_was(
    writer, directory, monkeypatch, path, write
):
    writer.summary({"acc": 0.5})

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            DgdmnError, match=rf"cannot write .*{path}: No space left .*; free space"
        ) as caught:
            write(writer)
    assert "\n" not in str(caught.value)
    record = RunRecord.read(directory)
    assert same(record.accuracy, ROWS)
    assert record.summary == {"done": True, "acc": 0.5}
    assert record.artifacts == ()
    assert no_temporaries(directory)
    write(writer)
    assert (directory / path).exists()
    assert len(RunRecord.read(directory).order) == (4 if path == "accuracy.csv" else 3)


def test_a_first_row_that_fails_leaves_no_header_behind(directory, monkeypatch):
    writer = RunWriter(directory, CONFIG)

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DgdmnError, match="free space"):
            writer.row("accuracy", "zero", ROWS[0])
    path = directory / "accuracy.csv"
    assert not path.exists() or path.read_bytes() == b""
    writer.row("accuracy", "zero", ROWS[1])
    assert same(RunRecord.read(directory).accuracy, [ROWS[1]])


def test_a_file_is_replaced_in_one_move_or_not_at_all(writer, directory, monkeypatch):
    writer.summary({"acc": 0.5})

    def broken(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", broken)
        with pytest.raises(DgdmnError, match=r"cannot write .*summary\.json: Input/output error"):
            writer.summary({"acc": 1.0})
    assert RunRecord.read(directory).summary == {"done": True, "acc": 0.5}
    assert no_temporaries(directory)


def plant(path, kind, outside):
    """Put a link, a pipe or a directory in the place of a file or directory."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(outside / {"link": "file", "dangling link": "new"}.get(kind, ""))


@pytest.mark.parametrize(
    "kind", ["link", "dangling link", "link to a directory", "pipe", "directory"]
)
@pytest.mark.parametrize(
    "name",
    [
        "events.jsonl",
        "accuracy.csv",
        "accuracy_ltm.csv",
        "status.json",
        "summary.json",
        "config.json",
        "artifacts",
        "artifacts/a.npz",
    ],
)
def test_nothing_is_written_outside_and_no_pipe_is_waited_for(writer, directory, name, kind):
    outside = directory.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    (outside / f".file.{'0' * 16}.tmp").write_text("kept")
    plant(directory / name, kind, outside)
    for call in (
        lambda: writer.event("slept"),
        lambda: writer.row("accuracy", TASKS[0], ROWS[0]),
        lambda: writer.row("accuracy_ltm", TASKS[0], ROWS[0]),
        lambda: writer.status("learning"),
        lambda: writer.artifact("a", x=[1]),
        lambda: writer.summary({}),
        lambda: RunWriter.resume(directory, 0),
        lambda: RunRecord.read(directory).events,
        lambda: RunRecord.read(directory).artifact("a"),
        lambda: RunWriter(directory, CONFIG),
    ):
        with contextlib.suppress(DgdmnError):
            call()
    assert {path.name for path in outside.iterdir()} == {"file", f".file.{'0' * 16}.tmp"}
    assert {path.read_text() for path in outside.iterdir()} == {"kept"}


def test_a_linked_directory_of_artifacts_is_refused_in_one_line(writer, directory):
    (directory / "artifacts").symlink_to(directory.parent)
    for call in (lambda: writer.artifact("a", x=[1]), lambda: RunWriter.resume(directory, 3)):
        with pytest.raises(DgdmnError, match=r"artifacts is a link or a file.*; remove it"):
            call()
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]


def test_what_a_killed_writer_left_is_removed_at_the_next_opening(writer, directory):
    left = writer.artifact("a", x=[1]).with_name(f".b.npz.{'0' * 16}.tmp")
    left.touch()
    RunWriter.resume(directory, 3)
    assert not left.exists()
    assert RunRecord.read(directory).artifacts == ("a",)


@pytest.mark.parametrize("seconds", ["soon", None, math.nan, 1.7e308, -1, [], 10**400])
def test_a_time_that_is_none_is_one_line_in_resume(writer, directory, seconds):
    with (directory / "events.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "a", "seconds": seconds}) + "\n")
    with pytest.raises(DgdmnError, match=r"events.jsonl is damaged: seconds is .*; correct it"):
        RunWriter.resume(directory, 3)


@pytest.mark.parametrize("matrix", ["accuracy", "accuracy_ltm"])
@pytest.mark.parametrize("rows", [0, 2])
def test_rows_missing_where_a_checkpoint_is_ahead_are_one_line(writer, directory, matrix, rows):
    path = directory / f"{matrix}.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[: rows + 1]))
    if not rows:
        path.unlink()
    before = {path: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(DgdmnError, match=rf"{matrix}.csv has {rows} rows of the 3 .* run it again"):
        RunWriter.resume(directory, 3, rows={"accuracy": 3, "accuracy_ltm": 3})
    assert {path: path.read_bytes() for path in directory.iterdir()} == before


def test_resuming_takes_no_more_memory_for_more_events(writer, directory):
    with (directory / "events.jsonl").open("ab") as file:
        file.write(b'{"kind": "epoch_done", "seconds": 1.0, "loss": 0.25}\n' * 100_000)
    tracemalloc.start()
    try:
        again = RunWriter.resume(directory, 3, events=50_000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000, "the file has 5 MB"
    finally:
        tracemalloc.stop()
    assert again.n_events == 50_001, "and the one that says that it was resumed"
    assert sum(1 for _ in RunRecord.read(directory).iter_events()) == 50_001


def test_a_huge_line_is_refused_unread(writer, directory, monkeypatch):
    monkeypatch.setattr(records, "MAX_EVENT", 1000)
    with (directory / "events.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "a", "x": "x" * 2000}) + "\n")
    with pytest.raises(DgdmnError, match="line 4 is not a JSON object"):
        list(RunRecord.read(directory).iter_events())
