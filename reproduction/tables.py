"""Tables in Markdown. Each takes the collected results and the runs of its target."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from dgdmn.config import resolve
from dgdmn.config.registry import ALGORITHMS, algorithm_info, stream_info
from dgdmn.core.text import MISSING, format_bytes, format_mean_sem, format_option, format_ratio
from dgdmn.runs.spec import RunSpec
from reproduction import paper
from reproduction import results as measured
from reproduction.results import Results, finite, mean

Specs = Sequence[RunSpec]
PLAIN = "preset `paper`"  # the variant of a run with no option changed


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table.

    >>> print(markdown(["", "ACC"], [["NN", ".100"]]))
    |  | ACC |
    | --- | --- |
    | NN | .100 |
    """
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))


def join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def with_count(values: Sequence[float]) -> str:
    """Mean ± standard error, and the number of seeds in brackets."""
    return f"{format_mean_sem(values)} ({len(values)})" if values else MISSING


def with_verdict(ours: Sequence[float], theirs: float | None) -> str:
    """Ours, the paper's in brackets, and the verdict."""
    if not ours or theirs is None:
        return format_mean_sem(ours) if ours else "not run yet"
    verdict = paper.compare(ours, theirs)
    verdict = verdict if "matches" in verdict else f"**{verdict}**"
    return f"{format_mean_sem(ours)} ({format_ratio(theirs)}) {verdict}"


def seconds(value: float) -> str:
    return f"{value:,.0f} s" if math.isfinite(value) else MISSING


def title(spec: RunSpec) -> str:
    return f"{algorithm_info(spec.algorithm).title} on {stream_info(spec.stream).title}"


def variant(spec: RunSpec) -> str:
    """How a run differs from the preset `paper`."""
    parts = [f"preset `{spec.preset}`"] if spec.preset != "paper" else []
    parts += [f"{name} {format_option(value)}" for name, value in spec.changes().items()]
    parts += ["all tasks together"] if spec.together else []
    return ", ".join(parts) or PLAIN


def unchanged(spec: RunSpec, preset: str = "", algorithm: str = "") -> RunSpec:
    """The run without changed options, with its own or another preset and algorithm."""
    name, algorithm = preset or spec.preset, algorithm or spec.algorithm
    return replace(spec, algorithm=algorithm, preset=name, options=resolve(name, spec.stream))


def metric_table(results: Results, specs: Specs, metric: str) -> str:
    """One of the paper's tables: in each cell ours, the paper's in brackets, the verdict."""
    rows: dict[str, list[str]] = {}
    for spec in specs:
        theirs = paper.published(metric, spec.algorithm, spec.stream)
        row = rows.setdefault(spec.algorithm, [algorithm_info(spec.algorithm).title])
        row.append(with_verdict(results.values(spec, metric), theirs))
    streams = dict.fromkeys(spec.stream for spec in specs)
    return markdown(["", *(stream_info(name).title for name in streams)], rows.values())


def verdicts(results: Results, specs: Specs) -> dict[tuple[str, str], str]:
    """The verdict of every number in the paper's tables, by metric and title."""
    return {
        (metric, title(spec)): paper.compare(results.values(spec, metric), theirs)
        for metric in ("acc", "bwt")
        for spec in specs
        if (theirs := paper.published(metric, spec.algorithm, spec.stream)) is not None
    }


def missed_table(results: Results, specs: Specs) -> str:
    """Tasks that were not learned when they came, with their mean accuracy right after training."""
    lines = []
    for spec in specs:
        found = [measured.accuracy_when_learned(run) for run in results.find(spec)]
        means = {task: mean([one[task] for one in found]) for task in (found[0] if found else ())}
        missed = [f"{t} ({format_ratio(a, 2)})" for t, a in means.items() if a < measured.LEARNED]
        lines += [f"- {title(spec)}: {', '.join(missed)}"] if missed else []
    head = "Tasks not learned when they came (mean accuracy right after training):"
    return "\n".join([head, "", *lines]) if lines else ""


def resilience_table(results: Results, specs: Specs) -> str:
    """Accuracy of LTM and NN under each strength of noise and occlusion."""
    rows = []
    for label, kind in (("noise", "noise"), ("clipped noise", "clipped"), ("occlusion",) * 2):
        curve = paper.curve("occlusion" if kind == "occlusion" else "noise")
        for place, strength in enumerate(curve["x"]):
            row = [f"{label} {format_ratio(strength, 2)}"]
            for name, spec in zip(("ltm", "nn"), specs, strict=True):
                ours = finite(
                    measured.accuracy_under(run, kind, strength) for run in results.find(spec)
                )
                # We read the paper's noise as not clipped: clipped noise has no counterpart.
                row.append(with_verdict(ours, None if kind == "clipped" else curve[name][place]))
            rows.append(row)
    return markdown(["", "LTM", "NN"], rows)


