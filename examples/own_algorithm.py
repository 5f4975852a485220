"""Your own algorithm: nearest class mean, an estimator with everything the built-in ones have.

python examples/own_algorithm.py
PYTHONPATH=examples dgdmn run embedded --algorithm own_algorithm:NCM
"""

from dataclasses import dataclass

import numpy as np

from dgdmn.algorithms.closed_form import ClosedFormClassifier
from dgdmn.streams import load
from dgdmn.testing import check_algorithm


@dataclass(eq=False, repr=False, kw_only=True)
class NCM(ClosedFormClassifier):  # or NetworkClassifier, for a memory of networks
    """Predict the class with the nearest mean of the features."""

    def _new_memory(self, factory, n_classes, rng):  # noqa: ARG002 (nothing here is random)
        return ClassMeans(int(np.prod(factory.shape)), n_classes)


class ClassMeans:
    """Sum and number of inputs per class. Methods replace arrays, so a copy is a snapshot."""

    def __init__(self, d, n_classes):
        self.sums, self.counts = np.zeros((n_classes, d)), np.zeros(n_classes)

    def learn(self, task, new, ctx):  # noqa: ARG002 (task names are not used)
        member = np.eye(len(self.counts))[:, new.y]  # (classes, n)
        self.sums, self.counts = self.sums + member @ new.x, self.counts + member.sum(axis=1)

    def sleep(self, ctx):
        """There is no short-term memory."""

    def predict_proba(self, x, task):  # noqa: ARG002
        means = self.sums / np.maximum(self.counts, 1)[:, None]
        closeness = -((x[:, None] - means) ** 2).mean(axis=2)
        weight = np.exp(closeness - closeness.max(axis=1, keepdims=True)) * (self.counts > 0)
        return weight / weight.sum(axis=1, keepdims=True)

    def grow(self, n_classes):
        new = n_classes - len(self.counts)
        self.sums = np.pad(self.sums, ((0, new), (0, 0)))
        self.counts = np.pad(self.counts, (0, new))

    def state(self):
        return {"sums": self.sums, "counts": self.counts}

    def load_state(self, state):
        self.sums, self.counts = np.array(state["sums"]), np.array(state["counts"])


if __name__ == "__main__":
    check_algorithm(NCM, not_applicable={"epochs", "randomness"})
    model, stream = NCM(), load("embedded")
    for task in stream:
        model.partial_fit(task.train.x, task.train.y, task=task.name)
    print(f"ACC {np.mean([model.score(task.test.x, task.test.y) for task in stream]):.3f}")
