"""Groups over seeds, their names and numbers, and curves."""

import math

import numpy as np
import pytest

from dgdmn import metrics
from dgdmn.config import resolve, to_dict
from dgdmn.report.table import (
    average_curves,
    describe_setting,
    group_runs,
    has_ltm_curves,
    mask_waiting_tasks,
    mean_curve,
    task_curves,
)


def names(runs):
    return [group.name for stream in group_runs(runs) for group in stream.groups]


def test_seeds_of_one_setting_are_a_group(matrix_run):
    runs = [matrix_run("nn", seed, [[1, 0], [0, acc]]) for seed, acc in ((1, 0.8), (0, 0.6))]
    ((group,),) = [stream.groups for stream in group_runs(runs)]
    assert [run.seed for run in group.runs] == [0, 1]
    assert group.mean("acc") == pytest.approx(0.35)
    assert group.sem("acc") == pytest.approx(metrics.standard_error([0.3, 0.4]))
    assert group.text("acc") == ".350 ± .050"
    assert group.text("bwt") == "−1.000 ± .000"
    assert group.text("nothing") == "–"


def test_names_tell_what_differs_and_no_more(matrix_run):
    a = np.eye(2)
    same = [matrix_run("nn", 0, a), matrix_run("dgdmn", 0, a)]
    assert names(same) == ["NN", "DGDMN"]
    other = [
        *same,
        matrix_run("dgdmn", 0, a, preset="deep"),
        matrix_run("mine", 0, a, together=True),
    ]
    assert names(other) == [
        "DGDMN (preset deep)",
        "NN (preset paper)",
        "DGDMN (preset paper)",
        "mine (preset paper, all tasks together)",
    ]


def test_every_part_of_a_setting_separates(matrix_run):
    a = np.eye(2)
    ways = [
        {},
        {"revise": [1, 2]},
        {"together": True},
        {"evaluate_on": "validation"},
        {"changes": {"kappa": 0.5}},
    ]
    runs = [matrix_run("dgdmn", 0, a, **way) for way in ways]
    assert len(set(names(runs))) == len(runs)
    assert describe_setting(runs[1]) == ("preset paper", "tasks 1, 2 revised")
    assert describe_setting(runs[4]) == ("preset paper", "kappa 0.5")
    runs = [matrix_run("dgdmn", 0, a), matrix_run("dgdmn", 0, np.eye(3))]
    assert len(names(runs)) == 2, "other tasks share no axes"


def test_seeds_may_order_the_tasks(make):
    runs = [
        make(f"r{seed}", seed=seed, task_names=[*order]) for seed, order in enumerate(("ab", "ba"))
    ]
    ((group,),) = [stream.groups for stream in group_runs(runs)]
    assert len(average_curves(group)) == 2
    first, _ = task_curves(group)
    assert (first[0], first[2][0]) == ("a", runs[0].accuracy[0, 0]), "of one order only"


def test_a_preset_that_changed_since_separates(matrix_run):
    now = to_dict(resolve("paper", "digits"))
    then = {**now, "kappa": 0.25, "n_stm": 7}
    runs = [
        matrix_run(name, seed, np.eye(2), stream="digits", options=options)
        for name in ("dgdmn", "nn")
        for seed, options in ((0, now), (1, then))
    ]
    assert names(runs) == ["NN", "DGDMN", "NN (kappa 0.25)", "DGDMN (kappa 0.25, n_stm 7)"], (
        "NN has no STM"
    )


def test_variants_of_an_algorithm_look_different(matrix_run):
    runs = [matrix_run("dgdmn", 0, np.eye(2), changes={"kappa": k / 10}) for k in range(4)]
    ((stream),) = group_runs(runs)
    assert len({(group.style.marker, group.style.color) for group in stream.groups}) == 4


def test_only_runs_that_ended_count(make):
    ((stream),) = group_runs(
        [make("a", algorithm="nn"), make("b", algorithm="nn", seed=1, steps=2)]
    )
    (group,) = stream.groups
    assert len(group.ended) == 1
    assert len(group.values("acc")) == 1


def test_curves_of_tasks_start_where_they_are_learned(matrix_run):
    runs = [matrix_run("nn", seed, [[1, 0], [x, 1]]) for seed, x in ((0, 0.2), (1, 0.4))]
    ((stream),) = group_runs(runs)
    first, second = task_curves(stream.groups[0])
    assert (first[:2], second[1]) == (("t0", range(1, 3)), range(2, 3))
    assert first[2] == pytest.approx((1, 0.3))
    assert mean_curve(average_curves(stream.groups[0])) == pytest.approx((1, 0.65))
    assert task_curves(stream.groups[0], ltm=True) == []
    assert not has_ltm_curves(stream.groups[0])


def test_the_ltm_alone_is_blank_until_a_task_is_consolidated(make):
    run = make("a", tasks=3, revise=[1])  # sleeps after the tasks 2 and 4
    assert run.timeline.sleeps == (2, 4)
    known = np.isfinite(mask_waiting_tasks(run, np.zeros((4, 3))))
    assert known.tolist() == [[0, 1, 1], [1, 1, 1], [1, 1, 0], [1, 1, 1]]
    run.timeline.sleeps = (2,)
    assert np.isnan(mask_waiting_tasks(run, np.zeros((4, 3)))[2:, 2]).all(), "no sleep came"
    run.timeline.sleeps = ()
    assert np.isfinite(mask_waiting_tasks(run, np.zeros((4, 3)))).all(), "sleeps are unknown"
    ((stream),) = group_runs([make("b")])
    values = {task: values for task, _, values in task_curves(stream.groups[0], ltm=True)}
    assert [len(values[task]) for task in "0123"] == [4, 3, 2, 1]
    assert math.isnan(values["2"][0])
    assert values["2"][1] > 0


def test_a_repeated_task_is_one_curve(make):
    ((stream),) = group_runs([make("a", revise=[1])])
    curves = task_curves(stream.groups[0])
    assert [steps[0] for _, steps, _ in curves] == [1, 2, 3, 4]
    assert curves[0][1][-1] == 5
    assert has_ltm_curves(stream.groups[0])


def test_many_tasks_are_chosen_evenly(matrix_run):
    ((stream),) = group_runs([matrix_run("nn", 0, np.eye(70))])
    curves = task_curves(stream.groups[0])
    assert (len(curves), curves[0][0], curves[-1][0]) == (50, "t0", "t69")


def test_the_mean_of_curves_of_different_length():
    assert mean_curve([[1, 2, 3], [3, 4]]) == (2, 3, 3)
    assert mean_curve([]) == ()
    assert math.isnan(mean_curve([[math.nan]])[0])


def test_a_file_that_is_read_in_two_ways_is_two_streams(matrix_run):
    def make(label, seed=0):
        data = {"path": "/home/anna/my.csv", "label": label, "ignore": [], "digest": "0"}
        return matrix_run("nn", seed, [[1, 0], [0, 1]], data=data)

    streams = group_runs([make("a"), make("b"), make("a", 1)])
    assert [len(stream.runs) for stream in streams] == [2, 1]
    assert [stream.title.rpartition(" (")[2] for stream in streams] == ["label a)", "label b)"]
    assert streams[0].runs[0].data["path"] == "my.csv", "a page does not say where it is"
