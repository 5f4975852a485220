"""Kept rows: what a byte stores, how many fit, and a memory that continues after a restart."""

import copy

import numpy as np
import pytest
import torch

from dgdmn.algorithms import algorithm
from dgdmn.algorithms.exemplars import Exemplars, exemplar_capacity
from dgdmn.config import Config, resolve
from dgdmn.core.batch import Batch, concat
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.runtime import as_tensors
from dgdmn.storage import bytes_in

KEEP_ROWS = ["gem", "icarl", "er"]
TINY = {
    "learner_layers": (6,),
    "learner_epochs": 2,
    "batch_size": 8,
    "exemplars": 12,
    "learning_rate": 0.01,
}


def rows(n, label, seed):
    x = np.random.default_rng(seed).random((n, 5), dtype=np.float32)
    return Batch(x, np.full(n, label))


def exemplars(n, label, seed):
    return Exemplars.from_batch(as_tensors(rows(n, label, seed), "cpu"))


def test_every_byte_comes_back_exactly():
    x = torch.arange(256).float().reshape(8, 32) / 255
    kept = Exemplars.from_batch(Batch(x, torch.arange(8) * 100))
    assert (kept.x.dtype, kept.y.dtype) == (torch.uint8, torch.int32)
    assert torch.equal(kept.to_batch().x, x)
    assert torch.equal(kept.x.flatten(), torch.arange(256).to(torch.uint8))
    assert kept.to_batch().y.tolist() == list(range(0, 800, 100))
    error = exemplars(50, 1, seed=0).to_batch().x.numpy() - rows(50, 1, seed=0).x
    assert np.abs(error).max() <= 0.5 / 255 + 1e-7, "other values move by at most half a step"


def test_parts_are_copies_in_order():
    both = concat(exemplars(4, 1, seed=0), exemplars(3, 2, seed=1))
    assert both.y.tolist() == [1, 1, 1, 1, 2, 2, 2]
    assert both[torch.tensor([6, 0])].y.tolist() == [2, 1]
    assert torch.equal(both.first(5).x, both.x[:5])
    assert both.first(5).x.untyped_storage().nbytes() == 25, "a view would keep the other rows"
    assert len(both.first(99)) == 7
    assert copy.deepcopy(both) is both
    again = Exemplars.from_state(both.state(), 5, 3)
    assert torch.equal(again.x, both.x)
    assert torch.equal(again.y, both.y)


@pytest.mark.parametrize("shape", [(6, 6), (36,)])
def test_the_default_capacity_is_the_bytes_of_dgdmns_memory(make, tasks, shape):
    given = [(X.reshape(-1, *shape), y) for X, y in tasks]
    model, used = make("dgdmn", preset="paper", n_stm=3), []
    for number in range(2):
        model.partial_fit(*given[number], classes=[0, 1, 2], task=str(number))
        used.append(bytes_in(model.fitted_.memory.state()))
    full = used[1] + (used[1] - used[0])  # the third task memory is as large as the second
    assert model.memory_bytes() == full
    config = model.info().config
    factory = NetworkFactory(config, shape)
    assert exemplar_capacity(factory, 3) == full // (36 + 4)
    X = np.repeat(given[0][0], 30, axis=0)
    for name in KEEP_ROWS:
        kept = algorithm(name)(config, random_state=0).fit(X, [0] * len(X))
        assert kept.exemplar_bytes() == min(len(X), exemplar_capacity(factory, 1)) * (36 + 4)


def test_the_capacity_ignores_own_networks_and_draws_no_global_random_numbers():
    config = resolve("paper", "digits")
    own = NetworkFactory(config, (28, 28), own_learner=lambda *_: pytest.fail("not needed"))
    before = torch.get_rng_state()
    assert exemplar_capacity(NetworkFactory(config, (28, 28)), 10) == 6583
    assert exemplar_capacity(own, 10) == 6583
    assert exemplar_capacity(NetworkFactory(Config(**TINY), (28, 28)), 10) == 12, "as given"
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", KEEP_ROWS)
def test_a_capacity_below_one_row_is_refused(name):
    small = Config(
        n_stm=1,
        generator_convolutions=(1,) * 6,
        generator_layers=(),
        latent_dim=1,
        learner_layers=(1,),
        learner_convolutions=(1,) * 5,
        sttm_generator_convolutions=(1,) * 6,
        sttm_generator_layers=(),
        sttm_latent_dim=1,
        sttm_learner_layers=(1,),
        sttm_learner_convolutions=(1,) * 5,
    )
    model = algorithm(name)(small, random_state=0)
    with pytest.raises(UsageError, match="DGDMN's memory is smaller than one row; set exemplars"):
        model.fit(np.zeros((2, 128, 128)), [0, 0])
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize("name", KEEP_ROWS)
@pytest.mark.parametrize("capacity", [12, 0])
def test_a_loaded_memory_learns_the_same(name, capacity):
    factory = NetworkFactory(Config(**{**TINY, "exemplars": capacity}), (5,))
    new_memory = algorithm(name)()._new_memory
    memory = new_memory(factory, 2, SeedStream(0))
    memory.learn("a", rows(20, 0, seed=0), Context(SeedStream(1)))
    memory.learn("b", rows(20, 1, seed=1), Context(SeedStream(2)))
    memory.grow(4)
    memory.learn("c", rows(20, 2, seed=2), Context(SeedStream(3)))
    loaded = new_memory(factory, 4, SeedStream(9))
    more = loaded.state()["capacity"] > memory.state()["capacity"]
    assert more == (capacity == 0), "four classes from the start"
    loaded.load_state(copy.deepcopy(memory.state()))
    assert loaded.state()["capacity"] == memory.state()["capacity"]
    x = rows(30, 0, seed=7).x
    for number, (task, label) in enumerate([(None, 3), ("a", 0), ("b", 2)]):
        assert np.array_equal(memory.predict_proba(x, None), loaded.predict_proba(x, None))
        for each in (memory, loaded):
            ctx = Context(SeedStream(20 + number))
            each.learn(task, rows(15, label, seed=10 + number), ctx)
    assert np.array_equal(memory.predict_proba(x, None), loaded.predict_proba(x, None))


@pytest.mark.parametrize("name", KEEP_ROWS)
def test_kept_rows_are_counted_and_never_exceed_the_capacity(name, make, tasks):
    model = make(name, exemplars=10)
    for number, (X, y) in enumerate([*tasks, tasks[0]]):
        model.partial_fit(X, y, task=str(number % 3))
        n_tasks = min(number + 1, 3)
        kept = 10 if name == "er" else 10 // n_tasks * n_tasks
        assert model.exemplar_bytes() == kept * (36 + 4)
        weights = sum(p.numel() * 4 for p in model.fitted_.memory.learner.parameters())
        assert model.memory_bytes() == weights + model.exemplar_bytes()
