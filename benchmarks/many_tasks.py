"""200 tasks in fixed bytes: 20 fixed pixel permutations of Digits × 10 classes, one class a task.

    python benchmarks/many_tasks.py [ROWS]

Prints accuracy and code size q' by age of the task, bytes, and CPU seconds per task. ROWS are training rows of
a task (1,000); tests have a fifth of that.
"""

import sys
import time

import numpy as np

from dgdmn import DGDMN
from dgdmn.streams import load

PERMUTATIONS = 20
BLOCK = 20  # tasks of one line


def main(rows: int) -> None:
    rng = np.random.default_rng(0)
    orders = [np.arange(784), *(rng.permutation(784) for _ in range(PERMUTATIONS - 1))]
    digits = list(load("digits"))
    model, tests, seconds = DGDMN(threads=1), [], []
    for place, order in enumerate(orders):
        for task in digits:
            train, test = (
                part.x[:n].reshape(-1, 784)[:, order].reshape(-1, 28, 28)
                for part, n in ((task.train, rows), (task.test, rows // 5))
            )
            name, label = f"{place}-{task.name}", int(task.train.y[0])
            began = time.process_time()
            model.partial_fit(train, np.full(len(train), label), task=name)
            seconds.append(time.process_time() - began)
            tests.append((name, test, label))
    sizes = {one.task: len(one.scatter) for one in model.fitted_.memory.ltm.components}
    print(
        f"{len(tests)} tasks, {model.memory_bytes():,} bytes, budget {model._config().memory_budget:,}"
    )
    print("tasks      accuracy   q'   CPU s per task")
    for at in range(0, len(tests), BLOCK):
        part = tests[at : at + BLOCK]
        scores = [np.mean(model.predict(x) == label) for _, x, label in part]
        q = np.mean([sizes.get(name, 0) for name, _, _ in part])
        cost = np.mean(seconds[at : at + BLOCK])
        print(
            f"{at + 1:3d}–{at + BLOCK:3d}     {np.mean(scores):.3f}   {q:5.0f}   {cost:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
