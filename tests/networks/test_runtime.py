"""Threads and denormal numbers are set while a memory computes, and restored after it."""

import numpy as np
import pytest
import torch

from dgdmn import DGDMN
from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.memory.generative import DeepGenerativeMemory
from dgdmn.memory.task_log import TaskInfo
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.runtime import (
    as_tensor,
    check_device,
    copy_tensor,
    denormals_are_flushed,
    use_threads,
)
from dgdmn.storage import arrays_in

can_flush = torch.set_flush_denormal(False)
needs_flush = pytest.mark.skipif(not can_flush, reason="this processor cannot flush denormals")


@pytest.mark.parametrize("n", [1, 2, np.int64(3)])
def test_threads_are_set_and_restored(n):
    before = torch.get_num_threads()
    with use_threads(n):
        assert torch.get_num_threads() == n
        with use_threads(1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == n
    assert torch.get_num_threads() == before


def test_threads_are_restored_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), use_threads(before + 1):
        _ = 1 / 0
    assert torch.get_num_threads() == before
    assert not denormals_are_flushed()


@pytest.mark.parametrize(("value", "expected"), [("2", 2), ("", 1), ("0", 1), ("many", 1)])
def test_without_a_number_the_environment_decides(monkeypatch, value, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    with use_threads(None):
        assert torch.get_num_threads() == expected


@pytest.mark.parametrize("n", [0, -1, 1.5, "2", True, 1025, 10**30])
def test_wrong_numbers_of_threads_are_refused(n):
    before = torch.get_num_threads()
    message = "threads is .*; it must be a whole number in"
    with pytest.raises(UsageError, match=message), use_threads(n):
        pytest.fail("it must not start")
    assert torch.get_num_threads() == before


@needs_flush
def test_denormals_are_flushed_inside_the_block_only():
    assert not denormals_are_flushed()
    with use_threads(1):
        assert denormals_are_flushed()
        with use_threads(1):
            pass
        assert denormals_are_flushed(), "as before the inner block"
    assert not denormals_are_flushed()
    with pytest.raises(ZeroDivisionError), use_threads(1):
        _ = 1 / 0
    assert not denormals_are_flushed()


@needs_flush
def test_a_model_learns_with_both_and_restores_both():
    seen, before = [], torch.get_num_threads()

    def note(_):
        seen.append((denormals_are_flushed(), torch.get_num_threads()))

    model = DGDMN("quick", n_stm=1, min_steps=5, callback=note, threads=2)
    model.partial_fit(np.random.default_rng(0).random((20, 4)), np.arange(20) % 2)
    model.predict(np.zeros((2, 4)))
    assert set(seen) == {(True, 2)}
    assert not denormals_are_flushed()
    assert torch.get_num_threads() == before


@needs_flush
def test_flushing_changes_no_weight():
    """One class is learned until its gradients vanish; their squares become denormal."""
    config = Config(
        generator_layers=(16,),
        latent_dim=4,
        learner_layers=(8,),
        generator_epochs=40,
        learner_epochs=40,
        batch_size=8,
        momentum=0.9,
    )
    rows = (np.random.default_rng(0).random((64, 36)) > 0.7).astype(np.float32)
    rows[:, :6] = 0

    def learned():
        memory = DeepGenerativeMemory(NetworkFactory(config, (6, 6)), "ltm", 10, SeedStream(0))
        batch = Batch(rows, np.zeros(64, dtype=np.int64))
        memory.learn(batch, {"a": TaskInfo(1, frozenset([0]))}, Context(SeedStream(1)))
        return dict(arrays_in(memory.state()))

    plain = learned()
    with use_threads(1):
        fast = learned()
    assert plain.keys() == fast.keys()
    assert all(torch.equal(plain[name], fast[name]) for name in plain)


def test_an_unknown_device_is_refused_in_one_sentence():
    check_device("cpu")
    for device in ("gpu", "cuda:99"):
        with pytest.raises(UsageError, match=f"device '{device}' cannot be used here") as raised:
            check_device(device)
        assert "\n" not in str(raised.value)


def test_arrays_share_memory_on_the_way_in_and_copies_do_not():
    array = np.arange(6.0).reshape(2, 3)
    shared, copied = as_tensor(array, "cpu"), copy_tensor(array, "cpu")
    array[0, 0] = 9
    assert (float(shared[0, 0]), float(copied[0, 0])) == (9, 0)
    assert as_tensor(array.T, "cpu").is_contiguous()
    assert copy_tensor(torch.ones(2), "cpu").tolist() == [1, 1]
