"""What the sections say: floor, ceiling and verdict, effect of options, commands, cost."""

import math
import shlex

import numpy as np
import pytest

from dgdmn.report.page import _environment
from dgdmn.report.sections import curves as section
from dgdmn.report.sections.configuration import configuration, run_command
from dgdmn.report.sections.curves import cost_section, curves, heatmaps, replay_panel, time_panel
from dgdmn.report.sections.memory import recognition_panels
from dgdmn.report.sections.result import ablations, find_bounds, result_tables
from dgdmn.report.table import group_runs

FORGETS, KEEPS, HALF = [[1, 0], [0, 1]], [[1, 0], [0.98, 1]], [[1, 0], [0.5, 0.8]]


def stream_of(*runs):
    (stream,) = group_runs(runs)
    return stream


def verdicts(*runs):
    lines = [facts for table in result_tables(stream_of(*runs)) for facts in table["lines"]]
    template = _environment().get_template("verdict.html")
    return {facts["group"].name: template.render(facts=facts).strip() for facts in lines}


def test_floor_and_ceiling_of_the_same_setting(matrix_run):
    stream = stream_of(
        matrix_run("nn", 0, FORGETS), matrix_run("dgdmn", 0, HALF), matrix_run("joint", 0, KEEPS)
    )
    floor, ceiling = find_bounds(stream, stream.groups)
    assert floor[:2] == (0.5, "NN, run here")
    assert ceiling[:2] == (pytest.approx(0.99), "Joint, run here")


def test_without_them_floor_is_one_task_and_ceiling_no_error(matrix_run):
    stream = stream_of(matrix_run("dgdmn", 0, HALF))
    assert find_bounds(stream, stream.groups) == (
        (0.5, "1/2: one of 2 tasks known", None),
        (1.0, "no errors; joint training was not run", None),
    )


@pytest.mark.parametrize(
    ("shared", "classes", "why"),
    [
        (True, "abc", "1/3: guessing among 3 classes"),
        (False, "abc", "1/2: one of 2 tasks known"),
        (None, "a", "1/1: guessing among 1 class"),
    ],
)
def test_the_floor_is_guessing_if_tasks_share_their_classes(matrix_run, shared, classes, why):
    known = {"classes": list(classes), "shared_classes": shared}
    stream = stream_of(matrix_run("dgdmn", 0, HALF, **known))
    low, text, _ = find_bounds(stream, stream.groups)[0]
    assert text == why
    assert low == pytest.approx(1 / int(why[2]))


def test_bounds_of_another_preset_stand_in_but_not_of_other_data(matrix_run):
    ours = matrix_run("dgdmn", 0, HALF, preset="deep", changes={"n_stm": 5})
    stream = stream_of(
        ours, matrix_run("nn", 0, FORGETS), matrix_run("joint", 0, KEEPS, evaluate_on="validation")
    )
    (group,) = [group for group in stream.groups if group.algorithm == "dgdmn"]
    floor, ceiling = find_bounds(stream, [group])
    assert floor[1] == "NN (preset paper), run here", (
        "it has no short-term memory, so n_stm means nothing"
    )
    assert ceiling[0] == 1.0
    other = stream_of(
        matrix_run("dgdmn", 0, HALF, changes={"samples_per_task": 5}), matrix_run("nn", 0, FORGETS)
    )
    assert find_bounds(other, other.groups[1:])[0][1].startswith("1/2")


def test_a_network_trained_together_is_no_floor(matrix_run):
    stream = stream_of(
        matrix_run("nn", 0, KEEPS, together=True), matrix_run("dgr", 0, KEEPS, together=True)
    )
    assert find_bounds(stream, stream.groups)[0][1].startswith("1/2")


def test_what_results_mean(matrix_run):
    found = verdicts(
        matrix_run("nn", 0, [[1, 0], [0.1, 1]]),
        matrix_run("ewc", 0, FORGETS),
        matrix_run("dgdmn", 0, HALF),
        matrix_run("dgr", 0, KEEPS),
        matrix_run("si", 0, [[0.3, 0], [0.3, 0.3]]),
        matrix_run("lwf", 0, [[1, 0], [0.04, 1]]),
        matrix_run("joint", 0, KEEPS),
    )
    assert found["NN"] == "The floor: a plain network trained in sequence."
    assert found["EWC"].startswith("The class-incremental floor (1/2)")
    assert found["DGDMN"] == "23 % of the way from floor to ceiling."
    assert found["DGR"] == "As good as Joint (.990), which trains on all tasks together."
    assert found["SI"].startswith("It hardly learns (.30 right after a task)")
    assert found["LwF"] == "No better than the floor."
    assert found["Joint"].startswith("The ceiling")


