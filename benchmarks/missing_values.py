"""Accuracy on Gaussian tables with one value in five missing, filled by conditional means or by column means.

Ten correlated columns, four classes in two tasks, 2,000 rows to learn and 2,000 to test; five seeds.

python benchmarks/missing_values.py
"""

import numpy as np

from dgdmn import DGDMN, SLDA
from dgdmn.core.text import format_mean_sem
from dgdmn.memory.gaussian import column_means

SEEDS, MISSING = 5, 0.2


def draw(n, means, mix, rng):
    y = rng.integers(0, len(means), n)
    return (0.6 * means[y] + rng.normal(size=(n, len(mix)))) @ mix, y


def learn(model, X, y):
    for task in (0, 1):
        rows = y // 2 == task
        model.partial_fit(X[rows], y[rows], task=str(task))
    return model


def measure(make, seed):
    rng = np.random.default_rng(seed)
    means, mix = 1.6 * rng.normal(size=(4, 10)), rng.normal(size=(10, 10))
    (X, y), (T, ty) = (draw(2000, means, mix, rng) for _ in range(2))
    gaps, test = (np.where(rng.random(A.shape) < MISSING, np.nan, A) for A in (X, T))
    center = column_means(gaps)
    plain, plain_test = (np.where(np.isnan(A), center, A) for A in (gaps, test))
    full, filled = learn(make(), X, y), learn(make(), gaps, y)
    by_means = learn(make(), plain, y).score(plain_test, ty)
    return full.score(T, ty), filled.score(T, ty), filled.score(test, ty), by_means


if __name__ == "__main__":
    kinds = {"best": DGDMN, "best, none": lambda: DGDMN(features="none"), "SLDA": SLDA}
    print(
        "| method | no gaps | gaps to learn | gaps everywhere | column means |\n|---|---|---|---|---|"
    )
    for name, make in kinds.items():
        found = zip(*(measure(make, seed) for seed in range(SEEDS)), strict=True)
        print(f"| {name} | {' | '.join(format_mean_sem(list(one)) for one in found)} |")
