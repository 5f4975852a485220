"""Algorithm 1: the order of its steps and random draws, and what each network is trained on."""

import numpy as np
import pytest
import torch

from dgdmn.config import Config
from dgdmn.core.batch import Batch, concat
from dgdmn.core.events import Context, EpochDone, Replayed, ignore
from dgdmn.core.rng import SeedStream
from dgdmn.memory.generative import DeepGenerativeMemory
from dgdmn.memory.replay import replay
from dgdmn.memory.task_log import TaskInfo, TaskLog
from dgdmn.networks.factory import NetworkFactory

SHIFT = 0.25


class Recorder:
    """A memory that notes every step of Algorithm 1 and how many seeds were used before it."""

    def __init__(self, age=0):
        self.tasks, self._age, self.rng, self.steps = TaskLog(), age, SeedStream(3), []

    @property
    def age(self):
        return self._age

    @age.setter
    def age(self, value):
        self._age = value
        self.note("age", value)

    def note(self, step, *values):
        self.steps.append((step, self.rng.used, *values))

    def dream(self, n, rng):
        self.note("dream", n)
        rng.next()
        return Batch(torch.full((n, 1), -1.0), torch.arange(n) % 3)

    def train_generator(self, batch, new, ctx):
        self.note("generator", batch.x[:, 0].tolist(), new.x[:, 0].tolist(), list(self.tasks))
        ctx.rng.next()
        ctx.callback(EpochDone("generator", 1, 1, len(batch), 0.0))

    def train_learner(self, new, dreams, ctx, *, resample):
        self.note("learner", new.x[:, 0].tolist(), dreams.x[:, 0].tolist(), resample)
        ctx.callback(EpochDone("learner", 1, 1, len(new) + len(dreams), 0.0))

    def learn(self, n, *tasks, past=None, **options):
        events = []
        x = torch.arange(float(n))[:, None]
        new = Batch(x, torch.full((n,), 3))
        met = {task: TaskInfo(1, frozenset([3])) for task in tasks}
        ctx = Context(
            self.rng, lambda event: (self.note(type(event).__name__), events.append(event))
        )
        replay(self, new, met, Config(**options), ctx, past)
        return events


def test_every_step_in_order_when_everything_fits():
    memory = Recorder(age=4)
    events = memory.learn(3, "a", "b", n_max=100)
    assert memory.steps == [
        ("dream", 0, 4),  # lines 17-18; nothing is drawn before them
        ("age", 1, 7),  # 21
        ("generator", 1, [0, 1, 2, -1, -1, -1, -1], [0, 1, 2], ["a", "b"]),  # 22, after 19 and 20
        ("EpochDone", 2),
        ("learner", 2, [0, 1, 2], [-1, -1, -1, -1], False),  # 23-25
        ("EpochDone", 2),
        ("Replayed", 2),
    ]
    assert events[-1] == Replayed(("a", "b"), 3, 4, 7, (2, 1, 1))


def test_new_samples_are_drawn_before_the_dreams_when_there_are_too_many():
    memory = Recorder(age=12)
    memory.learn(8, "a", n_max=10)
    drawn = SeedStream(3).next()
    chosen = torch.randperm(8, generator=drawn)[:4].tolist()  # line 12, with the first seed
    assert memory.steps[0] == ("dream", 1, 6)
    assert memory.steps[2][2:4] == ([*chosen, *[-1] * 6], chosen)


def test_samples_of_the_past_replace_the_dreams():
    memory = Recorder(age=5)
    past = Batch(torch.arange(100.0, 105.0)[:, None], torch.zeros(5, dtype=torch.long))
    events = memory.learn(3, "a", past=past, n_max=6, resample_dreams=True)
    assert [step for step, *_ in memory.steps if step == "dream"] == []
    seeds = SeedStream(3)
    new = torch.randperm(3, generator=seeds.next())[:2].tolist()
    old = (100 + torch.randperm(5, generator=seeds.next())[:4]).tolist()
    assert memory.steps[3] == ("learner", 3, new, old, False), "known samples are not resampled"
    assert events[-1] == Replayed(("a",), 2, 4, 8, (4,))


