"""DGDMN on a table of your own: three kinds of wine, learnt one after the other.

A task is one class. After each task the memory is tested on every class so far: first as it is (the
short-term memory answers for the classes it holds), then the long-term memory alone. A plain network is
trained beside it.

    python examples/own_arrays.py
"""

import numpy as np
from sklearn.datasets import load_wine

from dgdmn import DGDMN, NN
from dgdmn.streams import from_arrays


def accuracy(predicted, rows):
    return f"{np.mean(predicted == rows.y):.2f}"


def main():
    X, y = load_wine(return_X_y=True)
    stream = from_arrays(X, y, name="wine")  # no task column: every class is a task; a fifth is held out
    # The range of each feature, known beforehand: the first task alone would give too narrow a one.
    settings = {"value_range": (X.min(axis=0), X.max(axis=0)), "random_state": 0, "min_steps": 200}
    memory, network = DGDMN(n_stm=2, **settings), NN(**settings)

    def test(when, names):
        tests = [(task.name, task.test) for task in stream if task.name in names]
        routed = " ".join(accuracy(memory.predict(rows.x, task=name), rows) for name, rows in tests)
        plain = " ".join(accuracy(network.predict(rows.x), rows) for _, rows in tests)
        ltm = "(empty)"
        if memory.consolidated_tasks():
            ltm = " ".join(accuracy(memory.predict_long_term(rows.x), rows) for _, rows in tests)
        print(f"{when:15}  {routed:14}  {ltm:14}  {plain}")

    print(f"{'on 0, 1, 2':15}  {'DGDMN':14}  {'LTM alone':14}  plain network")
    seen = []
    for task in stream:
        for model in (memory, network):
            model.partial_fit(task.train.x, task.train.y, classes=stream.classes, task=task.name)
        seen.append(task.name)
        test(f"learnt {task.name}", seen)
    memory.sleep()  # the third task still waits in the short-term memory
    test("slept once more", seen)

    _, labels = memory.sample(300, random_state=0)
    classes, counts = np.unique(labels, return_counts=True)
    print(
        "\nof 300 dreamt wines:", ", ".join(f"{n} of class {c}" for c, n in zip(classes, counts, strict=True))
    )


if __name__ == "__main__":
    main()
