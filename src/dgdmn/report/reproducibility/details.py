"""What is told in numbers under each figure and ablation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from dgdmn import metrics, paper
from dgdmn.report.colours import display_name, rank
from dgdmn.report.entries import TOGETHER
from dgdmn.report.reproducibility import long_stream
from dgdmn.report.reproducibility.beyond import resilience_table, stream_tables
from dgdmn.report.reproducibility.cells import metric_table
from dgdmn.report.reproducibility.clipped import clipping_table
from dgdmn.report.reproducibility.collected import Result
from dgdmn.report.reproducibility.goals import at_strength, dual_minus_single
from dgdmn.report.reproducibility.not_learnt import how_many
from dgdmn.report.reproducibility.numbers import (
    Shelf,
    acc,
    bwt,
    explained,
    manner,
    mean,
    said,
    short,
    table,
    training_times,
    values,
)
from dgdmn.report.reproducibility.reasons import below
from dgdmn.report.reproducibility.verdicts import judge
from dgdmn.report.series import JOINTLY
from dgdmn.report.words import dataset_name
from dgdmn.wording import counted, duration

Numbers = Callable[[Shelf], str]
SHORTENED = "generator_epochs 15, learner_epochs 4"
"""The setting of DGR that takes as long as DGDMN."""


def resilience(shelf: Shelf) -> str:
    """Accuracy under each strength of noise and occlusion."""
    series = {name: shelf.find("digits", algorithm, TOGETHER) for name, algorithm in JOINTLY.items()}
    kinds = (
        ("noise, not clipped", "noise_accuracy_unclipped"),
        ("noise, clipped", "noise_accuracy"),
        ("occlusion", "occlusion_accuracy"),
    )
    rows, compared = [], []
    for kind, field in kinds:
        curve = paper.curve(field.split("_")[0])
        for place, strength in enumerate(curve.x):
            cells = [f"{kind} {short(strength, 2)}"]
            for name, found in series.items():
                ours, theirs = at_strength(found, field, strength), curve.series[name][place]
                verdict = ""
                # as we read the paper it did not clip, so there is nothing to judge a clipped one by
                if ours and field != "noise_accuracy":
                    verdict = f"; {judge(ours, theirs)}"
                    key = (curve.name, "digits", name)
                    compared.append((f"{name.upper()}, {cells[0]}", ours, theirs, key))
                cells.append(
                    f"{f'**{said(ours)}**' if ours else 'not run yet'}; paper {short(theirs)}{verdict}"
                )
            rows.append(cells)
    pictures = "The LTM is given the digits below with noise that is not clipped; what is shown of it is."
    return explained(table(["", *map(str.upper, series)], rows), below(compared), pictures)


def revision(shelf: Shelf) -> str:
    """The two revised tasks before and after, the other four, and all six."""
    rows = []
    for name in ("ewc", "dgdmn", "gem"):
        found = shelf.find("permnist", name, "tasks 1, 6 revised")
        rows.append(
            [display_name(name), *(_change(found, columns) for columns in ([0], [5], range(1, 5), range(6)))]
        )
    return table(["before revision → at the end", "task 1", "task 6", "the other four", "all six"], rows)


def _change(found: Sequence[Result], columns: Sequence[int]) -> str:
    def at(row: int) -> list[float]:
        return [float(one.run.accuracy[row, list(columns)].mean()) for one in found]

    return f"{short(mean(at(5)))} → {said(at(-1))}" if found else "not run yet"


def recognition(shelf: Shelf) -> str:
    """Without descriptors, beside with them and the paper's; and how often recognition was right."""
    rows, compared = [], []
    for name in ("dgdmn-recog", "dgdmn"):
        found, published = shelf.find("digits", name), paper.published(name, "digits")
        cells = [display_name(name)]
        assert published is not None
        for value, metric in ((acc, "acc"), (bwt, "bwt")):
            ours, theirs = values(found, value), getattr(published, metric)
            compared.append(
                (f"{display_name(name)}, {metric.upper()}", ours, theirs, (metric, "digits", name))
            )
            cells += [said(ours), short(theirs), str(judge(ours, theirs))]
        rows.append(cells)
    told = {
        one.run.seed: one.extra["recognised"]
        for one in shelf.find("digits", "dgdmn-recog")
        if one.extra.get("recognised")
    }
    tallied = "\n\n".join(
        f"Seed {seed}: of {one['met']} cases of a task met, the memory that holds it answered in "
        f"{one['answered_by_the_right_memory']}; of {one['not_met']} cases of a task not yet met, "
        f"{one['marked_unknown']} were unknown to every memory."
        for seed, one in told.items()
    )
    head = ["", "ACC", "paper's", "verdict", "BWT", "paper's", "verdict"]
    return explained(table(head, rows), below(compared), tallied)


