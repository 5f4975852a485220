"""Tasks that were not learnt when they came: an average hides them, and who never learns has nothing to forget."""

from __future__ import annotations

from collections.abc import Sequence

from dgdmn.report.colours import display_name
from dgdmn.report.reproducibility.collected import Result
from dgdmn.report.reproducibility.numbers import Shelf, mean, short
from dgdmn.report.words import dataset_name

LEARNT = 0.5
"""Accuracy on a task right after it came from which on it counts as learnt."""


def not_learnt(results: Sequence[Result]) -> dict[int, float]:
    """Accuracy right after they came, the mean over seeds, of the tasks below that; by column."""
    known = [one.run.at_once for one in results]
    means = {column: mean([each[column] for each in known]) for column in (known[0] if known else ())}
    return {column: accuracy for column, accuracy in means.items() if accuracy < LEARNT}


def how_many(one: Result) -> float:
    """Of one run, the number of such tasks; NaN where all came together."""
    return float("nan") if one.run.together else float(len(not_learnt([one])))


def listed(shelf: Shelf, datasets: Sequence[str], algorithms: Sequence[str], note: str = "") -> str:
    """Each of them by name, a line for each algorithm; empty where all were learnt."""
    lines = []
    for dataset in datasets:
        for algorithm in algorithms:
            found = shelf.find(dataset, algorithm)
            missed = [
                f"{found[0].run.tasks[column]} ({short(accuracy, 2)})"
                for column, accuracy in not_learnt(found).items()
            ]
            if missed:
                lines.append(f"- {display_name(algorithm)} on {dataset_name(dataset)}: {', '.join(missed)}")
    head = (
        "Single tasks that ours did not learn when they came (accuracy right after, mean over seeds, below "
        f"{short(LEARNT, 1)}{note}):"
    )
    return f"{head}\n\n" + "\n".join(lines) if lines else ""


def without(results: Sequence[Result], columns: Sequence[int]) -> list[float]:
    """Average accuracy at the end of each run on the tasks that are left without these."""
    kept = [column for column in range(len(results[0].run.tasks)) if column not in columns]
    return [float(one.run.accuracy[-1, kept].mean()) for one in results]
