"""Tables in Markdown, from collected results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from dgdmn.config.registry import ALGORITHMS, algorithm_info, stream_info
from dgdmn.core.text import (
    MISSING,
    format_bytes,
    format_duration,
    format_mean_sem,
    format_option,
    format_ratio,
)
from dgdmn.report.load import Run
from dgdmn.runs.spec import RunSpec
from reproduction import paper
from reproduction.goals import BASELINES, GOALS, STREAMS, check
from reproduction.results import (
    LEARNED,
    MEASURES,
    Results,
    at_first,
    average_curve,
    finite,
    mean,
    spec_of,
    training_times,
    under,
)
from reproduction.verdicts import Verdict, judge

ROWS = (*BASELINES, "dgr", "dgdmn", "joint")
"""Rows of the paper's tables, and the ceiling."""
Specs = Sequence[RunSpec]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table.

    >>> print(markdown(["", "ACC"], [["NN", ".100"]]))
    |  | ACC |
    | --- | --- |
    | NN | .100 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def with_count(values: Sequence[float]) -> str:
    """Mean ± standard error, and the number of seeds in brackets."""
    return f"{format_mean_sem(values)} ({len(values)})" if values else "not run yet"


def with_verdict(ours: Sequence[float], theirs: float | None) -> str:
    """Ours, the paper's in brackets, and the verdict."""
    verdict = judge(ours, theirs)
    if not ours or theirs is None:
        return format_mean_sem(ours) if ours else "not run yet"
    text = f"**{verdict}**" if verdict.differs else str(verdict)
    return f"{format_mean_sem(ours)} ({format_ratio(theirs)}) {text}"


def signed(value: float) -> str:
    """A difference with its sign."""
    text = format_ratio(value)
    return f"+{text}" if value > 0 and text.strip(".0") else text


def title(spec: RunSpec) -> str:
    """Algorithm and stream for people."""
    return f"{algorithm_info(spec.algorithm).title} on {stream_info(spec.stream).title}"


def variant(spec: RunSpec) -> str:
    """How a run differs from the preset `paper`."""
    parts = [f"preset `{spec.preset}`"] if spec.preset != "paper" else []
    parts += [f"{name} {format_option(value)}" for name, value in spec.changes().items()]
    parts += ["all tasks together"] if spec.together else []
    return ", ".join(parts) or "preset `paper`"


def metric_table(results: Results, metric: str) -> str:
    """One of the paper's tables: in each cell ours, the paper's in brackets, the verdict."""
    rows = [
        [
            algorithm_info(name).title,
            *(
                with_verdict(
                    results.values(spec_of(stream, name), MEASURES[metric]),
                    paper.published(metric, name, stream),
                )
                for stream in STREAMS
            ),
        ]
        for name in ROWS
    ]
    return markdown(["", *(stream_info(name).title for name in STREAMS)], rows)


def verdicts(results: Results) -> list[tuple[str, str, Verdict]]:
    """Metric, name and verdict of every number in the paper's tables."""
    return [
        (metric, title(spec), judge(results.values(spec, MEASURES[metric]), theirs))
        for metric in ("acc", "bwt")
        for spec in (spec_of(stream, name) for name in ROWS for stream in STREAMS)
        if (theirs := paper.published(metric, spec.algorithm, spec.stream)) is not None
    ]


def readme_table(results: Results) -> str:
    """ACC ± standard error, the paper's number in brackets."""
    lines = [(algorithm_info(name).title, name, "paper") for name in ROWS]
    lines[-2:] = [("DGDMN `paper`", "dgdmn", "paper"), ("**DGDMN `deep`**", "dgdmn", "deep"), lines[-1]]
    rows = []
    for label, name, preset in lines:
        row = [label]
        for stream in STREAMS:
            ours = format_mean_sem(results.values(spec_of(stream, name, preset), MEASURES["acc"]))
            theirs = paper.published("acc", name, stream) if preset == "paper" else None
            ours = f"**{ours}**" if preset == "deep" else ours
            row.append(ours if theirs is None else f"{ours} ({format_ratio(theirs)})")
        rows.append(row)
    return markdown(["", *(stream_info(name).title for name in STREAMS)], rows)


def goals_table(results: Results) -> str:
    """Every goal, what was measured, and whether it is reached."""
    goals = [(goal, check(goal, results)) for group in GOALS.values() for goal in group]
    rows = [[goal.text, outcome.ours, str(outcome)] for goal, outcome in goals]
    return markdown(["goal", "ours", ""], rows)