def revision_table(results: Results, specs: Specs) -> str:
    """Accuracy before and after tasks 1 and 6 of Permnist come again."""
    groups = {"task 1": [0], "task 6": [5], "the other four": [1, 2, 3, 4], "all": [*range(6)]}
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
    """A row per run of a target: accuracy, resilience, and how many tasks were not learned."""
    columns = ("acc", "bwt", "newest", "noise", "occlusion")
    rows = []
    for spec in specs:
        missed = mean(results.values(spec, "not_learned"))
        texts = (with_count(results.values(spec, name)) for name in columns)
        rows.append([title(spec), variant(spec), *texts, f"{missed:.1f}".replace("nan", MISSING)])
    head = ["", "setting", "ACC", "BWT", "newest quarter", "noise .3", "occlusion .28"]
    return markdown([*head, "tasks not learned"], rows)


def readings_table(results: Results, specs: Specs) -> str:
    """TDigits after each sleep for each reading of the text, and the distance to the paper's curve."""
    slept = range(5, 41, 5)
    rows = []
    for what, name, last in (("all", "tdigits_average", 40), ("last 10", "tdigits_last10", 10)):
        for algorithm in ("dgdmn", "dgr"):
            theirs = paper.curve(name)[algorithm]
            curves = [("paper", theirs, "")]
            for spec in (spec for spec in specs if spec.algorithm == algorithm):
                if found := results.find(spec):
                    ours = np.mean([measured.average_curve(run, last) for run in found], axis=0)
                    distance = math.sqrt(np.nanmean((ours - theirs) ** 2))
                    curves.append((f"{variant(spec)} ({len(found)})", ours, format_ratio(distance)))
            for setting, curve, rms in curves:
                after = (format_ratio(float(curve[task - 1])) for task in slept)
                rows.append([f"{algorithm_info(algorithm).title}, {what}", setting, *after, rms])
    return markdown(["tasks", "setting (seeds)", *(f"after {n}" for n in slept), "rms"], rows)


def clipping_table(results: Results, specs: Specs) -> str:
    """ACC and BWT with exact and with clipped cross-entropy beside the paper's."""
    rows = []
    for spec in (spec for spec in specs if spec.changes()):
        row = [title(spec)]
        for metric in ("acc", "bwt"):
            theirs = paper.published(metric, spec.algorithm, spec.stream)
            exact = format_mean_sem(results.values(unchanged(spec), metric))
            row += [exact, with_verdict(results.values(spec, metric), theirs)]
        rows.append([*row, f"{mean(results.values(spec, 'not_learned')):.1f}"])
    head = ["", "ACC, exact", "ACC, clipped (paper)", "BWT, exact", "BWT, clipped (paper)"]
    return markdown([*head, "tasks not learned, clipped"], rows)


def deep_table(results: Results, specs: Specs) -> str:
    """`deep` beside `paper`, the paper's best number and Joint; and what it costs."""
    rows = []
    for deep in (spec for spec in specs if spec.preset == "deep"):
        plain, joint = unchanged(deep, "paper"), unchanged(deep, "paper", "joint")
        names = ALGORITHMS if deep.algorithm == "dgdmn" else [deep.algorithm]
        best = finite(paper.published("acc", name, deep.stream) or math.nan for name in names)
        times = measured.training_times(results.find(deep), results.find(plain))
        bytes_ = (mean(finite(r.memory_bytes for r in results.find(s))) for s in (deep, plain))
        row = [title(deep), f"**{with_count(results.values(deep, 'acc'))}**"]
        row += [with_count(results.values(plain, "acc")), format_ratio(max(best, default=math.nan))]
        row += [with_count(results.values(joint, "acc")), with_count(results.values(deep, "bwt"))]
        row += [" / ".join(seconds(mean(group)) for group in times.groups), times.clock]
        rows.append([*row, " / ".join(map(format_bytes, bytes_))])
    head = ["", "ACC, `deep`", "ACC, `paper`", "paper's best", "Joint", "BWT, `deep`"]
    return markdown([*head, "training, `deep` / `paper`", "clock", "bytes, `deep` / `paper`"], rows)


def options_table(results: Results, specs: Specs) -> str:
    """What each option of `deep` is worth: turned off alone, compared with `deep` of the same seed."""
    tables = []
    for stream in dict.fromkeys(spec.stream for spec in specs):
        rows = []
        for spec in (spec for spec in specs if spec.stream == stream):
            whole = {run.seed: run for run in results.find(unchanged(spec))}
            runs = [run for run in results.find(spec) if run.seed in whole]
            difference = mean([run.acc - whole[run.seed].acc for run in runs])
            times = measured.training_times(runs, list(whole.values()))
            option = ", ".join(f"`{k}` {format_option(v)}" for k, v in spec.changes().items())
            recog = " (DGDMN-recog)" if spec.algorithm == "dgdmn-recog" else ""
            sign = "+" if difference > 0 else ""
            cells = [(option or "`deep`") + recog, with_count([run.acc for run in runs])]
            cells += [sign + format_ratio(difference) if option else MISSING]
            kept = mean([run.memory_bytes for run in runs])
            cells += [seconds(mean(times.groups[0])), format_bytes(kept)]
            cells += [with_count(results.values(spec, name)) for name in ("noise", "occlusion")]
            rows.append((spec.algorithm, difference if option else -math.inf, cells))
        rows.sort(key=lambda row: row[:2])
        head = [stream_info(stream).title, "ACC", "difference", "training", "bytes"]
        tables.append(markdown([*head, "noise .3", "occlusion .28"], (cells for *_, cells in rows)))
    return join(*tables)
