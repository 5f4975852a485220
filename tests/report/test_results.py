"""Means, bounds and verdicts against matrices whose answer is plain."""

import math

import numpy as np
import pytest

from dgdmn.records import RunWriter
from dgdmn.report.entries import datasets
from dgdmn.report.results import results
from dgdmn.report.runs import read_runs


@pytest.fixture
def table(tmp_path):
    """`table({(algorithm, seed): matrix}, **config)`: the results of those runs by algorithm."""

    def make(matrices, **config):
        for (algorithm, seed), matrix in matrices.items():
            names = [f"t{i}" for i in range(np.shape(matrix)[1])]
            writer = RunWriter(
                tmp_path / f"{algorithm}-{seed}",
                {
                    "dataset": "mine",
                    "algorithm": algorithm,
                    "preset": "paper",
                    "seed": seed,
                    "tasks": names,
                    **config,
                },
            )
            for row, name in zip(matrix, names, strict=False):
                writer.row("accuracy", name, row)
            if len(matrix) == len(names):
                writer.summary({})
        runs, problems = read_runs(sorted(tmp_path.iterdir()))
        assert problems == []
        (dataset,) = datasets(runs)
        (setting,) = dataset.settings
        return {result.entry.algorithm: result for result in results(dataset, setting)}

    return make


def forgets(tasks):
    return np.eye(tasks)


def keeps(tasks, accuracy):
    return np.tril(np.full((tasks, tasks), accuracy))


def test_mean_and_standard_error_over_seeds(table):
    found = table({("dgdmn", 0): keeps(4, 0.8), ("dgdmn", 1): keeps(4, 0.6)})["dgdmn"]
    assert found.acc == pytest.approx((0.7, 0.1))
    assert found.bwt == pytest.approx((0.0, 0.0))


def test_the_floor_is_not_a_bug(table):
    found = table({("nn", 0): forgets(10)})["nn"]
    assert found.verdict == (
        "This is the class-incremental floor (1/10), not a bug: a network trained in sequence"
        " forgets all but the last task."
    )


def test_between_floor_and_ceiling(table):
    found = table({("nn", 0): forgets(4), ("dgdmn", 0): keeps(4, 0.75), ("joint", 0): keeps(4, 0.85)})
    bounds = found["dgdmn"].bounds
    assert (bounds.floor.value, bounds.ceiling.value) == pytest.approx((0.25, 0.85))
    assert found["dgdmn"].verdict == "Remembers 83 % of the way from floor to ceiling."
    assert found["joint"].verdict.startswith("The ceiling")
    assert list(found) == ["nn", "dgdmn", "joint"], "the paper's order"


def test_without_nn_and_joint_the_bounds_are_one_task_and_no_error(table):
    bounds = table({("dgdmn", 0): keeps(4, 0.75)})["dgdmn"].bounds
    assert (bounds.floor.value, bounds.ceiling.value) == (0.25, 1.0)
    assert bounds.floor.source.startswith("1/4")


def test_who_never_learns_forgets_nothing(table):
    assert "hardly learns" in table({("ewc", 0): keeps(4, 0.3)})["ewc"].verdict


def test_as_good_as_together_and_no_better_than_the_floor(table):
    found = table(
        {
            ("nn", 0): keeps(4, 0.6),
            ("er", 0): keeps(4, 0.9),
            ("si", 0): keeps(4, 0.605),
            ("joint", 0): keeps(4, 0.9),
        }
    )
    assert found["er"].verdict == "As good as learning everything together."
    assert found["si"].verdict == "No better than the floor."
    assert found["nn"].verdict.startswith("The floor here")


def test_unfinished_and_missing(table):
    assert "0.75 on the 2 of 4 tasks" in table({("dgdmn", 0): keeps(4, 0.75)[:2]})["dgdmn"].verdict


def test_nan_has_no_result(table):
    found = table({("dgdmn", 0): np.full((3, 3), math.nan)})["dgdmn"]
    assert found.verdict == "Some accuracies are missing, so there is no result."
    assert math.isnan(found.acc[0])


def test_only_plain_test_runs_stand_beside_the_paper(table):
    plain = table({("dgdmn", 0): keeps(4, 0.75)}, dataset="digits")["dgdmn"]
    assert plain.published.acc == 0.818
    assert plain.bounds.floor.source == "the paper's plain NN"


def test_validation_does_not(table):
    found = table({("dgdmn", 0): keeps(4, 0.75)}, dataset="digits", evaluate_on="validation")["dgdmn"]
    assert found.published is None
    assert found.entry.setting == "on validation rows"
    assert found.bounds.floor.source.startswith("1/4")


def test_a_setting_without_bounds_of_its_own_takes_the_plain_ones(make_run):
    paths = [make_run("nn", algorithm="nn"), make_run("joint", algorithm="joint"),
             make_run("revised", revise=[1]), make_run("quick", preset="quick")]  # fmt: skip
    (dataset,) = datasets(read_runs(paths)[0])
    sources = {name: results(dataset, name)[0].bounds.floor.source for name in dataset.settings}
    assert sources == {"": "plain NN, run here", "tasks 1 revised": "plain NN, run here",
                       "preset quick": "1/4: one task known of 4"}  # fmt: skip


def test_best_has_the_papers_learners_so_the_papers_joint_is_its_ceiling(make_run):
    paths = [
        make_run("nn", algorithm="nn"),
        make_run("joint", algorithm="joint"),
        make_run("best", preset="best"),
    ]
    (dataset,) = datasets(read_runs(paths)[0])
    bounds = results(dataset, "preset best")[0].bounds
    assert bounds.floor.source == "plain NN with preset paper, run here"
    assert bounds.ceiling.source == "Joint with preset paper, run here"
    assert bounds.ceiling.value == dataset.entries[1].first.acc


def test_joint_is_no_ceiling_where_a_prior_answers_too(table):
    matrices = {("dgdmn", 0): keeps(4, 0.9), ("joint", 0): keeps(4, 0.85), ("nn", 0): forgets(4)}
    found = table(matrices, options={"answers": "both"})["dgdmn"]
    assert found.bounds.ceiling.source == (
        "Joint, run here; a learner alone, so no ceiling where a prior answers too"
    )
    assert found.verdict == "Above Joint, which is a learner alone, so no ceiling where a prior answers too."


def test_a_learner_alone_has_a_ceiling(table):
    matrices = {("dgdmn", 0): keeps(4, 0.9), ("joint", 0): keeps(4, 0.85), ("nn", 0): forgets(4)}
    found = table(matrices, options={"answers": "learner"})["dgdmn"]
    assert found.bounds.ceiling.source == "Joint, run here"
    assert found.verdict == "As good as learning everything together."


def test_without_joint_nothing_is_said_of_it(table):
    bounds = table({("dgdmn", 0): keeps(4, 0.75)}, options={"answers": "both"})["dgdmn"].bounds
    assert bounds.ceiling.source == "no error at all: no Joint was run"
