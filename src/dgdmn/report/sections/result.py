"""The result table, each algorithm between floor and ceiling, and the effect of single options."""

import math
from collections.abc import Sequence

import numpy as np

from dgdmn.core.text import count_noun, format_mean_sem, format_option, format_ratio
from dgdmn.report.load import Run
from dgdmn.report.sections import Data
from dgdmn.report.table import Group, Stream, changed_options, mean

Bound = tuple[float, str]  # a floor or a ceiling, and its source


def result_tables(stream: Stream) -> list[Data]:
    """A table for each setting: its groups with a verdict each, floor and ceiling."""
    tables = []
    for title in dict.fromkeys(group.setting for group in stream.groups):
        groups = [group for group in stream.groups if group.setting == title]
        floor, ceiling = find_bounds(stream, groups)
        lines = [describe_group(group, floor[0], ceiling[0]) for group in groups]
        tables.append({"title": title, "floor": floor, "ceiling": ceiling, "lines": lines})
    return tables


def find_bounds(stream: Stream, groups: Sequence[Group]) -> tuple[Bound, Bound]:
    """Floor: a plain network trained in sequence, else 1/T. Ceiling: joint training, else 1.

    They come from the same setting if it has them, else from another preset or protocol with the same tasks.
    """
    first, n = groups[0].first, len(groups[0].first.tasks)
    low = (1 / n, f"1/{n}: one of {count_noun(n, 'task')} known")
    high = (1.0, "no errors; joint training was not run")
    if floor := _closest(stream, first, "none"):
        low = (floor.mean("acc"), f"{floor.name}, run here")
    if ceiling := _closest(stream, first, "ceiling"):
        prior = any(_prior_predicts(group.first) for group in groups)
        note = "; a learner alone, a memory whose prior predicts may exceed it" if prior else ""
        high = (ceiling.mean("acc"), f"{ceiling.name}, run here{note}")
    return low, high


def _closest(stream: Stream, run: Run, category: str) -> Group | None:
    """The group of an algorithm of this category that is most like a run."""
    found = [group for group in stream.groups if group.ended and _fits(group.first, run, category)]
    found.sort(key=lambda g: (g.first.preset != run.preset, g.first.together != run.together))
    return found[0] if found else None


def _fits(candidate: Run, run: Run, category: str) -> bool:
    used = {
        k: v for k, v in changed_options(run).items() if not candidate.info.unused(k, run.options)
    }
    return (
        candidate.info.category == category
        and (candidate.tasks, candidate.evaluate_on) == (run.tasks, run.evaluate_on)
        and changed_options(candidate) == used
        and math.isfinite(candidate.acc)
        and not candidate.revise
        and not (category == "none" and candidate.together)  # trained together, it forgets nothing
    )


def _prior_predicts(run: Run) -> bool:
    return run.info.generative and run.options.get("predict_with") == "learner+prior"


def describe_group(group: Group, floor: float, ceiling: float) -> Data:
    """The facts that decide what a result means; verdict.html says it in one sentence."""
    run = max(group.runs, key=lambda run: len(run.accuracy))
    facts: Data = {"group": group, "run": run, "info": group.first.info}
    facts |= {name: group.mean(name) for name in ("acc", "learned")}
    facts |= {"prior_predicts": _prior_predicts(group.first), "floor": floor, "ceiling": ceiling}
    facts["missing"] = len(group.ended) - len(group.values("acc"))
    return facts | {"knows_only_last": _knows_only_last(group)}


def _knows_only_last(group: Group) -> bool:
    rows = [(run.accuracy[-1], run.columns[-1]) for run in group.ended if len(run.tasks) > 1]
    last = [row[column] for row, column in rows]
    others = [np.delete(row, column).mean() for row, column in rows]
    return bool(rows) and float(np.mean(last)) > 0.5 and float(np.mean(others)) < 0.03


def ablations(stream: Stream) -> list[Data]:
    """A line for each option changed alone, if the run without the change exists; largest loss first."""
    bases = {_alike(run): run for run in stream.runs if run.complete and not run.changes}
    lines = []
    for group in stream.groups:
        pairs = [(run, bases[_alike(run)]) for run in group.ended if _alike(run) in bases]
        pairs = [(run, base) for run, base in pairs if _changes_one_option(run, base)]
        lines += [_ablation(group, pairs)] if pairs else []
    return sorted(lines, key=lambda line: (line["name"], line["loss"], line["option"]))


def _alike(run: Run) -> tuple[object, ...]:
    protocol = (run.evaluate_on, run.revise, run.together)
    return run.algorithm, run.preset, protocol, run.tasks, run.seed


def _changes_one_option(run: Run, base: Run) -> bool:
    names = run.options.keys() | base.options.keys()
    different = {name for name in names if run.options.get(name) != base.options.get(name)}
    return len(run.changes) == 1 and different <= run.changes.keys()


def _ablation(group: Group, pairs: Sequence[tuple[Run, Run]]) -> Data:
    run, base = pairs[0]
    option, value = next(iter(run.changes.items()))
    before = "default" if option in run.arguments else format_option(base.options.get(option))
    how = ["all tasks together"] if run.together else []
    how += [f"on {run.evaluate_on} rows"] if run.evaluate_on != "test" else []
    differences = [changed.acc - unchanged.acc for changed, unchanged in pairs]
    # Times of two machines cannot be compared.
    timed = [pair for pair in pairs if pair[0].machine == pair[1].machine]
    return {
        "name": ", ".join([f"{group.title} ({run.preset})", *how]),
        "css": group.css,
        "option": option,
        "change": f"{before} → {format_option(value)}",
        "acc": format_mean_sem([changed.acc for changed, _ in pairs]),
        "bwt": format_mean_sem([changed.bwt for changed, _ in pairs]),
        "difference": format_difference(differences),
        "loss": loss if math.isfinite(loss := mean(differences)) else math.inf,
        "seconds": [mean([pair[i].number("trained_seconds") for pair in timed]) for i in (1, 0)],
        "memory": [mean([pair[i].memory_bytes for pair in pairs]) for i in (1, 0)],
        "seeds": len(pairs),
    }


def format_difference(values: Sequence[float]) -> str:
    """A difference with its sign.

    >>> format_difference([0.0123]), format_difference([-0.2, -0.22]), format_difference([-0.0001])
    ('+.012', '−.210 ± .010', '.000')
    """
    text = format_mean_sem(values)
    return f"+{text}" if mean(values) > 0 and format_ratio(mean(values)) != ".000" else text
