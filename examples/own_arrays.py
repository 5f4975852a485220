"""DGDMN on a table: three kinds of wine, learned one after the other.

Each class is a task. After each task the script prints the accuracy on every class so far: of
DGDMN, of its long-term memory (LTM) alone, and of a plain network that forgets.

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
    stream = from_arrays(
        X, y, name="wine"
    )  # no task names: each class is a task; a fifth is for testing
    # A network needs the range of each feature: the range of the first task alone is too narrow.
    settings = {"value_range": (X.min(axis=0), X.max(axis=0)), "random_state": 0, "min_steps": 200}
    memory, network = DGDMN(n_stm=2, random_state=0), NN(**settings)

    def print_accuracies(when, names):
        tests = [(task.name, task.test) for task in stream if task.name in names]
        dual = " ".join(accuracy(memory.predict(rows.x, task=name), rows) for name, rows in tests)
        plain = " ".join(accuracy(network.predict(rows.x), rows) for _, rows in tests)
        ltm = "(empty)"
        if memory.consolidated_tasks():
            ltm = " ".join(accuracy(memory.predict_long_term(rows.x), rows) for _, rows in tests)
        print(f"{when:18}  {dual:14}  {ltm:14}  {plain}")

    print(f"{'':18}  {'DGDMN':14}  {'LTM alone':14}  plain network")
    seen = []
    for task in stream:
        for model in (memory, network):
            model.partial_fit(task.train.x, task.train.y, classes=stream.classes, task=task.name)
        seen.append(task.name)
        print_accuracies(f"after class {task.name}", seen)
    memory.sleep()  # the third task is still in the short-term memory
    print_accuracies("after another sleep", seen)

    _, labels = memory.sample(300, random_state=0)
    classes, counts = np.unique(labels, return_counts=True)
    parts = [f"{n} of class {label}" for label, n in zip(classes, counts, strict=True)]
    print("\n300 dreams:", ", ".join(parts))


if __name__ == "__main__":
    main()
