"""Algorithm 1 against a readable account of what each network must be trained on."""

import pytest
import torch

from dgdmn.events import EpochDone, Replayed, ignore
from dgdmn.memory.dictionary import Entry
from dgdmn.memory.generative import GenerativeMemory
from dgdmn.memory.replay import softened
from dgdmn.networks.blueprint import Blueprint
from dgdmn.presets import Preset
from dgdmn.samples import Samples, concat
from dgdmn.seeds import Seeds

SHIFT = 0.25


@pytest.fixture
def memory(doubles):
    def make(shift=SHIFT, **options):
        made = doubles(shift)
        blueprint = Blueprint(Preset(**options), (2,), "cpu", made.generator, made.learner)
        return GenerativeMemory(blueprint, "ltm", 5, Seeds(0)), made.log

    return make


def learn(dgm, samples, *tasks, listen=ignore):
    dgm.learn(samples, {task: Entry(1, samples.classes()) for task in tasks}, Seeds(1), listen)


def pairs(samples):
    return sorted((x.tolist(), int(y)) for x, y in zip(samples.x, samples.y, strict=True))


def shifted(samples):
    return Samples(samples.x + SHIFT, samples.y)


def test_second_replay_trains_on_new_samples_and_dreams(memory, distinct):
    dgm, log = memory()
    first, second = distinct(0, 6, 0), distinct(100, 4, 1)
    learn(dgm, first, "a")
    learn(dgm, second, "b")
    assert [sorted(x[:, 0].tolist()) for x in log.trained("generator")] == [
        sorted(first.x[:, 0].tolist()),
        sorted(concat(first, second).x[:, 0].tolist()),
    ]
    at_first, then = log.trained("learner")
    assert pairs(at_first) == pairs(shifted(first))
    assert pairs(then) == pairs(concat(shifted(second), first)), "only the new ones are reconstructions"
    assert log.steps()[3:] == ["ltm dream", "ltm generator", "ltm reconstruct", "ltm learner"]


@pytest.mark.parametrize(
    ("option", "new_shift", "dream_shift"), [("new", SHIFT, 0), ("all", SHIFT, SHIFT), ("none", 0, 0)]
)
def test_what_is_reconstructed(memory, distinct, option, new_shift, dream_shift):
    dgm, log = memory(reconstructed=option)
    learn(dgm, distinct(0, 3, 0), "a")
    learn(dgm, distinct(100, 2, 1), "b")
    trained = log.trained("learner")[-1].x[:, 0]
    assert sorted(trained.tolist()) == [
        0 + dream_shift,
        1 + dream_shift,
        2 + dream_shift,
        100 + new_shift,
        101 + new_shift,
    ]
    plain = log.trained("generator")[-1][:, 0]
    assert sorted(plain.tolist()) == [0, 1, 2, 100, 101], "the generator never trains on reconstructions"


@pytest.mark.parametrize(("age", "ages"), [("seen", [6, 12, 18, 24]), ("letter", [6, 18, 42, 90])])
def test_age(doubles, distinct, age, ages):
    made = doubles()
    endless = EndlessGenerator()
    dgm = GenerativeMemory(
        Blueprint(Preset(age=age, n_max=10**6), (2,), "cpu", lambda *_: endless, made.learner),
        "ltm",
        5,
        Seeds(0),
    )
    got = []
    for task in range(4):
        learn(dgm, distinct(100 * task, 6, task), str(task))
        got.append(dgm.age)
    assert got == ages
    assert endless.asked == [0, *ages[:-1]], "line 4: as many dreams as the memory is old"


class EndlessGenerator:
    """Dreams as much as it is asked to."""

    def __init__(self):
        self.asked = []

    def fit(self, x, rng, listen):
        pass

    def sample(self, n, rng):
        self.asked.append(n)
        return torch.zeros(n, 2)

    def reconstruct(self, x):
        return x


def test_a_full_memory_subsamples_and_still_ages_by_what_it_saw(memory, distinct):
    dgm, log = memory(shift=0.0, n_max=10, kappa=0.3)
    learn(dgm, distinct(0, 8, 0), "a")
    heard = []
    learn(dgm, distinct(100, 8, 1), "b", listen=heard.append)  # half of ten each
    assert pairs(log.trained("learner")[-1])[:5] == pairs(distinct(0, 5, 0)), (
        "the double deals the first five"
    )
    new = [row for row in pairs(log.trained("learner")[-1]) if row[1] == 1]
    assert len(new) == 5
    assert len({row[0][0] for row in new}) == 5, "drawn without replacement"
    assert dgm.age == 16
    assert heard[-1] == Replayed(("b",), 5, 5, 16, (5,))


def test_letter_ages_by_what_it_trained_on(memory, distinct):
    dgm, _ = memory(n_max=10, age="letter")
    learn(dgm, distinct(0, 8, 0), "a")
    learn(dgm, distinct(100, 8, 1), "b")
    assert dgm.age == 8 + 10


@pytest.mark.parametrize(("per", "expected"), [("replay", 2), ("task", 6)])
def test_kappa_is_a_floor_for_a_replay_or_for_each_task(memory, distinct, per, expected):
    dgm, log = memory(n_max=20, kappa=0.1, kappa_per=per)
    dgm.age = 180
    dgm.generator.rows = torch.zeros(20, 2)
    learn(dgm, distinct(100, 9, 1), "a", "b", "c")  # 9 of 189 would be one
    assert sum(int(y) == 1 for y in log.trained("learner")[-1].y) == expected


