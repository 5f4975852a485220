"""Kept rows: what a byte holds, how many there is room for, and a memory that goes on after a restart."""

import copy

import numpy as np
import pytest
import torch

from dgdmn.algorithms import algorithm
from dgdmn.algorithms.exemplars import Exemplars, joined, room
from dgdmn.errors import UsageError
from dgdmn.events import ignore
from dgdmn.memory.dual import full_bytes
from dgdmn.networks.blueprint import Blueprint
from dgdmn.presets import Preset, preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds

KEEPERS = ["gem", "icarl", "er"]
TINY = Preset(learner_layers=(6,), learner_epochs=2, batch_size=8, exemplars=12, learning_rate=0.01)


def rows(n, label, seed):
    x = torch.rand(n, 5, generator=torch.Generator().manual_seed(seed))
    return Samples(x, torch.full((n,), label))


def test_every_byte_comes_back_exactly():
    x = torch.arange(256).float().reshape(8, 32) / 255
    kept = Exemplars.of(Samples(x, torch.arange(8) * 100))
    assert (kept.x.dtype, kept.y.dtype) == (torch.uint8, torch.int32)
    assert torch.equal(kept.samples().x, x)
    assert torch.equal(kept.x.flatten(), torch.arange(256).to(torch.uint8))
    assert kept.samples().y.tolist() == list(range(0, 800, 100))
    odd = Exemplars.of(rows(50, 1, seed=0)).samples().x - rows(50, 1, seed=0).x
    assert odd.abs().max() <= 0.5 / 255 + 1e-7, "any other value moves by half a step at most"


def test_parts_are_copies_in_order():
    both = joined(Exemplars.of(rows(4, 1, seed=0)), Exemplars.of(rows(3, 2, seed=1)))
    assert both.y.tolist() == [1, 1, 1, 1, 2, 2, 2]
    assert both.take(torch.tensor([6, 0])).y.tolist() == [2, 1]
    assert torch.equal(both.first(5).x, both.x[:5])
    assert both.first(5).x.untyped_storage().nbytes() == 25, "a view would keep the rest"
    assert len(both.first(99)) == 7
    assert copy.deepcopy(both) is both


@pytest.mark.parametrize("shape", [(6, 6), (36,)])
def test_the_room_is_that_of_dgdmns_memory(make, tasks, shape):
    given = [(X.reshape(-1, *shape), y) for X, y in tasks]
    model, grown = make("dgdmn", preset="arrays", n_stm=3), []
    for number in range(2):
        model.partial_fit(*given[number], classes=[0, 1, 2], task=str(number))
        grown.append(model.memory_bytes())
    full = grown[1] + (grown[1] - grown[0])  # the third task memory is as large as the second
    blueprint = Blueprint(model._options(), shape)
    assert full_bytes(blueprint, 3) == full
    assert room(blueprint, 3) == full // (36 + 4)
    X = np.repeat(given[0][0], 30, axis=0)
    for name in KEEPERS:
        kept = algorithm(name)(model._options(), random_state=0).fit(X, [0] * len(X))
        assert kept.exemplar_bytes() == min(len(X), room(blueprint, 1)) * (36 + 4)
        assert full_bytes(blueprint, 1) - 40 < kept.exemplar_bytes() <= full_bytes(blueprint, 1)


def test_the_room_takes_no_notice_of_own_networks_and_of_the_seeds_state():
    blueprint = Blueprint(preset("paper", "digits"), (28, 28))
    own = Blueprint(preset("paper", "digits"), (28, 28), own_learner=lambda *_: pytest.fail("not asked for"))
    before = torch.get_rng_state()
    assert room(blueprint, 10) == room(own, 10) == 6583
    assert room(Blueprint(TINY, (28, 28)), 10) == 12, "a number that was given is that number"
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", KEEPERS)
def test_no_room_for_one_row_is_refused(name):
    small = Preset(
        n_stm=1, generator_convolutions=(1,) * 6, generator_layers=(), latent=1, learner_layers=(1,),
        learner_convolutions=(1,) * 5, sttm_generator_convolutions=(1,) * 6, sttm_generator_layers=(), sttm_latent=1,
        sttm_learner_layers=(1,), sttm_learner_convolutions=(1,) * 5,
    )  # fmt: skip
    model = algorithm(name)(small, random_state=0)
    with pytest.raises(UsageError, match="exemplars is 0, and DGDMN's memory is smaller than one row"):
        model.fit(np.zeros((2, 128, 128)), [0, 0])
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize("name", KEEPERS)
@pytest.mark.parametrize("exemplars", [12, 0])
def test_a_restored_memory_goes_on_with_the_same_bits(name, exemplars):
    options = Preset(**{**vars(TINY), "exemplars": exemplars})
    begin, blueprint = algorithm(name)()._begin, Blueprint(options, (5,))
    memory = begin(blueprint, 2, Seeds(0))
    memory.learn("a", rows(20, 0, seed=0), Seeds(1), ignore)
    memory.learn("b", rows(20, 1, seed=1), Seeds(2), ignore)
    memory.grow(4)
    memory.learn("c", rows(20, 2, seed=2), Seeds(3), ignore)
    loaded = begin(blueprint, 4, Seeds(9))
    assert (loaded.state()["room"] > memory.state()["room"]) == (exemplars == 0), "four classes at once"
    loaded.restore(copy.deepcopy(memory.state()))
    assert loaded.state()["room"] == memory.state()["room"]
    x = rows(30, 0, seed=7).x
    for number, (task, label) in enumerate([(None, 3), ("a", 0), ("b", 2)]):
        assert torch.equal(memory.probabilities(x, None), loaded.probabilities(x, None))
        for each in (memory, loaded):
            each.learn(task, rows(15, label, seed=10 + number), Seeds(20 + number), ignore)
    assert torch.equal(memory.probabilities(x, None), loaded.probabilities(x, None))


@pytest.mark.parametrize("name", KEEPERS)
def test_the_rows_kept_are_counted_and_never_too_many(name, make, tasks):
    model = make(name, exemplars=10)
    for number, (X, y) in enumerate([*tasks, tasks[0]]):
        model.partial_fit(X, y, task=str(number % 3))
        kept = {"gem": 10 // min(number + 1, 3), "icarl": 10 // min(number + 1, 3), "er": 10}[name]
        kept *= 1 if name == "er" else min(number + 1, 3)
        assert model.exemplar_bytes() == kept * (36 + 4)
        weights = sum(p.numel() * 4 for p in model.learnt_.memory.learner.parameters())
        assert model.memory_bytes() == weights + model.exemplar_bytes()
