"""Codes of a task's samples: kept from learning to sleep, and gone after it."""

import copy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context, Replayed, ignore
from dgdmn.core.rng import SeedStream
from dgdmn.memory.code_buffer import CodeBuffer
from dgdmn.memory.dual import DualMemory
from dgdmn.memory.generative import DeepGenerativeMemory
from dgdmn.memory.latent_prior import LatentPrior
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.vae import VAE
from dgdmn.storage import arrays_in, bytes_in
from dgdmn.testing import find_rows

SMALL = Config(
    n_stm=2,
    n_max=60,
    generator_layers=(8,),
    latent_dim=4,
    sttm_generator_layers=(8,),
    sttm_latent_dim=3,
    learner_layers=(8,),
    sttm_learner_layers=(8,),
    generator_epochs=2,
    learner_epochs=2,
    batch_size=8,
    code_buffer=True,
    prior_components=4,
    latent_noise=1.0,
    momentum=0.9,
    lr_schedule="one_cycle",
)


def make(**changes):
    config = replace(SMALL, **changes)
    return DualMemory(
        partial(DeepGenerativeMemory, NetworkFactory(config, (4, 4))), config, 4, SeedStream(0)
    )


def rows(label, n=20, seed=0):
    x = np.random.default_rng(10 * label + seed).random((n, 16), dtype=np.float32)
    return Batch(x, np.full(n, label))


def learn(memory, task, batch, seed=1, callback=ignore):
    memory.learn(task, batch, Context(SeedStream(seed), callback))


def codes_in(memory):
    return [path for path, _ in arrays_in(memory.state()) if "codes" in path]


def test_an_awake_task_memory_decodes_its_samples_instead_of_dreaming():
    memory, new = make(), rows(0)
    learn(memory, "a", new)
    held = memory.stm.awake[0].memory
    decoded = held.dream_all(SeedStream(2))
    assert decoded.y.tolist() == new.y.tolist()
    np.testing.assert_allclose(decoded.x, held.recall(new.x).x, atol=2e-3)  # float16


def test_all_task_memories_together_keep_at_most_n_max_codes():
    memory = make(n_max=30)
    learn(memory, "a", rows(0, n=50))
    held = memory.stm.awake[0].memory
    assert len(held.codes) == 15
    assert len(held.dream_all(SeedStream(2))) == 15


def test_a_task_met_again_before_the_sleep_keeps_its_codes():
    memory = make()
    learn(memory, "a", rows(0))
    learn(memory, "a", rows(0, n=6, seed=1), seed=2)
    assert len(memory.stm.awake[0].memory.codes) == 26


def test_codes_are_replayed_instead_of_dreams(monkeypatch):
    memory, events, lessons = make(), [], []
    learn(memory, "a", rows(0))
    before = memory.stm.awake[0].memory.dream_all(SeedStream(2))
    monkeypatch.setattr(VAE, "sample", lambda *_: pytest.fail("a dream from N(0, I)"))
    monkeypatch.setattr(VAE, "fit", lambda self, x, *_: lessons.append(x))
    learn(memory, "a", rows(0, n=6, seed=1), 2, events.append)
    assert np.array_equal(lessons[0][:6], rows(0, n=6, seed=1).x)
    assert sorted(lessons[0][6:].tolist()) == sorted(before.x.tolist())
    (replayed,) = (event for event in events if isinstance(event, Replayed))
    assert (replayed.n_tasks, replayed.n_gen) == (6, 20)


def test_codes_are_used_instead_of_a_prior_too(monkeypatch):
    """A task memory has a prior if it is recognized by one; its codes say more."""
    memory = make(recognition="density", prior_components=40, resample_dreams=True)
    learn(memory, "a", rows(0))
    assert memory.stm.awake[0].memory.prior
    for draw in ("sample", "sample_for"):
        monkeypatch.setattr(LatentPrior, draw, lambda *_: pytest.fail("a draw from the prior"))
    learn(memory, "a", rows(0, n=6, seed=1), 2)
    assert len(memory.stm.awake[0].memory.codes) == 26


def test_sleep_frees_the_codes_and_memory_bytes_count_the_peak():
    memory = make()
    learn(memory, "a", rows(0))
    assert codes_in(memory) == ["stm/0/codes/codes", "stm/0/codes/labels"]
    assert bytes_in(memory.state()["stm"][0]["codes"]) == 20 * (3 * 2 + 8)
    peak = memory.nbytes()
    learn(memory, "b", rows(1, n=10), 2)
    assert memory.nbytes() == peak, "two task memories, each with the largest buffer so far"
    assert codes_in(memory) == []
    assert memory.stm.awake == ()


def test_no_code_is_left_in_the_object_after_a_sleep():
    memory = make()
    learn(memory, "a", rows(0))
    codes = memory.stm.awake[0].memory.codes.codes.float().clone()
    assert find_rows(memory, codes)
    memory.sleep(Context(SeedStream(2)))
    assert find_rows(memory, codes) == []


def test_memory_bytes_do_not_grow_with_more_classes_than_components():
    memory = make(prior_components=1, n_stm=1)
    sizes = []
    for number in range(4):
        learn(memory, str(number), rows(number), number)
        sizes.append(memory.nbytes())
    assert len(memory.ltm.prior.labels) == 4, "one component per class, although the budget is one"
    assert len(set(sizes)) == 1


def test_without_the_option_there_are_no_codes():
    memory = make(code_buffer=False, n_stm=3)
    learn(memory, "a", rows(0))
    assert memory.stm.awake[0].memory.codes is None
    assert codes_in(memory) == []


def test_a_loaded_memory_sleeps_to_the_same_bits():
    memory, other = make(n_stm=3), make(n_stm=3)
    for number in range(2):
        learn(memory, str(number), rows(number), number)
    other.load_state(copy.deepcopy(memory.state()))
    assert other.nbytes() == memory.nbytes()
    for each in (memory, other):
        each.sleep(Context(SeedStream(5)))
        learn(each, "2", rows(2), 6)
        each.sleep(Context(SeedStream(7)))
    x = rows(3).x
    assert np.array_equal(memory.predict_proba(x, None), other.predict_proba(x, None))
    assert torch.equal(memory.ltm.prior.means, other.ltm.prior.means)


def test_storing_returns_a_new_buffer():
    vae = NetworkFactory(SMALL, (4, 4)).generator("stm", torch.Generator().manual_seed(0))
    empty = CodeBuffer(9, 3)
    batch = Batch(torch.from_numpy(rows(2, n=5).x), torch.full((5,), 2))
    full = empty.store(vae, batch, SeedStream(0))
    assert (len(empty), len(full), full.bytes_per_sample) == (0, 5, 14)
    assert empty.with_state(full.state(), 10).codes.tolist() == full.codes.tolist()


@pytest.mark.parametrize(
    "wrong",
    [torch.zeros(5, 3), torch.zeros(5, 4, dtype=torch.float16)],
    ids=["type", "size"],
)
def test_codes_that_do_not_fit_are_refused(wrong):
    with pytest.raises(ValueError, match="codes"):
        CodeBuffer(9, 3).with_state(
            {"codes": wrong, "labels": torch.zeros(5, dtype=torch.int64)}, 1
        )
