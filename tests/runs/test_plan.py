"""A plan must be the run: as many samples, steps and bytes in each stage."""

import time
from dataclasses import fields, replace

import numpy as np
import pytest

from dgdmn.algorithms import algorithm
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.config import Config
from dgdmn.config.registry import ALGORITHMS
from dgdmn.core.errors import UsageError
from dgdmn.core.events import EpochDone, SleepStarted
from dgdmn.runs.plan import plan_next, plan_stream, planned_steps

TINY = Config(
    n_stm=2,
    n_max=50,
    kappa=0.1,
    learner_layers=(4,),
    generator_layers=(4,),
    latent_dim=2,
    sttm_learner_layers=(4,),
    sttm_generator_layers=(4,),
    sttm_latent_dim=2,
    generator_epochs=3,
    learner_epochs=2,
    joint_epochs=4,
    batch_size=16,
    ppr_memory=70,
)

PLANNED = [n for n, info in ALGORITHMS.items() if not info.closed_form and n != "dgdmn-recog"]
"""Algorithms that train networks, and by task names."""


def labels():
    """Tasks of one and two classes, one of which comes again; an uneven number for sleep."""
    ab = [("a", np.full(20, 0)), ("b", np.arange(30) % 2 + 1), ("c", np.full(9, 3))]
    return [*ab, ("a", np.full(12, 0)), ("d", np.full(17, 4))]


def run_stages(model, tasks):
    """Learn and sleep; the kind, samples and steps of each stage, from the events of the run."""
    stages = []

    def note(event):
        if isinstance(event, SleepStarted):
            stages.append(["sleep", 0, 0])
        elif isinstance(event, EpochDone):
            stages[-1][1] = max(stages[-1][1], event.samples)
            stages[-1][2] += -(-event.samples // 16)

    model.callback, rng = note, np.random.default_rng(0)
    for task, y in tasks:
        stages.append(["learn", 0, 0])
        model.partial_fit(rng.random((len(y), 5)), y, task=task)
    if isinstance(model, GenerativeClassifier):
        model.sleep()
    return stages


def described(stages):
    return [[stage.kind, stage.samples, stage.steps] for stage in stages]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"age": "n_total"},
        {"min_steps": 7, "n_stm": 3},
        {"n_max": 1000, "n_classes": 9},
        {"kappa": 0.5, "kappa_per": "task"},
        {"n_stm": 1, "sttm_min_steps": 40},
    ],
)
@pytest.mark.parametrize("name", PLANNED)
def test_planned_stages_are_those_of_the_run(name, changes):
    options = replace(TINY, **{"n_classes": 5, **changes})
    model = algorithm(name)(options, random_state=0)
    run = run_stages(model, labels())
    stages = plan_stream(name, options, labels(), (5,))
    # Classes or tasks that share exemplars evenly leave some of them unused.
    close = 0.1 if ALGORITHMS[name].exemplars else 0
    for planned, done in zip(described(stages), run, strict=True):
        assert planned[0] == done[0]
        assert planned[1:] == pytest.approx(done[1:], rel=close)
    assert stages[-1].bytes == pytest.approx(model.memory_bytes(), rel=close or 0.02)
    assert planned_steps(name, options, labels(), (5,)) == sum(steps for *_, steps in run)


@pytest.mark.parametrize("options", [{}, {"code_buffer": True, "prior_components": 3}])
@pytest.mark.parametrize("name", PLANNED)
def test_the_next_stages_of_a_model_are_what_it_does(name, options):
    model = algorithm(name)(replace(TINY, n_stm=3, **options), random_state=0)
    rng = np.random.default_rng(0)
    for task, y in labels():
        model.partial_fit(rng.random((len(y), 5)), y, task=task)
    stages = plan_next(model, [25, 40])
    assert all(stage.bytes > 0 for stage in stages)
    new = [("7", np.full(25, 7)), ("8", np.full(40, 8))]
    assert described(stages) == run_stages(model, new)


