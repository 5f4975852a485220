"""Functions that tables.md calls to format collected results."""

import math
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dgdmn.config import resolve
from dgdmn.config.registry import ALGORITHMS, algorithm_info, stream_info
from dgdmn.core.text import MISSING, format_mean_sem, format_option, format_ratio
from dgdmn.report.load import Run
from dgdmn.report.table import finite, mean, mean_curve
from dgdmn.runs.spec import RunSpec
from reproduction import paper
from reproduction import results as measured
from reproduction.results import Results

Specs = Sequence[RunSpec]
PLAIN = "preset `paper`"  # the variant of a run with no option changed


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
    """A measure of a run, the paper's in brackets, and the verdict.

    Runs with another preset, own data or validation rows are not the paper's: its number is left out.
    """
    comparable = spec.preset == "paper" and spec.evaluate_on == "test" and spec.data is None
    theirs = paper.published(measure, spec.algorithm, spec.stream) if comparable else None
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
    versions, machine = run.config["versions"], run.config["machine"]
    processor = machine.get("processor") or "processor not recorded"
    software = f"Python {versions['python']}, torch {versions['torch']}, numpy {versions['numpy']}"
    system = f"{machine['system']} {machine['cpu']}, {machine['cores']} cores"
    return f"{system}, {processor}; {software}"


def machine_letters(runs: Iterable[Run]) -> dict[str, str]:
    """A letter for each machine, in the order of the runs."""
    return dict(zip(dict.fromkeys(map(machine, runs)), string.ascii_uppercase, strict=False))


def papers_best(spec: RunSpec) -> float:
    """The best ACC in the paper on a stream; for DGDMN-recog, its own ACC."""
    names = ALGORITHMS if spec.algorithm == "dgdmn" else [spec.algorithm]
    known = finite(paper.published("acc", name, spec.stream) or math.nan for name in names)
    return max(known, default=math.nan)


def missed_tasks(runs: Sequence[Run]) -> dict[str, float]:
    """Tasks that were not learned when they came, and their mean accuracy right after training."""
    found = [measured.accuracy_when_learned(run) for run in runs]
    means = {task: mean([one[task] for one in found]) for task in (found[0] if found else ())}
    return {task: accuracy for task, accuracy in means.items() if accuracy < measured.LEARNED}


def format_revision(runs: Sequence[Run], columns: Sequence[int]) -> str:
    """Mean accuracy on some tasks before and after tasks of Permnist come again."""
    parts = [run.accuracy[:, columns].mean(axis=1) for run in runs]
    before, after = ([float(part[step]) for part in parts] for step in (5, -1))
    return f"{format_ratio(mean(before))} → {with_count(after)}"


def without_changes(spec: RunSpec, preset: str = "", algorithm: str = "") -> RunSpec:
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


def mean_average(runs: Sequence[Run], last: int) -> tuple[float, ...]:
    """Mean accuracy on the `last` tasks seen, after each task, over all seeds."""
    return mean_curve([measured.average_curve(run, last) for run in runs])


def rms_distance(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return math.sqrt(mean((a - b) ** 2 for a, b in zip(ours, theirs, strict=True)))


def option_effects(results: Results, specs: Specs) -> list[tuple[float, RunSpec, Sequence[Run]]]:
    """ACC minus that of the unchanged runs with the same seeds, the spec and its runs; largest loss first."""
    effects = []
    for spec in specs:
        whole = {run.seed: run.acc for run in results.find(without_changes(spec))}
        runs = [run for run in results.find(spec) if run.seed in whole]
        effects.append((mean(run.acc - whole[run.seed] for run in runs), spec, runs))
    return sorted(effects, key=lambda one: (one[1].algorithm, bool(one[1].changes()), one[0]))
