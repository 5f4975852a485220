"""Collected runs: found by key, equal to the runs they came from, whole or absent."""

import json
import shutil

import numpy as np
import pytest

from dgdmn.records import RunWriter, run_key
from dgdmn.report.load import load_runs
from reproduction import results as module
from reproduction.results import (
    MEASURES,
    Results,
    accuracy_when_learned,
    collect,
    load_results,
    training_times,
)
from reproduction.targets import parse_run


def load(directory):
    """One run directory."""
    (run,), problems = load_runs([directory])
    assert not problems
    return run


def test_runs_are_found_by_key_with_any_seed(results):
    found = results.find(parse_run("digits dgdmn n_stm=5"))
    assert [run.seed for run in found] == [0, 1, 2]
    assert results.find(parse_run("digits dgdmn n_stm=7")) == ()
    for run in results.by_key.values():
        assert run.key == run_key(run.record.config)


def test_acc_and_bwt_are_those_before_the_migration(results, root):
    """The fixture was written by the code of commit a5f71d2."""
    frozen = json.loads((root / "tests/frozen/results.json").read_text())
    rows = [
        [run.stream, run.algorithm, run.preset, run.seed, run.acc, run.bwt]
        for run in results.by_key.values()
    ]
    assert len(rows) == len(frozen) == 262
    for ours, theirs in zip(sorted(rows, key=str), sorted(frozen, key=str), strict=True):
        assert ours[:4] == theirs[:4]
        assert ours[4:] == pytest.approx(theirs[4:], abs=1e-12, nan_ok=True)


def test_measures(results):
    (run, *_) = results.find(parse_run("digits dgr"))
    assert accuracy_when_learned(run)["9"] < 0.5
    assert MEASURES["not_learned"](run) == 1
    assert MEASURES["newest"](run) == pytest.approx(run.accuracy[-1, -2:].mean())
    (joint, *_) = results.find(parse_run("digits dgr together"))
    assert np.isnan([MEASURES[name](joint) for name in ("bwt", "newest", "not_learned")]).all()
    resilience = joint.extra["resilience"]
    assert MEASURES["noise"](joint) == resilience["noise_accuracy_unclipped"][-1]
    assert MEASURES["clipped"](joint) == resilience["noise_accuracy"][-1]
    assert MEASURES["occlusion"](joint) == resilience["occlusion_accuracy"][-1]


def test_times_are_of_the_same_seeds_on_the_same_machine(results):
    fast, slow = (results.find(parse_run(f"tdigits {name}")) for name in ("dgdmn", "dgr"))
    times = training_times(slow, fast)
    assert times.clock == "processor"
    assert [len(group) for group in times.groups] == [1, 1]
    one = [run for run in fast if run.seed == 0]
    other = [run for run in fast if run.seed == 1]
    assert training_times(one, other).clock == "other machines"


@pytest.fixture
def run_directory(tmp_path):
    """A run of two tasks with a sleep, dreams, resilience and recognition."""
    spec = parse_run("digits dgdmn-recog")
    config = {
        **spec.identity(),
        "key": spec.key,
        "changes": {},
        "tasks": ["a", "b"],
        "classes": [0, 1],
        "machine": {},
        "versions": {},
    }
    writer = RunWriter(tmp_path / "runs" / spec.name, config)
    known = {"answered_by": {"a": "task 1", "b": "task 1"}, "known": {"a": 1.0, "b": 0.2}}
    after = {"answered_by": {"a": "task 1", "b": "long-term memory"}, "known": {"a": 1.0, "b": 1.0}}
    for step, task in enumerate("ab", start=1):
        writer.event("task_began", step=step)
        if step == 2:
            writer.event("sleep_started")
            writer.event("replayed", memory="ltm", n_tasks=4, n_gen=4, dreamed=[3, 1])
            writer.event("sleep_ended")
        memories = ["task 1"] if step == 1 else ["long-term memory"]
        losses = {"a": [0.1], "b": [0.2]}
        facts = known if step == 1 else after
        writer.event("recognized", step=step, memories=memories, losses=losses, **facts)
        writer.row("accuracy", task, [0.9, 0.0 if step == 1 else 0.8])
    images = np.zeros((2, 4, 4), np.uint8)
    labels, judged = [0, 1, 1, 1], [0, 1, 1, 0]
    writer.artifact("dreams-2", x=images, y=[0, 1], labels=labels, judged=judged)
    writer.artifact("resilience", noise=[0.3], noise_accuracy=[0.4], noise_accuracy_unclipped=[0.6])
    writer.summary({"seconds": 1.0})
    return tmp_path / "runs" / spec.name


def test_collecting_summarizes_events_and_artifacts(run_directory, tmp_path):
    place = collect(load(run_directory), tmp_path / "results")
    names = {"config.json", "summary.json", "accuracy.csv", "extra.json"}
    assert {path.name for path in place.iterdir()} == names
    extra = json.loads((place / "extra.json").read_text())
    assert extra["sleeps"] == [2]
    assert extra["resilience"]["noise_accuracy_unclipped"] == [0.6]
    (dreams,) = extra["dreams"]
    assert (dreams["step"], dreams["purity"]) == (2, 0.75)
    assert dreams["balance"] == pytest.approx(0.8112781)  # entropy of 3 to 1 in bits
    counts = extra["recognized"]
    assert (counts["met"], counts["answered_by_the_right_memory"]) == (3, 2)
    assert (counts["not_met"], counts["marked_unknown"]) == (1, 1)
    kept = load_results(tmp_path / "results")[0].by_key[parse_run("digits dgdmn-recog").key]
    assert (kept.accuracy == load(run_directory).accuracy).all()
    assert kept.timeline.sleeps == (2,)
    assert len(kept.timeline.recognized) == 2


def test_a_kill_while_collecting_leaves_no_mixture(run_directory, tmp_path, monkeypatch):
    run = load(run_directory)
    whole = collect(run, tmp_path / "whole")
    write, files = module.write_atomic, sorted(path.name for path in whole.iterdir())
    for survives in range(len(files)):
        for place in (tmp_path / "new", tmp_path / "whole"):
            left = iter(range(survives))

            def dies(path, content, left=left):
                if next(left, None) is None:
                    raise KeyboardInterrupt
                write(path, content)

            monkeypatch.setattr(module, "write_atomic", dies)
            with pytest.raises(KeyboardInterrupt):
                collect(run, place)
            assert load_results(place) == (Results({}), {})
    monkeypatch.undo()
    assert sorted(path.name for path in collect(run, tmp_path / "whole").iterdir()) == files


def test_a_run_without_artifacts_does_not_replace_what_was_measured(run_directory, tmp_path):
    place = collect(load(run_directory), tmp_path / "results")
    before = (place / "extra.json").read_bytes()
    shutil.rmtree(run_directory / "artifacts")
    collect(load(run_directory), tmp_path / "results")
    assert (place / "extra.json").read_bytes() == before


@pytest.mark.parametrize(
    ("file", "content"),
    [("accuracy.csv", "nonsense\n"), ("summary.json", '{"done": false}'), ("config.json", "{")],
)
def test_damaged_results_are_one_line_each(run_directory, tmp_path, file, content):
    place = collect(load(run_directory), tmp_path / "results")
    (place / file).write_text(content)
    found, problems = load_results(tmp_path / "results")
    assert not found.by_key
    assert list(problems) == [place.name]
    assert "\n" not in problems[place.name]