@pytest.mark.parametrize("name", PLANNED)
def test_a_plan_takes_no_time_whatever_the_numbers(name):
    """A forged memory states any numbers; a plan of them is made at once, or refused in one line."""
    names = ("generator_epochs", "learner_epochs", "joint_epochs", "min_steps", "n_max")
    ranges = {field.name: field.metadata["range"] for field in fields(Config) if field.metadata}
    huge = {name: min(ranges[name][1], 10**12) for name in names}
    model = algorithm(name)(replace(TINY, n_classes=9), random_state=0)
    for task, y in labels():
        model.partial_fit(np.random.default_rng(0).random((len(y), 5)), y, task=task)
    began = time.monotonic()
    model.fitted_.config = replace(TINY, n_classes=9, **huge)
    for rows in (20, 10**12):
        (first, *_) = plan_next(model, [rows])
        assert first.steps >= huge["learner_epochs"]
    with pytest.raises(UsageError, match="can be planned"):
        plan_next(model, [1] * 10_000)
    assert time.monotonic() - began < 1


def test_a_forged_age_is_planned_or_refused():
    model = algorithm("dgdmn")(TINY, random_state=0)
    for task, y in labels()[:3]:
        model.partial_fit(np.random.default_rng(0).random((len(y), 5)), y, task=task)
    memory = model.fitted_.memory
    memory.ltm.age = 10**9
    for held in memory.stm.awake:
        held.memory.age = held.memory.n_seen = 10**9
    assert max(stage.samples for stage in plan_next(model, [20])) == TINY.n_max


@pytest.mark.parametrize("name", [n for n, info in ALGORITHMS.items() if info.closed_form])
def test_what_reads_each_row_once_has_no_plan(name):
    options = TINY
    title = ALGORITHMS[name].title
    message = f"^{title} reads each row once; there are no epochs to plan$"
    with pytest.raises(UsageError, match=message):
        plan_stream(name, options, labels(), (5,))
    assert planned_steps(name, options, labels(), (5,)) is None
    model = algorithm(name)(options, random_state=0)
    model.partial_fit(np.random.default_rng(0).random((20, 5)), np.arange(20) % 2, task="a")
    with pytest.raises(UsageError, match=message):
        plan_next(model, [25])


@pytest.mark.parametrize("name", [n for n, info in ALGORITHMS.items() if info.generative])
def test_a_mixture_memory_is_planned_without_epochs(name):
    options = replace(TINY, generator="mixture")
    assert planned_steps(name, options, labels(), (5,)) is None
    stages = plan_stream(name, options, labels(), (5,))
    assert sum(stage.samples for stage in stages) == sum(len(y) for _, y in labels())
    assert all(0 < stage.bytes <= options.memory_budget for stage in stages)


@pytest.mark.parametrize("budget", [8_000_000, 1_450_000, 800_000])
def test_a_mixture_memory_has_the_planned_bytes(budget):
    """Budgets for all in float64, for all in float32, and for less."""
    options = replace(TINY, generator="mixture", memory_budget=budget)
    tasks = [(str(n), np.full(20, n)) for n in range(8)]
    stages = plan_stream("dgdmn", options, tasks, (300,))
    planned = iter([stage.bytes for stage in stages if stage.kind == "learn"])
    model, rng = algorithm("dgdmn")(options, random_state=0), np.random.default_rng(0)
    for n, (task, y) in enumerate(tasks):
        expected = plan_next(model, [20])[0].bytes if n else None
        model.partial_fit(rng.random((20, 300)), y, task=task)
        found = pytest.approx(model.memory_bytes(), rel=0.02 if budget == 800_000 else 1e-9)
        assert next(planned) == found
        assert expected in (None, found)


def test_an_algorithm_of_another_package_has_no_plan():
    assert planned_steps("package.module:Thinker", TINY, labels(), (5,)) is None


def test_without_task_names_the_plan_assumes_that_tasks_are_recognized():
    tasks = [(str(number), np.full(20, number)) for number in range(4)]
    plans = [plan_stream(name, TINY, tasks, (5,)) for name in ("dgdmn-recog", "dgdmn")]
    assert described(plans[0]) == described(plans[1])


def test_a_sleep_with_a_floor_trains_on_what_the_paper_says():
    """TDigits, scaled by 1/1000: sleep eight has 30 new samples and 210 old ones for a memory of 120."""
    options = replace(TINY, n_stm=5, n_max=120, kappa=0.05)
    tasks = [(str(number), np.full(6, number)) for number in range(40)]
    stages = plan_stream("dgdmn", options, tasks, (5,))
    sleeps = [stage.samples for stage in stages if stage.kind == "sleep"]
    assert sleeps == [30, 60, 90, 120, 120, 120, 120, 120]
