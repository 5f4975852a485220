"""A plan must be the run: the same epochs of the same networks over as many samples."""

from dataclasses import replace

import numpy as np
import pytest

from dgdmn import NN
from dgdmn.algorithms import algorithm
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.config import Config, resolve
from dgdmn.config.registry import ALGORITHMS
from dgdmn.core.events import EpochDone
from dgdmn.runs.plan import plan_next, plan_stream, planned_work, training_work

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


def labels():
    """Tasks of one and two classes, one of which comes again; an uneven number for sleep."""
    ab = [("a", np.full(20, 0)), ("b", np.arange(30) % 2 + 1), ("c", np.full(9, 3))]
    return [*ab, ("a", np.full(12, 0)), ("d", np.full(17, 4))]


def epochs(*arguments):
    """Every epoch of a plan."""
    return [epoch for stage in plan_stream(*arguments) for epoch in stage.epochs]


def described(event):
    return event.network, event.memory, event.epoch, event.epochs, event.samples


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
@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "dgdmn-recog"])
def test_planned_epochs_are_those_of_the_run(name, changes):
    options = replace(TINY, **changes)
    events = []
    model = algorithm(name)(options, random_state=0, callback=events.append)
    rng = np.random.default_rng(0)
    for task, y in labels():
        model.partial_fit(rng.random((len(y), 5)), y, classes=range(5), task=task)
    if isinstance(model, GenerativeClassifier):
        model.sleep()
    run = [described(event) for event in events if isinstance(event, EpochDone)]
    stages = plan_stream(name, options, labels(), (5,))
    assert [described(epoch) for stage in stages for epoch in stage.epochs] == run
    assert len(run) > 9
    assert stages[-1].bytes == model.memory_bytes() or stages[-1].kind == "sleep"
    assert stages[0].steps == sum(-(-epoch.samples // 16) for epoch in stages[0].epochs)
    work = sum(stage.work for stage in stages)
    assert planned_work(name, options, labels(), (5,)) == pytest.approx(work)


@pytest.mark.parametrize("options", [{}, {"code_buffer": True, "prior_components": 3}])
@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "dgdmn-recog"])
def test_the_next_stages_of_a_model_are_what_it_does(name, options):
    events, rng = [], np.random.default_rng(0)
    model = algorithm(name)(
        replace(TINY, n_stm=3, **options), random_state=0, callback=events.append
    )
    for task, y in labels():
        model.partial_fit(rng.random((len(y), 5)), y, task=task)
    stages = plan_next(model, [25, 40])
    assert all(stage.bytes > 0 for stage in stages)
    events.clear()
    for number, size in ((7, 25), (8, 40)):
        model.partial_fit(rng.random((size, 5)), np.full(size, number), task=str(number))
    if isinstance(model, GenerativeClassifier):
        model.sleep()
    run = [described(event) for event in events if isinstance(event, EpochDone)]
    assert [described(epoch) for stage in stages for epoch in stage.epochs] == run


class Thinker(NN):
    """An algorithm of another package that refuses counting networks."""

    def partial_fit(self, X, y, classes=None, *, task=None):
        assert X.shape[1:] == (5,)
        return super().partial_fit(X, y, classes, task=task)


def test_an_algorithm_of_another_package_may_have_no_plan():
    assert planned_work(f"{__name__}:Thinker", TINY, labels(), (5,)) is None


def test_without_task_names_the_plan_assumes_that_tasks_are_recognized():
    tasks = [(str(number), np.full(20, number)) for number in range(4)]
    assert epochs("dgdmn-recog", TINY, tasks, (5,)) == epochs("dgdmn", TINY, tasks, (5,))


def test_cost_counts_multiplications():
    stm = EpochDone("generator", 1, 1, 10, 0.0, "stm")
    ltm = EpochDone("learner", 1, 1, 10, 0.0, "ltm")
    sizes = replace(TINY, sttm_generator_layers=(7, 6), sttm_latent_dim=3, learner_layers=(8, 4))
    assert training_work(stm, sizes, (5,)) == 2 * 10 * (5 * 7 + 7 * 6 + 6 * 3)
    assert training_work(ltm, sizes, (5, 2)) == 10 * (10 * 8 + 8 * 4)
    convolutional = replace(sizes, learner_convolutions=(3,))
    assert training_work(ltm, convolutional, (8, 8)) == 10 * (8 * 8 * 9 * 3 + 4 * 4 * 3 * 8 + 8 * 4)


def test_a_sleep_with_a_floor_trains_on_what_the_paper_says():
    """TDigits, scaled by 1/1000: sleep eight has 30 new samples and 210 old ones for a memory of 120."""
    options = replace(TINY, n_stm=5, n_max=120, kappa=0.05)
    tasks = [(str(number), np.full(6, number)) for number in range(40)]
    sleeps = [
        event.samples
        for event in epochs("dgdmn", options, tasks, (5,))
        if (event.network, event.memory, event.epoch) == ("learner", "ltm", 1)
    ]
    assert sleeps == [30, 60, 90, 120, 120, 120, 120, 120]


@pytest.mark.parametrize(
    ("stream", "tasks", "rows", "share"),
    [
        ("digits", 10, 6_000, 0.85),
        ("split-digits", 5, 12_000, 0.85),
        ("permnist", 6, 30_000, 0.95),
        ("tdigits", 40, 6_000, 1.0),
        ("shapes", 6, 4_500, 1.02),
        ("hindi", 8, 1_700, 1.45),
        ("embedded", 10, 144, 1.0),
    ],
)
def test_deep_needs_no_more_work_than_the_paper(stream, tasks, rows, share):
    """But on Hindi, whose dense products run faster than the paper's convolutions. Seconds: REPRODUCIBILITY.md."""
    shape = (32, 32) if stream == "hindi" else (28, 28)

    def products(name):
        options = resolve(name, stream)
        planned = epochs(
            "dgdmn", options, [(str(n), np.full(rows, n)) for n in range(tasks)], shape
        )
        return sum(training_work(epoch, options, shape) for epoch in planned)

    assert products("deep") <= share * products("paper")
