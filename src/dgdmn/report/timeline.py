"""What the events of a run say: where the seconds went, when it slept, what was replayed."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

PHASES = ("learning", "sleep", "testing", "other")
"""Where a second may go: the STM or the one network, the LTM, testing, all else (data, plan, lost work)."""

MOST_STEPS = 10_000
"""Steps told apart: a damaged event may claim any number."""


@dataclass(frozen=True)
class Replay:
    """One consolidation into the long-term memory: Algorithm 1."""

    step: int
    """Tasks learnt, that of the replay included."""
    new: int
    """Samples of the new tasks trained on."""
    dreams: int
    """Dreams of the old tasks trained on."""
    dreamt: tuple[int, ...]
    """Dreams of each class index."""


@dataclass(frozen=True)
class Timeline:
    """A run's events, summed up."""

    seconds: dict[str, float]
    """Wall clock of each of PHASES."""
    trained: tuple[float, ...]
    """Seconds of learning and sleeping until each step was over, sleep included."""
    sleeps: tuple[int, ...]
    """Steps after which the long-term memory had slept."""
    replays: tuple[Replay, ...]
    """Consolidations, in order."""
    done: float
    """Share of the planned work that is done; NaN where no epoch has ended."""


@dataclass
class _Clock:
    """The phase that the next second belongs to."""

    phase: str = "other"
    last: float = 0.0
    step: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    trained: dict[int, float] = field(default_factory=dict)

    def advance(self, now: float, phase: str) -> None:
        self.seconds[phase] += max(0.0, now - self.last)
        self.last = max(now, self.last)
        if self.step:
            self.trained[self.step] = self.seconds["learning"] + self.seconds["sleep"]


_THEN = {
    "task_began": "learning",
    "sleep_began": "sleep",
    "sleep_ended": "learning",
    "task_learned": "testing",
    "evaluated": "testing",
    "step_ended": "other",
    "resumed": "other",
}
"""The phase that begins with an event."""


def timeline(events: Iterable[Mapping[str, Any]]) -> Timeline:
    """Sum up the events of a run; those it does not know only take time."""
    clock, sleeps, replays, done = _Clock(), [], [], math.nan
    for event in events:
        kind = str(event.get("kind"))
        if kind == "task_began":
            clock.advance(_number(event, "seconds"), "other")
            clock.step = max(0, min(int(_number(event, "step")), MOST_STEPS))
        clock.advance(_number(event, "seconds"), _phase_until(event, clock.phase))
        clock.phase = _THEN.get(kind, clock.phase)
        if kind == "sleep_ended":
            sleeps.append(clock.step)
        elif kind == "replayed" and event.get("memory") == "ltm":
            replays.append(_replay(event, clock.step))
        elif kind == "epoch_done":
            done = _number(event, "done", done)
    return Timeline(clock.seconds, _filled(clock.trained), tuple(sleeps), tuple(replays), done)


def _phase_until(event: Mapping[str, Any], phase: str) -> str:
    """The phase that ended with this event: an algorithm without sleeps, as DGR, also trains an LTM."""
    if event.get("kind") == "resumed":
        return "other"
    return "sleep" if phase == "learning" and event.get("memory") == "ltm" else phase


def _replay(event: Mapping[str, Any], step: int) -> Replay:
    counts = event.get("dreamt")
    dreamt = tuple(max(0, int(count)) for count in counts) if isinstance(counts, list) else ()
    return Replay(step, int(_number(event, "n_tasks")), int(_number(event, "n_gen")), dreamt)


def _filled(trained: Mapping[int, float]) -> tuple[float, ...]:
    return tuple(trained.get(step, math.nan) for step in range(1, max(trained, default=0) + 1))


def _number(event: Mapping[str, Any], key: str, default: float = 0.0) -> float:
    value = event.get(key)
    return float(value) if isinstance(value, int | float) and abs(value) < 1e18 else default
