"""What all mixture memories of a model share: sizes, the fixed code, and the candidates for λ and g."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.config import Config
from dgdmn.core.errors import UsageError
from dgdmn.memory.gaussian import Doubles
from dgdmn.memory.unknown import SKETCH_BYTES

SHRINKAGES = (0.001, 0.01, 0.1, 0.3)
"""Candidates for λ, the weight of the diagonal in the pooled covariance."""
OWN_WEIGHTS = (0.0, 0.35, 0.5, 1.0)
"""Candidates for g, the weight of a component's own covariance."""
SETTINGS = tuple((shrinkage, weight) for shrinkage in SHRINKAGES for weight in OWN_WEIGHTS)
REFERENCE = (0.001, 0.5)
"""Every other setting is compared with this one. Relative scores always use it, so their counts can be added."""
MAX_FULL_CODE, CODE_DIM = 256, 192
"""Up to MAX_FULL_CODE features the code is the features in another order; with more it has CODE_DIM numbers."""
TEMPERATURES: tuple[float, ...] = tuple(2.0 ** (step / 2) for step in range(13))
"""Candidates for the divisor of scores that calibrates probabilities."""
DECODER_DIM = 64
"""Numbers of the code that dreams are decoded from."""


@dataclass(frozen=True)
class MixtureSpec:
    """Sizes and options that all mixture memories of a model share."""

    config: Config
    d: int
    """Features."""
    n_inputs: int = 0
    """Values of an input, if dreams are decoded by regression; 0 if `invert` is given or inputs are too large."""
    invert: Callable[[Doubles], NDArray[Any]] | None = None
    """The exact map from features to inputs, if there is one."""
    front_end_bytes: int = 0
    """Bytes that the front end keeps; part of `memory_budget`."""

    @property
    def shape(self) -> tuple[int]:
        return (self.d,)

    @property
    def q(self) -> int:
        """Numbers in the code."""
        if self.config.code_dim:
            return min(self.d, self.config.code_dim)
        return self.d if self.d <= MAX_FULL_CODE else CODE_DIM

    @property
    def code(self) -> Doubles:
        """U, shape (d, q): orthonormal, from `code_seed`; a permutation of the features if q = d."""
        return make_code(self.d, self.q, self.config.code_seed)

    @property
    def pool_bytes(self) -> int:
        """Bytes of the pool: S, St and counts."""
        counts = 8 * (2 * len(SETTINGS) + len(TEMPERATURES))
        decoder = 8 * (self.n_inputs * (DECODER_DIM + 1) + DECODER_DIM + 2) if self.n_inputs else 0
        sums = triangle_bytes(self.d, 8) + 16 * self.d
        return sums + triangle_bytes(self.q, 8) + counts + decoder

    @property
    def min_component_bytes(self) -> int:
        """Bytes of a component without its scatter."""
        return 4 * self.d + SKETCH_BYTES

    def check(self) -> None:
        """Raise an error if the pool and one component exceed the budget."""
        least = self.pool_bytes + self.front_end_bytes + self.min_component_bytes
        if least > self.config.memory_budget:
            raise UsageError(
                f"memory_budget is {self.config.memory_budget:,}; {self.d:,} features need at least "
                f"{least:,} bytes; raise it, or use fewer features"
            )


def allowed_settings(config: Config) -> list[tuple[float, float]]:
    """SETTINGS with the λ and g that the user has fixed; then some are equal."""
    return [
        (
            config.shrinkage or shrinkage,
            weight if config.own_covariance == -1 else config.own_covariance,
        )
        for shrinkage, weight in SETTINGS
    ]


def reference_setting(config: Config) -> tuple[float, float]:
    """REFERENCE with the λ and g that the user has fixed."""
    return allowed_settings(config)[SETTINGS.index(REFERENCE)]


@cache
def make_code(d: int, q: int, seed: int) -> Doubles:
    """An orthonormal (d, q) matrix that depends on the seed only."""
    rng = np.random.default_rng([seed, 6])
    if d <= MAX_FULL_CODE:
        return np.eye(d)[:, rng.permutation(d)[:q]]
    code, _ = np.linalg.qr(rng.standard_normal((d, q)))
    return code


def encode(x: Doubles, code: Doubles) -> Doubles:
    """The code of features, shape (n, q)."""
    product: Doubles = x @ code
    return product


def code_covariance(covariance: Doubles, code: Doubles) -> Doubles:
    """U' S₀ U, symmetric to the bit."""
    product = code.T @ covariance @ code
    return (product + product.T) / 2


def triangle_bytes(q: int, itemsize: int) -> int:
    return q * (q + 1) // 2 * itemsize
