"""The display of active runs and the table of results."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from dgdmn.cli.progress import print_results, show_progress
from dgdmn.records import RunRecord, RunWriter


def write_status(directory, share, *, seconds=60.0, left=None, age=0, **fields):
    directory.mkdir(exist_ok=True)
    heartbeat = (datetime.now(UTC) - timedelta(seconds=age)).isoformat()
    status = {"phase": "learning", "task": "3", "step": 4, "steps": 10, "share": share, "acc": None}
    status |= {"seconds": seconds, "seconds_left": left, "heartbeat": heartbeat, "message": None}
    (directory / "status.json").write_text(json.dumps(status | fields))


@pytest.fixture
def table(tmp_path, monkeypatch, capsys):
    """What a terminal shows of so many runs, the first of which are done to these shares."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")

    def shown(runs, jobs, *shares, failed=()):
        names = [f"run{n}" for n in range(runs)]
        with show_progress({name: tmp_path / name for name in names}, jobs) as update:
            for name, share in zip(names, shares, strict=False):
                left = None if share in (0, 1) else 60 * (1 - share) / share
                write_status(tmp_path / name, share, left=left)
            update({names[n] for n in failed})
        return re.sub(r"\x1b\[[\d;?]*\w", "", capsys.readouterr().err)

    return shown


def test_a_row_for_all_runs_counts_those_that_wait(table):
    shown = table(10, 2, 1.0, 0.5)
    assert "1 of 10 done, 8 waiting" in shown
    assert "6 min left" in shown, "one minute left, eight runs of 90 s, two at a time"


def test_nobody_waits_for_a_failed_run(table):
    assert "1 of 10 done, 8 waiting, 1 failed" in table(10, 2, 1.0, 0.5, failed=[1])


def test_few_runs_have_that_row_only_if_some_wait(table):
    shown = table(3, 2, 0.5)
    assert "0 of 3 done, 2 waiting" in shown
    assert "task 4/10 (3), learning, 50 % of the work done, about 60 s left" in shown
    assert "all runs" not in table(2, 2, 0.5)


def test_without_a_terminal_each_task_is_a_line(tmp_path, capsys):
    run = tmp_path / "run"
    write_status(run, 0.9, age=5)
    with show_progress({"run": run}, 1) as update:
        update(())
        assert capsys.readouterr().err == "", "written by an earlier process"
        write_status(run, 0.4, acc=0.975, left=100.0)
        update(())
        write_status(run, 0.45, acc=0.975, left=90.0)
        update(())
        write_status(run, 1.0, step=10, task="9", phase="done", acc=0.9)
        update(())
        update(())
    assert capsys.readouterr().err.splitlines() == [
        "run: task 4/10 (3), learning, accuracy on tasks seen .975, 40 % of the work done, about 2 min left",
        "run: task 10/10 (9), done, accuracy on tasks seen .900, 100 % of the work done",
    ]


def record(directory, algorithm, preset, seed, acc):
    config = {"tasks": ["0", "1"], "stream": "digits", "algorithm": algorithm, "preset": preset}
    directory = directory / f"{algorithm}-{preset}-{seed}"
    writer = RunWriter(directory, {**config, "key": directory.name, "seed": seed, "options": {}})
    writer.summary(
        {"acc": acc, "macro_accuracy": 0.5, "bwt": -0.15, "acc_ltm": None, "seconds": 60.0}
    )
    return RunRecord.read(directory)


def test_results_have_a_row_for_each_algorithm_and_preset(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    runs = [("nn", "paper"), ("dgdmn", "paper"), ("dgdmn", "best"), ("joint", "paper")]
    records = [
        record(tmp_path, *run, seed, number / 10 + seed / 100)
        for seed in (0, 2)
        for number, run in enumerate(runs)
    ]
    print_results(records)
    out = capsys.readouterr().out
    assert "digits, seeds 0, 2" in out
    macro, bwt = ".500 ± .000", "−.150 ± .000"
    rows = re.findall(rf"│ (\w+) +│ (\w+) +│ (\S+) ± .010 │ {macro} │ {bwt} │ +– │ +60 s │", out)
    assert rows == [(*run, f".{number}10") for number, run in enumerate(runs)]
    assert str(records[0].directory) in out
    print_results(records[:1])
    assert "digits, seed 0\n" in capsys.readouterr().out
    print_results([])
    assert capsys.readouterr().out == ""
