"""ER: every row is equally likely to be in the reservoir, and half of each batch comes from it."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from dgdmn.algorithms.exemplars import Exemplars, _ReservoirNetwork, reservoir_rows
from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.runtime import as_tensors


def reservoir(parts, size, rng):
    """Numbers of the rows kept of a stream that comes in parts."""
    kept, seen = [], 0
    for n in parts:
        pool = [*kept, *range(seen, seen + n)]
        kept = [pool[row] for row in reservoir_rows(len(kept), n, seen, size, rng).tolist()]
        seen += n
    return kept


def test_every_row_is_equally_likely_to_be_kept():
    rng, counts, trials = torch.Generator().manual_seed(0), np.zeros(20), 6000
    for _ in range(trials):
        counts[reservoir([7, 1, 12], 4, rng)] += 1
    spread = np.sqrt(trials * 0.2 * 0.8)
    assert np.abs(counts - trials * 0.2).max() < 4 * spread
    assert (counts - trials * 0.2).std() < 1.5 * spread


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 15), st.integers(0, 99))
def test_a_reservoir_never_exceeds_its_size_and_keeps_all_rows_that_fit(parts, size, seed):
    kept = reservoir(parts, size, torch.Generator().manual_seed(seed))
    assert len(kept) == len(set(kept)) == min(size, sum(parts))
    if sum(parts) <= size:
        assert kept == list(range(sum(parts)))


@pytest.fixture
def memory():
    config = Config(learner_layers=(6,), learner_epochs=2, batch_size=8, exemplars=6)
    return _ReservoirNetwork(NetworkFactory(config, (5,)), 3, SeedStream(0))


def rows(n, label):
    x = np.random.default_rng(label).integers(0, 256, (n, 5)).astype(np.float32) / 255
    return Batch(x, np.full(n, label))


def test_the_loss_is_the_mean_over_a_batch_and_as_many_old_rows(memory):
    memory.learn("a", rows(20, 0), Context(SeedStream(1)))
    old, new = memory._reservoir.to_batch(), as_tensors(rows(4, 1), "cpu")
    loss = memory._loss(new.x, new.y, torch.Generator().manual_seed(3))
    drawn = torch.randint(6, (4,), generator=torch.Generator().manual_seed(3))
    halves = [(new.x, new.y), (old.x[drawn], old.y[drawn])]
    each = [F.cross_entropy(memory.learner(x), y, reduction="none") for x, y in halves]
    assert [len(part) for part in each] == [4, 4]
    torch.testing.assert_close(loss, torch.cat(each).mean())


def test_rows_enter_the_reservoir_after_their_task(memory):
    memory.learn("a", rows(20, 0), Context(SeedStream(1)))
    held = []

    def note(event):
        held.append(memory.state()["rows"]["y"].tolist())

    memory.learn("b", rows(30, 1), Context(SeedStream(2), note))
    assert held == [[0] * 6] * 2
    state = memory.state()
    assert 1 in state["rows"]["y"]
    assert state["seen"] == 50
    everything = [
        row
        for part in (rows(20, 0), rows(30, 1))
        for row in Exemplars.from_batch(as_tensors(part, "cpu")).x.tolist()
    ]
    assert all(row in everything for row in state["rows"]["x"].tolist())


def test_the_first_task_is_learned_as_by_nn(make, tasks):
    X = np.concatenate([X for X, _ in tasks])
    first, plain = (make(name).partial_fit(*tasks[0], classes=[0, 1, 2]) for name in ("er", "nn"))
    assert np.array_equal(first.predict_proba(X), plain.predict_proba(X))


def test_it_remembers_what_nn_forgets(make, tasks):
    right = {}
    for name in ("er", "nn"):
        model = make(name, min_steps=80)
        for X, y in tasks:
            model.partial_fit(X, y)
        right[name] = [model.score(X, y) for X, y in tasks]
    assert min(right["er"]) > 0.9
    assert right["nn"] == [0, 0, 1]
