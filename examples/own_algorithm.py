"""Your own algorithm: Gaussian naive Bayes, an estimator with everything the built-in ones have.

python examples/own_algorithm.py; PYTHONPATH=examples dgdmn run embedded --algorithm own_algorithm:OwnGNB
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from dgdmn import streams, testing
from dgdmn.algorithms.closed_form import ClosedFormClassifier


@dataclass(eq=False, repr=False, kw_only=True)
class OwnGNB(ClosedFormClassifier):
    """Gaussian naive Bayes: each feature has a mean and a variance per class."""

    def _new_memory(self, factory, n_classes, rng):  # noqa: ARG002 (nothing here is random)
        return ClassSums(factory.shape[0], n_classes)


class ClassSums:
    """Sums of 1, x and x² per class. Methods replace the array, so a copy is a snapshot."""

    def __init__(self, d, n_classes):
        self.sums = np.zeros((n_classes, 1 + 2 * d))

    def learn(self, task, new, ctx):  # noqa: ARG002 (task names are not used)
        member, x = np.eye(len(self.sums))[:, new.y], new.x.astype(np.float64)
        self.sums = self.sums + member @ np.hstack([np.ones((len(x), 1)), x, x**2])

    def sleep(self, ctx):
        """There is no short-term memory."""

    def predict_proba(self, x, task):  # noqa: ARG002
        count, sums = self.sums[:, 0], self.sums[:, 1:].T
        mean, square = np.split(sums / np.maximum(count, 1), 2)  # (d, classes)
        variance = np.maximum(square - mean**2, 0)  # 0 where a feature is constant in a class
        weight = 1 / (variance + 0.1 * variance.mean(axis=1, keepdims=True) + 1e-9)
        misfit = x**2 @ weight - 2 * x @ (mean * weight) + (mean**2 * weight).sum(axis=0)
        score = np.where(count > 0, np.log(weight).sum(axis=0) - misfit, -np.inf)
        return softmax(score / 2, axis=1)

    def grow(self, n_classes):
        self.sums = np.pad(self.sums, ((0, n_classes - len(self.sums)), (0, 0)))

    def state(self):
        return {"sums": self.sums}

    def load_state(self, state):
        self.sums = np.array(state["sums"])


if __name__ == "__main__":
    testing.check_algorithm(OwnGNB)
    model, stream = OwnGNB(), streams.load("embedded")
    for task in stream:
        model.partial_fit(task.train.x, task.train.y)
    print(f"ACC {np.mean([model.score(task.test.x, task.test.y) for task in stream]):.3f}")