def together(matrix_run, algorithm, acc):
    return matrix_run(algorithm, 0, [[acc, acc]], together=True)


def test_the_ceiling_is_the_best_of_the_ceilings(matrix_run):
    accs = {"joint": 0.1, "logistic": 0.9, "forest": 0.4}
    runs = [together(matrix_run, name, acc) for name, acc in accs.items()]
    stream = stream_of(matrix_run("dgdmn", 0, HALF), *runs)
    (_, main), (_, ceilings) = (
        find_bounds(stream, [group for group in stream.groups if group.is_ceiling is one])
        for one in (False, True)
    )
    assert main == ceilings
    assert (main[0], main[2].title) == (0.9, "Logistic regression")
    said = verdicts(*stream.runs)
    assert said["Logistic regression (all tasks together)"].startswith("The ceiling: it keeps")
    assert said["Joint (all tasks together)"].startswith("It keeps all rows")


def test_a_weak_ceiling_is_none(matrix_run):
    ours, low = matrix_run("dgdmn", 0, KEEPS), matrix_run("er", 0, [[0.6, 0], [0.3, 0.4]])
    equal = matrix_run("slda", 0, [[0.6, 0], [0.55, 0.55]])
    runs = [ours, low, equal, together(matrix_run, "joint", 0.555)]
    said = verdicts(*runs)
    assert said["DGDMN"] == "Better than Joint (.555), which trains on all tasks together."
    assert said["ER"] == "No better than the floor."
    assert said["SLDA"] == "As good as Joint (.555), which trains on all tasks together."
    assert said["Joint (all tasks together)"].startswith("It keeps all rows")
    bounds = {table["bounds"] for table in result_tables(stream_of(*runs))}
    assert bounds == {
        "Floor .500 (1/2: one of 2 tasks known). Joint reached .555, so it is not a ceiling here: "
        "DGDMN reached .990."
    }


def test_a_ceiling_at_the_floor_is_not_called_equal_if_a_method_is_above_both(matrix_run):
    runs = [matrix_run(name, 0, [[0.6, 0], [0.5, 0.5]]) for name in ("si", "joint")]
    assert "equal" in verdicts(*runs)["SI"]
    said = verdicts(*runs, matrix_run("dgdmn", 0, KEEPS))
    assert said["SI"] == "No better than the floor."
    assert said["DGDMN"].startswith("Better than Joint (.500)")


def test_as_good_as_needs_a_ceiling_and_a_small_difference(matrix_run):
    near = matrix_run("dgdmn", 0, [[1, 0], [0.99, 1]])
    assert verdicts(near)["DGDMN"] == "99 % of the way from floor to ceiling."
    said = verdicts(matrix_run("dgdmn", 0, [[1, 0], [0.95, 1]]), matrix_run("joint", 0, KEEPS))
    assert said["DGDMN"] == "97 % of the way from floor to ceiling."


def test_runs_that_have_not_ended(make):
    said = verdicts(make("a", steps=2), make("b", algorithm="nn", steps=0))
    assert said["DGDMN"].startswith("Not finished: .")
    assert said["DGDMN"].endswith("on the 2 of 4 tasks seen so far.")
    assert said["NN"] == "No task has been tested yet."


def test_all_tasks_together(matrix_run):
    assert verdicts(matrix_run("dgr", 0, [[0.9, 0.9]], together=True))["DGR"].startswith(
        "All tasks were learned at once"
    )


def test_equal_bounds(matrix_run):
    runs = [matrix_run(name, 0, KEEPS) for name in ("nn", "ewc", "joint")]
    assert verdicts(*runs)["EWC"].startswith("Floor and ceiling are equal")


def options(**changed):
    return {"options": {"kappa": 0, "n_stm": 2, **changed}, "changes": changed}


def test_the_effect_of_an_option_is_paired_by_seed(matrix_run):
    base = [
        matrix_run("dgdmn", seed, [[1, 0], [0, acc]], **options())
        for seed, acc in ((0, 0.6), (1, 0.8))
    ]
    changed = [
        matrix_run(
            "dgdmn", seed, [[1, 0], [0, acc]], **options(kappa=1), summary={"memory_bytes": 2e6}
        )
        for seed, acc in ((0, 0.4), (1, 0.4), (2, 0.9))
    ]
    better = matrix_run("dgdmn", 0, [[1, 0], [0.4, 0.6]], **options(n_stm=5))
    two = matrix_run("dgdmn", 0, HALF, **options(n_stm=5, kappa=1))
    worst, best = ablations(stream_of(*base, *changed, better, two))
    assert (worst["option"], worst["change"], worst["seeds"]) == ("kappa", "0 → 1", 2)
    assert worst["difference"] == "−.150 ± .050"
    assert worst["memory"] == [1e6, 2e6]
    assert (best["option"], best["difference"]) == ("n_stm", "+.200")


