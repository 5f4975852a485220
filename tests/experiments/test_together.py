"""All tasks at once: one task of all rows, one row of accuracies, as many epochs as Joint has."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dgdmn import streams
from dgdmn.algorithms.base import ContinualClassifier
from dgdmn.cli import run as cli
from dgdmn.errors import UsageError
from dgdmn.experiments.run import execute
from dgdmn.experiments.spec import RunSpec, recorded
from dgdmn.presets import preset
from dgdmn.records import RunRecord

TINY = {"samples_per_task": 0, "generator_epochs": 1, "learner_epochs": 1, "joint_epochs": 3, "min_steps": 0,
        "n_max": 9999, "generator_layers": (8,), "sttm_generator_layers": (8,)}  # fmt: skip


def spec(algorithm="nn", together=True, **changes):
    options = replace(preset("quick", "embedded"), **(TINY | changes))
    return RunSpec("embedded", algorithm, "quick", options, together=together)


def epochs(record):
    return [(event["memory"], event["network"], event["epoch"], event["samples"]) for event in record.events
            if event["kind"] == "epoch_done"]  # fmt: skip


@pytest.mark.parametrize("algorithm", ["nn", "joint", "dgr", "dgdmn", "dgdmn-recog", "er"])
def test_one_row_with_a_column_for_each_task(algorithm, tmp_path):
    record = execute(spec(algorithm, samples_per_task=16), tmp_path)
    lines = (record.directory / "accuracy.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in lines] == [["step", "after"], ["1", "9"]]
    assert record.accuracy.shape == (1, 10)
    assert np.isfinite(record.accuracy).all()
    assert record.summary["acc"] == record.accuracy.mean()
    assert record.summary["bwt"] is None
    began = [event["samples"] for event in record.events if event["kind"] == "task_began"]
    assert began == [160]
    assert record.summary["sleeps"] == algorithm.startswith("dgdmn")
    if algorithm.startswith("dg"):
        assert (record.accuracy_ltm == record.accuracy).all(), "it has slept"
        assert "dreams-001" in record.artefacts
    done = [event["done"] for event in record.events if event["kind"] == "epoch_done"]
    assert done[-1] == pytest.approx(1), "the plan and the work done agree"


def test_the_rows_are_those_of_the_stream_in_its_order(tmp_path, monkeypatch):
    given, learn = [], ContinualClassifier.partial_fit

    def noting(self, X, y, *arguments, **named):
        given.extend([(X, y)] * (X.ndim == 3))  # the plan is made with others
        return learn(self, X, y, *arguments, **named)

    monkeypatch.setattr(ContinualClassifier, "partial_fit", noting)
    execute(spec(), tmp_path)
    ((x, y),) = given
    tasks = list(streams.load("embedded"))
    assert np.array_equal(x, np.concatenate([task.train.x for task in tasks]))
    assert np.array_equal(y, np.concatenate([task.train.y for task in tasks]))


def test_classifiers_train_as_long_as_joint_and_generators_as_ever(tmp_path):
    rows = sum(len(task.train) for task in streams.load("embedded"))
    network = [("", "learner", epoch, rows) for epoch in (1, 2, 3)]
    assert epochs(execute(spec("nn"), tmp_path)) == epochs(execute(spec("joint"), tmp_path)) == network
    memory = [("ltm", "generator", 1, rows)] + [("ltm", "learner", epoch, rows) for epoch in (1, 2, 3)]
    assert epochs(execute(spec("dgr"), tmp_path)) == memory
    twice = [("stm", *what[1:]) for what in memory] + memory
    assert epochs(execute(spec("dgdmn"), tmp_path)) == twice


def test_its_name_and_config_say_so(tmp_path):
    record = execute(spec(samples_per_task=16), tmp_path)
    assert record.name.endswith("-together-seed0")
    assert record.config["together"] is True
    assert RunSpec.of(record) == spec(samples_per_task=16)
    assert record.config["options"]["learner_epochs"] == 1, "what was asked for"


def test_a_run_of_an_older_version_was_not_together(tmp_path):
    one = spec(together=False, samples_per_task=16)
    record = execute(one, tmp_path)
    path = record.directory / "config.json"
    config = {key: value for key, value in record.config.items() if key not in ("together", "revise")}
    path.write_text(json.dumps(config))
    found = recorded(one, tmp_path)
    assert found.complete
    assert RunSpec.of(found) == one
    path.rename(tmp_path / "config.json")
    at_once = spec(samples_per_task=16)
    (tmp_path / at_once.name).mkdir()
    (tmp_path / "config.json").rename(tmp_path / at_once.name / "config.json")
    with pytest.raises(UsageError, match="holds a run with together = False, not True"):
        recorded(at_once, tmp_path)


def test_an_option_that_came_after_a_run_was_off_in_it_whatever_best_says_now(tmp_path):
    ours = RunSpec("embedded", "dgdmn", "best", preset("best", "embedded"))
    config = {**ours.identity(), "device": "cpu", "threads": 1, "tasks": ["0"]}
    config["options"] = {key: value for key, value in config["options"].items() if key != "dreams"}
    (tmp_path / ours.name).mkdir()
    (tmp_path / ours.name / "config.json").write_text(json.dumps(config))
    assert RunSpec.of(RunRecord.read(tmp_path / ours.name)).options.dreams == "once"
    with pytest.raises(UsageError, match="holds a run with dreams = once, not anew"):
        recorded(ours, tmp_path)


def test_a_run_goes_on_though_an_option_that_decides_nothing_in_it_has_changed(tmp_path):
    """As the sizes of task memories, for an algorithm that has none."""
    for name, kept in (("dgr", True), ("dgdmn", False)):
        ours = RunSpec("embedded", name, "paper", preset("paper", "embedded"))
        config = {**ours.identity(), "device": "cpu", "threads": 1, "tasks": ["0"]}
        config["options"] = {**config["options"], "sttm_latent": 3}
        (tmp_path / ours.name).mkdir()
        (tmp_path / ours.name / "config.json").write_text(json.dumps(config))
        if kept:
            assert recorded(ours, tmp_path).config == config
        else:
            with pytest.raises(UsageError, match="holds a run with sttm_latent = 3, not 16"):
                recorded(ours, tmp_path)


def test_nothing_is_revised_when_all_comes_at_once(tmp_path):
    with pytest.raises(UsageError, match="revise names task 2, but together has all tasks at once"):
        replace(spec(), revise=(2,))
    with pytest.raises(UsageError, match="leave one of them out"):
        cli.main(["embedded", "--together", "--revise", "1", "--out", str(tmp_path / "runs")])
    assert not (tmp_path / "runs").exists()


def test_the_command_line_takes_it(capsys):
    words = ["embedded", "--algorithm", "nn", "--preset", "quick", "--together"]
    assert cli.main([*words, "--show-config"]) == 0
    assert "\ntogether = true\n" in capsys.readouterr().out
    (one,) = cli._specs(cli._parse([*words, "--samples-per-task", "16"]))
    assert one.name == "embedded-nn-quick-samples_per_task-16-together-seed0"
    assert not cli._specs(cli._parse(words[:-1]))[0].together
