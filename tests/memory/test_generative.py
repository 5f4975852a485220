"""The deep generative memory with the options of `deep`, dense and convolutional."""

import copy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from dgdmn.config import Config
from dgdmn.core.batch import Batch, concat
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Context, ignore
from dgdmn.core.rng import SeedStream
from dgdmn.memory.dual import DualMemory
from dgdmn.memory.generative import DeepGenerativeMemory, combine_with_prior
from dgdmn.memory.protocols import GenerativeMemory
from dgdmn.memory.task_log import TaskInfo
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.runtime import as_tensor
from dgdmn.storage import bytes_in
from dgdmn.testing import check_memory

DEEP = Config(
    n_stm=2,
    n_max=400,
    latent_dim=6,
    sttm_latent_dim=6,
    generator_layers=(24,),
    sttm_generator_layers=(24,),
    learner_layers=(24,),
    sttm_learner_layers=(12,),
    batch_size=16,
    min_steps=200,
    learning_rate=0.004,
    clip_norm=0.0,
    clip_value=0.0,
    beta=0.1,
    code_buffer=True,
    prior_components=8,
    resample_dreams=True,
    latent_noise=1.0,
    predict_with="learner+prior",
    recognition="density",
    momentum=0.9,
    lr_schedule="one_cycle",
)
SHORT = {"min_steps": 0, "generator_epochs": 1, "learner_epochs": 1}
CONVOLUTIONS = {
    "generator_convolutions": (4,),
    "sttm_generator_convolutions": (4,),
    "learner_convolutions": (4,),
    "min_steps": 150,
}


def bars(label, n=60):
    """Images of 8 × 8 with one bright column of varying brightness; its position is the label."""
    rng = torch.Generator().manual_seed(label)
    x = 0.1 * torch.rand(n, 8, 8, generator=rng)
    x[:, :, 2 * label] += 0.6 + 0.3 * torch.rand(n, 1, generator=rng)
    return Batch(x.reshape(n, 64).numpy(), np.full(n, label))


def learned(n_tasks=3, n_classes=4, shape=(8, 8), **changes):
    config = replace(DEEP, **changes)
    make = partial(DeepGenerativeMemory, NetworkFactory(config, shape))
    memory = DualMemory(make, config, n_classes, SeedStream(0))
    for label in range(n_tasks):
        memory.learn(str(label), bars(label), Context(SeedStream(label)))
    return memory


@pytest.mark.parametrize("networks", [{}, CONVOLUTIONS], ids=["dense", "convolutional"])
def test_tasks_are_known_and_recognized_after_a_sleep(networks):
    memory = learned(**networks)
    assert [held.task for held in memory.stm.awake] == ["2"]
    for label in range(3):
        x = bars(label).x
        assert (memory.predict_proba(x, str(label)).argmax(axis=1) == label).mean() > 0.9
        expected = 0 if label == 2 else 1  # the awake memory comes first, then the long-term one
        assert memory.recognize(x).chosen.tolist() == [expected] * len(x)
    dreams = memory.ltm.sample(40, SeedStream(9))
    assert np.bincount(dreams.y).tolist() == [20, 20], "equal shares with known labels"
    columns = dreams.x.reshape(40, 8, 8).mean(axis=1).argmax(axis=1)
    assert (columns == 2 * dreams.y).mean() > 0.75, "one of eight by chance"


def test_the_memory_passes_the_contract_of_a_memory():
    def make(shape, n_classes, role, rng):
        factory = NetworkFactory(replace(DEEP, min_steps=60), shape)
        return DeepGenerativeMemory(factory, role, n_classes, rng)

    check_memory(make)
    assert isinstance(make((4,), 2, "ltm", SeedStream(0)), GenerativeMemory)


def test_learner_and_prior_answer_together():
    """By hand: p(y | x) ∝ (L(y | x_recon) p(z | y))^¼; a class that was never learned has probability 0."""
    memory = learned(min_steps=40)
    x, ltm = bars(0).x[:6], memory.ltm
    inputs = as_tensor(x, "cpu")
    by_learner = ltm.learner.predict_proba(ltm.generator.reconstruct(inputs))
    likelihood = ltm.prior.log_likelihood(ltm.generator.encode(inputs)[0], 4).exp()
    assert likelihood[:, 2:].tolist() == [[0, 0]] * 6, "one is awake, one is still to come"
    by_hand = (by_learner * likelihood) ** 0.25
    expected = by_hand / by_hand.sum(dim=1, keepdim=True)
    np.testing.assert_allclose(ltm.predict_proba(x), expected, rtol=1e-4, atol=1e-6)
    assert ltm.predict_proba(x[:0]).shape == (0, 4)
    ltm.config = replace(ltm.config, predict_with="learner")
    np.testing.assert_allclose(ltm.predict_proba(x), by_learner, rtol=1e-5)
    held = memory.stm.awake[0].memory
    recalled = held.learner.predict_proba(held.generator.reconstruct(inputs))
    np.testing.assert_allclose(held.predict_proba(x), recalled, rtol=1e-5)
    assert held.predicting_prior is None, "the learner of a task memory has seen rows"


def test_a_zero_of_the_learner_is_no_veto():
    """If L gives 0 to every class that the prior knows, the answer is still a probability."""
    answers = torch.tensor([[0.0, 0.0, 0.0, 1.0]])
    log_likelihood = torch.tensor([[-1.0, -2.0, -torch.inf, -torch.inf]])
    combined = combine_with_prior(answers, log_likelihood)
    expected = torch.softmax(torch.tensor([-0.25, -0.5]), dim=0)
    torch.testing.assert_close(combined[0, :2], expected)
    assert combined[0, 2:].tolist() == [0, 0]


