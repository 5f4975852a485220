"""When a run will end."""

from collections.abc import Sequence


class TimeLeft:
    """Predicts when a run ends from what it has done: training at its speed so far, tests as long as before.

    The first training measurement includes one-time costs such as imports. It is used alone only after a test,
    until a second measurement exists.
    """

    def __init__(
        self, final_tests: float, tests: Sequence[float] = (), *, cached: bool = False
    ) -> None:
        """`final_tests`: duration of the final phase, in units of one test; `tests`: earlier ones, in seconds.

        `cached`: the first test computes features that later tests reuse; the final phase computes its own.
        """
        self._final, self._tests, self._cached = final_tests, list(tests), cached
        self._trained: list[tuple[float, float]] = []  # the first measure and the latest one

    def record_training(self, share: float, seconds: float) -> None:
        """Note how many seconds the training took until this share of its work was done."""
        if share > (self._trained[-1][0] if self._trained else 0.0):
            self._trained = [*self._trained[:1], (share, seconds)]

    def record_test(self, seconds: float) -> None:
        """Note how long one test of all tasks took."""
        self._tests.append(seconds)

    def seconds(self, tests_left: int) -> float | None:
        """Seconds until the end; None before there is anything to predict from."""
        if not self._trained or len(self._trained) + len(self._tests) < 2:
            return None
        (first, start), (share, end) = self._trained[0], self._trained[-1]
        pace = (end - start) / (share - first) if share > first else end / share
        return pace * (1 - share) + tests_left * self._test_seconds() + self.final_seconds()

    def final_seconds(self) -> float:
        """Seconds of what follows the last test."""
        first = self._tests[:1] if self._cached else []
        return self._final * (first[0] if first else self._test_seconds())

    def _test_seconds(self) -> float:
        usual = self._tests[1:] or self._tests or [0.0]
        return sum(usual) / len(usual)
