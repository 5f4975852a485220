"""Runs sorted for comparison."""

import math

from dgdmn.presets import as_dict, preset
from dgdmn.report.entries import datasets, mean_and_error, mean_curve
from dgdmn.report.runs import read_runs


def test_seeds_of_one_algorithm_and_setting_are_one_entry(make_run):
    paths = [
        make_run("a", seed=1),
        make_run("b", seed=0),
        make_run("c", algorithm="nn"),
        make_run("d", changes={"kappa": 0.05, "learner_layers": [8, 8]}),
        make_run("e", together=True),
        make_run("f", dataset="mine", algorithm="joint"),
    ]
    digits, mine = datasets(read_runs(paths)[0])
    assert [entry.name for entry in digits.entries] == [
        "NN",
        "DGDMN",
        "DGDMN (all tasks together)",
        "DGDMN (kappa 0.05, learner_layers 8 8)",
    ]
    assert [run.seed for run in digits.entries[1].runs] == [0, 1]
    assert [entry.name for entry in digits.sequential] == [
        "NN",
        "DGDMN",
        "DGDMN (kappa 0.05, learner_layers 8 8)",
    ]
    assert [entry.name for entry in mine.entries] == ["Joint"]


def test_what_all_share_is_no_part_of_a_name(make_run):
    paths = [make_run("a", preset="quick"), make_run("b", preset="quick", changes={"kappa": 0.05})]
    (dataset,) = datasets(read_runs(paths)[0])
    assert [entry.name for entry in dataset.entries] == ["DGDMN", "DGDMN (kappa 0.05)"]
    assert [entry.setting for entry in dataset.entries] == ["preset quick", "preset quick, kappa 0.05"]


def test_a_preset_that_meant_something_else_is_not_taken_for_a_seed_of_today(make_run):
    """An older record: other epochs, and an option that there was not yet."""
    today = as_dict(preset("best", "digits"))
    before = {key: value for key, value in today.items() if key != "answers"} | {"generator_epochs": 20}
    paths = [
        make_run("a", preset="best", options=today),
        make_run("b", preset="best", seed=1, options=before),
        make_run("c", preset="best", seed=2, options=today),
        make_run("d", options={"n_stm": 2}),
        make_run("e", seed=1, options=as_dict(preset("paper", "digits"))),
        make_run("f", algorithm="dgr", options={"sttm_latent": 5}),
        make_run("g", algorithm="dgr", seed=1, options={"sttm_latent": 6}),
    ]
    (dataset,) = datasets(read_runs(paths)[0])
    assert [(entry.setting, len(entry.runs)) for entry in dataset.entries] == [
        ("", 2),
        ("", 2),
        ("preset best", 2),
        ("preset best, answers learner, generator_epochs 20", 1),
    ]


def test_two_streams_of_one_name_share_no_line(make_run):
    (dataset,) = datasets(read_runs([make_run("a", tasks=3), make_run("b", tasks=4)])[0])
    assert len(dataset.entries) == 2


def test_means_pass_over_what_is_not_known():
    assert mean_and_error([1.0, math.nan, 3.0]) == (2.0, 1.0)
    assert all(map(math.isnan, mean_and_error([])))
    curve = mean_curve([[1.0, 2.0], [3.0], [math.nan, math.nan, math.nan]])
    assert curve[:2] == (2.0, 2.0)
    assert math.isnan(curve[2])


def test_two_presets_of_one_algorithm_are_named(make_run):
    paths = [
        make_run("a"), make_run("b", preset="best"), make_run("c", algorithm="nn"),
        make_run("d", algorithm="dgr", together=True), make_run("e", algorithm="dgr", together=True, preset="best"),
    ]  # fmt: skip
    (dataset,) = datasets(read_runs(paths)[0])
    assert [entry.name for entry in dataset.entries] == [
        "NN",
        "DGDMN (preset paper)",
        "DGR (preset paper, all tasks together)",
        "DGDMN (preset best)",
        "DGR (preset best, all tasks together)",
    ]
