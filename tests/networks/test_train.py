"""The training loop: every row once an epoch, no random numbers but those passed in."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.errors import DgdmnError
from dgdmn.core.events import EpochDone, ignore
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.train import Schedule, TrainableNetwork, TrainingState, map_batches, use_hook


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


class Line(TrainableNetwork):
    """One weight and one bias."""

    kind = "learner"

    def __init__(self, **schedule):
        super().__init__(Schedule(**schedule))
        self.layer = nn.Linear(1, 1)

    def forward(self, x):
        return self.layer(x)


class Visits:
    """A loss that notes the rows of every batch."""

    def __init__(self, network):
        self.network, self.batches = network, []

    def __call__(self, x, y, generator):
        assert torch.equal(x[:, 0], y), "rows of all tensors stay together"
        self.batches.append(y.tolist())
        return self.network(x).square().mean()


def test_every_row_once_an_epoch_the_partial_batch_included():
    network = Line(epochs=3, batch_size=4)
    visits, events = Visits(network), []
    y = torch.arange(10.0)
    network.train_with(visits, (y[:, None], y), rng(), events.append)
    assert [len(batch) for batch in visits.batches] == [4, 4, 2] * 3
    epochs = [[row for batch in visits.batches[k : k + 3] for row in batch] for k in (0, 3, 6)]
    assert all(sorted(rows) == y.tolist() for rows in epochs)
    assert len({tuple(rows) for rows in epochs}) == 3, "each in a new order"
    assert [(event.epoch, event.epochs, event.samples) for event in events] == [
        (1, 3, 10),
        (2, 3, 10),
        (3, 3, 10),
    ]


def test_the_loss_of_an_epoch_is_the_mean_over_its_rows():
    network, events = Line(epochs=1, batch_size=4, learning_rate=0.0), []
    x = torch.arange(10.0)[:, None]
    network.train_with(lambda x, _: x.mean() + 0 * network(x).sum(), (x,), rng(), events.append)
    assert events == [EpochDone("learner", 1, 1, 10, pytest.approx(4.5))]


@pytest.mark.parametrize(
    ("n", "min_steps", "expected"),
    [
        (1000, 0, 6),
        (1000, 100, 13),
        (128, 100, 100),
        (1, 100, 100),
        (10_000, 100, 6),
        (1024, 48, 6),
        (1024, 49, 7),
    ],
)
def test_min_steps_adds_epochs(n, min_steps, expected):
    assert Schedule(epochs=6, batch_size=128, min_steps=min_steps).epochs_for(n) == expected


def test_a_constant_rate_is_constant():
    schedule = Schedule(epochs=3, batch_size=10, learning_rate=0.5)
    assert {schedule.rate(25, epoch, step) for epoch in range(3) for step in range(3)} == {0.5}


def test_one_cycle_rises_in_the_first_tenth_and_falls_to_a_thousandth():
    schedule = Schedule(epochs=10, batch_size=10, learning_rate=0.5, one_cycle=True)
    rates = [schedule.rate(100, epoch, step) for epoch in range(10) for step in range(10)]
    assert rates[0] == pytest.approx(0.5 / 10)
    assert max(rates) == rates[9] == pytest.approx(0.5)
    assert rates[-1] == pytest.approx(0.5 * 0.001)
    halfway = (1 + math.cos(math.pi * (0.55 - 0.1) / 0.9)) / 2
    assert rates[54] == pytest.approx(0.5 * (0.001 + 0.999 * halfway))
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)


def test_one_cycle_covers_the_extra_epochs_of_small_data():
    schedule = Schedule(epochs=1, batch_size=10, learning_rate=1.0, min_steps=40, one_cycle=True)
    assert schedule.epochs_for(20) == 20
    assert schedule.rate(20, 19, 1) == pytest.approx(0.001)


def test_map_batches_covers_all_rows_without_gradients():
    x = torch.arange(10.0, requires_grad=True)[:, None]
    sizes = []
    doubled = map_batches(lambda part: sizes.append(len(part)) or part * 2, x, size=4)
    assert sizes == [4, 4, 2]
    assert torch.equal(doubled, x.detach() * 2)
    assert not doubled.requires_grad


TINY = Config(
    generator_layers=(8,),
    latent_dim=3,
    learner_layers=(8,),
    sttm_generator_layers=(6,),
    sttm_latent_dim=2,
    sttm_learner_layers=(6,),
    generator_epochs=2,
    learner_epochs=2,
    batch_size=8,
)
CONVOLUTIONAL = replace(TINY, generator_convolutions=(3,), learner_convolutions=(3,))


def trained(config, seed, device="cpu"):
    """What a generator and a learner of this config return after a training with this seed."""
    x = torch.rand(20, 64, generator=rng(1)).to(device)
    made = NetworkFactory(config, (8, 8), device)
    g, learner = made.generator("ltm", rng(seed)), made.learner("ltm", 4, rng(seed))
    g.fit(x, rng(seed + 1), ignore)
    learner.fit(Batch(x, torch.arange(20).to(device) % 4), rng(seed + 2), ignore)
    return torch.cat(
        [
            g.sample(3, rng(5)).flatten(),
            g.reconstruct(x).flatten(),
            learner.predict_proba(x).flatten(),
        ]
    )


@pytest.mark.parametrize("config", [TINY, CONVOLUTIONAL], ids=["dense", "convolutional"])
def test_same_seed_same_bits_and_the_global_state_is_left_alone(config):
    before = torch.get_rng_state()
    assert torch.equal(trained(config, 0), trained(config, 0))
    assert not torch.equal(trained(config, 0), trained(config, 10))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("config", [TINY, CONVOLUTIONAL], ids=["dense", "convolutional"])
def test_cuda_trains_like_the_cpu(config):
    torch.testing.assert_close(
        trained(config, 0, "cuda").cpu(), trained(config, 0), rtol=1e-2, atol=1e-2
    )


def test_task_memories_get_the_small_networks():
    made = NetworkFactory(TINY, (8, 8))
    assert made.generator("stm", rng()).encoder[0].out_features == 6
    assert made.generator("ltm", rng()).encoder[0].out_features == 8
    assert [made.generator(role, rng()).latent_dim for role in ("stm", "ltm")] == [2, 3]
    assert made.learner("stm", 2, rng()).body[0].out_features == 6
    assert made.learner("ltm", 2, rng(), epochs=9).schedule.epochs == 9


def test_only_generators_are_clipped():
    made = NetworkFactory(Config(), (8, 8))
    g, learner = made.generator("ltm", rng()), made.learner("ltm", 2, rng())
    assert (g.schedule.clip_norm, g.schedule.clip_value, g.schedule.epochs) == (1.0, 0.5, 25)
    assert (learner.schedule.clip_norm, learner.schedule.clip_value, learner.schedule.epochs) == (
        0,
        0,
        6,
    )


def test_a_users_own_networks_are_used():
    made = NetworkFactory(
        Config(), (8, 8), "cpu", lambda *given: ("G", *given), lambda *given: ("L", *given)
    )
    assert made.generator("stm", 1) == ("G", (8, 8), "stm", 1)
    assert made.learner("ltm", 3, 2) == ("L", (8, 8), 3, "ltm", 2)


def test_a_loss_that_is_not_finite_stops_the_training():
    network = Line(epochs=2)
    with pytest.raises(DgdmnError, match="the learner's loss is nan after epoch 1; lower learning"):
        network.train_with(
            lambda x, _: network(x).sum() * torch.nan, (torch.ones(3, 1),), rng(), ignore
        )


class KilledError(Exception):
    pass


class Resume:
    """A hook that saves after every epoch, is killed after some, and continues from what it saved."""

    def __init__(self, die_after):
        self.die_after, self.saved, self.epochs = die_after, None, []

    def begin(self, training):
        assert isinstance(training, TrainingState)
        if self.saved is None:
            return 0
        training.load_state([tensor.numpy() for tensor in self.saved])
        return self.epochs[-1]

    def epoch_done(self, training, epoch, epochs):
        self.saved = training.state()
        self.epochs.append(epoch)
        if epoch == self.die_after:
            raise KilledError


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_training_killed_after_any_epoch_continues_to_the_same_bits(momentum):
    x, y = torch.rand(20, 64, generator=rng(1)), torch.arange(20) % 4
    config = replace(TINY, learner_epochs=4, momentum=momentum, lr_schedule="one_cycle")

    def learner():
        return NetworkFactory(config, (8, 8)).learner("ltm", 4, rng(2))

    whole = learner()
    whole.fit(Batch(x, y), rng(3), ignore)
    for die_after in (1, 3, 4):
        hook, interrupted, resumed = Resume(die_after), learner(), learner()
        with use_hook(hook), pytest.raises(KilledError):
            interrupted.fit(Batch(x, y), rng(3), ignore)
        hook.die_after = None
        with use_hook(hook):
            resumed.fit(Batch(x, y), rng(99), ignore)  # the saved random state replaces this one
        assert hook.epochs == [1, 2, 3, 4]
        for expected, found in zip(whole.parameters(), resumed.parameters(), strict=True):
            assert torch.equal(expected, found)
    again = learner()
    again.fit(Batch(x, y), rng(3), ignore)
    assert hook.epochs == [1, 2, 3, 4], "no hook outside the block"
