"""RMSProp and its momentum against torch, and its clipping against the formulas of Keras."""

import copy

import pytest
import torch
from torch import nn

from dgdmn.networks.classifier import Classifier
from dgdmn.networks.optimizer import RMSProp
from dgdmn.networks.train import Schedule
from dgdmn.networks.vae import VAE

SETTINGS = {"learning_rate": 0.003, "rho": 0.9, "epsilon": 1e-8}


def _parameters(seed: int = 0) -> list[nn.Parameter]:
    rng = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=rng)) for shape in ((5, 7), (5,), (3, 5))]


def _gradients(step: int, scale: float) -> tuple[torch.Tensor, ...]:
    rng = torch.Generator().manual_seed(100 + step)
    return tuple(scale * torch.randn(p.shape, generator=rng) for p in _parameters())


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 100.0])
@pytest.mark.parametrize(
    ("clip_norm", "clip_value"), [(0.0, 0.0), (1.0, 0.5), (1.0, 0.0), (0.0, 0.5), (3.0, 0.05)]
)
def test_equals_torch_with_clipping_by_hand(scale, clip_norm, clip_value):
    ours, theirs = _parameters(), _parameters()
    optimizer = RMSProp(ours, **SETTINGS, clip_norm=clip_norm, clip_value=clip_value)
    reference = torch.optim.RMSprop(theirs, lr=0.003, alpha=0.9, eps=1e-8)
    for step in range(20):
        optimizer.step(_gradients(step, scale))
        gradients = _gradients(step, scale)
        norm = sum(float((g**2).sum()) for g in gradients) ** 0.5
        for parameter, gradient in zip(theirs, gradients, strict=True):
            if clip_norm and norm >= clip_norm:  # Keras 2: g * clipnorm / norm
                gradient = gradient * clip_norm / norm
            if clip_value:
                gradient = gradient.clamp(-clip_value, clip_value)
            parameter.grad = gradient
        reference.step()
    for ours_one, theirs_one in zip(ours, theirs, strict=True):
        torch.testing.assert_close(ours_one, theirs_one, rtol=2e-5, atol=2e-6)


def test_first_step_by_hand():
    parameter = nn.Parameter(torch.tensor([1.0, -2.0]))
    RMSProp([parameter], **SETTINGS, clip_norm=0.0, clip_value=0.0).step(
        (torch.tensor([0.5, 0.0]),)
    )
    # s = 0.1 · 0.25, p = 1 − 0.003 · 0.5 / √0.025; a zero gradient moves nothing
    assert parameter.tolist() == pytest.approx([1 - 0.003 * 0.5 / 0.025**0.5, -2.0])


def test_zero_gradients_change_nothing():
    parameters = _parameters()
    RMSProp(parameters, **SETTINGS, clip_norm=1.0, clip_value=0.5).step(
        tuple(torch.zeros_like(p) for p in parameters)
    )
    assert all(torch.equal(a, b) for a, b in zip(parameters, _parameters(), strict=True))


@pytest.mark.parametrize("gradient_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("parameter_format", [torch.contiguous_format, torch.channels_last])
def test_memory_formats_do_not_matter(parameter_format, gradient_format):
    """Convolutions return gradients with channels last; the fused kernel ignores strides."""
    rng = torch.Generator().manual_seed(0)
    start = torch.randn((4, 3, 2, 5), generator=rng)
    plain, moved = (nn.Parameter(start.clone()) for _ in range(2))
    moved.data = moved.data.to(memory_format=parameter_format)
    optimizers = [
        RMSProp([one], **SETTINGS, clip_norm=1.0, clip_value=0.2) for one in (plain, moved)
    ]
    for _ in range(3):
        gradient = torch.randn((4, 3, 2, 5), generator=rng)
        optimizers[0].step((gradient.clone(),))
        optimizers[1].step((gradient.to(memory_format=gradient_format),))
    assert not torch.equal(plain, start)
    torch.testing.assert_close(moved, plain, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(12, 12), (13, 11), (12, 12, 3)], ids=str)
@pytest.mark.parametrize("kind", ["generator", "learner"])
def test_a_step_of_a_convolutional_network_equals_torch(kind, shape):
    """Through the networks themselves, whatever memory format their convolutions choose."""
    rng, size, schedule = (
        torch.Generator().manual_seed(0),
        torch.Size(shape).numel(),
        Schedule(epochs=1),
    )
    if kind == "generator":
        network = VAE(
            shape, hidden=(12,), convolutions=(4, 6), latent_dim=3, schedule=schedule, rng=rng
        )
    else:
        network = Classifier(shape, 3, hidden=(5,), convolutions=(4, 6), schedule=schedule, rng=rng)
    twin = copy.deepcopy(network)
    ours = RMSProp(network.parameters(), **SETTINGS, clip_norm=0.0, clip_value=0.0)
    theirs = torch.optim.RMSprop(twin.parameters(), lr=0.003, alpha=0.9, eps=1e-8)
    for step in range(3):
        rng.manual_seed(step)
        x, y = torch.rand((16, size), generator=rng), torch.randint(3, (16,), generator=rng)
        for one in (network, twin):
            rng.manual_seed(step)
            value = one.loss(x, rng) if kind == "generator" else one.loss(x, y, rng)
            gradients = torch.autograd.grad(value, list(one.parameters()))
            if one is network:
                ours.step(gradients)
            else:
                for parameter, gradient in zip(twin.parameters(), gradients, strict=True):
                    parameter.grad = gradient
                theirs.step()
    for one, other in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_parameters_may_share_a_gradient():
    """The gradient of p + q is one tensor for both; each must be clipped once."""
    ours = [nn.Parameter(torch.zeros(2)) for _ in range(2)]
    optimizer = RMSProp(ours, **SETTINGS, clip_norm=1.0, clip_value=0.0)
    gradient = torch.tensor([30.0, 40.0])
    optimizer.step((gradient, gradient))
    share = torch.tensor([0.6, 0.8]) / 2**0.5
    for squares in optimizer.squares:
        torch.testing.assert_close(squares, 0.1 * share.square())


def test_with_momentum_it_is_adam_after_many_steps():
    rng = torch.Generator().manual_seed(0)
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    mine = RMSProp(
        ours.parameters(),
        learning_rate=0.01,
        rho=0.9,
        epsilon=1e-8,
        clip_norm=0,
        clip_value=0,
        momentum=0.8,
    )
    adam = torch.optim.Adam(theirs.parameters(), lr=0.01, betas=(0.8, 0.9), eps=1e-8)
    for parameter in theirs.parameters():  # so many steps that its bias corrections are 1
        nothing = torch.zeros_like(parameter)
        adam.state[parameter] = {
            "step": torch.tensor(1e6),
            "exp_avg": nothing,
            "exp_avg_sq": nothing.clone(),
        }
    for _ in range(5):
        x = torch.randn(7, 3, generator=rng)
        mine.step(torch.autograd.grad(ours(x).square().sum(), mine.parameters))
        adam.zero_grad()
        theirs(x).square().sum().backward()
        adam.step()
    assert torch.allclose(ours.weight, theirs.weight, atol=1e-6)


def test_without_momentum_no_averages_are_kept():
    network = nn.Linear(3, 2)
    options = {"learning_rate": 0.01, "rho": 0.9, "epsilon": 1e-8, "clip_norm": 0, "clip_value": 0}
    assert RMSProp(network.parameters(), **options).averages == []
