"""The latent prior: it fits what is there, draws equal shares of the classes, and stays in its budget."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdmn.memory.latent_prior import LatentPrior, _apportion, kmeans


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def fitted(mean, deviation, y, budget=2, seed=0):
    return LatentPrior(budget, mean.shape[1]).fit(mean, deviation, y, rng(seed))


def test_fitting_returns_a_new_prior():
    empty = LatentPrior(5, 3)
    assert not empty
    prior = empty.fit(
        torch.randn(9, 3, generator=rng()), torch.ones(9, 3), torch.ones(9).long(), rng()
    )
    assert prior
    assert not empty


def test_one_gaussian_has_the_moments_of_all_posteriors():
    """By hand: the covariance of the means, and the mean variance of the posteriors on its diagonal."""
    mean = torch.tensor([[0.0, 0.0], [2.0, 2.0], [0.0, 2.0], [2.0, 0.0]])
    deviation = torch.tensor([[1.0, 2.0]]).expand(4, 2)
    prior = fitted(mean, deviation, torch.zeros(4, dtype=torch.long), budget=1)
    assert prior.means.tolist() == [[1.0, 1.0]]
    covariance = prior.roots[0] @ prior.roots[0].T
    assert torch.allclose(covariance, torch.tensor([[1 + 1.0, 0.0], [0.0, 1 + 4.0]]), atol=1e-3)


def test_samples_have_the_moments_that_were_fitted():
    root = torch.tensor([[1.0, 0.0], [0.8, 0.3]])
    mean = torch.randn(4000, 2, generator=rng(1)) @ root.T + torch.tensor([3.0, -1.0])
    prior = fitted(mean, torch.full_like(mean, 0.1), torch.zeros(4000, dtype=torch.long), budget=1)
    z, _ = prior.sample(20_000, rng(2))
    assert torch.allclose(z.mean(dim=0), torch.tensor([3.0, -1.0]), atol=0.05)
    assert torch.allclose(torch.cov(z.T), root @ root.T + 0.01 * torch.eye(2), atol=0.06)


def test_classes_get_equal_shares_whatever_their_sizes():
    y = torch.tensor([0] * 900 + [7] * 100)
    mean = torch.where(y[:, None] == 0, 0.0, 50.0) + torch.randn(1000, 3, generator=rng(1))
    prior = fitted(mean, torch.ones(1000, 3), y, budget=6)
    z, labels = prior.sample(500, rng(3))
    assert labels.bincount(minlength=8).tolist() == [250, 0, 0, 0, 0, 0, 0, 250]
    assert torch.equal(z.mean(dim=1) > 25, labels == 7), "a label belongs to its place"


def test_components_are_sampled_by_their_weights():
    mean = torch.cat([torch.zeros(300, 1), torch.full((100, 1), 90.0)])
    prior = fitted(
        mean, torch.full((400, 1), 0.01), torch.zeros(400, dtype=torch.long), budget=2, seed=1
    )
    z, _ = prior.sample(400, rng(0))
    assert int((z > 45).sum()) == 100


@settings(max_examples=40, deadline=None)
@given(
    classes=st.integers(1, 12),
    budget=st.integers(1, 20),
    each=st.integers(1, 60),
    n=st.integers(0, 50),
)
def test_it_stays_in_its_budget_and_returns_n_samples(classes, budget, each, n):
    y = torch.arange(classes).repeat_interleave(each)
    mean = torch.randn(len(y), 2, generator=rng(classes))
    prior = fitted(mean, torch.ones(len(y), 2), y, budget)
    assert len(prior.labels) <= max(budget, classes)
    assert prior.labels.unique().tolist() == list(range(classes))
    z, labels = prior.sample(n, rng(1))
    assert z.shape == (n, 2)
    assert len(labels) == n
    assert torch.isfinite(z).all()
    sums = torch.zeros(classes).index_add_(0, prior.labels, prior.weights)
    assert torch.allclose(sums, torch.ones(classes))


def test_the_same_seed_gives_the_same_bits():
    mean, y = torch.randn(200, 4, generator=rng(0)), torch.arange(200) % 2
    one, two = (fitted(mean, torch.ones(200, 4), y, 8) for _ in range(2))
    assert torch.equal(one.roots, two.roots)
    assert torch.equal(one.sample(30, rng(1))[0], two.sample(30, rng(1))[0])


def test_it_is_saved_and_loaded():
    mean, y = torch.randn(200, 4, generator=rng(0)), torch.arange(200) % 2
    prior = fitted(mean, torch.ones(200, 4), y, 8)
    other = LatentPrior(8, 4).with_state(prior.state(), 10)
    assert torch.equal(prior.sample(30, rng(1))[0], other.sample(30, rng(1))[0])


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("means", torch.zeros(2, 5)),
        ("roots", torch.zeros(1, 4, 4)),
        ("weights", torch.zeros(2).double()),
    ],
)
def test_parts_that_do_not_fit_are_refused(part, wrong):
    mean = torch.randn(40, 4, generator=rng(0))
    state = fitted(mean, torch.ones(40, 4), torch.arange(40) % 2, 2).state()
    with pytest.raises(ValueError, match=part):
        LatentPrior(2, 4).with_state({**state, part: wrong}, 10)


def test_samples_for_labels_lie_where_their_classes_do():
    y = torch.tensor([0] * 300 + [7] * 300)
    mean = torch.where(y[:, None] == 0, 0.0, 50.0) + torch.randn(600, 3, generator=rng(1))
    prior = fitted(mean, torch.full((600, 3), 0.1), y, budget=6)
    wanted = torch.tensor([7, 0, 0, 7]).repeat(500)
    z = prior.sample_for(wanted, rng(2))
    assert torch.equal(z.mean(dim=1) > 25, wanted == 7)
    drawn = prior.sample(2000, rng(3))[0]
    assert torch.allclose(z.mean(dim=0), drawn.mean(dim=0), atol=0.2)
    assert torch.allclose(torch.cov(z.T), torch.cov(drawn.T), rtol=0.02)
    assert prior.sample_for(wanted[:0], rng(2)).shape == (0, 3)


def test_samples_for_a_label_have_the_covariance_of_its_component():
    """One class, one component, values that are correlated and of unequal size."""
    spread = torch.tensor([[3.0, 0.0, 0.0], [2.0, 0.5, 0.0], [0.0, 0.0, 0.1]])
    mean = torch.randn(400, 3, generator=rng(1)) @ spread.T
    prior = fitted(mean, torch.full((400, 3), 0.01), torch.zeros(400, dtype=torch.long), budget=1)
    z = prior.sample_for(torch.zeros(40_000, dtype=torch.long), rng(2))
    covariance = prior.roots[0] @ prior.roots[0].T
    size = covariance.diagonal().sqrt()
    assert torch.allclose(
        torch.cov(z.T) / size.outer(size), covariance / size.outer(size), atol=0.03
    )
    assert torch.allclose(z.mean(dim=0) / size, prior.means[0] / size, atol=0.03)


def test_a_covariance_is_shrunk_towards_that_of_its_class():
    """By hand: as if d more samples had the covariance of the whole class."""
    mean = torch.cat(
        [torch.randn(30, 2, generator=rng(1)), 60 + torch.randn(70, 2, generator=rng(2))]
    )
    deviation = torch.full((100, 2), 0.5)
    prior = fitted(mean, deviation, torch.zeros(100, dtype=torch.long), budget=2, seed=1)
    whole = torch.cov(mean.T, correction=0) + 0.25 * torch.eye(2)
    for middle, root in zip(prior.means, prior.roots, strict=True):
        part = mean[:30] if middle[0] < 30 else mean[30:]
        assert torch.allclose(middle, part.mean(dim=0), atol=1e-4)
        own = torch.cov(part.T, correction=0) + 0.25 * torch.eye(2)
        by_hand = (len(part) * own + 2 * whole) / (len(part) + 2)
        assert torch.allclose(root @ root.T, by_hand, rtol=1e-3, atol=1e-3)


def test_samples_for_a_label_choose_components_by_weight():
    mean = torch.cat([torch.zeros(300, 1), torch.full((100, 1), 90.0)])
    prior = fitted(
        mean, torch.full((400, 1), 0.01), torch.zeros(400, dtype=torch.long), budget=2, seed=1
    )
    z = prior.sample_for(torch.zeros(8000, dtype=torch.long), rng(0))
    assert float((z > 45).float().mean()) == pytest.approx(0.25, abs=0.02)


def test_the_density_is_that_of_the_mixture():
    """Against torch.distributions."""
    y = torch.arange(300) % 3
    mean = torch.randn(300, 4, generator=rng(1)) + 3 * y[:, None]
    prior = fitted(mean, torch.ones(300, 4), y, budget=6)
    parts = torch.distributions.MultivariateNormal(prior.means, scale_tril=prior.roots)
    mixture = torch.distributions.MixtureSameFamily(
        torch.distributions.Categorical(prior.weights / prior.weights.sum()), parts
    )
    z = torch.randn(20, 4, generator=rng(2))
    assert torch.allclose(prior.log_density(z), mixture.log_prob(z), atol=1e-4)


def test_the_likelihood_is_that_of_the_mixture_of_each_class():
    """Against torch.distributions; a class that was never learned has likelihood 0."""
    y = torch.tensor([0, 2, 2, 3] * 80)
    mean = torch.randn(320, 4, generator=rng(1)) + 3 * y[:, None]
    prior = fitted(mean, torch.ones(320, 4), y, budget=6)
    z = torch.randn(20, 4, generator=rng(2))
    found = prior.log_likelihood(z, 5)
    for label in range(5):
        own = prior.labels == label
        if label in (1, 4):
            assert bool((found[:, label] == -torch.inf).all())
            continue
        mixture = torch.distributions.MixtureSameFamily(
            torch.distributions.Categorical(prior.weights[own]),
            torch.distributions.MultivariateNormal(prior.means[own], scale_tril=prior.roots[own]),
        )
        assert torch.allclose(found[:, label], mixture.log_prob(z), atol=1e-4)


def test_kmeans_separates_distant_groups():
    points = torch.cat([torch.randn(50, 2, generator=rng(n)) + 40 * n for n in range(3)])
    found = kmeans(points, 3, rng(4)).reshape(3, 50)
    assert all(len(group.unique()) == 1 for group in found)
    assert len(found[:, 0].unique()) == 3


@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
def test_nearly_singular_covariances_have_a_root(scale):
    """Latents almost in a plane; a user's generator may produce them. float32 alone finds no root."""
    flat = torch.randn(200, 2, generator=rng(1)) @ torch.randn(2, 24, generator=rng(2))
    prior = fitted(
        scale * flat, torch.full((200, 24), 1e-3), torch.zeros(200, dtype=torch.long), budget=1
    )
    covariance = torch.cov((scale * flat).T, correction=0)
    difference = prior.roots[0] @ prior.roots[0].T - covariance
    assert float(difference.abs().max()) < 1e-3 * float(covariance.abs().max())
    assert torch.isfinite(prior.sample(9, rng())[0]).all()


@given(
    n=st.integers(0, 1000),
    weights=st.lists(st.floats(0.01, 100), min_size=1, max_size=9),
    seed=st.integers(0, 99),
)
def test_apportion_splits_n_in_proportion(n, weights, seed):
    counts = _apportion(n, torch.tensor(weights), rng(seed))
    exact = n * torch.tensor(weights).double() / torch.tensor(weights).double().sum()
    assert int(counts.sum()) == n
    assert float((counts - exact).abs().max()) < 1 + 1e-5