@pytest.mark.parametrize("per", ["replay", "task"])
def test_kappa_is_the_same_floor_where_a_replay_has_one_task(memory, distinct, per):
    """As in DGR, so that its runs do not depend on it (`presets.idle`)."""
    dgm, log = memory(n_max=20, kappa=0.1, kappa_per=per)
    dgm.age = 180
    dgm.generator.rows = torch.zeros(20, 2)
    learn(dgm, distinct(100, 9, 1), "a")
    assert sum(int(y) == 1 for y in log.trained("learner")[-1].y) == 2


def test_kappa_per_task_never_exceeds_the_whole(memory, distinct):
    dgm, log = memory(n_max=4, kappa=0.5, kappa_per="task")
    dgm.age = 100
    learn(dgm, distinct(100, 9, 1), "a", "b", "c")
    assert len(log.trained("learner")[-1]) == 4


def test_dreams_carry_the_learners_labels(memory, distinct):
    dgm, _ = memory(shift=0.0)
    learn(dgm, concat(distinct(0, 3, 2), distinct(50, 2, 4)), "a")
    dreams = dgm.dream(5, Seeds(3))
    assert sorted(dreams.y.tolist()) == [2, 2, 2, 4, 4]


def test_dictionary_counts_encounters_and_unites_classes(memory, distinct):
    dgm, _ = memory()
    learn(dgm, distinct(0, 3, 0), "a")
    learn(dgm, distinct(10, 3, 1), "b")
    learn(dgm, distinct(20, 3, 2), "a")
    assert dict(dgm.tasks) == {"b": Entry(1, frozenset({1})), "a": Entry(2, frozenset({0, 2}))}
    assert dgm.tasks.with_classes(frozenset({2})) == "a"
    assert dgm.tasks.with_classes(frozenset({0, 1})) is None
    assert dgm.tasks.with_classes(frozenset()) == "a", "of several, the one met last"


def test_prediction_goes_by_way_of_the_reconstruction(memory, distinct):
    dgm, _ = memory(shift=100.0)
    dgm.learner.fit(concat(distinct(0, 1, 1), distinct(100, 1, 3)), None, ignore)
    assert dgm.probabilities(torch.tensor([[0.0, 1.0]])).argmax() == 3
    recalled = dgm.recall(torch.tensor([[0.0, 1.0]]))
    assert recalled.x.tolist() == [[100.0, 101.0]]
    assert recalled.y.tolist() == [3]


def test_the_listener_hears_epochs_then_the_replay(memory, distinct):
    dgm, _ = memory()
    heard = []
    learn(dgm, distinct(0, 3, 2), "a", listen=heard.append)
    assert [type(event) for event in heard] == [EpochDone, EpochDone, Replayed]
    assert heard[-1] == Replayed(("a",), 3, 0, 3, ())


def test_a_soft_label_is_partly_what_the_memory_believed():
    y, old = torch.tensor([2, 0, 1]), torch.tensor([False, True, True])
    believed = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    expected = [[0, 0, 1], [0.9, 0.1, 0.0], [0.0, 0.8, 0.2]]
    assert torch.allclose(softened(y, old, believed, 0.2), torch.tensor(expected)), (
        "new ones keep their labels"
    )


@pytest.mark.parametrize("latent_noise", [0.0, 1.0])
@pytest.mark.parametrize("soft_labels", [0.0, 0.5])
def test_a_class_that_just_came_has_no_say_in_what_the_past_was(monkeypatch, latent_noise, soft_labels):
    """New outputs have random weights, here such that they would win: dreams are labelled before they are there."""
    options = Preset(
        generator_layers=(8,), latent=2, learner_layers=(8,), learner_epochs=1, generator_epochs=1, batch_size=8,
        latent_noise=latent_noise, soft_labels=soft_labels,
    )  # fmt: skip
    dgm, heard, believed = GenerativeMemory(Blueprint(options, (2, 2)), "ltm", 2, Seeds(0)), [], []
    learn(dgm, Samples(torch.rand(20, 4), torch.arange(20) % 2), "a")
    grow = dgm.learner.grow

    def growing(n_classes, rng):
        grow(n_classes, rng)
        with torch.no_grad():
            dgm.learner.head.bias[2:] = 50.0

    def noticing(y, old, belief, share):
        believed.append(belief[old])
        return softened(y, old, belief, share)

    monkeypatch.setattr(dgm.learner, "grow", growing)
    monkeypatch.setattr("dgdmn.memory.replay.softened", noticing)
    monkeypatch.setattr("dgdmn.memory.generative.softened", noticing)
    dgm.n_classes = 4
    learn(dgm, Samples(torch.rand(20, 4), 2 + torch.arange(20) % 2), "b", listen=heard.append)
    (replayed,) = (event for event in heard if isinstance(event, Replayed))
    assert sum(replayed.dreamt) == 20
    assert len(replayed.dreamt) <= 2, "dreams are of classes that were met"
    assert bool(believed) == bool(soft_labels)
    assert all(not belief[:, 2:].any() for belief in believed)
    assert dgm.answers(torch.rand(3, 4)).shape == (3, 4)
