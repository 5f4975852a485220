"""Where a generator's latents lie: a bounded mixture of Gaussians for each class, to dream from."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from dgdmn.storage import State

_ROUNDS = 15
"""Rounds of k-means: the assignment hardly moves after these, and dreams do not notice."""
_LEAST = 20
"""Least samples for a component: fewer say little about a spread."""
_NARROWEST = 1e-4
"""Least variance in any direction, so that a covariance has a root."""
_AT_ONCE = 64
"""Latents whose distances to all components are taken at once: these fit into a cache."""


class LatentPrior:
    """A mixture of Gaussians for each class, fitted to the posteriors q(z | x) of its samples.

    N(0, I) is where a generator's latents should lie, not where they do: between the classes there are holes,
    and a dream from a hole is of no class. A draw from here has a known label, and classes come in equal shares.
    It costs 1 + d + d² floats a component, d being the latent's size, and has at most `budget` components
    (one a class, if there are more classes) however many tasks come: each consolidation fits it anew to what
    the generator was trained on, old and new.
    """

    def __init__(self, budget: int, latent: int) -> None:
        self.budget = budget
        self.labels = torch.zeros(0, dtype=torch.int64)
        """Class of each component, ascending."""
        self.weights = torch.zeros(0)
        """Share of the class's samples in each component."""
        self.means = torch.zeros(0, latent)
        self.roots = torch.zeros(0, latent, latent)
        """Lower triangular roots of the covariances."""

    def __bool__(self) -> bool:
        """Whether it was ever fitted."""
        return len(self.labels) > 0

    def room(self, n_classes: int) -> int:
        """Bytes of as many components as there may be with so many classes."""
        d = self.means.shape[1]
        return max(self.budget, n_classes) * (self.labels.itemsize + self.means.itemsize * (1 + d + d * d))

    def fit(self, mean: Tensor, deviation: Tensor, y: Tensor, rng: torch.Generator) -> None:
        """Fit to samples of these classes with posteriors N(mean, deviation²); what was fitted before is gone."""
        classes = y.unique(sorted=True).tolist()
        most = max(1, self.budget // len(classes))
        parts = [_mixture(mean[y == label], deviation[y == label], most, rng) for label in classes]
        self.labels = torch.repeat_interleave(
            torch.tensor(classes, device=y.device),
            torch.tensor([len(part[0]) for part in parts], device=y.device),
        )
        self.weights, self.means, self.roots = (torch.cat(column) for column in zip(*parts, strict=True))

    def draw(self, n: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """n latents and their labels: as many of each class, and of each component by its weight, as can be.

        What does not come out even is drawn by lot.
        """
        labels, weights = self.labels.cpu(), self.weights.cpu()
        classes = labels.unique()
        counts = torch.zeros(len(labels), dtype=torch.int64)
        for label, each in zip(classes, _dealt(n, torch.ones(len(classes)), rng).tolist(), strict=True):
            counts[labels == label] = _dealt(each, weights[labels == label], rng)
        noise = (
            torch.randn(n, self.means.shape[1], generator=rng).to(self.means.device).split(counts.tolist())
        )
        z = [torch.addmm(*part) for part in zip(self.means, noise, self.roots.mT, strict=True)]
        return torch.cat(z), self.labels.repeat_interleave(counts.to(self.labels.device))

    def latents_of(self, y: Tensor, rng: torch.Generator) -> Tensor:
        """A latent of each of these classes."""
        shares = torch.where(self.labels == y[:, None], self.weights, 0.0).cumsum(dim=1)
        lots = torch.rand(len(y), 1, generator=rng).to(shares.device) * shares[:, -1:]
        chosen = (shares <= lots).sum(dim=1).clamp(max=len(self.labels) - 1)
        noise = torch.randn(len(y), self.means.shape[1], 1, generator=rng).to(self.means.device)
        return torch.baddbmm(self.means[chosen, :, None], self.roots[chosen], noise)[:, :, 0]

    def log_density(self, z: Tensor) -> Tensor:
        """log p(z), each class being as likely as any other, shape (n,)."""
        return self._each(z).logsumexp(dim=0) - math.log(len(self.labels.unique()))

    def log_likelihood(self, z: Tensor, n_classes: int) -> Tensor:
        """log p(z | y) of each class y, shape (n, n_classes); −∞ of one that it never met."""
        each = self._each(z)
        by_class = each.new_full((n_classes, len(z)), -torch.inf)
        for label in self.labels.unique():
            by_class[label] = each[self.labels == label].logsumexp(dim=0)
        return by_class.T

    def _each(self, z: Tensor) -> Tensor:
        """log(weight · N(z; mean, covariance)) in each component, shape (components, n)."""
        k, d = self.means.shape
        # R⁻¹ z − R⁻¹ m of all components as one product, which is four times as fast as k triangular solutions
        unit = torch.eye(d, dtype=torch.float64, device=z.device)
        inverses = torch.linalg.solve_triangular(self.roots.double(), unit, upper=False)
        shift = -(inverses @ self.means.double()[:, :, None]).flatten().float()
        every = inverses.reshape(k * d, d).T.float()
        far = [
            torch.addmm(shift, part, every).square_().view(-1, k, d).sum(dim=2) for part in z.split(_AT_ONCE)
        ]
        sizes = self.roots.diagonal(dim1=1, dim2=2).log().sum(dim=1) + d / 2 * math.log(2 * math.pi)
        return (self.weights.log() - sizes - torch.cat(far) / 2).T

    def state(self) -> State:
        """The components; the budget is the preset's."""
        return {"labels": self.labels, "weights": self.weights, "means": self.means, "roots": self.roots}

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        n, d = len(state["labels"]), self.means.shape[1]
        shapes = {"labels": (n,), "weights": (n,), "means": (n, d), "roots": (n, d, d)}
        for name, shape in shapes.items():
            kept, given = getattr(self, name), state[name]
            if given.dtype != kept.dtype or given.shape != shape:
                raise ValueError(f"{name} of the latent prior are {given.dtype} of {tuple(given.shape)}")
            setattr(self, name, given.clone())


def _dealt(n: int, weights: Tensor, rng: torch.Generator) -> Tensor:
    """n things dealt out by weight; what does not come out even by lot."""
    share = n * weights.double() / weights.double().sum()
    counts = (share + 1e-6).floor().long()
    left = n - int(counts.sum())
    if left > 0:
        lots = torch.multinomial((share - counts).clamp(min=0) + 1e-9, left, generator=rng)
        counts[lots] += 1
    return counts


def _mixture(
    mean: Tensor, deviation: Tensor, most: int, rng: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, means and roots of the covariances of at most so many components.

    A covariance is that of the posteriors' means in the component and the mean of their variances, drawn
    towards the whole class's as if d more samples had that one: few samples do not say how d numbers vary.
    """
    k = max(1, min(most, len(mean) // _LEAST))
    members = F.one_hot(clustered(mean, k, rng), k).float().T
    members = members[members.sum(dim=1) > 0]
    count, d = members.sum(dim=1), mean.shape[1]
    whole = _covariance(mean, deviation)
    roots, middles = [], []
    for chosen, n in zip(members.bool(), count, strict=True):
        own = _covariance(mean[chosen], deviation[chosen])
        pooled = (n * own + d * whole) / (n + d) if k > 1 else own
        roots.append(_root(pooled + _NARROWEST * torch.eye(d, device=mean.device)))
        middles.append(mean[chosen].mean(dim=0))
    return count / len(mean), torch.stack(middles), torch.stack(roots)


def _root(covariance: Tensor) -> Tensor:
    """Its lower triangular root; where latents lie almost in a plane and far out, float32 is too coarse for one."""
    root: Tensor
    root, failed = torch.linalg.cholesky_ex(covariance)
    if failed:
        least = covariance.diagonal().max() * torch.finfo(covariance.dtype).eps * len(covariance)
        wider = covariance.double() + least * torch.eye(len(covariance), device=covariance.device)
        root = torch.linalg.cholesky(wider).to(covariance.dtype)
    return root


def _covariance(mean: Tensor, deviation: Tensor) -> Tensor:
    apart = mean - mean.mean(dim=0)
    return apart.T @ apart / len(mean) + torch.diag(deviation.square().mean(dim=0))


def clustered(points: Tensor, k: int, rng: torch.Generator) -> Tensor:
    """The cluster of each point, by k-means; a cluster may end up empty.

    It starts from points drawn one after the other, the more likely the farther from those before (Arthur and
    Vassilvitskii 2007). Not scikit-learn's: its threads add up in any order, and a run that goes on must
    have the same bits.
    """
    centres = points[:1]
    far = torch.cdist(points, centres)[:, 0].square()
    for _ in range(k - 1):
        chosen = int(torch.multinomial(far.cpu() + 1e-12, 1, generator=rng))
        centres = torch.cat([centres, points[chosen : chosen + 1]])
        far = torch.minimum(far, torch.cdist(points, centres[-1:])[:, 0].square())
    for _ in range(_ROUNDS):
        members = F.one_hot(torch.cdist(points, centres).argmin(dim=1), k).float()
        count = members.sum(dim=0)[:, None]
        centres = torch.where(count > 0, members.T @ points / count.clamp(min=1), centres)
    return torch.cdist(points, centres).argmin(dim=1)
