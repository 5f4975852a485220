"""Appendix A by hand: memories whose reconstruction losses are given."""

import math
from types import SimpleNamespace

import pytest
import torch

from dgdmn.memory.dictionary import Entry, TaskDictionary
from dgdmn.memory.generative import GenerativeMemory
from dgdmn.memory.recognition import answered, known_by, recognised
from dgdmn.networks.blueprint import Blueprint
from dgdmn.presets import Preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds


def memory(losses, answer=0, classes=(0,)):
    """Knows samples of two pixels of ink; their reconstruction losses are given."""
    return SimpleNamespace(
        recognition_loss=lambda x: torch.tensor(losses)[: len(x)] / 2,
        tasks=TaskDictionary({"a": Entry(1, frozenset(classes))}),
        probabilities=lambda x: torch.nn.functional.one_hot(torch.full((len(x),), answer), 3).float(),
    )


def test_loss_is_divided_by_ink_and_a_blank_image_counts_as_one_pixel(doubles):
    made = doubles()
    dgm = GenerativeMemory(Blueprint(Preset(), (3,), own_generator=made.generator, own_learner=made.learner),
                           "stm", 2, Seeds(0))  # fmt: skip
    dgm.generator.reconstruction_loss = lambda x: torch.tensor([6.0, 5.0, 3.0, 2.0])
    x = torch.tensor([[1.0, 1.0, 0.0], [0.5, 1.0, 1.0], [0.0, 0.0, 0.0], [0.25, 0.0, 0.0]])
    assert dgm.recognition_loss(x).tolist() == pytest.approx([6 / 2, 5 / 2.5, 3.0, 2.0])


@pytest.mark.parametrize(
    ("losses", "until_known", "trainings"),
    [([9.0, 9.0, 9.0], False, 1), ([9.0, 9.0, 9.0], True, 3), ([9.0, 1.0], True, 2), ([1.0], True, 1)],
)
def test_a_generator_is_trained_on_until_it_knows_its_samples_but_not_for_ever(
    doubles, distinct, losses, until_known, trainings
):
    made = doubles()
    blueprint = Blueprint(Preset(recog_trainings=3), (2,), own_generator=made.generator,
                          own_learner=made.learner, until_known=until_known)  # fmt: skip
    dgm = GenerativeMemory(blueprint, "stm", 2, Seeds(0))
    left = list(losses)
    dgm.recognition_loss = lambda x: torch.full((len(x),), left.pop(0))
    dgm.learn(distinct(1, 4, 1), {"a": Entry(1, frozenset([1]))}, Seeds(1), lambda event: None)
    assert made.log.steps().count("stm generator") == trainings


def test_the_best_memory_below_gamma_knows_the_task():
    new = Samples(torch.ones(2, 2), torch.zeros(2, dtype=torch.long))
    good, better, bad = memory([2.0, 4.0]), memory([2.0, 3.0]), memory([8.0, 8.0])
    assert known_by(new, [good, bad, better], 1.55) is better  # means 1.5, 4 and 1.25
    assert known_by(new, [good, bad], 1.55) is good
    assert known_by(new, [good, bad], 1.5) is None, "below γ, not at it"
    assert known_by(new, [], 1.55) is None


def test_a_memory_that_never_met_a_class_cannot_know_it():
    new = Samples(torch.ones(2, 2), torch.tensor([0, 1]))
    assert known_by(new, [memory([0.1, 0.1], classes=(0,))], 1.55) is None
    able = memory([1.0, 1.0], classes=(0, 1, 2))
    assert known_by(new, [memory([0.1, 0.1], classes=(0,)), able], 1.55) is able


def three():
    return [memory([1.0, 5.0, 6.0], 0), memory([2.0, 1.0, 6.0], 1), memory([3.2, 3.2, 6.0], 2)]


def test_each_sample_goes_to_the_memory_that_knows_it_best_else_to_the_long_term_memory():
    found = recognised(torch.ones(3, 2), three(), Preset(recognise_each="sample"))
    assert found.answers.tolist() == [0, 1, 2]
    assert found.known.tolist() == [True, True, False], "nobody is below γ: the last memory answers"
    assert found.losses.tolist() == [
        [0.5, 1.0, pytest.approx(1.6)],
        [2.5, 0.5, pytest.approx(1.6)],
        [3.0] * 3,
    ]


def test_a_batch_is_judged_as_one_task():
    found = recognised(torch.ones(2, 2), three(), Preset())  # means 1.5, .75 and 1.6
    assert found.answers.tolist() == [1, 1]
    assert found.known.tolist() == [True, True]
    stricter = recognised(torch.ones(2, 2), three(), Preset(gamma=0.75))
    assert stricter.answers.tolist() == [2, 2], "below γ, not at it"


def test_by_density_the_best_memory_answers_even_for_what_nobody_knows():
    options = Preset(gamma=0.1, recognise_each="sample", recognition="density")
    found = recognised(torch.ones(2, 2), three(), options)
    assert found.answers.tolist() == [0, 1]
    assert found.known.tolist() == [False, False]


def test_density_costs_a_latent_its_distance_and_grey_pixels_nothing():
    """By hand: a prior of one standard Gaussian, so −log p(z) is z² / 2 + log √2π."""
    options = Preset(generator_layers=(3,), latent=1, prior_components=1, recognition="density")
    dgm = GenerativeMemory(Blueprint(options, (2,)), "ltm", 2, Seeds(0))
    dgm.prior.restore({"labels": torch.tensor([0]), "weights": torch.ones(1), "means": torch.zeros(1, 1),
                       "roots": torch.ones(1, 1, 1)})  # fmt: skip
    x = torch.tensor([[1.0, 1.0], [0.5, 1.0]])
    dgm.generator.reconstruction_loss = lambda x: torch.tensor([6.0, 5.0])
    dgm.generator.posterior = lambda x: (torch.tensor([[0.0], [3.0]]), torch.ones(2, 1))
    half = 0.5 * math.log(2 * math.pi)
    expected = [(6 + half) / 2, (5 - math.log(2) + 4.5 + half) / 1.5]
    assert dgm.recognition_loss(x).tolist() == pytest.approx(expected)


def test_a_task_memory_has_a_prior_where_it_is_recognised_by_one():
    def components(**changes):
        blueprint = Blueprint(Preset(generator_layers=(3,), prior_components=50, **changes), (2,))
        priors = [GenerativeMemory(blueprint, role, 2, Seeds(0)).prior for role in ("ltm", "stm")]
        return [None if prior is None else prior.budget for prior in priors]

    assert components() == [50, None]
    assert components(recognition="density") == [50, 5]


def test_answers_come_from_the_memory_chosen():
    answers = answered(torch.ones(4, 2), three(), torch.tensor([2, 0, 1, 2]))
    assert answers.argmax(dim=1).tolist() == [2, 0, 1, 2]
