"""The VAE against its formulas in numpy."""

import numpy as np
import pytest
import torch

from dgdmn.core.events import ignore
from dgdmn.networks.protocols import LatentGenerator
from dgdmn.networks.train import Schedule
from dgdmn.networks.vae import VAE


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def vae(shape=(3,), hidden=(4, 5), latent_dim=2, seed=0, **options):
    options.setdefault("schedule", Schedule(epochs=2, batch_size=4))
    return VAE(shape, hidden=hidden, latent_dim=latent_dim, rng=rng(seed), **options)


def inputs(n, d, seed=1):
    return torch.rand(n, d, generator=rng(seed))


def dense(layer, x):
    return x @ layer.weight.detach().numpy().astype(float).T + layer.bias.detach().numpy()


def forward(layers, x):
    """Dense layers with ReLU between them, in float64."""
    for layer in list(layers)[:-1:2]:
        x = np.maximum(dense(layer, x), 0)
    return dense(layers[-1], x)


def bernoulli_nll(x, logits):
    p = 1 / (1 + np.exp(-logits))
    return -(x * np.log(p) + (1 - x) * np.log(1 - p)).sum(axis=1)


def by_hand(network, x, noise):
    """Reconstruction error and KL divergence of each row."""
    mean, log_variance = np.split(forward(network.encoder, x), 2, axis=1)
    z = mean + noise * np.exp(log_variance / 2)
    # KL(N(m, s²) ‖ N(0, 1)) = −log s + (s² + m²) / 2 − 1/2
    kl = (-log_variance / 2 + (np.exp(log_variance) + mean**2) / 2 - 0.5).sum(axis=1)
    return bernoulli_nll(x, forward(network.decoder, z)), kl


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_loss_by_hand(beta):
    network, x = vae(beta=beta), inputs(6, 3)
    noise = torch.randn(6, 2, generator=rng(9)).numpy()
    reconstruction, kl = by_hand(network, x.numpy().astype(float), noise)
    assert float(network.loss(x, rng(9)).detach()) == pytest.approx(
        (reconstruction + beta * kl).mean(), rel=1e-5
    )


def test_the_kl_term_is_zero_for_the_prior():
    network, x = vae(), inputs(6, 3)
    with torch.no_grad():
        network.encoder[-1].weight.zero_()  # q(z | x) = N(bias, 1) for every x
    without = vae(beta=0.0)
    without.load_state_dict(network.state_dict())
    assert float(network.loss(x, rng(9)).detach()) == pytest.approx(
        float(without.loss(x, rng(9)).detach())
    )
    for each in (network, without):
        with torch.no_grad():
            each.encoder[-1].bias.copy_(torch.tensor([1.0, 2.0, 0.0, 0.0]))
    gap = float(network.loss(x, rng(9)).detach()) - float(without.loss(x, rng(9)).detach())
    assert gap == pytest.approx((1 + 4) / 2, rel=1e-4)


def test_reconstruction_uses_the_mean_of_q():
    network, x = vae(), inputs(6, 3)
    mean = np.split(forward(network.encoder, x.numpy().astype(float)), 2, axis=1)[0]
    logits = forward(network.decoder, mean)
    np.testing.assert_allclose(network.reconstruct(x), 1 / (1 + np.exp(-logits)), rtol=1e-5)
    np.testing.assert_allclose(
        network.reconstruction_loss(x), bernoulli_nll(x.numpy().astype(float), logits), rtol=1e-5
    )


def test_a_sample_decodes_the_prior():
    network = vae()
    z = torch.randn(5, 2, generator=rng(3)).numpy().astype(float)
    np.testing.assert_allclose(
        network.sample(5, rng(3)), 1 / (1 + np.exp(-forward(network.decoder, z))), rtol=1e-5
    )


def test_encode_returns_the_mean_and_deviation_of_q():
    network, x = vae(), inputs(5, 3)
    found = forward(network.encoder, x.numpy().astype(float))
    mean, deviation = network.encode(x)
    np.testing.assert_allclose(mean, found[:, :2], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(deviation, np.exp(found[:, 2:] / 2), rtol=1e-4)
    assert not mean.requires_grad
    assert isinstance(network, LatentGenerator)


@pytest.mark.parametrize("shape", [(9, 7, 3), (9, 7), (28, 28), (5, 5, 1), (16,)])
@pytest.mark.parametrize("convolutions", [(), (4,), (4, 6), (2, 3, 4)], ids=str)
def test_any_shape_is_kept(shape, convolutions):
    network = vae(shape, hidden=(8,), convolutions=convolutions)
    d = int(np.prod(shape))
    x = inputs(3, d)
    assert network.reconstruct(x).shape == (3, d)
    assert network.sample(2, rng()).shape == (2, d)
    assert network.sample(0, rng()).shape == (0, d)
    assert network.reconstruct(x[:0]).shape == (0, d)
    network.fit(x, rng(), ignore)


def test_convolutions_need_an_image():
    with pytest.raises(ValueError, match="10 features are not a square image"):
        vae((10,), convolutions=(4,))


def test_no_hidden_layer_is_allowed():
    assert vae(hidden=()).reconstruct(inputs(2, 3)).shape == (2, 3)
    assert vae((8, 8), hidden=(), convolutions=(4,)).reconstruct(inputs(2, 64)).shape == (2, 64)


def test_it_learns_two_patterns():
    x = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 1]]).repeat(32, 1)
    network = vae(
        (4,),
        hidden=(16,),
        beta=0.1,
        schedule=Schedule(epochs=60, batch_size=16, learning_rate=0.01),
    )
    network.fit(x, rng(), ignore)
    assert (network.reconstruct(x) - x).abs().max() < 0.1
    dreams = network.sample(50, rng(5))
    assert 5 < int((dreams[:, 0] > 0.5).sum()) < 45, "samples are of both patterns"


def test_a_huge_log_variance_gives_a_finite_loss_and_a_gradient_that_lowers_it():
    network = vae((4,), hidden=())
    with torch.no_grad():
        network.encoder[-1].bias[2:] = 500.0  # the log-variances
    loss = network.loss(inputs(8, 4), rng(1))
    assert torch.isfinite(loss)
    loss.backward()
    assert (network.encoder[-1].bias.grad[2:] > 0).all()
