"""What one option is worth: which runs are compared, in which order, and how the page tells it."""

import math

import numpy as np
import pytest

from dgdmn.presets import as_dict, preset
from dgdmn.report import render
from dgdmn.report.ablations import ablations
from dgdmn.report.entries import datasets
from dgdmn.report.runs import read_runs
from dgdmn.report.sections.ablation import ablation


def level(accuracy, tasks=3):
    """Every task known so well from when it was learnt: ACC is that, BWT 0."""
    return np.tril(np.full((tasks, tasks), accuracy))


@pytest.fixture
def best(run_with):
    """`best(accuracy, …)`: a run of DGDMN with the preset `best`."""

    def make(accuracy, seed=0, dataset="digits", algorithm="dgdmn", **config):
        return run_with(dataset, algorithm, seed, level(accuracy), **{"preset": "best", **config}).run

    return make


def test_a_change_is_compared_with_the_same_seed(best):
    runs = [
        best(0.9), best(0.8, seed=1),
        best(0.7, changes={"beta": 1.0}), best(0.7, seed=1, changes={"beta": 1.0}),
    ]  # fmt: skip
    (one,) = ablations(runs)
    assert one.option == "beta"
    assert one.acc == pytest.approx([0.7, 0.7])
    assert one.bwt == pytest.approx([0.0, 0.0])
    assert one.differences == pytest.approx([-0.2, -0.1])


def test_an_older_record_is_compared_though_it_does_not_know_all_options(best):
    """What it does not say was off: a run of before `allocation` has the same as one that says so."""
    now = as_dict(preset("best", "digits"))
    older = {key: value for key, value in now.items() if key != "allocation"}
    whole = best(0.9, options=older)
    assert len(ablations([whole, best(0.7, options=now | {"beta": 1.0}, changes={"beta": 1.0})])) == 1
    otherwise = now | {"beta": 1.0, "allocation": "class"}
    assert ablations([whole, best(0.7, options=otherwise, changes={"beta": 1.0})]) == ()


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"dataset": "hindi"},
        {"algorithm": "dgdmn-recog"},
        {"preset": "paper"},
        {"evaluate_on": "validation"},
        {"together": True},
        {"options": {"momentum": 0.5}},
        {"changes": {"momentum": 0.5}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_differs_otherwise_is_not_compared(best, other):
    changed = best(0.7, changes={"beta": 1.0})
    assert len(ablations([best(0.9), changed])) == 1
    assert ablations([best(0.9, **other), changed]) == ()


def test_two_options_at_once_and_runs_that_have_not_ended_show_nothing(best, make_run):
    assert ablations([best(0.9), best(0.7, changes={"beta": 1.0, "momentum": 0.0})]) == ()
    whole, going = read_runs([make_run("a"), make_run("b", steps=2, changes={"n_stm": 5})])[0]
    assert ablations([whole, going]) == ()


def test_what_costs_most_comes_first_and_what_is_not_known_last(best):
    runs = [best(0.9)]
    runs += [
        best(accuracy, changes={name: 0})
        for name, accuracy in [("gain", 0.95), ("strange", math.nan), ("loss", 0.5), ("small", 0.89)]
    ]
    assert [one.option for one in ablations(runs)] == ["loss", "small", "gain", "strange"]
    assert [one.option for one in ablations(runs[::-1])] == ["loss", "small", "gain", "strange"]


def test_a_line_says_the_option_its_change_and_its_worth(best):
    (dataset,) = datasets(
        [
            best(0.9, options={"index": "codes"}, seconds=1200.0, kept=9_000_000),
            best(0.75, changes={"index": "none"}, options={"index": "none"}),
        ]
    )
    (line,) = ablation(dataset)
    assert (line.name, line.option, line.change) == ("DGDMN (best)", "index", "codes → none")
    assert (line.acc, line.bwt, line.difference, line.seeds) == ("0.750", "0.000", "−0.150", "1 seed")
    assert (line.seconds, line.memory) == ("1,200 s → 100 s", "9.0 MB → 1.0 MB")


def test_times_of_two_machines_are_not_put_beside_each_other(best):
    here, there = ({"processor": name} for name in ("slow", "fast"))
    (one,) = ablations([best(0.9, machine=here), best(0.75, changes={"index": "none"}, machine=there)])
    assert all(map(math.isnan, one.seconds))
    assert one.bytes == (1_000_000, 1_000_000)


def test_the_section_is_there_where_it_has_something_to_say(make_run):
    best = {"preset": "best", "artefacts": "none", "options": as_dict(preset("best", "digits"))}
    paths = [make_run("a", **best), make_run("b", seed=1, changes={"n_stm": 5}, **best)]
    assert "What each option is worth" not in render(paths), "another seed"
    html = render([*paths, make_run("c", changes={"n_stm": 5}, **best)])
    assert "What each option is worth" in html
    assert '<a href="#ablation-0">Options</a>' in html
    assert "<td>n_stm</td><td>2 → 5</td>" in html
