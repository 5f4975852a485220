"""Classifiers: their formulas, their growth and their limits."""

import numpy as np
import pytest
import torch

from dgdmn.core.batch import Batch
from dgdmn.core.events import ignore
from dgdmn.networks.classifier import Classifier, cross_entropy
from dgdmn.networks.train import Schedule


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
    hidden = np.maximum(
        x.numpy() @ first.weight.detach().numpy().T + first.bias.detach().numpy(), 0
    )
    logits = hidden @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(network.predict_proba(x), p, rtol=1e-5)
    expected = -np.log(p[np.arange(6), y]).mean()
    assert float(network.loss(x, y, rng()).detach()) == pytest.approx(expected, rel=1e-5)


def test_clipped_cross_entropy_by_hand():
    """−log of the label's probability clipped to [c, 1 − c]; the gradient is p − onehot inside, 0 outside."""
    p = np.array([[0.005, 0.6, 0.395], [0.3, 0.3, 0.4], [0.002, 0.003, 0.995]])
    logits = torch.tensor(np.log(p), dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 1, 2])
    loss = cross_entropy(logits, y, 0.01)
    assert float(loss.detach()) == pytest.approx(-np.log([0.01, 0.3, 0.99]).mean())
    (gradient,) = torch.autograd.grad(loss, logits)
    np.testing.assert_allclose(
        gradient, [[0, 0, 0], np.array([0.3, 0.3 - 1, 0.4]) / 3, [0, 0, 0]], atol=1e-12
    )
    exact = torch.nn.functional.cross_entropy(logits, y)
    assert float(cross_entropy(logits, y).detach()) == float(exact.detach())
    rows = torch.nn.functional.one_hot(y).double()
    assert float(cross_entropy(logits, rows, 0.01).detach()) == pytest.approx(float(loss.detach()))


@pytest.mark.parametrize("clip", [0.0, 1e-7])
def test_only_exact_cross_entropy_learns_a_class_that_is_too_improbable(clip):
    """What probably happened to the paper's networks: a class comes when its probability is almost 0."""
    network = classifier(
        n_classes=2, clip_probability=clip, schedule=Schedule(epochs=200, batch_size=8)
    )
    first, second = inputs(8, 3), inputs(8, 3) + 2
    with torch.no_grad():
        network.head.bias[1] = -40.0
    network.fit(Batch(first, torch.zeros(8, dtype=torch.long)), rng(), ignore)
    before = network(second).detach()
    network.schedule = Schedule(epochs=400, batch_size=8, learning_rate=0.05)
    network.fit(Batch(second, torch.ones(8, dtype=torch.long)), rng(), ignore)
    learned = bool((network.predict_proba(second).argmax(dim=1) == 1).all())
    assert learned == (clip == 0)
    assert torch.equal(network(second).detach(), before) == (clip > 0), "no gradient, no change"


def test_growing_keeps_the_old_outputs():
    network, x = classifier(), inputs(6, 3)
    network.fit(Batch(x, torch.tensor([0, 1, 2, 3, 0, 1])), rng(), ignore)
    before = network(x).detach()
    network.grow(7, rng(2))
    after = network(x).detach()
    assert after.shape == (6, 7)
    torch.testing.assert_close(after[:, :4], before)
    network.grow(2, rng(3))
    assert network(x).shape == (6, 7), "it never shrinks"


@pytest.mark.parametrize("shape", [(9, 7, 3), (10, 10), (100,)])
def test_convolutions_accept_images_of_any_shape(shape):
    network = classifier(shape, convolutions=(4,))
    assert network.predict_proba(inputs(3, int(np.prod(shape)))).shape == (3, 4)


@pytest.mark.parametrize(
    ("shape", "convolutions"), [((9, 7), (4, 4)), ((3, 3), (4,)), ((2, 28), (4,))]
)
def test_images_too_small_for_their_convolutions_are_refused(shape, convolutions):
    with pytest.raises(ValueError, match=r"too small for \d convolutions"):
        classifier(shape, convolutions=convolutions)


def test_the_papers_sizes_for_shapes():
    """Appendix B: 12 and 20 kernels of 3 × 3, each with 2 × 2 pooling, then 16 and 6 units, on 28 × 28."""
    network = classifier((28, 28), 6, hidden=(16,), convolutions=(12, 20))
    sizes = [tuple(p.shape) for p in network.parameters() if p.ndim > 1]
    assert sizes == [(12, 1, 3, 3), (20, 12, 3, 3), (16, 20 * 5 * 5), (6, 16)]


def test_no_hidden_layer_is_logistic_regression():
    assert [tuple(p.shape) for p in classifier(hidden=()).parameters()] == [(4, 3), (4,)]
