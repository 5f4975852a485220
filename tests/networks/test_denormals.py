"""Denormal numbers are zero while a memory computes, and only then."""

import numpy as np
import pytest
import torch

from dgdmn import DGDMN
from dgdmn.events import ignore
from dgdmn.memory.dictionary import Entry
from dgdmn.memory.generative import GenerativeMemory
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.denormals import are_flushed, flushed
from dgdmn.presets import Preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import tensors_in

able = torch.set_flush_denormal(False)  # whether this processor can
pytestmark = pytest.mark.skipif(not able, reason="this processor has no such mode")


def test_it_ends_as_it_began():
    assert not are_flushed()
    with flushed():
        assert are_flushed()
        with flushed():
            pass
        assert are_flushed(), "as it was before the inner one"
    assert not are_flushed()
    with pytest.raises(ZeroDivisionError), flushed():
        _ = 1 / 0
    assert not are_flushed()


def test_a_memory_learns_with_it_and_leaves_no_trace():
    seen = []
    model = DGDMN("quick", n_stm=1, listen=lambda _: seen.append(are_flushed()), threads=1)
    model.partial_fit(np.random.default_rng(0).random((20, 4)), np.arange(20) % 2)
    model.predict(np.zeros((2, 4)))
    assert seen
    assert all(seen)
    assert not are_flushed()


def test_no_weight_notices():
    """One class is learnt until its gradients vanish; squares of them are what becomes denormal."""
    options = Preset(
        generator_layers=(16,), latent=4, learner_layers=(8,), generator_epochs=40, learner_epochs=40, batch_size=8,
        momentum=0.9,
    )  # fmt: skip
    rows = (torch.rand(64, 36, generator=torch.Generator().manual_seed(0)) > 0.7).float()
    rows[:, :6] = 0

    def learnt():
        memory = GenerativeMemory(Blueprint(options, (6, 6)), "ltm", 10, Seeds(0))
        memory.learn(
            Samples(rows, torch.zeros(64, dtype=torch.long)),
            {"a": Entry(1, frozenset([0]))},
            Seeds(1),
            ignore,
        )
        return dict(tensors_in(memory.state()))

    plain = learnt()
    with flushed():
        fast = learnt()
    assert plain.keys() == fast.keys()
    assert all(torch.equal(plain[name], fast[name]) for name in plain)
