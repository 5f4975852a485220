"""Appendix A by hand: memories whose reconstruction losses are given."""

from types import SimpleNamespace

import pytest
import torch

from dgdmn.memory.dictionary import Entry, TaskDictionary
from dgdmn.memory.recognition import known_by, recognition_loss, share_out
from dgdmn.samples import Samples


def memory(losses, answer=0, classes=(0,)):
    tasks = TaskDictionary({"a": Entry(1, frozenset(classes))})
    return SimpleNamespace(
        generator=SimpleNamespace(reconstruction_loss=lambda x: torch.tensor(losses)[: len(x)]),
        tasks=tasks,
        probabilities=lambda x: torch.nn.functional.one_hot(torch.full((len(x),), answer), 3).float(),
    )


def test_loss_is_divided_by_ink_and_a_blank_image_counts_as_one_pixel():
    x = torch.tensor([[1.0, 1.0, 0.0], [0.5, 1.0, 1.0], [0.0, 0.0, 0.0], [0.25, 0.0, 0.0]])
    got = recognition_loss(memory([6.0, 5.0, 3.0, 2.0]), x)
    assert got.tolist() == pytest.approx([6 / 2, 5 / 2.5, 3.0, 2.0])


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


def test_each_sample_is_answered_by_the_memory_that_reconstructs_it_best():
    x = torch.ones(3, 2)
    shared = share_out(
        x, [memory([1.0, 5.0, 2.0], 0), memory([2.0, 1.0, 3.0], 1), memory([3.0, 2.0, 1.0], 2)]
    )
    assert shared.argmax(dim=1).tolist() == [0, 1, 2]
    assert share_out(x, [memory([9.0, 9.0, 9.0], 2)]).argmax(dim=1).tolist() == [2, 2, 2]
