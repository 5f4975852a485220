"""The live table of many runs: how many are done, wait and failed, and when the last will be done."""

import json
from dataclasses import replace

import pytest

from dgdmn.cli.display import Display
from dgdmn.experiments.spec import RunSpec
from dgdmn.experiments.sweep import Failure
from dgdmn.presets import preset

SPEC = RunSpec("embedded", "nn", "quick", preset("quick", "embedded"))
EPOCH = {"kind": "epoch_done", "memory": "", "network": "learner", "epoch": 1, "epochs": 2}


@pytest.fixture
def table(tmp_path, monkeypatch, capsys):
    """What a terminal shows of so many runs, the first of which are done to these shares."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")

    def shown(runs, jobs, *shares, failed=()):
        specs = [replace(SPEC, seed=seed) for seed in range(runs)]
        with Display(tmp_path, specs, jobs, before={replace(SPEC, seed=99): 120.0}) as display:
            for spec, share in zip(specs, shares, strict=False):
                (tmp_path / spec.name).mkdir(exist_ok=True)
                (tmp_path / spec.name / "events.jsonl").write_text(
                    json.dumps({**EPOCH, "done": share}) + "\n"
                )
            display.look([Failure(specs[seed].name, "", False, "") for seed in failed])
        return capsys.readouterr().err

    return shown


def test_many_runs_have_a_row_that_says_what_waits_and_the_time_left(table):
    """Done, begun, eight that wait: nine times two minutes, two at a time."""
    said = table(10, 2, 1.0, 0.0)
    assert "1 of 10 runs done, 8 waiting" in said
    assert "9 min left" in said


def test_a_failed_run_is_not_waited_for(table):
    said = table(10, 2, 1.0, 0.0, failed=[1])
    assert "1 of 10 runs done, 8 waiting, 1 failed" in said
    assert "8 min left" in said


def test_what_is_left_is_no_shorter_than_the_longest_run(table):
    assert "2 min left" in table(10, 20)


def test_few_runs_have_it_where_some_must_wait(table):
    assert "0 of 3 runs done, 3 waiting" in table(3, 2)
    assert "runs done" not in table(2, 2)