def test_times_of_two_machines_are_not_compared(matrix_run):
    base = matrix_run("dgdmn", 0, HALF, machine={"cores": 2}, **options())
    changed = matrix_run("dgdmn", 0, HALF, machine={"cores": 4}, **options(kappa=1))
    (line,) = ablations(stream_of(base, changed))
    assert all(map(math.isnan, line["seconds"]))


def test_a_number_that_is_unknown_is_left_out(matrix_run):
    ways = [options(), options(kappa=1)]
    runs = [
        matrix_run("dgr", seed, [[0.5, 0.5]], together=True, **way)
        for seed in (0, 1)
        for way in ways
    ]
    (line,) = ablations(stream_of(*runs))
    assert (line["acc"], line["bwt"], line["difference"]) == (".500 ± .000", "–", ".000 ± .000")


def test_an_option_that_changed_with_the_version_is_no_ablation(matrix_run):
    base = matrix_run("dgdmn", 0, HALF, **options())
    changed = matrix_run("dgdmn", 0, HALF, options={"kappa": 1, "n_stm": 7}, changes={"kappa": 1})
    assert ablations(stream_of(base, changed)) == []


def test_commands_repeat_a_run(make):
    run = make(
        "a",
        stream="my stream",
        algorithm="ewc",
        revise=[1, 2],
        together=True,
        evaluate_on="validation",
        device="cuda:0",
        changes={"ewc_coefficient": 5.0, "learner_layers": [8, 8], "code_buffer": False}
        | {"resample_dreams": True},
    )
    words = shlex.split(run_command(run))
    assert words == shlex.split(
        "dgdmn run 'my stream' --algorithm ewc --preset paper --seed 0 --ewc-coefficient 5.0 --learner-layers 8 8"
        " --no-code-buffer --resample-dreams"
        " --revise 1 2 --together --evaluate-on validation --device cuda:0"
    )


def test_differences_between_runs(make):
    runs = [
        make("a", seed=0, options={"kappa": 0.1}, note="x"),
        make("b", seed=1, options={"kappa": 0.2}, note="x"),
    ]
    data = configuration(stream_of(*runs))
    assert data["different"] == ["seed", "kappa"]
    assert data["rows"] == [("a", ["0", "0.1"]), ("b", ["1", "0.2"])]
    assert ("machine.cores", "2") in data["shared"]
    assert data["notes"] == ["x"]


def test_cost_adds_up(make):
    data = cost_section(stream_of(make("a"), make("b", algorithm="nn")))
    (nn, ours) = data["lines"]
    assert ours["total"] == 34.0
    assert ours["phases"] == [16.0, 6.0, 8.0, 4.0]
    phase, start, width = ours["bar"][-1]
    assert phase == "other"
    assert start + width == pytest.approx(1.0), "the longest bar is full"
    assert nn["total"] == 28.0


def test_time_and_replay_charts(make):
    stream = stream_of(make("a", options={"n_max": 500}))
    (line,) = time_panel(stream).lines
    assert list(line.y) == [4.0, 11.0, 15.0, 22.0]
    panel = replay_panel(stream)
    assert (list(panel.lines[0].x), list(panel.lines[0].y)) == ([2, 4], [400.0, 600.0])
    assert panel.level == (500.0, "N_max")
    assert curves(stream)["has_sleeps"]
    assert curves(stream)["has_ltm"]


def test_long_times_are_in_hours(matrix_run, monkeypatch):
    run = matrix_run("nn", 0, FORGETS)
    run.timeline.trained = (7200.0, 36000.0)
    panel = time_panel(stream_of(run))
    assert (panel.y_label, list(panel.lines[0].y)) == ("hours", [2.0, 10.0])


def test_many_matrices_show_the_lowest_seeds(matrix_run, monkeypatch):
    runs = [matrix_run("nn", seed, np.eye(6)) for seed in range(3)]
    assert len(heatmaps(stream_of(*runs))) == 3
    monkeypatch.setattr(section, "MAX_CELLS_IN_ALL", 100)
    assert len(heatmaps(stream_of(*runs))) == 1


def test_recognition_against_gamma(make):
    (panel,) = recognition_panels(
        stream_of(make("a", algorithm="dgdmn-recog", options={"gamma": 1.5})).groups
    )
    assert [line.y[0] for line in panel.lines] == [1.0, 2.0, 3.0, 4.0]
    assert panel.level == (1.5, "γ")
    assert panel.log
