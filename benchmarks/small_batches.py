"""Ten rows at a time into 100 classes of 256 features: milliseconds to learn and to predict them.

python benchmarks/small_batches.py [--code-dim 128] [--calls 25]
"""

import argparse
import time

import numpy as np

from dgdmn import DGDMN

N_CLASSES, N_FEATURES, N_ROWS = 100, 256, 10


def main() -> None:
    """Print medians of warm calls: wall time, and CPU time for a busy machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--code-dim", type=int, default=128)
    parser.add_argument("--calls", type=int, default=25)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(N_CLASSES), 40)
    X = rng.normal(size=(len(y), N_FEATURES)) + rng.normal(size=(N_CLASSES, N_FEATURES))[y]
    model = DGDMN(code_dim=args.code_dim).partial_fit(X, y, task="all").sleep()
    clocks = {"wall": time.perf_counter, "CPU": time.process_time}
    took: dict[str, list[list[float]]] = {name: [[], []] for name in clocks}
    for _ in range(args.calls):
        rows = rng.choice(len(y), N_ROWS)
        for place, call in enumerate(
            (lambda r=rows: model.partial_fit(X[r], y[r]), lambda r=rows: model.predict(X[r]))
        ):
            before = [clock() for clock in clocks.values()]
            call()
            for (name, clock), start in zip(clocks.items(), before, strict=True):
                took[name][place].append(clock() - start)
    for name, (learn, predict) in took.items():
        print(
            f"{name}: learn {1e3 * np.median(learn):.1f} ms, predict {1e3 * np.median(predict):.1f} ms"
        )


if __name__ == "__main__":
    main()
