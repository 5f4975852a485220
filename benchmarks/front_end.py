"""How close the image front end comes to the matrix products of its filters: `python benchmarks/front_end.py`.

The reference is the product filters × windows of both layers for each image, in float32. Its windows are random
numbers of one image that stay in the cache; nothing is cut out, pooled or copied. Two arrangements are timed, one
product per image and one per row of an image, and the faster one counts. All are measured in turns in one process on
one thread, and the best of many short tries counts, because shared machines have slow moments. The limit is a ratio
of 2.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from dgdmn.algorithms.closed_form import limit_threads
from dgdmn.features.images import ImageFeatures

IMAGES = 8
"""Images of one try: a few milliseconds, which often pass undisturbed."""
SHAPES = {"28 × 28 gray": (28, 28), "32 × 32 color": (32, 32, 3)}


def layer_sizes(shape: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """Filters, values of a window, rows and columns of each layer, for an image that is not resized."""
    (h, w), features = shape[:2], ImageFeatures(shape, 0)
    return [(*features._first.shape, h, w), (*features._second.shape, h // 2, w // 2)]


def make_products(shape: tuple[int, ...], *, by_row: bool) -> Callable[[], None]:
    """A function that does the products of IMAGES images."""
    rng = np.random.default_rng(0)
    work = []
    for filters, values, rows, columns in layer_sizes(shape):
        n, windows = (rows, columns) if by_row else (1, rows * columns)
        weights = rng.standard_normal((filters, values), dtype=np.float32)
        x = rng.standard_normal((n, values, windows), dtype=np.float32)
        work.append((weights, x, np.empty((n, filters, windows), np.float32)))

    def products() -> None:
        for weights, x, out in work:
            for _ in range(IMAGES):
                np.matmul(weights, x, out=out)

    return products


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of a function: time that other programs take does not count."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(name: str, tries: int) -> str:
    """Times per image and their ratio, as a line."""
    shape = SHAPES[name]
    images = np.random.default_rng(1).uniform(size=(IMAGES, *shape)).astype(np.float32)
    features = ImageFeatures(shape, 0)
    references = [make_products(shape, by_row=by_row) for by_row in (False, True)]
    features(images)  # warm up
    ours, limits = [], []
    for _ in range(tries):  # in turns, so that a slow moment affects all
        ours.append(seconds(lambda: features(images)))
        limits.append(min(seconds(reference) for reference in references))
    best, limit = min(ours), min(limits)
    gflop = 2e-9 * IMAGES * sum(int(np.prod(sizes)) for sizes in layer_sizes(shape))
    return (
        f"{name}: front end {1e3 * best / IMAGES:.3f} ms an image, products "
        f"{1e3 * limit / IMAGES:.3f} ms ({gflop / limit:.0f} Gflop/s), ratio {best / limit:.2f} "
        f"(medians {median(ours) / median(limits):.2f})"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=500)
    arguments = parser.parse_args()
    with limit_threads(1):
        for shape_name in SHAPES:
            print(measure(shape_name, arguments.tries))
