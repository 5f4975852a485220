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


def test_the_papers_times_are_told_in_ours(make_run):
    options = {"dataset": "tdigits", "tasks": 40, "artefacts": "none"}
    runs, _ = read_runs([make_run("a", **options), make_run("b", algorithm="dgr", **options)])
    entries = datasets(runs)[0].entries
    curve = series.published_time("tdigits", entries)
    dgr = next(entry for entry in entries if entry.algorithm == "dgr")
    assert curve.series["dgr"][-1] == pytest.approx(series.training_time(dgr)[-1])
    assert curve.series["dgr"][-1] / curve.series["dgdmn"][-1] == pytest.approx(29051.724 / 8793.103)
    only = [entry for entry in entries if entry is not dgr]
    assert series.published_time("tdigits", only) is None, "there is nothing to scale by"
    assert series.published_time("digits", entries) is None
    begun, _ = read_runs([make_run("c", algorithm="dgr", **options, steps=3)])
    assert series.published_time("tdigits", datasets(begun)[0].entries) is None, "the paper's is hidden there"


def test_the_papers_resilience_stands_beside_what_learnt_together(make_run):
    """Its LTM and NN were trained jointly: DGDMN and NN in sequence are something else."""
    few = {"tasks": 3, "artefacts": "none"}
    runs, _ = read_runs([
        make_run("a", **few), make_run("b", algorithm="nn", **few), make_run("c", algorithm="dgr", **few),
        make_run("d", algorithm="dgr", together=True, steps=1, **few),
        make_run("e", algorithm="dgdmn", together=True, steps=1, **few),
        make_run("f", algorithm="joint", together=True, steps=1, **few),
        make_run("g", algorithm="dgr", together=True, steps=1, preset="best", **few),
    ])  # fmt: skip
    entries = datasets(runs)[0].entries
    found = series.published_resilience(entries, "noise")
    assert [(entry.first.name, name, curve.name) for entry, name, curve in found] == [
        ("d", "ltm", "noise"),
        ("f", "nn", "noise"),
    ]
    assert series.published_resilience([one for one in entries if not one.first.together], "noise") == []