def missed_tasks(results: Results, specs: Specs) -> str:
    """Tasks that were not learned when they came, with their mean accuracy right after training."""
    lines = []
    for spec in dict.fromkeys(specs):
        found = [] if spec.together else [at_first(run) for run in results.find(spec)]
        means = {task: mean([one[task] for one in found]) for task in (found[0] if found else ())}
        missed = [f"{task} ({format_ratio(one, 2)})" for task, one in means.items() if one < LEARNED]
        lines += [f"- {title(spec)}: {', '.join(missed)}"] if missed else []
    head = "Tasks not learned when they came (mean accuracy right after training):"
    return "\n".join([head, "", *lines]) if lines else ""


def resilience_table(results: Results, specs: Specs) -> str:
    """Accuracy of LTM and NN under each strength of noise and occlusion."""
    rows = []
    for label, kind in (("noise", "noise"), ("clipped noise", "clipped"), ("occlusion", "occlusion")):
        curve = paper.curve("occlusion" if kind == "occlusion" else "noise")
        for place, strength in enumerate(curve["x"]):
            row = [f"{label} {format_ratio(strength, 2)}"]
            for name, spec in zip(("ltm", "nn"), specs, strict=True):
                ours = finite(under(run, kind, strength) for run in results.find(spec))
                # We read the paper's noise as not clipped, so clipped noise has no counterpart there.
                row.append(with_verdict(ours, None if kind == "clipped" else curve[name][place]))
            rows.append(row)
    return markdown(["", "LTM", "NN"], rows)


def revision_table(results: Results, specs: Specs) -> str:
    """Accuracy before and after tasks 1 and 6 of Permnist come again."""
    groups = {"task 1": [0], "task 6": [5], "the other four": [1, 2, 3, 4], "all six": list(range(6))}
    rows = []
    for spec in specs:
        row = [algorithm_info(spec.algorithm).title]
        for columns in groups.values():
            parts = [run.accuracy[:, columns].mean(axis=1) for run in results.find(spec)]
            before, after = ([float(part[step]) for part in parts] for step in (5, -1))
            row.append(f"{format_ratio(mean(before))} → {with_count(after)}")
        rows.append(row)
    return markdown(["before → after revision", *groups], rows)


def settings_table(results: Results, specs: Specs) -> str:
    """A row per run of a target: accuracy, resilience, what was not learned, time."""
    columns = ("acc", "bwt", "newest", "noise", "occlusion")
    rows = []
    for spec in specs:
        missed = results.values(spec, MEASURES["not_learned"])
        values = [results.values(spec, MEASURES[name]) for name in columns]
        rows.append(
            [
                title(spec),
                variant(spec),
                *(with_count(one) if one else MISSING for one in values),
                f"{mean(missed):.1f}" if missed else MISSING,
                _processor_time(results, spec, specs),
            ]
        )
    head = ["", "setting", "ACC", "BWT", "newest quarter", "noise .3", "occlusion .28"]
    return markdown([*head, "tasks not learned", "training, processor"], rows)


def _processor_time(results: Results, spec: RunSpec, specs: Specs) -> str:
    """Mean over the seeds that ran on the machine where most settings of this stream were timed."""

    def timed(other: RunSpec) -> list[Run]:
        return [run for run in results.find(other) if math.isfinite(run.number("train_cpu_seconds"))]

    same = [other for other in specs if other.stream == spec.stream]
    machines = Counter(machine for one in same for machine in sorted({run.machine for run in timed(one)}))
    place = max(sorted(machines), key=lambda machine: machines[machine], default="")
    return format_duration(
        mean([run.number("train_cpu_seconds") for run in timed(spec) if run.machine == place])
    )


def readings_table(results: Results, specs: Specs) -> str:
    """TDigits after each sleep for each reading of the text, and the distance to the paper's curve."""
    slept = range(5, 41, 5)
    rows = []
    for what, name, last in (("all", "tdigits_average", 40), ("last 10", "tdigits_last10", 10)):
        for algorithm in ("dgdmn", "dgr"):
            label, theirs = f"{algorithm_info(algorithm).title}, {what}", paper.curve(name)[algorithm]
            rows.append([label, "paper", *(format_ratio(theirs[task - 1]) for task in slept), ""])
            for spec in (spec for spec in specs if spec.algorithm == algorithm):
                if found := results.find(spec):
                    ours = np.mean([average_curve(run, last) for run in found], axis=0)
                    distance = float(np.sqrt(np.nanmean((ours - theirs) ** 2)))
                    after = (format_ratio(float(ours[task - 1])) for task in slept)
                    setting = f"{variant(spec)} ({len(found)})"
                    rows.append([label, setting, *after, format_ratio(distance)])
    return markdown(["tasks", "setting (seeds)", *(f"after {n}" for n in slept), "rms distance"], rows)


