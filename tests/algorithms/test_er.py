"""ER: a reservoir in which every row is alike likely, and batches that are half old."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from dgdmn.algorithms.er import ER, _Replaying, sampled
from dgdmn.algorithms.exemplars import Exemplars
from dgdmn.algorithms.nn import NN
from dgdmn.events import ignore
from dgdmn.networks.blueprint import Blueprint
from dgdmn.presets import Preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds


def reservoir(parts, size, rng):
    """Numbers of the rows that are kept of a stream that comes in parts."""
    kept, seen = [], 0
    for n in parts:
        pool = [*kept, *range(seen, seen + n)]
        kept = [pool[row] for row in sampled(len(kept), n, seen, size, rng).tolist()]
        seen += n
    return kept


def test_every_row_is_alike_likely_to_be_kept():
    rng, counts, trials = torch.Generator().manual_seed(0), np.zeros(20), 6000
    for _ in range(trials):
        counts[reservoir([7, 1, 12], 4, rng)] += 1
    spread = np.sqrt(trials * 0.2 * 0.8)
    assert np.abs(counts - trials * 0.2).max() < 4 * spread
    assert (counts - trials * 0.2).std() < 1.5 * spread


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 15), st.integers(0, 99))
def test_a_reservoir_is_never_too_full_and_keeps_all_while_it_can(parts, size, seed):
    kept = reservoir(parts, size, torch.Generator().manual_seed(seed))
    assert len(kept) == len(set(kept)) == min(size, sum(parts))
    if sum(parts) <= size:
        assert kept == list(range(sum(parts)))


@pytest.fixture
def memory():
    options = Preset(learner_layers=(6,), learner_epochs=2, batch_size=8, exemplars=6)
    return _Replaying(Blueprint(options, (5,)), 3, Seeds(0))


def rows(n, label):
    x = torch.rand(n, 5, generator=torch.Generator().manual_seed(label))
    return Samples((x * 255).round() / 255, torch.full((n,), label))


def test_a_batch_is_joined_by_as_many_old_rows_and_the_loss_is_the_mean_over_both(memory):
    memory.learn("a", rows(20, 0), Seeds(1), ignore)
    old, new = memory._reservoir.samples(), rows(4, 1)
    loss = memory._loss(new.x, new.y, torch.Generator().manual_seed(3))
    drawn = torch.randint(6, (4,), generator=torch.Generator().manual_seed(3))
    each = torch.cat(
        [F.cross_entropy(memory.learner(x), y, reduction="none")
         for x, y in [(new.x, new.y), (old.x[drawn], old.y[drawn])]]
    )  # fmt: skip
    assert len(each) == 8
    torch.testing.assert_close(loss, each.mean())


def test_rows_enter_the_reservoir_after_their_task(memory):
    memory.learn("a", rows(20, 0), Seeds(1), ignore)
    held = []
    memory.learn("b", rows(30, 1), Seeds(2), lambda event: held.append(memory.state()["rows"]["y"].tolist()))
    assert held == [[0] * 6] * 2
    assert 1 in memory.state()["rows"]["y"]
    assert memory.state()["seen"] == 50
    everything = torch.cat([Exemplars.of(rows(20, 0)).x, Exemplars.of(rows(30, 1)).x]).tolist()
    assert all(row in everything for row in memory.state()["rows"]["x"].tolist())


def test_the_first_task_is_learnt_as_nn_learns_it(make, tasks):
    X = np.concatenate([X for X, _ in tasks])
    first, plain = (make(name).partial_fit(*tasks[0], classes=[0, 1, 2]) for name in ("er", "nn"))
    assert (type(first), type(plain)) == (ER, NN)
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
