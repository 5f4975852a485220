"""The one training loop: every row once an epoch, no random numbers but those passed in."""

import pytest
import torch
from torch import nn

from dgdmn.events import EpochDone, ignore
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.training import Schedule, in_batches, train
from dgdmn.presets import Preset
from dgdmn.samples import Samples


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


class Visits:
    """A loss that notes the rows of every batch."""

    def __init__(self, network):
        self.network, self.batches = network, []

    def __call__(self, x, y, generator):
        assert torch.equal(x[:, 0], y), "rows of all tensors stay together"
        self.batches.append(y.tolist())
        return self.network(x).square().mean()


def test_every_row_once_an_epoch_the_partial_batch_included():
    network = nn.Linear(1, 1)
    visits, heard = Visits(network), []
    y = torch.arange(10.0)
    train(network, visits, (y[:, None], y), Schedule(epochs=3, batch_size=4), generator=rng(), name="learner",
          listen=heard.append)  # fmt: skip
    assert [len(batch) for batch in visits.batches] == [4, 4, 2] * 3
    epochs = [[row for batch in visits.batches[k : k + 3] for row in batch] for k in (0, 3, 6)]
    assert all(sorted(rows) == y.tolist() for rows in epochs)
    assert len({tuple(rows) for rows in epochs}) == 3, "in a new order each"
    assert [(event.epoch, event.epochs, event.samples) for event in heard] == [
        (1, 3, 10),
        (2, 3, 10),
        (3, 3, 10),
    ]


def test_an_epochs_loss_is_the_mean_over_its_rows():
    network, heard = nn.Linear(1, 1), []
    still = Schedule(epochs=1, batch_size=4, learning_rate=0.0)
    y = torch.arange(10.0)
    train(network, lambda x, generator: (x.mean() + 0 * network(x).sum()), (y[:, None],), still, generator=rng(),
          name="generator", listen=heard.append)  # fmt: skip
    assert heard == [EpochDone("generator", 1, 1, 10, pytest.approx(4.5))]


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
def test_min_steps_by_more_epochs(n, min_steps, expected):
    assert Schedule(epochs=6, batch_size=128, min_steps=min_steps).epochs_for(n) == expected


def test_in_batches_is_the_whole_and_takes_no_gradient():
    x = torch.arange(10.0, requires_grad=True)[:, None]
    sizes = []
    doubled = in_batches(lambda part: sizes.append(len(part)) or part * 2, x, size=4)
    assert sizes == [4, 4, 2]
    assert torch.equal(doubled, x.detach() * 2)
    assert not doubled.requires_grad


TINY = Preset(
    generator_layers=(8,), latent=3, learner_layers=(8,), sttm_generator_layers=(6,), sttm_latent=2,
    sttm_learner_layers=(6,), generator_epochs=2, learner_epochs=2, batch_size=8,
)  # fmt: skip
CONVOLUTIONAL = Preset(
    generator_layers=(8,), generator_convolutions=(3,), latent=3, learner_layers=(8,), learner_convolutions=(3,),
    generator_epochs=2, learner_epochs=2, batch_size=8,
)  # fmt: skip


def trained(preset, seed, device="cpu"):
    """What a generator and a learner of this preset give after a training with this seed."""
    x = torch.rand(20, 64, generator=rng(1)).to(device)
    made = Blueprint(preset, (8, 8), device)
    g, learner = made.generator("ltm", rng(seed)), made.learner("ltm", 4, rng(seed))
    g.fit(x, rng(seed + 1), ignore)
    learner.fit(Samples(x, torch.arange(20).to(device) % 4), rng(seed + 2), ignore)
    return torch.cat(
        [g.sample(3, rng(5)).flatten(), g.reconstruct(x).flatten(), learner.probabilities(x).flatten()]
    )


@pytest.mark.parametrize("preset", [TINY, CONVOLUTIONAL], ids=["dense", "convolutional"])
def test_same_seed_same_bits_and_the_global_state_is_left_alone(preset):
    before = torch.get_rng_state()
    assert torch.equal(trained(preset, 0), trained(preset, 0))
    assert not torch.equal(trained(preset, 0), trained(preset, 10))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("preset", [TINY, CONVOLUTIONAL], ids=["dense", "convolutional"])
def test_cuda_trains_like_the_cpu(preset):
    torch.testing.assert_close(trained(preset, 0, "cuda").cpu(), trained(preset, 0), rtol=1e-2, atol=1e-2)


def test_blueprint_gives_task_memories_the_small_networks():
    made = Blueprint(TINY, (8, 8))
    assert made.generator("stm", rng()).encoder[0].out_features == 6
    assert made.generator("ltm", rng()).encoder[0].out_features == 8
    assert (made.generator("stm", rng()).latent, made.generator("ltm", rng()).latent) == (2, 3)
    assert made.learner("stm", 2, rng()).body[0].out_features == 6
    assert made.learner("ltm", 2, rng(), epochs=9).schedule.epochs == 9


def test_only_generators_are_clipped():
    made = Blueprint(Preset(), (8, 8))
    g, learner = made.generator("ltm", rng()), made.learner("ltm", 2, rng())
    assert (g.schedule.clip_norm, g.schedule.clip_value, g.schedule.epochs) == (1.0, 0.5, 25)
    assert (learner.schedule.clip_norm, learner.schedule.clip_value, learner.schedule.epochs) == (0, 0, 6)


def test_a_users_own_networks_are_used():
    made = Blueprint(Preset(), (8, 8), "cpu", lambda *given: ("G", *given), lambda *given: ("L", *given))
    assert made.generator("stm", 1) == ("G", (8, 8), "stm", 1)
    assert made.learner("ltm", 3, 2) == ("L", (8, 8), 3, "ltm", 2)
