"""The result of an algorithm between its floor and its ceiling, beside the paper's, and what to think of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dgdmn import paper
from dgdmn.report.entries import Dataset, Entry
from dgdmn.report.runs import Run
from dgdmn.report.words import percent, ratio


@dataclass(frozen=True)
class Bound:
    """A floor or a ceiling."""

    value: float
    source: str
    """Where it comes from."""


@dataclass(frozen=True)
class Bounds:
    """What the results of one setting lie between."""

    floor: Bound
    ceiling: Bound

    def share(self, acc: float) -> float:
        """How far from floor to ceiling; NaN where the two do not stand apart."""
        width = self.ceiling.value - self.floor.value
        return (acc - self.floor.value) / width if width > 0.01 else math.nan


@dataclass(frozen=True)
class Result:
    """A line of the table."""

    entry: Entry
    acc: tuple[float, float]
    """Mean and standard error over the runs that have ended."""
    bwt: tuple[float, float]
    published: paper.Published | None
    """The paper's; None also where the run is not what the paper ran."""
    bounds: Bounds
    verdict: str


def results(dataset: Dataset, setting: str) -> tuple[Result, ...]:
    """The lines of one setting, in the order of its entries."""
    entries = dataset.settings[setting]
    bounds = find_bounds(dataset, entries)
    return tuple(_result(entry, bounds) for entry in entries)


def find_bounds(dataset: Dataset, entries: Sequence[Entry]) -> Bounds:
    """Floor: plain NN if it was run, else the paper's, else 1/T. Ceiling: Joint if it was run, else the paper's or 1.

    Where a setting has neither, those of the runs that neither revise nor learn together stand in, if all else
    is the same; and those of `paper` for `best`, which has the same learners. Where a prior answers beside the
    learner, Joint, a learner alone, is no ceiling, and its source says so.
    """
    first = entries[0].first
    plain = [entry for entry in dataset.entries if _stands_in(entry.first, first)]
    by_name = {entry.algorithm: entry for entry in (*plain, *entries) if entry.ended}
    floor, joint = _published_floor(first), _published_joint(first.dataset)
    if "nn" in by_name:
        floor = _run_here("plain NN", by_name["nn"], first)
    if "joint" in by_name:
        joint = _run_here("Joint", by_name["joint"], first)
    if joint and any(map(_prior_answers, entries)):
        joint = replace(joint, source=f"{joint.source}; a learner alone, {_NO_CEILING}")
    return Bounds(floor, joint or Bound(1.0, "no error at all: no Joint was run"))


_NO_CEILING = "so no ceiling where a prior answers too"


def _prior_answers(entry: Entry) -> bool:
    """Whether the learner does not answer alone; networks without a generator know no such option."""
    generative = entry.algorithm.startswith("dgdmn") or entry.algorithm == "dgr"
    return generative and entry.first.options.get("answers") == "both"


def _run_here(name: str, entry: Entry, other: Run) -> Bound:
    preset = f" with preset {entry.first.preset}" if entry.first.preset != other.preset else ""
    return Bound(entry.mean(lambda run: run.acc)[0], f"{name}{preset}, run here")


def _stands_in(run: Run, other: Run) -> bool:
    same = all(getattr(run, name) == getattr(other, name) for name in ("changes", "evaluate_on", "tasks"))
    comparable = run.preset == other.preset or (run.preset, other.preset) == ("paper", "best")
    return same and comparable and not run.revise and not run.together


def _published_floor(run: Run) -> Bound:
    published = paper.published("nn", run.dataset)
    if published and run.preset == "paper" and not run.changes and run.evaluate_on == "test":
        return Bound(published.acc, "the paper's plain NN")
    tasks = len(run.tasks)
    return Bound(1 / tasks, f"1/{tasks}: one task known of {tasks}")


def _published_joint(dataset: str) -> Bound | None:
    name = f"{dataset}_avg_v1"
    joint = paper.curve(name).series.get("joint") if name in paper.curve_names() else None
    if joint and math.isfinite(joint[-1]):
        return Bound(min(joint[-1], 1.0), "the paper's joint training")
    return None


def _result(entry: Entry, bounds: Bounds) -> Result:
    acc, bwt = entry.mean(lambda run: run.acc), entry.mean(lambda run: run.bwt)
    published = None if entry.setting else paper.published(entry.algorithm, entry.first.dataset)
    return Result(entry, acc, bwt, published, bounds, verdict(entry, bounds))


def verdict(entry: Entry, bounds: Bounds) -> str:
    """What to think of a result, in plain words."""
    if not entry.ended:
        return _unfinished(entry)
    acc, learnt = entry.mean(lambda run: run.acc)[0], entry.mean(lambda run: run.learnt)[0]
    if not math.isfinite(acc):
        return "Some accuracies are missing, so there is no result."
    if entry.algorithm == "joint":
        return "The ceiling: it keeps all rows and learns them together."
    if entry.first.together:
        return "All tasks were learnt at once: what the memory can hold when nothing comes in sequence."
    if _only_the_last(entry):
        tasks = len(entry.first.tasks)
        return (
            f"This is the class-incremental floor (1/{tasks}), not a bug: a network trained in sequence"
            " forgets all but the last task."
        )
    if learnt < 0.6 * bounds.ceiling.value:
        return (
            f"It hardly learns ({ratio(learnt, 2)} right after a task), so its BWT looks better than it is."
        )
    if _prior_answers(entry) and acc > bounds.ceiling.value:
        return f"Above Joint, which is a learner alone, {_NO_CEILING}."
    return _between(entry.algorithm, acc, bounds)


def _unfinished(entry: Entry) -> str:
    run = max(entry.runs, key=lambda run: len(run.accuracy))
    if not len(run.accuracy):
        return "No task has been tested yet."
    seen = len(set(run.columns))
    return f"Not finished: {ratio(run.acc, 2)} on the {seen} of {len(run.tasks)} tasks seen so far."


def _only_the_last(entry: Entry) -> bool:
    """Whether the task learnt last is known, and next to nothing else."""
    rows = [(run.accuracy[-1], run.columns[-1]) for run in entry.ended if len(run.tasks) > 1]
    if not rows:
        return False
    last = float(np.mean([row[column] for row, column in rows]))
    others = float(np.mean([np.delete(row, column).mean() for row, column in rows]))
    return last > 0.5 and others < 0.03


def _between(algorithm: str, acc: float, bounds: Bounds) -> str:
    share = bounds.share(acc)
    if algorithm == "nn" and bounds.floor.source.startswith("plain NN"):
        return "The floor here: a plain network, trained in sequence."
    if not math.isfinite(share):
        return "Floor and ceiling are the same here: there is nothing to forget."
    if share <= 0.03:
        return "No better than the floor."
    if share >= 0.97:
        return "As good as learning everything together."
    return f"Remembers {percent(share)} of the way from floor to ceiling."
