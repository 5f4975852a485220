"""What each part of the mixture memory is worth: validation rows of Digits, HAPT and CLINC150.

    python benchmarks/ablation.py [STREAM…] [--seeds 1] [--only WORD]

Prints a Markdown table: accuracy after the last task, and CPU seconds of learning, for one change at a time.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dgdmn import DGDMN, NCM, SLDA, Ridge
from dgdmn.features import images
from dgdmn.streams import load


def one_layer(seed: int) -> Callable[[Any], Any]:
    """Gabor filters and their pooling without the second layer: 32 filters, two signs, 4 × 4 windows."""
    bank = images.gabor_filters(32, images.FILTER_SIZE, np.random.default_rng([seed, 1]))

    def features(X: Any) -> Any:
        found = []
        for at in range(0, len(X), images.CHUNK):
            maps = np.asarray(X[at : at + images.CHUNK], np.float32)[:, :, None, :]
            maps = images.split_signs(images.convolve(maps, np.float32(bank), images.FILTER_SIZE))
            sides = maps.shape[1], maps.shape[3]
            grid = (
                images.gaussian_matrix(sides[0], 4, 0.7),
                images.gaussian_matrix(sides[1], 4, 0.7).T.copy(),
            )
            found.append(np.sqrt(images.pool(maps, *grid)).reshape(len(maps), -1))
        return np.concatenate(found)

    return features


VARIANTS: dict[str, Callable[[int], Any]] = {
    "`best`": lambda seed: DGDMN(code_seed=seed),
    "no front end": lambda seed: DGDMN(code_seed=seed, features="none"),
    "one layer of filters": lambda seed: DGDMN(code_seed=seed, features=one_layer(seed)),
    "no own covariances (g 0)": lambda seed: DGDMN(code_seed=seed, own_covariance=0),
    "g .5": lambda seed: DGDMN(code_seed=seed, own_covariance=0.5),
    "g 1": lambda seed: DGDMN(code_seed=seed, own_covariance=1),
    **{
        f"λ {shrinkage:g}": lambda seed, s=shrinkage: DGDMN(code_seed=seed, shrinkage=s)
        for shrinkage in (0.001, 0.01, 0.1, 0.3)
    },
    **{
        f"q {size}": lambda seed, q=size: DGDMN(code_seed=seed, code_dim=q)
        for size in (32, 64, 128, 256)
    },
    "budget 32 MB": lambda seed: DGDMN(code_seed=seed, memory_budget=32_000_000),
    "SLDA on the same features": lambda seed: SLDA(code_seed=seed),
    "NCM on the same features": lambda seed: NCM(code_seed=seed),
    "ridge head, 2,000 ReLU units": lambda seed: Ridge(code_seed=seed),
}


def measure(model: Any, stream: Any) -> tuple[float, float]:
    """Accuracy on all validation rows after the last task, and CPU seconds."""
    began = time.process_time()
    for task in stream:
        rows = task.train
        model.partial_fit(rows.x, rows.y, classes=stream.classes, task=task.name)
    if hasattr(model, "sleep"):
        model.sleep()
    took = time.process_time() - began
    right = [np.mean(model.predict(t.validation.x) == t.validation.y) for t in stream]
    return float(np.mean(right)), took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("streams", nargs="*", default=["digits", "hapt", "clinc150"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="variants whose name has this word")
    args = parser.parse_args()
    streams = {
        name: [list_stream(name, seed) for seed in range(args.seeds)] for name in args.streams
    }
    print("| variant |" + "".join(f" {name} | s |" for name in streams))
    print("|---|" + "--:|--:|" * len(streams))
    for title, make in VARIANTS.items():
        if args.only not in title:
            continue
        cells = ""
        for seeds in streams.values():
            if "layer" in title and len(seeds[0].shape) == 1:
                cells += " – | – |"  # not images
                continue
            found = np.mean([measure(make(seed), one) for seed, one in enumerate(seeds)], axis=0)
            cells += f" {found[0]:.4f} | {found[1]:.1f} |"
        print(f"| {title} |{cells}", flush=True)


def list_stream(name: str, seed: int) -> Any:
    return load(name, seed=seed, validation=0.2)


if __name__ == "__main__":
    main()
