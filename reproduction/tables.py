"""Tables in Markdown. Each takes the collected results and the runs of its target."""

import math
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from dgdmn.config import resolve
from dgdmn.config.registry import ALGORITHMS, algorithm_info, stream_info
from dgdmn.core.text import MISSING, format_bytes, format_mean_sem, format_option, format_ratio
from dgdmn.report.load import Run
from dgdmn.report.table import finite, mean
from dgdmn.runs.spec import RunSpec
from reproduction import paper
from reproduction import results as measured
from reproduction.results import Results

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


def judge(results: Results, spec: RunSpec, measure: str) -> str:
    """A measure of a run, the paper's in brackets, and the verdict."""
    theirs = paper.published(measure, spec.algorithm, spec.stream)
    return with_verdict(results.values(spec, measure), theirs)


def seconds(times: Iterable[float]) -> str:
    """Their mean in seconds."""
    value = mean(times)
    return f"{value:,.0f} s" if math.isfinite(value) else MISSING


def title(spec: RunSpec) -> str:
    return f"{algorithm_info(spec.algorithm).title} on {stream_info(spec.stream).title}"


def variant(spec: RunSpec) -> str:
    """How a run differs from the preset `paper`."""
    parts = [f"preset `{spec.preset}`"] if spec.preset != "paper" else []
    parts += [f"{name} {format_option(value)}" for name, value in spec.changes().items()]
    parts += ["all tasks together"] if spec.together else []
    return ", ".join(parts) or PLAIN


def machine(run: Run) -> str:
    """The machine and the software of a run."""
    versions, machine = run.record.config["versions"], run.record.config["machine"]
    processor = machine.get("processor") or "processor not recorded"
    software = f"Python {versions['python']}, torch {versions['torch']}, numpy {versions['numpy']}"
    return (
        f"{machine['system']} {machine['cpu']}, {machine['cores']} cores, {processor}; {software}"
    )


def machine_letters(runs: Iterable[Run]) -> dict[str, str]:
    """A letter for each machine, in the order of the runs."""
    return dict(zip(dict.fromkeys(map(machine, runs)), string.ascii_uppercase, strict=False))


def papers_best(spec: RunSpec) -> float:
    """The best ACC in the paper on a stream; of a DGDMN without descriptors, its own."""
    names = ALGORITHMS if spec.algorithm == "dgdmn" else [spec.algorithm]
    known = finite(paper.published("acc", name, spec.stream) or math.nan for name in names)
    return max(known, default=math.nan)


def missed_tasks(runs: Sequence[Run]) -> dict[str, float]:
    """Tasks that were not learned when they came, and their mean accuracy right after training."""
    found = [measured.accuracy_when_learned(run) for run in runs]
    means = {task: mean([one[task] for one in found]) for task in (found[0] if found else ())}
    return {task: accuracy for task, accuracy in means.items() if accuracy < measured.LEARNED}


def revised(runs: Sequence[Run], columns: Sequence[int]) -> str:
    """Mean accuracy on some tasks before and after tasks of Permnist come again."""
    parts = [run.accuracy[:, columns].mean(axis=1) for run in runs]
    before, after = ([float(part[step]) for part in parts] for step in (5, -1))
    return f"{format_ratio(mean(before))} → {with_count(after)}"


def unchanged(spec: RunSpec, preset: str = "", algorithm: str = "") -> RunSpec:
    """The run without changed options, with its own or another preset and algorithm."""
    name, algorithm = preset or spec.preset, algorithm or spec.algorithm
    return replace(spec, algorithm=algorithm, preset=name, options=resolve(name, spec.stream))


def verdicts(results: Results, specs: Specs) -> dict[tuple[str, str], str]:
    """The verdict of every number in the paper's tables, by metric and title."""
    return {
        (metric, title(spec)): paper.compare(results.values(spec, metric), theirs)
        for metric in ("acc", "bwt")
        for spec in specs
        if (theirs := paper.published(metric, spec.algorithm, spec.stream)) is not None
    }


def verdict_counts(results: Results, specs: Specs) -> tuple[int, str]:
    """How many numbers the paper's tables have, and how many of ours match or differ."""
    found = verdicts(results, specs)
    counts = Counter(verdict.removeprefix("single run, ") for verdict in found.values())
    words = {"matches": "match", "higher": "are higher", "lower": "are lower"}
    listed = (f"{n} {words.get(kind, kind)}" for kind, n in counts.most_common())
    return len(found), ", ".join(listed)


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
            cells += [seconds(times.groups[0]), format_bytes(kept)]
            cells += [with_count(results.values(spec, name)) for name in ("noise", "occlusion")]
            rows.append((spec.algorithm, difference if option else -math.inf, cells))
        rows.sort(key=lambda row: row[:2])
        head = [stream_info(stream).title, "ACC", "difference", "training", "bytes"]
        tables.append(markdown([*head, "noise .3", "occlusion .28"], (cells for *_, cells in rows)))
    return join(*tables)
