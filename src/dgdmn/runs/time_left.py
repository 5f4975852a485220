"""When a run will end."""

from collections.abc import Sequence

import numpy as np

GROWTH, WEIGHT = 1 / 3, 0.5
"""Growth of the cost of a step before it is measured, and the weight of this guess among measurements."""


class TimeLeft:
    """Predicts when a run ends from what it has done.

    Planned training goes on at its speed so far. What else a step costs is fitted: between constant (growth 0)
    and proportional to the classes known (growth 1). The first measurements contain one-time costs such as
    imports; they do not decide alone.
    """

    def __init__(
        self, classes: Sequence[int], steps: Sequence[float] = (), *, planned: bool = True
    ) -> None:
        """`classes`: number known at each step; `steps`: seconds of earlier steps.

        `planned`: the share of the training done is known, and the seconds of a step are those of its test.
        """
        self._classes, self._steps, self._planned = np.array(classes, float), [*steps], planned
        self._trained: list[tuple[float, float]] = []  # the first measure and the latest one
        self.final_seconds = 0.0  # of what follows the last step

    def record_training(self, share: float, seconds: float) -> None:
        """Note how many seconds the training took until this share of its work was done."""
        if share > max(self._trained, default=(0.0, 0.0))[0]:
            self._trained = [*self._trained[:1], (share, seconds)]

    def record_step(self, seconds: float) -> None:
        """Note how long a step took, or its test if the training is planned."""
        self._steps.append(seconds)

    def seconds(self, elapsed: float = 0.0) -> float | None:
        """Seconds until the end, `elapsed` seconds into a step; None before there is enough to predict from."""
        if not self._planned:
            n = len(self._classes)
            if not self._steps or len(self._steps) < min(max(3, n / 5), n - 1):
                return None
            return self._steps_left(elapsed) + self.final_seconds
        if len(self._trained) < 2:
            return None
        (first, start), (share, end) = self._trained
        pace = (end - start) / (share - first)
        return pace * (1 - share) + self._steps_left() + self.final_seconds

    def _steps_left(self, elapsed: float = 0.0) -> float:
        done, left = np.split(self._classes, [len(self._steps)])
        if not len(done) or not len(left):
            return 0.0
        seconds = np.array(self._steps[: len(done)])
        if len(seconds) > 1:
            seconds[0] = min(seconds[0], seconds[1:].mean())
        classes, usual = done.mean(), seconds.mean()
        more, longer = done / classes - 1, seconds / (usual or 1.0) - 1
        growth = (WEIGHT * GROWTH + more @ longer) / (WEIGHT + more @ more)
        costs = usual * (1 + np.clip(growth, 0, 1) * (left / classes - 1))
        return float(costs.sum() - min(elapsed, costs[0]))
