"""Curves against the matrices they come from."""

import numpy as np
import pytest

from dgdmn import metrics
from dgdmn.report import series
from dgdmn.report.entries import datasets
from dgdmn.report.runs import read_runs


@pytest.fixture
def entry(make_run):
    """`entry(…)`: two seeds of one algorithm."""

    def make(**options):
        runs, _ = read_runs([make_run(f"s{seed}", seed=seed, **options) for seed in (0, 1)])
        return datasets(runs)[0].entries[0]

    return make


def test_forgetting_is_the_mean_of_the_metrics(entry):
    found = entry(tasks=12)
    a, b = (metrics.forgetting_curve(run.accuracy, run.columns) for run in found.runs)
    assert series.forgetting(found) == pytest.approx((a + b) / 2)
    a, b = (metrics.last_k(run.accuracy, 10, run.columns) for run in found.runs)
    assert series.forgetting(found, last=10) == pytest.approx((a + b) / 2)


def test_a_task_has_a_curve_from_when_it_was_first_learnt(entry):
    found = entry(revise=[2])
    curves = series.task_curves(found)
    assert [curve.steps for curve in curves] == [(1, 2, 3, 4, 5), (2, 3, 4, 5), (3, 4, 5), (4, 5)]
    mean = np.mean([run.accuracy for run in found.runs], axis=0)
    assert curves[1].values == pytest.approx(mean[1:, 1])


def test_the_long_term_memory_alone(entry):
    found = entry()
    assert series.has_ltm_curves(found)
    assert series.task_curves(found, ltm=True)[0].values[1] == pytest.approx(
        np.mean([run.accuracy_ltm[1, 0] for run in found.runs])
    )


def test_a_plain_network_has_none(entry):
    found = entry(algorithm="nn")
    assert not series.has_ltm_curves(found)
    assert series.task_curves(found, ltm=True) == ()


def test_of_many_tasks_the_first_and_last_are_drawn(entry):
    curves = series.task_curves(entry(tasks=60, algorithm="nn"))
    assert len(curves) == series.MOST_LINES
    assert (curves[0].number, curves[-1].number) == (0, 59)


def test_sleeps_and_time(entry):
    found = entry()
    assert series.sleeps(found) == (2, 4)
    assert series.training_time(found) == pytest.approx((4, 11, 15, 22))


def test_the_papers_curves_are_found_by_dataset():
    assert series.published("digits", "average").name == "digits_avg_v1"
    assert series.published("tdigits", "average").name == "tdigits_avg_acc"
    assert series.published("tdigits", "last10").name == "tdigits_last10"
    assert series.published("mine", "average") is None