def clipping_table(results: Results, specs: Specs) -> str:
    """ACC and BWT with exact and with clipped cross-entropy beside the paper's."""
    rows = []
    for spec in (spec for spec in specs if spec.changes()):
        row = [title(spec)]
        for metric in ("acc", "bwt"):
            theirs = paper.published(metric, spec.algorithm, spec.stream)
            exact = results.values(spec_of(spec.stream, spec.algorithm), MEASURES[metric])
            clipped = results.values(spec, MEASURES[metric])
            row += [format_mean_sem(exact), with_verdict(clipped, theirs)]
        missed = results.values(spec, MEASURES["not_learned"])
        rows.append([*row, f"{mean(missed):.1f}" if missed else MISSING])
    head = ["", "ACC, exact", "ACC, clipped (paper)", "BWT, exact", "BWT, clipped (paper)"]
    return markdown([*head, "tasks not learned, clipped"], rows)


def deep_table(results: Results, specs: Specs) -> str:
    """`deep` on each stream beside `paper`, the paper's best number and Joint; and what it costs."""
    rows, costs = [], {}
    for goal in GOALS["deep-table"]:
        what, _, least = goal.text.removeprefix("`deep` on ").partition(": ACC ")
        plain, joint = (spec_of(goal.spec.stream, name) for name in (goal.spec.algorithm, "joint"))
        measure = MEASURES[goal.measure]
        names = ALGORITHMS if goal.spec.algorithm == "dgdmn" else [goal.spec.algorithm]
        theirs = [paper.published(goal.measure, name, goal.spec.stream) for name in names]
        rows.append(
            [
                what,
                with_count(results.values(plain, measure)),
                format_ratio(max((one for one in theirs if one is not None), default=math.nan)),
                f"**{with_count(results.values(goal.spec, measure))}**",
                with_count(results.values(goal.spec, MEASURES["bwt"])),
                with_count(results.values(joint, measure)),
                least,
                str(check(goal, results)),
            ]
        )
        costs[what.split(",")[0]] = _costs(results.find(goal.spec), results.find(plain))
    head = ["", "DGDMN `paper`", "paper's best", "DGDMN `deep`", "BWT", "Joint", "goal", ""]
    cost = ["", "training, `deep`", "training, `paper`", "ratio", "bytes, `deep`", "bytes, `paper`"]
    return join(markdown(head, rows), markdown(cost, ([name, *row] for name, row in costs.items())))


def _costs(*groups: Sequence[Run]) -> list[str]:
    times = training_times(*groups)
    deep, plain = map(mean, times.groups)
    ratio = f"{deep / plain:.2f} × ({times.clock})" if times.comparable else MISSING
    bytes_ = (mean(finite(run.memory_bytes for run in group)) for group in groups)
    return [format_duration(deep), format_duration(plain), ratio, *map(format_bytes, bytes_)]


def options_table(results: Results, specs: Specs) -> str:
    """What each option of `deep` is worth: turned off alone, compared with `deep` of the same seed."""
    tables = []
    for stream in dict.fromkeys(spec.stream for spec in specs):
        rows = []
        for spec in (spec for spec in specs if spec.stream == stream):
            whole = {run.seed: run for run in results.find(spec_of(stream, spec.algorithm, "deep"))}
            runs = [run for run in results.find(spec) if run.seed in whole]
            difference = mean([run.acc - whole[run.seed].acc for run in runs])
            times = training_times(runs, list(whole.values())).groups[0]
            option = ", ".join(f"`{k}` {format_option(v)}" for k, v in spec.changes().items())
            without = "" if spec.algorithm == "dgdmn" else f" ({algorithm_info(spec.algorithm).title})"
            cells = [
                (option or "`deep`") + without,
                with_count([run.acc for run in runs]),
                signed(difference) if option else MISSING,
                format_duration(mean(times)),
                format_bytes(mean(finite(run.memory_bytes for run in runs))),
                with_count(finite(map(MEASURES["noise"], runs))),
                with_count(finite(map(MEASURES["occlusion"], runs))),
            ]
            rows.append((spec.algorithm, difference if option else -math.inf, cells))
        rows.sort(key=lambda row: row[:2])
        head = [stream_info(stream).title, "ACC", "difference", "training", "bytes"]
        tables.append(markdown([*head, "noise .3", "occlusion .28"], (cells for *_, cells in rows)))
    return join(*tables)


def join(*parts: str) -> str:
    """Paragraphs; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)
