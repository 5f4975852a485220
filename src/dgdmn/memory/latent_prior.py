"""Class-conditional Gaussian mixture over a generator's latents, of bounded size."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from dgdmn.storage import State, check_class_indices

KMEANS_ROUNDS = 15  # the assignment hardly changes after these
MIN_SAMPLES_PER_COMPONENT = 20  # fewer do not determine a covariance
MIN_VARIANCE = 1e-4  # added to every covariance, so that it has a Cholesky factor
MIN_ROOT = 1e-12  # smallest diagonal value of a loaded Cholesky factor; a fitted one is far larger
ROWS_PER_BLOCK = 64  # latents scored at once; this many fit into a cache


@dataclass(frozen=True, eq=False)
class LatentPrior:
    """Class-conditional Gaussian mixture over latents. Immutable: `fit` returns a new prior.

    Sampling from N(0, I) hits regions between classes that decode to no class; sampling from this mixture does
    not. A draw has a known label, and classes get equal shares. There are at most `budget` components, or one
    per class if there are more classes, however many tasks come. A component takes 1 + d + d² floats.
    """

    budget: int
    latent_dim: int
    labels: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """Class of each component, ascending."""
    weights: Tensor = field(default_factory=lambda: torch.zeros(0))
    """Share of the class's samples in each component."""
    means: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    """Shape (components, latent_dim)."""
    roots: Tensor = field(default_factory=lambda: torch.zeros(0, 0, 0))
    """Lower Cholesky factors of the covariances."""

    def __bool__(self) -> bool:
        return len(self.labels) > 0

    def capacity_bytes(self, n_classes: int) -> int:
        """Bytes of as many components as this many classes may have."""
        d = self.latent_dim
        per_component = self.labels.itemsize + self.weights.itemsize * (1 + d + d * d)
        return max(self.budget, n_classes) * per_component

    def fit(self, mean: Tensor, deviation: Tensor, y: Tensor, rng: torch.Generator) -> Self:
        """A prior of samples of these classes with posteriors N(mean, deviation²)."""
        classes = y.unique(sorted=True).tolist()
        k_max = max(1, self.budget // len(classes))
        parts = [_mixture(mean[y == label], deviation[y == label], k_max, rng) for label in classes]
        counts = torch.tensor([len(part[0]) for part in parts], device=y.device)
        labels = torch.tensor(classes, device=y.device).repeat_interleave(counts)
        weights, means, roots = (torch.cat(column) for column in zip(*parts, strict=True))
        return replace(self, labels=labels, weights=weights, means=means, roots=roots)

    def sample(self, n: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """n latents and their labels: equal shares of the classes, components by weight."""
        labels, weights = self.labels.cpu(), self.weights.cpu()
        classes = labels.unique()
        counts = torch.zeros(len(labels), dtype=torch.int64)
        shares = _apportion(n, torch.ones(len(classes)), rng).tolist()
        for label, each in zip(classes, shares, strict=True):
            counts[labels == label] = _apportion(each, weights[labels == label], rng)
        noise = torch.randn(n, self.means.shape[1], generator=rng).to(self.means.device)
        parts = zip(self.means, noise.split(counts.tolist()), self.roots.mT, strict=True)
        z = [torch.addmm(*part) for part in parts]
        return torch.cat(z), self.labels.repeat_interleave(counts.to(self.labels.device))

    def sample_for(self, y: Tensor, rng: torch.Generator) -> Tensor:
        """One latent for each of these class indices."""
        shares = torch.where(self.labels == y[:, None], self.weights, 0.0).cumsum(dim=1)
        points = torch.rand(len(y), 1, generator=rng).to(shares.device) * shares[:, -1:]
        chosen = (shares <= points).sum(dim=1).clamp(max=len(self.labels) - 1)
        noise = torch.randn(len(y), self.means.shape[1], 1, generator=rng).to(self.means.device)
        return torch.baddbmm(self.means[chosen, :, None], self.roots[chosen], noise)[:, :, 0]

    def log_density(self, z: Tensor) -> Tensor:
        """log p(z) with equal class probabilities, shape (n,)."""
        return self._component_scores(z).logsumexp(dim=0) - math.log(len(self.labels.unique()))

    def log_likelihood(self, z: Tensor, n_classes: int) -> Tensor:
        """log p(z | y) of each class y, shape (n, n_classes); −∞ for a class it never learned."""
        each = self._component_scores(z)
        by_class = each.new_full((n_classes, len(z)), -torch.inf)
        for label in self.labels.unique():
            by_class[label] = each[self.labels == label].logsumexp(dim=0)
        return by_class.T

    def _component_scores(self, z: Tensor) -> Tensor:
        """log(weight · N(z; mean, covariance)) in each component, shape (components, n)."""
        k, d = self.means.shape
        # R⁻¹ z − R⁻¹ m of all components as one product: four times as fast as k triangular solves
        unit = torch.eye(d, dtype=torch.float64, device=z.device)
        inverses = torch.linalg.solve_triangular(self.roots.double(), unit, upper=False)
        shift = -(inverses @ self.means.double()[:, :, None]).flatten().float()
        stacked = inverses.reshape(k * d, d).T.float()
        distances = [
            torch.addmm(shift, part, stacked).square_().view(-1, k, d).sum(dim=2)
            for part in z.split(ROWS_PER_BLOCK)
        ]
        log_roots = self.roots.diagonal(dim1=1, dim2=2).log().sum(dim=1)
        log_norms = log_roots + d / 2 * math.log(2 * math.pi)
        return (self.weights.log() - log_norms - torch.cat(distances) / 2).T

    def state(self) -> State:
        d = self.latent_dim
        means, roots = self.means.reshape(-1, d), self.roots.reshape(-1, d, d)
        return {"labels": self.labels, "weights": self.weights, "means": means, "roots": roots}

    def with_state(self, state: State, n_classes: int) -> Self:
        """The prior that `state` described, of some of these classes."""
        n, d = len(check_class_indices(state["labels"], n_classes)), self.latent_dim
        shapes = {"labels": (n,), "weights": (n,), "means": (n, d), "roots": (n, d, d)}
        prior = replace(self, **check_arrays(self, state, shapes))
        weights, roots = prior.weights, prior.roots
        if (prior.labels.diff() < 0).any():
            raise ValueError("labels of the latent prior are not sorted")
        if ((weights <= 0) | (weights > 1)).any():
            raise ValueError("weights of the latent prior are not in (0, 1]")
        if (roots.diagonal(dim1=1, dim2=2) < MIN_ROOT).any() or (roots.triu(1) != 0).any():
            raise ValueError("roots of the latent prior are not Cholesky factors")
        return prior


def check_arrays(part: Any, state: State, shapes: dict[str, tuple[int, ...]]) -> State:
    """These arrays of a state; each must have its shape here, and the type of the part's own array."""
    for name, shape in shapes.items():
        given = state[name]
        if given.dtype != getattr(part, name).dtype or given.shape != shape:
            raise ValueError(f"{name} of {type(part).__name__} are {given.dtype} of {given.shape}")
    return {name: state[name] for name in shapes}


def _apportion(n: int, weights: Tensor, rng: torch.Generator) -> Tensor:
    """Split n into integer counts proportional to weights; remainders are drawn at random."""
    exact = n * weights.double() / weights.double().sum()
    counts = (exact + 1e-6).floor().long()
    remainder = n - int(counts.sum())
    if remainder > 0:
        extra = torch.multinomial((exact - counts).clamp(min=0) + 1e-9, remainder, generator=rng)
        counts[extra] += 1
    return counts


def _mixture(
    mean: Tensor, deviation: Tensor, k_max: int, rng: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, means and Cholesky factors of at most `k_max` components.

    A covariance is that of the posterior means plus the mean posterior variance, shrunk towards the class's
    covariance as if d more samples had that one.
    """
    k = max(1, min(k_max, len(mean) // MIN_SAMPLES_PER_COMPONENT))
    members = F.one_hot(kmeans(mean, k, rng), k).float().T
    members = members[members.sum(dim=1) > 0]
    count, d = members.sum(dim=1), mean.shape[1]
    class_covariance = _covariance(mean, deviation)
    roots, centers = [], []
    for chosen, n in zip(members.bool(), count, strict=True):
        own = _covariance(mean[chosen], deviation[chosen])
        pooled = (n * own + d * class_covariance) / (n + d) if k > 1 else own
        roots.append(_root(pooled + MIN_VARIANCE * torch.eye(d, device=mean.device)))
        centers.append(mean[chosen].mean(dim=0))
    return count / len(mean), torch.stack(centers), torch.stack(roots)


def _root(covariance: Tensor) -> Tensor:
    """Lower Cholesky factor; nearly singular covariances are factorized in float64 with a small ridge."""
    root: Tensor
    root, failed = torch.linalg.cholesky_ex(covariance)
    if failed:
        ridge = covariance.diagonal().max() * torch.finfo(covariance.dtype).eps * len(covariance)
        wider = covariance.double() + ridge * torch.eye(len(covariance), device=covariance.device)
        root = torch.linalg.cholesky(wider).to(covariance.dtype)
    return root


def _covariance(mean: Tensor, deviation: Tensor) -> Tensor:
    centered = mean - mean.mean(dim=0)
    return centered.T @ centered / len(mean) + torch.diag(deviation.square().mean(dim=0))


def kmeans(points: Tensor, k: int, rng: torch.Generator) -> Tensor:
    """The cluster of each point, by k-means++ (Arthur and Vassilvitskii 2007); a cluster may end up empty.

    Not scikit-learn's: its threads add up in any order, and a resumed run must give the same bits.
    """
    centers = points[:1]
    distances = torch.cdist(points, centers)[:, 0].square()
    for _ in range(k - 1):
        chosen = int(torch.multinomial(distances.cpu() + 1e-12, 1, generator=rng))
        centers = torch.cat([centers, points[chosen : chosen + 1]])
        distances = distances.minimum(torch.cdist(points, centers[-1:])[:, 0].square())
    for _ in range(KMEANS_ROUNDS):
        members = F.one_hot(torch.cdist(points, centers).argmin(dim=1), k).float()
        count = members.sum(dim=0)[:, None]
        centers = torch.where(count > 0, members.T @ points / count.clamp(min=1), centers)
    return torch.cdist(points, centers).argmin(dim=1)
