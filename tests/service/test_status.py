"""The state of a run: what it writes is believed as long as its process lives."""

import json
import math
import os
import subprocess
import sys
import time

import psutil
import pytest

from dgdmn.service.status import MAX_RUNS, describe_run, run_stamp, summarize, watched_runs


def described(directory):
    return describe_run(directory, time.time())


def rewrite(writer, **changed):
    path = writer.directory / "status.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def test_a_run_that_learns(writer):
    state, facts = described(writer.directory)
    assert state == "running"
    wanted = {
        "name": "run",
        "phase": "learning",
        "task": "a",
        "step": 1,
        "steps": 2,
        "share": 0.25,
        "acc": 0.5,
    }
    assert {name: facts[name] for name in wanted} == wanted
    assert facts["ends"] == pytest.approx(time.time() + 30, abs=5)
    assert facts["dreams"] == f"/dreams/{facts['id']}.png?dreams-001"


def test_a_summary_ends_it(writer):
    writer.summary({"acc": 1.0})
    assert described(writer.directory)[0] == "done"


@pytest.mark.parametrize(
    ("phase", "state"), [("failed", "stopped"), ("stopped", "stopped"), ("done", "done")]
)
def test_how_it_ended(writer, status, phase, state):
    writer.status(phase, **{**status, "message": "no space left"})
    assert described(writer.directory)[0] == state
    assert described(writer.directory)[1]["message"] == "no space left"


def test_a_process_that_is_gone(writer, status):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        writer.status("learning", **{**status, "pid": process.pid})
        assert described(writer.directory)[0] == "stopped"
    assert described(writer.directory)[1]["command"] == f"dgdmn resume {writer.directory}"


def test_a_zombie_is_gone(writer, status):
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        writer.status("learning", **{**status, "pid": process.pid})
        assert described(writer.directory)[0] == "stopped"
    finally:
        process.wait()


def test_a_process_that_got_the_same_number_is_another_one(writer):
    rewrite(writer, heartbeat="2001-01-01T00:00:00+00:00")
    assert described(writer.directory)[0] == "stopped", "this process did not exist then"


def test_a_long_epoch_is_no_end(writer, monkeypatch):
    born = psutil.Process(os.getpid()).create_time()
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: born - 10_000)
    rewrite(writer, heartbeat="2026-01-01T00:00:00+00:00")
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: 0.0)
    assert described(writer.directory)[0] == "running"


def test_a_process_that_cannot_be_seen_counts_by_its_heartbeat(writer, monkeypatch):
    def refuse(self):
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "create_time", refuse)
    assert described(writer.directory)[0] == "running"
    assert describe_run(writer.directory, time.time() + 61)[0] == "stopped"


def test_a_run_without_a_status_is_stopped(writer):
    (writer.directory / "status.json").unlink()
    assert described(writer.directory)[0] == "stopped"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "[" * 100_000,
        '{"phase": 5, "pid": "x", "share": 1e400, "step": null, "heartbeat": []}',
    ],
)
def test_damaged_files_are_one_line_or_stopped(writer, text):
    (writer.directory / "status.json").write_text(text)
    state, facts = described(writer.directory)
    assert state in ("broken", "stopped")
    assert "\n" not in facts.get("problem", "")


@pytest.mark.parametrize("value", [10**400, -1, 1e300, None, "x", [], math.nan, True])
def test_odd_numbers_are_harmless(writer, value):
    for name in ("pid", "share", "step", "seconds", "seconds_left", "acc"):
        rewrite(writer, **{name: value})
    state, facts = described(writer.directory)
    json.dumps(facts, allow_nan=False)
    assert state == "stopped" or value is True
    assert 0 <= facts["share"] <= 1


def test_a_directory_that_is_no_run(tmp_path):
    (tmp_path / "odd").mkdir()
    state, facts = described(tmp_path / "odd")
    assert (state, facts["problem"]) == (
        "broken",
        "not a run directory: there is no config.json with a key",
    )
    (tmp_path / "odd" / "config.json").write_text('{"key": "k"}')
    os.mkfifo(tmp_path / "odd" / "status.json")
    assert described(tmp_path / "odd")[1]["problem"].startswith("status.json is not a regular file")


def test_many_runs_are_counted_and_few_listed(tmp_path):
    for number in range(MAX_RUNS + 5):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "summary.json").write_text("{")
    state = summarize(watched_runs([tmp_path]), time.time())
    assert state["counts"] == {"running": 0, "stopped": 0, "done": 0, "broken": MAX_RUNS + 5}
    assert len(state["broken"]) == MAX_RUNS


def test_an_empty_directory_has_no_runs_yet(tmp_path, writer):
    (tmp_path / "new").mkdir()
    assert watched_runs([tmp_path / "new"]) == []
    assert watched_runs([writer.directory]) == [writer.directory]


def test_a_row_changes_the_stamp_and_an_event_does_not(writer, status):
    before = run_stamp(writer.directory)
    writer.event("odd")
    writer.status("testing", **status)
    assert run_stamp(writer.directory) == before
    writer.row("accuracy", "b", [0.5, 1.0])
    assert run_stamp(writer.directory) != before