@pytest.mark.parametrize("option", [True, False])
def test_dreams_may_be_drawn_again_only_with_the_option(option):
    memory = Recorder(age=2)
    memory.learn(2, "a", resample_dreams=option)
    assert memory.steps[4][-1] is option


@pytest.mark.parametrize(("age", "ages"), [("seen", [6, 12, 18, 24]), ("n_total", [6, 18, 42, 90])])
def test_age(age, ages):
    memory = Recorder()
    for task in range(4):
        memory.learn(6, str(task), age=age, n_max=10**6)
    assert [step[2] for step in memory.steps if step[0] == "age"] == ages
    dreams = [step[2] for step in memory.steps if step[0] == "dream"]
    assert dreams == [0, *ages[:-1]], "line 4: as many dreams as the memory is old"


def test_a_full_memory_ages_by_what_it_saw_or_trained_on():
    for age, expected in (("seen", 16), ("n_total", 18)):
        memory = Recorder(age=8)
        memory.learn(8, "a", age=age, n_max=10)
        assert memory.age == expected


@pytest.mark.parametrize(
    ("per", "tasks", "expected"),
    [("replay", "abc", 2), ("task", "abc", 6), ("replay", "a", 2), ("task", "a", 2)],
)
def test_kappa_is_a_floor_per_replay_or_per_task(per, tasks, expected):
    """With one task per replay, as in DGR, the option changes nothing (`AlgorithmInfo.unused`)."""
    memory = Recorder(age=180)
    events = memory.learn(9, *tasks, n_max=20, kappa=0.1, kappa_per=per)  # 9 of 189 is a share of 1
    assert (events[-1].n_tasks, events[-1].n_gen) == (expected, 20 - expected)


def test_kappa_per_task_is_at_most_everything():
    memory = Recorder(age=100)
    events = memory.learn(9, "a", "b", "c", n_max=4, kappa=0.5, kappa_per="task")
    assert (events[-1].n_tasks, events[-1].n_gen) == (4, 0)


# The deep generative memory, with networks that remember everything


@pytest.fixture
def memory(doubles):
    def make(shift=SHIFT, **options):
        made = doubles(shift)
        factory = NetworkFactory(Config(**options), (2,), "cpu", made.generator, made.learner)
        return DeepGenerativeMemory(factory, "ltm", 5, SeedStream(0)), made.log

    return make


def learn(dgm, batch, *tasks, callback=ignore):
    met = {task: TaskInfo(1, batch.classes()) for task in tasks}
    dgm.learn(batch, met, Context(SeedStream(1), callback))


def pairs(batch):
    return sorted((x.tolist(), int(y)) for x, y in zip(batch.x, batch.y, strict=True))


def test_a_second_replay_trains_on_new_samples_and_dreams(memory, distinct):
    dgm, log = memory()
    first, second = distinct(0, 6, 0), distinct(100, 4, 1)
    learn(dgm, first, "a")
    learn(dgm, second, "b")
    assert [sorted(x[:, 0].tolist()) for x in log.trained("generator")] == [
        first.x[:, 0].tolist(),
        concat(first, second).x[:, 0].tolist(),
    ]
    before, after = log.trained("learner")
    assert pairs(before) == pairs(Batch(first.x + SHIFT, first.y))
    new = Batch(second.x + SHIFT, second.y)
    assert pairs(after) == pairs(concat(new, first)), "only new samples are reconstructed"
    assert log.steps()[3:] == ["ltm dream", "ltm generator", "ltm reconstruct", "ltm learner"]


@pytest.mark.parametrize(
    ("option", "new_shift", "dream_shift"),
    [("new", SHIFT, 0), ("all", SHIFT, SHIFT), ("none", 0, 0)],
)
def test_reconstruct_inputs(memory, distinct, option, new_shift, dream_shift):
    dgm, log = memory(reconstruct_inputs=option)
    learn(dgm, distinct(0, 3, 0), "a")
    learn(dgm, distinct(100, 2, 1), "b")
    trained = log.trained("learner")[-1].x[:, 0].tolist()
    assert sorted(trained) == [
        *(row + dream_shift for row in (0, 1, 2)),
        *(row + new_shift for row in (100, 101)),
    ]
    generated = log.trained("generator")[-1][:, 0].tolist()
    assert sorted(generated) == [0, 1, 2, 100, 101], "the generator sees no reconstructions"


