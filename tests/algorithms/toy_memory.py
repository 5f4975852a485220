"""A generative memory in 40 lines: the mean of each class. It shows what `DGDMN(memory=…)` needs."""

import numpy as np

from dgdmn.core.batch import Batch
from dgdmn.memory.task_log import TaskLog


class Means:
    """The mean input of each class. Methods replace attributes, so a copy is a snapshot."""

    def __init__(self, shape, n_classes, role, rng):
        self.n_classes, self.tasks, self.means = n_classes, TaskLog(), {}

    def learn(self, new, tasks, ctx, recalled=None):
        found = {c: new.x[new.y == c].mean(axis=0, dtype=np.float64) for c in new.classes()}
        self.means, self.tasks = {**self.means, **found}, self.tasks.add(tasks)

    def consolidate(self, task_memories, ctx):
        for memory in task_memories:
            self.means = {**self.means, **memory.means}
            self.tasks = self.tasks.add(memory.tasks)

    def distances(self, x):
        found = np.full((len(x), self.n_classes), 1e3)
        for c, mean in self.means.items():
            found[:, c] = ((x - mean) ** 2).sum(axis=1)
        return found

    def predict_proba(self, x):
        closeness = -self.distances(x)
        weights = np.exp(closeness - closeness.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def recognition_loss(self, x):
        return self.distances(x).min(axis=1)

    def recall(self, x):
        return self._batch(self.distances(x).argmin(axis=1))

    def sample(self, n, rng):
        return self._batch(rng.next_numpy().choice(sorted(self.means), n))

    def _batch(self, y):
        return Batch(np.stack([self.means[c] for c in y.tolist()]).astype(np.float32), y)

    def grow(self, n_classes):
        self.n_classes = n_classes

    def nbytes(self, *, at_capacity=False):
        return sum(mean.nbytes for mean in self.means.values())

    def buffer_bytes(self):
        return 0

    def state(self):
        means = {str(c): mean for c, mean in self.means.items()}
        return {"n_classes": self.n_classes, "tasks": self.tasks.state(), "means": means}

    def load_state(self, state):
        self.n_classes, self.tasks = state["n_classes"], TaskLog.from_state(state["tasks"])
        self.means = {int(c): np.asarray(mean) for c, mean in state["means"].items()}