def dreams(shelf: Shelf) -> str:
    """How pure the labels of the last dreams are."""
    rows = []
    for what, how, name in (("jointly", TOGETHER, "dgr"), ("in sequence", "", "dgdmn")):
        found = shelf.find("digits", name, how)
        purity = [one.extra["dreams"][-1].get("purity") for one in found if one.extra.get("dreams")]
        known = [value for value in purity if value is not None and math.isfinite(value)]
        rows.append([f"LTM, learnt {what}", said(known)])
    return explained(table(["", "label purity of the last dreams"], rows), _SHEETS)


_SHEETS = (
    "Each picture shows the lowest seed. A dream lies in the row of the task whose test rows are nearest to it, "
    "whatever the memory calls it, so early ones may lie in the row of a digit yet to come."
)


def ablation(results: Sequence[Result]) -> str:
    """A line for each setting: what it does to ACC, to BWT, to the newest tasks, and to the time.

    Times of two machines, or of two clocks, say nothing beside each other: those of a dataset are of the machine on
    which most of its settings were timed by the processor.
    """
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for one in results:
        groups.setdefault((one.run.dataset, one.run.algorithm, manner(one)), []).append(one)
    if not groups:
        return "Not run yet."
    robust = any(one.extra.get("resilience") for one in results)
    head = ["", "setting", "ACC", "BWT", "newest quarter", "tasks not learnt", "training, processor"]
    head += ["noise .3, not clipped", "occlusion .28"] if robust else []
    rows = []
    places = {dataset: _where_most_were_timed(groups, dataset) for dataset, _, _ in groups}
    for key in sorted(groups, key=lambda key: (key[0], rank(key[1]), key[2])):
        dataset, name, how = key
        found = groups[key]
        cells = [
            f"{display_name(name)}, {dataset_name(dataset)}",
            how or "preset `paper`",
            said(values(found, acc)),
            said(values(found, bwt)),
            said(values(found, newest_quarter)),
            f"{mean(missed):.1f}" if (missed := values(found, how_many)) else "–",
            _training(found, places[dataset]),
        ]
        if robust:
            cells += [
                said(at_strength(found, field, strength))
                for field, strength in (("noise_accuracy_unclipped", 0.3), ("occlusion_accuracy", 0.28))
            ]
        rows.append(cells)
    return table(head, rows)


def equal_time(shelf: Shelf) -> str:
    """How equal the times of `ablation-dual` were; empty before there is anything to compare."""
    times = training_times(shelf.find("digits", "dgdmn"), shelf.find("digits", "dgr", SHORTENED))
    if not times.comparable:
        return ""
    both = " and ".join(f"{mean(group):,.0f} s" for group in times.groups)
    seeds = counted(len(times.groups[0]), "seed")
    return f"At equal time: DGDMN and DGR ({SHORTENED}) trained {both}, {times.clock}, {seeds} of both on one machine."


def _where_most_were_timed(groups: Mapping[tuple[str, str, str], Sequence[Result]], dataset: str) -> str:
    """The machine on which the most settings of a dataset have a run with the processor's time."""
    machines = [
        {one.run.machine for one in found if _processor_seconds([one])}
        for (name, _, _), found in groups.items()
        if name == dataset
    ]
    timed = Counter(machine for each in machines for machine in each)
    return max(sorted(timed), key=lambda machine: timed[machine], default="")


def _training(found: Sequence[Result], machine: str) -> str:
    """The mean over the seeds that were timed there, and their number where it is not all of them."""
    taken = _processor_seconds([one for one in found if one.run.machine == machine])
    if not taken:
        return "–"
    return duration(mean(taken)) + (f" ({len(taken)})" if len(taken) < len(found) else "")


def _processor_seconds(found: Sequence[Result]) -> list[float]:
    return values(found, lambda one: one.run.number("train_cpu_seconds"))


def newest_quarter(one: Result) -> float:
    """Accuracy at the end on the quarter of the tasks that was learnt last; NaN where all came together."""
    if one.run.together:
        return math.nan
    return float(metrics.last_k(one.run.accuracy, max(1, len(one.run.tasks) // 4), one.run.columns)[-1])


def average_accuracy(shelf: Shelf) -> str:
    """The table of ACC, and the sign of what the dual memory adds."""
    signs = "\n".join(f"- {name}: {text}" for name, text in dual_minus_single(shelf))
    return metric_table(shelf, "acc") + f"\n\nDGDMN − DGR in ACC:\n\n{signs}"


DETAILS: dict[str, Numbers] = {
    "table-acc": average_accuracy,
    "table-bwt": lambda shelf: metric_table(shelf, "bwt"),
    "figure-tdigits": long_stream.at_the_end,
    "ablation-tdigits": long_stream.read_in_two_ways,
    "ablation-clipping": clipping_table,
    "figure-resilience": resilience,
    "figure-revision": revision,
    "figure-recog": recognition,
    "figure-dreams": dreams,
    "beyond-table": stream_tables,
    "beyond-resilience": resilience_table,
}
"""Targets with a table of their own; ablations share one form, other figures speak for themselves."""
