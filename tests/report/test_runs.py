"""Whatever lies in a directory, it becomes a run or a line, never an exception."""

import json
import os
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dgdmn.metrics import acc, bwt
from dgdmn.report.runs import LIMITS, MATRIX_LIMIT, find_runs, read_runs


def only_problem(directory):
    runs, problems = read_runs([directory])
    assert runs == []
    (problem,) = problems
    assert "\n" not in problem.reason
    return problem


def test_a_run_and_a_directory_of_runs_are_found_once_in_order(make_run):
    b, a = make_run("b"), make_run("a")
    (a.parent / ".hidden").mkdir()
    (a.parent / "notes.txt").write_text("not a run")
    assert find_runs([b, a.parent]) == [b, a]
    assert find_runs([a.parent]) == [a, b]


def test_an_empty_or_missing_directory_is_told_of(tmp_path):
    (tmp_path / "empty").mkdir()
    assert find_runs([tmp_path / "empty"]) == [tmp_path / "empty"]
    assert "no config.json" in only_problem(tmp_path / "empty").reason
    assert "not a run directory" in only_problem(tmp_path / "missing").reason


def test_what_a_run_says(make_run):
    directory = make_run("r", revise=[1], evaluate_on="validation", changes={"kappa": 0.05})
    ((run,), problems) = read_runs([directory])
    assert problems == []
    assert run.name == "r"
    assert run.columns == (0, 1, 2, 3, 0)
    assert run.complete
    assert run.acc == acc(run.accuracy)
    assert run.bwt == bwt(run.accuracy, run.columns)
    assert run.learnt == pytest.approx(sum(run.accuracy[i, i] for i in range(4)) / 4)
    assert run.number("memory_bytes") == 3_000_000
    assert (run.revise, run.evaluate_on, run.together) == ((1,), "validation", False)


def test_an_unfinished_run_counts_the_tasks_seen(make_run):
    ((run,), _) = read_runs([make_run("r", steps=2)])
    assert not run.complete
    assert run.acc == pytest.approx(run.accuracy[-1, :2].mean())


def test_a_run_without_rows_has_no_result(make_run):
    ((run,), _) = read_runs([make_run("r", steps=0)])
    assert run.acc != run.acc
    assert run.bwt != run.bwt
    assert run.learnt != run.learnt


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("config.json", "{", "config.json is damaged"),
        ("config.json", "[" * 200_000, "RecursionError"),
        ("config.json", '{"dataset": "x"}', "config.json is not a run's"),
        ("config.json", '{"tasks": ["0", "1", "2", "3"], "seed": "one"}', "ValueError"),
        ("config.json", '{"tasks": ["0", "1", "2", "3"], "revise": 5}', "TypeError"),
        ("summary.json", "null", "summary.json is damaged"),
        ("accuracy.csv", "step,after,0,1,2,3\n1,0,7,0,0,0\n", "accuracies are in [0, 1]"),
        ("accuracy.csv", "foreign,file\n", "accuracy.csv is damaged"),
        ("events.jsonl", "x\ny\n", "events.jsonl is damaged"),
    ],
    ids=["cut", "deep", "foreign", "seed", "revise", "summary", "range", "csv", "events"],
)  # fmt: skip
def test_damage_is_one_line(make_run, file, content, reason):
    directory = make_run("r")
    (directory / file).write_text(content)
    problem = only_problem(directory)
    assert problem.name == "r"
    assert reason in problem.reason
    assert str(directory) not in problem.reason


@pytest.mark.parametrize("file", ["config.json", "events.jsonl", "accuracy.csv"])
def test_huge_files_are_not_read(make_run, file):
    directory, limit = make_run("r"), LIMITS.get(file, MATRIX_LIMIT)
    os.truncate(directory / file, limit + 1)
    assert (
        only_problem(directory).reason == f"{file} has {limit + 1:,} bytes: a report reads at most {limit:,}"
    )


def test_a_pipe_does_not_keep_the_reader_waiting(make_run):
    directory = make_run("r")
    (directory / "events.jsonl").unlink()
    os.mkfifo(directory / "events.jsonl")
    found = []
    reader = threading.Thread(target=lambda: found.append(only_problem(directory)), daemon=True)
    reader.start()
    reader.join(5)
    assert [problem.reason for problem in found] == ["events.jsonl is not a file"]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("dataset", "algorithm", "preset", "seed", "evaluate_on", "revise", "together", "changes", "options",
          "classes", "note", "versions", "machine")  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changed=st.dictionaries(st.sampled_from(FIELDS), ANY, max_size=4))
def test_any_config_is_a_run_or_a_problem(tmp_path_factory, changed):
    directory = tmp_path_factory.mktemp("any")
    (directory / "config.json").write_text(json.dumps({"tasks": ["a", "b"], **changed}))
    runs, problems = read_runs([directory])
    assert len(runs) + len(problems) == 1
