"""Classifiers: their formula, their growth, their limits."""

import numpy as np
import pytest
import torch

from dgdmn.events import ignore
from dgdmn.networks.learner import Classifier
from dgdmn.networks.training import Schedule
from dgdmn.samples import Samples


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def classifier(shape=(3,), n_classes=4, hidden=(5,), **options):
    options.setdefault("schedule", Schedule(epochs=2, batch_size=4))
    return Classifier(shape, n_classes, hidden=hidden, rng=rng(), **options)


def inputs(n, d):
    return torch.rand(n, d, generator=rng(1))


def test_softmax_and_cross_entropy_by_hand():
    network, x, y = classifier(), inputs(6, 3), torch.tensor([0, 1, 2, 3, 0, 1])
    first, head = network.body[0], network.head
    hidden = np.maximum(x.numpy() @ first.weight.detach().numpy().T + first.bias.detach().numpy(), 0)
    logits = hidden @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(network.probabilities(x), p, rtol=1e-5)
    expected = -np.log(p[np.arange(6), y]).mean()
    assert float(network.loss(x, y, rng()).detach()) == pytest.approx(expected, rel=1e-5)


def test_growing_keeps_the_old_outputs_to_the_bit():
    network, x = classifier(), inputs(6, 3)
    network.fit(Samples(x, torch.tensor([0, 1, 2, 3, 0, 1])), rng(), ignore)
    before = network(x).detach()
    network.grow(7, rng(2))
    after = network(x).detach()
    assert after.shape == (6, 7)
    torch.testing.assert_close(after[:, :4], before)
    network.grow(2, rng(3))
    assert network(x).shape == (6, 7), "it never shrinks"


def test_growing_with_kept_squares_goes_on():
    network = classifier(keep_optimiser=True)
    samples = Samples(inputs(6, 3), torch.tensor([0, 1, 2, 3, 0, 1]))
    network.fit(samples, rng(), ignore)
    network.grow(6, rng(1))
    network.fit(Samples(samples.x, samples.y + 2), rng(), ignore)
    assert len(network.squares) == len(list(network.parameters()))


@pytest.mark.parametrize("shape", [(9, 7, 3), (10, 10), (100,)])
def test_convolutions_take_images_of_any_kind(shape):
    network = classifier(shape, convolutions=(4,))
    assert network.probabilities(inputs(3, int(np.prod(shape)))).shape == (3, 4)


@pytest.mark.parametrize(("shape", "convolutions"), [((9, 7), (4, 4)), ((3, 3), (4,)), ((2, 28), (4,))])
def test_images_too_small_for_their_convolutions_are_refused(shape, convolutions):
    with pytest.raises(ValueError, match=r"too small for \d convolutions"):
        classifier(shape, convolutions=convolutions)


def test_paper_sizes_of_shapes():
    """Appendix B: 12 and 20 kernels of 3 × 3, each with 2 × 2 pooling, then 16 and 6 units, on 28 × 28."""
    network = classifier((28, 28), 6, hidden=(16,), convolutions=(12, 20))
    sizes = [tuple(p.shape) for p in network.parameters() if p.ndim > 1]
    assert sizes == [(12, 1, 3, 3), (20, 12, 3, 3), (16, 20 * 5 * 5), (6, 16)]


def test_no_hidden_layer_is_logistic_regression():
    assert [tuple(p.shape) for p in classifier(hidden=()).parameters()] == [(4, 3), (4,)]