def weights_after_three_sleeps(**changes):
    memory = learned(n_classes=3, n_stm=1, **{**SHORT, **changes})
    return torch.cat(
        [parameter.detach().flatten() for parameter in memory.ltm.learner.parameters()]
    )


@pytest.mark.parametrize(
    "off",
    [
        {"code_buffer": False},
        {"prior_components": 0},
        {"resample_dreams": False},
        {"latent_noise": 0.0},
        {"momentum": 0.0},
        {"lr_schedule": "constant"},
        {"beta": 1.0},
    ],
    ids=lambda off: next(iter(off)),
)
def test_each_option_changes_what_the_learner_learns(off):
    with_all = weights_after_three_sleeps()
    assert torch.equal(with_all, weights_after_three_sleeps())
    assert not torch.equal(with_all, weights_after_three_sleeps(**off))


@pytest.mark.parametrize("resample", [True, False])
def test_the_inputs_of_the_learner_by_hand(monkeypatch, resample):
    """New rows are mean + a · σ · ε; dreams likewise, or drawn from the prior for their labels."""
    ltm = learned(2, 3, n_stm=1, **{**SHORT, "latent_noise": 0.5}).ltm
    new, dreams = bars(2, 5), ltm.dream(7, SeedStream(1))
    new = Batch(torch.from_numpy(new.x), torch.from_numpy(new.y))
    calls, latents = [], []
    monkeypatch.setattr(ltm.learner, "train_with", lambda *given: calls.append(given))
    decode = ltm.generator.decode_mean
    rng = SeedStream(2)
    ltm.train_learner(new, dreams, Context(rng), resample=resample)
    assert rng.used == 1, "one seed for the training; no output is added"
    monkeypatch.setattr(ltm.generator, "decode_mean", lambda z: latents.append(z) or decode(z))
    ((loss, data, *_),) = calls
    loss(*data, torch.Generator().manual_seed(3))

    rng = torch.Generator().manual_seed(3)
    mean, deviation = ltm.generator.encode(torch.cat([new.x, dreams.x]))
    by_hand = mean + 0.5 * deviation * torch.randn(mean.shape, generator=rng)
    if resample:
        by_hand[5:] = ltm.prior.sample_for(dreams.y, rng)
    torch.testing.assert_close(latents[0], by_hand)
    assert torch.equal(data[2], concat(new, dreams).y)


def test_learning_replaces_and_never_changes_in_place():
    memory = learned(1, n_stm=3, **SHORT).stm.awake[0].memory
    x, snapshot = bars(0).x, copy.copy(memory)
    state = copy.deepcopy(memory.state())
    memory.learn(bars(1), {"1": TaskInfo(1, frozenset({1}))}, Context(SeedStream(5)))
    memory.grow(6)
    assert bytes_in(state["codes"]) < memory.buffer_bytes()
    for name, before in state["generator"].items():
        assert torch.equal(before, snapshot.state()["generator"][name])
    loaded = DeepGenerativeMemory(memory.factory, "stm", 4, SeedStream(8))
    loaded.load_state(state)
    assert np.array_equal(loaded.predict_proba(x), snapshot.predict_proba(x))
    assert not np.array_equal(memory.predict_proba(x)[:, :4], snapshot.predict_proba(x))


def test_bytes_now_and_at_capacity():
    memory = DeepGenerativeMemory(NetworkFactory(DEEP, (8, 8)), "ltm", 4, SeedStream(0))
    weights = 4 * sum(
        parameter.numel()
        for network in (memory.generator, memory.learner)
        for parameter in network.parameters()
    )
    assert memory.nbytes() == weights
    component = 8 + 4 * (1 + 6 + 36)  # a label, a weight, a mean and a Cholesky factor
    assert memory.nbytes(at_capacity=True) == weights + 8 * component
    memory.grow(11)
    assert memory.nbytes(at_capacity=True) == weights + 11 * component, "one for each class"
    assert memory.buffer_bytes() == 0


class OnlySamples:
    """The least a generator must do: fit and sample. It cannot reconstruct."""

    def __init__(self, shape, role, rng):
        self.mean = torch.zeros(int(np.prod(shape)))

    def fit(self, x, rng, callback):
        self.mean = x.mean(dim=0)

    def sample(self, n, rng):
        return self.mean.expand(n, -1)

    def state_dict(self):
        return {"mean": self.mean}

    def load_state_dict(self, state):
        self.mean = state["mean"]


def test_a_generator_that_only_samples_learns_but_recognizes_nothing():
    factory = NetworkFactory(replace(DEEP, **SHORT), (8, 8), own_generator=OnlySamples)
    memory = DeepGenerativeMemory(factory, "ltm", 4, SeedStream(0))
    assert (memory.prior, memory.codes) == (None, None), "both need latents"
    for label in range(2):
        task = {str(label): TaskInfo(1, frozenset({label}))}
        memory.learn(bars(label), task, Context(SeedStream(label), ignore))
    x = bars(0).x
    assert np.array_equal(memory.recall(x).x, x)
    assert memory.sample(3, SeedStream(0)).x.shape == (3, 64)
    with pytest.raises(UsageError, match=r"OnlySamples cannot reconstruct.*pass the task's name"):
        memory.recognition_loss(x)
