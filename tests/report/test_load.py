"""Finding and reading run directories: limits, problems in one line, times from events."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from dgdmn.report.load import LIMITS, PHASES, find_directories, load_runs, read_timeline


def reason(path):
    runs, (problem,) = load_runs([path])
    assert runs == []
    assert "\n" not in problem.reason
    return problem.reason


def test_a_path_is_a_run_or_contains_runs(make_run, tmp_path):
    a, b = make_run("a", arrays=False), make_run("b", arrays=False)
    (tmp_path / "runs" / ".hidden").mkdir()
    (tmp_path / "runs" / "figures").mkdir()
    assert find_directories([tmp_path / "runs"]) == [a, b]
    assert find_directories([b, a, tmp_path / "runs"]) == [b, a]
    assert find_directories([tmp_path / "gone"]) == [tmp_path / "gone"]


def test_what_a_run_says(make):
    run = make("a", seed=3, revise=[1], changes={"kappa": 0.1}, options={"kappa": 0.1}, note="n")
    assert (run.name, run.key, run.stream, run.algorithm, run.seed) == (
        "a",
        "a",
        "digits",
        "dgdmn",
        3,
    )
    assert (run.revise, run.changes, run.columns, run.complete) == (
        (1,),
        {"kappa": 0.1},
        (0, 1, 2, 3, 0),
        True,
    )
    assert run.acc == pytest.approx(np.mean(run.accuracy[-1]))
    assert run.number("peak_bytes") == 500 * 2**20
    assert math.isnan(run.number("nothing"))
    assert run.info.title == "DGDMN"


def test_a_run_that_has_not_ended_counts_the_tasks_seen(make):
    run = make("a", steps=2)
    assert not run.complete
    assert run.acc == pytest.approx(np.mean(run.accuracy[-1, :2]))
    empty = make("b", steps=0)
    assert math.isnan(empty.acc)
    assert math.isnan(empty.bwt)


def test_memory_without_its_short_term_part_is_not_counted(matrix_run):
    assert matrix_run("nn", 0, np.eye(2)).memory_bytes == 1e6
    run = matrix_run("dgdmn", 0, np.eye(2))
    assert run.memory_bytes == 1e6
    path = run.directory / "summary.json"
    path.write_text(
        json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "steps_trained"})
    )
    assert math.isnan(load_runs([run.directory])[0][0].memory_bytes)


def test_a_damaged_run_is_a_problem_and_a_directory_of_something_else_is_not(make_run, tmp_path):
    (make_run("a", arrays=False) / "config.json").unlink()
    make_run("b", arrays=False)
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "runs" / "notes" / "ideas.md").touch()
    runs, (problem,) = load_runs([tmp_path / "runs"])
    assert ([run.name for run in runs], problem.name) == (["b"], "a")
    assert "no config.json" in reason(tmp_path / "runs" / "notes"), "asked for by its own name"


def test_problems_are_one_line_each(make_run, tmp_path):
    assert "no config.json" in reason(tmp_path / "gone")
    path = make_run("a", arrays=False)
    (path / "summary.json").write_text("{")
    assert "summary.json is damaged" in reason(path)
    path = make_run("b", arrays=False)
    (path / "config.json").write_text("[" * 100_000)
    assert reason(path)
    path = make_run("c", arrays=False)
    (path / "config.json").write_text(json.dumps({"format": 1, "tasks": ["a"]}))
    assert "run format is 1" in reason(path)
    path = make_run("d", arrays=False)
    text = (path / "accuracy.csv").read_text().splitlines()
    (path / "accuracy.csv").write_text("\n".join([text[0], "1,0,7.0,0,0,0"]) + "\n")
    assert "7.0" in reason(path)


@pytest.mark.parametrize("name", list(LIMITS))
def test_a_file_that_is_too_large_or_no_file_is_a_problem(make_run, monkeypatch, name):
    path = make_run("a", arrays=False)
    (path / name).touch()
    monkeypatch.setitem(LIMITS, name, -1)
    assert f"{name} has" in reason(path)
    monkeypatch.undo()
    (path / name).unlink()
    os.mkfifo(path / name)
    expected = f"no {name}" if name == "config.json" else f"{name} is not a regular file"
    assert expected in reason(path)


def test_the_limits_are_those_of_the_files_read(make_run):
    path = make_run("a", arrays=False)
    with (path / "config.json").open("ab") as file:
        file.truncate(LIMITS["config.json"] + 1)
    assert "a report reads at most 1,000,000" in reason(path)


def test_names_without_control_characters(make_run):
    path = make_run("a\x1b[31m", preset="\x00p", arrays=False)
    (run,), _ = load_runs([path])
    assert run.name == "a�[31m"
    assert run.preset == "�p"


def test_times_sleeps_and_replays(make):
    times = make("a").timeline
    assert times.seconds == {"learning": 16.0, "sleep": 6.0, "testing": 8.0, "other": 4.0}
    assert sum(times.seconds.values()) == 34.0
    assert times.trained == (4.0, 11.0, 15.0, 22.0)
    assert times.sleeps == (2, 4)
    assert [(one.step, one.new, one.generated) for one in times.replays] == [
        (2, 200, 200),
        (4, 200, 400),
    ]
    assert times.replays[0].per_class == (50, 60)
    assert len(times.recognized) == 4


def test_training_of_the_ltm_outside_a_sleep_is_sleep():
    events = [
        {"kind": "task_began", "seconds": 1, "step": 1},
        {"kind": "epoch_done", "seconds": 5, "memory": "ltm"},
        {"kind": "resumed", "seconds": 7},
        {"kind": "odd", "seconds": 8},
        {"kind": "task_began", "seconds": "x", "step": 10**9},
    ]
    times = read_timeline(events)
    assert times.seconds == dict(zip(PHASES, (0, 4, 0, 4), strict=True))
    assert len(times.trained) == 1


def test_a_collected_run_has_the_times_of_extra_json(matrix_run):
    run = matrix_run("dgdmn", 0, np.eye(2))
    extra = {
        "trained": [1.0, None],
        "sleeps": [2],
        "phases": {"sleep": 3},
        "recognized": {"events": [{"step": 1}, 5]},
    }
    (run.directory / "extra.json").write_text(json.dumps(extra))
    (again,), _ = load_runs([run.directory])
    assert again.timeline.sleeps == (2,)
    assert again.timeline.trained[0] == 1.0
    assert math.isnan(again.timeline.trained[1])
    assert again.timeline.seconds["sleep"] == 3
    assert again.timeline.recognized == ({"step": 1},)


def test_every_collected_result_can_be_read():
    results = Path(__file__).parents[2] / "results"
    directories = [path for path in results.iterdir() if (path / "config.json").exists()]
    runs, problems = load_runs(directories)
    assert problems == []
    assert len(runs) == len(directories) > 200
    assert all(run.complete and math.isfinite(run.acc) for run in runs)


def test_writing_is_not_needed(make_run):
    path = make_run("a")
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    load_runs([path])
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*")} == before
