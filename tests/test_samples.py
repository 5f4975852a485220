"""Samples, seeds and what the core tells."""

import copy

import pytest
import torch

from dgdmn.events import EpochDone, Replayed, SleepEnded, heard_in
from dgdmn.samples import Samples, concat
from dgdmn.seeds import Seeds


def make(n, start=0):
    return Samples(torch.arange(start, start + n).float().reshape(n, 1), torch.arange(start, start + n))


def test_lengths_must_match():
    with pytest.raises(ValueError, match="3 inputs but 2 labels"):
        Samples(torch.zeros(3, 1), torch.zeros(2))


def test_subsample_draws_without_replacement_and_keeps_pairs_together():
    drawn = make(10).subsample(6, Seeds(0).next())
    assert len(drawn) == 6
    assert len(set(drawn.y.tolist())) == 6
    assert torch.equal(drawn.x[:, 0].long(), drawn.y)
    assert not torch.equal(drawn.y, make(10).subsample(6, Seeds(1).next()).y)


def test_concat_keeps_order_and_copies_only_what_it_must():
    assert concat(make(2), make(3, 2)).y.tolist() == [0, 1, 2, 3, 4]
    alone = make(2)
    assert concat(alone, make(0)) is alone
    assert len(concat(make(0), make(0))) == 0


def test_classes_and_copy():
    samples = Samples(torch.zeros(3, 1), torch.tensor([2, 0, 2]))
    assert samples.classes() == {0, 2}
    assert copy.deepcopy(samples) is samples


def test_seeds_are_independent_repeatable_and_can_go_on():
    first = [torch.rand(2, generator=Seeds(3, used).next()).tolist() for used in range(3)]
    seeds = Seeds(3)
    assert [torch.rand(2, generator=seeds.next()).tolist() for _ in range(3)] == first
    assert len({str(numbers) for numbers in first}) == 3
    assert torch.rand(2, generator=Seeds(4).next()).tolist() not in first
    assert seeds.used == 3


def test_events_are_marked_with_their_memory():
    heard = []
    tell = heard_in("ltm", heard.append)
    events = (EpochDone("learner", 1, 2, 3, 0.5), Replayed(("a",), 1, 2, 3), SleepEnded(("a",)))
    for event in events:
        tell(event)
    assert [getattr(event, "memory", None) for event in heard] == ["ltm", "ltm", None]
    assert heard[2] is events[2]