def test_dreams_have_the_labels_of_the_learner(memory, distinct):
    dgm, _ = memory(shift=0.0)
    learn(dgm, concat(distinct(0, 3, 2), distinct(50, 2, 4)), "a")
    assert sorted(dgm.dream(5, SeedStream(3)).y.tolist()) == [2, 2, 2, 4, 4]


def test_the_task_log_counts_and_unites(memory, distinct):
    dgm, _ = memory()
    for start, (task, label) in enumerate((("a", 0), ("b", 1), ("a", 2))):
        learn(dgm, distinct(10 * start, 3, label), task)
    expected = {"b": TaskInfo(1, frozenset({1})), "a": TaskInfo(2, frozenset({0, 2}))}
    assert dict(dgm.tasks) == expected
    assert list(dgm.tasks) == ["b", "a"], "the task learned last comes last"
    assert TaskLog.from_state(dgm.tasks.state()) == dgm.tasks
    assert dgm.tasks.with_classes(frozenset({2})) == "a"
    assert dgm.tasks.with_classes(frozenset({0, 1})) is None
    assert dgm.tasks.with_classes(frozenset()) == "a", "of several, the one learned last"


def test_adding_to_a_task_log_leaves_the_old_log_as_it_was():
    log = TaskLog({"a": TaskInfo(1, frozenset({0}))})
    more = log.add({"a": TaskInfo(2, frozenset({1})), "b": TaskInfo(1, frozenset({5}))})
    assert dict(log) == {"a": TaskInfo(1, frozenset({0}))}
    assert more["a"] == TaskInfo(3, frozenset({0, 1}))
    assert list(more) == ["a", "b"]


def test_predictions_use_the_reconstruction(memory, distinct):
    dgm, _ = memory(shift=100.0)
    x = np.array([[0.0, 1.0]], dtype=np.float32)
    both = concat(distinct(0, 1, 1), distinct(100, 1, 3))
    dgm.learner.fit(Batch(torch.from_numpy(both.x), torch.from_numpy(both.y)), None, ignore)
    assert dgm.predict_proba(x).argmax() == 3
    recalled = dgm.recall(x)
    assert recalled.x.tolist() == [[100.0, 101.0]]
    assert recalled.y.tolist() == [3]


def test_events_are_epochs_and_then_the_replay(memory, distinct):
    dgm, _ = memory()
    events = []
    learn(dgm, distinct(0, 3, 2), "a", callback=events.append)
    assert [type(event) for event in events] == [EpochDone, EpochDone, Replayed]
    assert events[-1] == Replayed(("a",), 3, 0, 3, (), memory="ltm")


@pytest.mark.parametrize("latent_noise", [0.0, 1.0])
def test_dreams_are_labeled_before_outputs_for_new_classes_exist(monkeypatch, latent_noise):
    """New outputs have random weights, here such that they would win every dream."""
    config = Config(
        generator_layers=(8,),
        latent_dim=2,
        learner_layers=(8,),
        learner_epochs=1,
        generator_epochs=1,
        batch_size=8,
        latent_noise=latent_noise,
    )
    dgm, events = DeepGenerativeMemory(NetworkFactory(config, (2, 2)), "ltm", 2, SeedStream(0)), []
    x = np.random.default_rng(0).random((20, 4), dtype=np.float32)
    learn(dgm, Batch(x, np.arange(20) % 2), "a")
    grow = type(dgm.learner).grow

    def grow_with_bias(learner, n_classes, rng):
        grow(learner, n_classes, rng)
        with torch.no_grad():
            learner.head.bias[2:] = 50.0

    monkeypatch.setattr(type(dgm.learner), "grow", grow_with_bias)
    dgm.grow(4)
    assert dgm.predict_proba(x)[:, 2:].tolist() == [[0, 0]] * 20, "probability 0 until it learns"
    learn(dgm, Batch(x, 2 + np.arange(20) % 2), "b", callback=events.append)
    (replayed,) = (event for event in events if isinstance(event, Replayed))
    assert sum(replayed.dreamed) == 20
    assert len(replayed.dreamed) <= 2, "dreams are of classes that were learned"
    assert dgm.predict_proba(x)[:, 2:].min() > 0.4
