"""Appendix A by hand: memories whose reconstruction losses are given."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.memory.generative import DeepGenerativeMemory
from dgdmn.memory.recognition import find_memory, predict_by, recognize
from dgdmn.memory.task_log import TaskInfo, TaskLog
from dgdmn.networks.factory import NetworkFactory


def memory(losses, answer=0, classes=(0,)):
    """Samples have two bright pixels; their reconstruction losses are given."""
    return SimpleNamespace(
        recognition_loss=lambda x: np.array(losses)[: len(x)] / 2,
        tasks=TaskLog({"a": TaskInfo(1, frozenset(classes))}),
        predict_proba=lambda x: np.eye(3)[np.full(len(x), answer)],
    )


def test_the_loss_is_divided_by_intensity_and_a_blank_image_counts_as_one_pixel(doubles):
    made = doubles()
    factory = NetworkFactory(Config(), (3,), "cpu", made.generator, made.learner)
    dgm = DeepGenerativeMemory(factory, "stm", 2, SeedStream(0))
    dgm.generator.reconstruction_loss = lambda x: torch.tensor([6.0, 5.0, 3.0, 2.0])
    x = np.array([[1, 1, 0], [0.5, 1, 1], [0, 0, 0], [0.25, 0, 0]], dtype=np.float32)
    assert dgm.recognition_loss(x).tolist() == pytest.approx([6 / 2, 5 / 2.5, 3.0, 2.0])


@pytest.mark.parametrize(
    ("losses", "until_known", "trainings"),
    [([], False, 1), ([9.0, 9.0, 9.0], True, 3), ([9.0, 1.0], True, 2), ([1.0], True, 1)],
)
def test_a_generator_is_trained_until_it_knows_its_samples_at_most_three_times(
    doubles, distinct, losses, until_known, trainings
):
    made, left = doubles(), list(losses)
    config = Config(recog_trainings=3)
    factory = NetworkFactory(config, (2,), "cpu", made.generator, made.learner)
    dgm = DeepGenerativeMemory(factory, "stm", 2, SeedStream(0), until_known=until_known)
    dgm._recognition_loss = lambda x: torch.full((len(x),), left.pop(0))
    dgm.learn(distinct(1, 4, 1), {"a": TaskInfo(1, frozenset([1]))}, Context(SeedStream(1)))
    assert made.log.steps().count("stm generator") == trainings
    assert left == [], "asked after each training, and not if there is only one"


def test_the_best_memory_below_gamma_knows_the_task():
    new = Batch(np.ones((2, 2)), np.zeros(2, dtype=int))
    good, better, bad = memory([2.0, 4.0]), memory([2.0, 3.0]), memory([8.0, 8.0])
    assert find_memory(new, [good, bad, better], 1.55) is better  # means 1.5, 4 and 1.25
    assert find_memory(new, [good, bad], 1.55) is good
    assert find_memory(new, [good, bad], 1.5) is None, "below γ, not at it"
    assert find_memory(new, [], 1.55) is None


def test_a_memory_that_never_met_a_class_cannot_know_it():
    new = Batch(np.ones((2, 2)), np.array([0, 1]))
    assert find_memory(new, [memory([0.1, 0.1], classes=(0,))], 1.55) is None
    able = memory([1.0, 1.0], classes=(0, 1, 2))
    assert find_memory(new, [memory([0.1, 0.1], classes=(0,)), able], 1.55) is able


def three():
    return [memory([1.0, 5.0, 6.0], 0), memory([2.0, 1.0, 6.0], 1), memory([3.2, 3.2, 6.0], 2)]


def test_each_sample_goes_to_the_memory_that_knows_it_best_else_to_the_long_term_memory():
    found = recognize(np.ones((3, 2)), three(), Config(recognize_per="sample"))
    assert found.chosen.tolist() == [0, 1, 2]
    assert found.known.tolist() == [True, True, False], "none is below γ: the last memory answers"
    assert found.losses == pytest.approx(np.array([[0.5, 1, 1.6], [2.5, 0.5, 1.6], [3, 3, 3]]))


def test_a_batch_is_judged_as_one_task():
    found = recognize(np.ones((2, 2)), three(), Config())  # means 1.5, .75 and 1.6
    assert found.chosen.tolist() == [1, 1]
    assert found.known.tolist() == [True, True]
    stricter = recognize(np.ones((2, 2)), three(), Config(gamma=0.75))
    assert stricter.chosen.tolist() == [2, 2], "below γ, not at it"


def test_with_density_the_best_memory_answers_even_above_gamma():
    config = Config(gamma=0.1, recognize_per="sample", recognition="density")
    found = recognize(np.ones((2, 2)), three(), config)
    assert found.chosen.tolist() == [0, 1]
    assert found.known.tolist() == [False, False]


def test_density_adds_the_distance_of_a_latent_and_subtracts_the_entropy_of_gray_pixels():
    """By hand: a prior of one standard Gaussian, so −log p(z) is z² / 2 + log √2π."""
    config = Config(generator_layers=(3,), latent_dim=1, prior_components=1, recognition="density")
    dgm = DeepGenerativeMemory(NetworkFactory(config, (2,)), "ltm", 2, SeedStream(0))
    standard = {
        "labels": torch.tensor([0]),
        "weights": torch.ones(1),
        "means": torch.zeros(1, 1),
        "roots": torch.ones(1, 1, 1),
    }
    dgm.prior = dgm.prior.with_state(standard, 9)
    dgm.generator.reconstruction_loss = lambda x: torch.tensor([6.0, 5.0])
    dgm.generator.encode = lambda x: (torch.tensor([[0.0], [3.0]]), torch.ones(2, 1))
    half = 0.5 * math.log(2 * math.pi)
    expected = [(6 + half) / 2, (5 - math.log(2) + 4.5 + half) / 1.5]
    x = np.array([[1.0, 1.0], [0.5, 1.0]], dtype=np.float32)
    assert dgm.recognition_loss(x).tolist() == pytest.approx(expected)


def test_a_task_memory_has_a_prior_only_if_it_is_recognized_by_one():
    def components(**changes):
        config = Config(generator_layers=(3,), prior_components=50, **changes)
        factory = NetworkFactory(config, (2,))
        priors = [
            DeepGenerativeMemory(factory, role, 2, SeedStream(0)).prior for role in ("ltm", "stm")
        ]
        return [None if prior is None else prior.budget for prior in priors]

    assert components() == [50, None]
    assert components(recognition="density") == [50, 5]


def test_each_sample_is_answered_by_its_chosen_memory():
    answers = predict_by(np.ones((4, 2)), three(), np.array([2, 0, 1, 2]))
    assert answers.argmax(axis=1).tolist() == [2, 0, 1, 2]
