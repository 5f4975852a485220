"""`dgdmn run`: learn a stream with one or more algorithms and seeds, side by side on the cores."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import tyro

from dgdmn.algorithms import check_name
from dgdmn.cli.configuration import configuration
from dgdmn.errors import DataError, UsageError, suggestion
from dgdmn.presets import PAPER, Preset, preset

if TYPE_CHECKING:  # numpy and rich wait until the arguments are parsed, so that --help is quick
    from dgdmn.experiments.spec import RunSpec
    from dgdmn.experiments.sweep import Failure


Arguments = TypeVar("Arguments")


@dataclass(frozen=True)
class Run:
    """Learn a stream of tasks one at a time; test on all of them after each; record everything."""

    dataset: tyro.conf.Positional[str]
    """digits, tdigits, permnist, shapes, hindi, split-digits or embedded."""
    options: Annotated[Preset, tyro.conf.arg(name="")]
    algorithm: tuple[str, ...] = ("dgdmn",)
    """One or more of them, `dgdmn algorithms` lists them; `dgdmn:best` has a preset of its own."""
    preset: str = "paper"
    """Of the others: `paper` (appendix B), `best` (ours, beyond it) or `quick` (in under a minute)."""
    seed: tuple[int, ...] = (0,)
    """One or more seeds; each gives a run of its own."""
    out: Path = Path("runs")
    """Where the run directories go."""
    evaluate_on: Literal["test", "validation"] = "test"
    """`validation` tests on a tenth cut from the training data, so that nobody tunes on the test set."""
    revise: tuple[int, ...] = ()
    """Tasks, counted from 1, that come once more at the end, as `--revise 1 6` in appendix A."""
    together: bool = False
    """All tasks at once, as one: the paper's joint training of a memory."""
    jobs: int = 0
    """Runs at a time; 0: as many as there are cores."""
    threads: int = 0
    """torch threads of each run; 0: the cores shared among the runs."""
    device: str = "cpu"
    """`cpu`, or `cuda` where there is one."""
    fallback: Literal["embedded", "none"] = "none"
    """Use the embedded digits, and say so, where the dataset can be found nowhere."""
    show_config: bool = False
    """Print what would run, and stop."""
    words: Annotated[tuple[str, ...], tyro.conf.Fixed, tyro.conf.Suppress] = ()
    """What was typed: read again over each preset, so that only what was given changes its values."""


def main(arguments: list[str], debug: bool = False) -> int:
    """Parse, run, show the results."""
    args = _parse(arguments)
    _check(args)
    if args.show_config:
        sys.stdout.write(configuration(_specs(args)))
        return 0
    from dgdmn.cli.display import Display, print_results
    from dgdmn.experiments.spec import recorded
    from dgdmn.experiments.sweep import run_all

    args = _with_data(args)
    specs = _specs(args)
    before = {
        spec: float((record.summary or {})["seconds"])
        for spec in specs
        if (record := recorded(spec, args.out)) and record.complete
    }
    unfinished, jobs = [spec for spec in specs if spec not in before], _jobs(args)
    with Display(args.out, unfinished, jobs, before) as display:
        failures = run_all(ordered(unfinished, jobs), args.out, jobs, display.look)
    failed = {failure.run for failure in failures}
    done = [spec for spec in specs if spec.name not in failed]
    print_results(args.out, done)
    _write_report(args.out, done)
    return report(failures, debug)


def _write_report(out: Path, specs: list[RunSpec]) -> None:
    """One page on these runs, without figures as files, which take longer; `dgdmn report` makes those."""
    from dgdmn.report import write_report

    if specs:
        write_report([out / spec.name for spec in specs], out / "report.html", None)
        sys.stdout.write(f"to look at: {out / 'report.html'}\n")


def _parse(arguments: list[str]) -> Run:
    """The defaults in the help are those of the dataset and the preset, so these are guessed first."""
    dataset = next((word for word in arguments if word in PAPER), "digits")
    args = _parsed(arguments, dataset, _value_of("--preset", arguments) or "paper")
    return replace(args, words=tuple(arguments))


def _parsed(arguments: Sequence[str], dataset: str, name: str) -> Run:
    default = Run(dataset=tyro.MISSING, options=preset(name, dataset), preset=name)
    return parse(Run, list(arguments), "dgdmn run", default=default)


def _options(args: Run, name: str) -> Preset:
    """That preset's values for the dataset, but for those given on the command line."""
    return _parsed(args.words, args.dataset, name).options


def parse(kind: type[Arguments], arguments: list[str], program: str, **options: Any) -> Arguments:
    """A verb's arguments; a mistake is a sentence, not tyro's box."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            parsed: Arguments = tyro.cli(
                kind,
                args=arguments,
                prog=program,
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
                **options,
            )
            return parsed
    except SystemExit as error:
        if not error.code:
            raise
        raise UsageError(_in_one_line(complaint.getvalue(), arguments, program)) from error


def _in_one_line(box: str, arguments: list[str], program: str) -> str:
    """tyro's complaint without its frame: what is wrong, and what is expected or was perhaps meant."""
    lines = [line.strip(" │╭╰╮╯─") for line in box.splitlines()][1:]  # the first is the title
    texts = itertools.groupby(lines, lambda line: line.strip("-") != "")  # without UTF-8 a rule is of dashes
    parts = [list(part) for text, part in texts if text]
    what = " ".join(parts[0]).rstrip(" .:") if parts else "wrong usage"
    below = list(itertools.chain(*parts[1:]))
    if "Argument helptext:" in below:  # of the option whose value is wrong
        hint = f" (expected {below[below.index('Argument helptext:') + 1]})"
    else:
        options = dict.fromkeys(line.split()[0] for line in below if line.startswith("--"))
        meant = [option for option in options if option not in arguments]
        hint = f" (did you mean {' or '.join(meant)}?)" if meant else ""
    return f"{what}{hint}; {program} --help lists the options"


def _value_of(flag: str, arguments: list[str]) -> str | None:
    for word, following in itertools.pairwise([*arguments, ""]):
        if word == flag:
            return following
        if word.startswith(f"{flag}="):
            return word.split("=", 1)[1]
    return None


def _check(args: Run) -> None:
    if args.dataset not in PAPER:
        raise UsageError(
            f"no dataset {args.dataset!r}{suggestion(args.dataset, PAPER)}; there are {', '.join(PAPER)}"
        )
    for name, values in (("algorithm", args.algorithm), ("seed", args.seed)):
        if not values:
            raise UsageError(f"--{name} needs at least one value")
    for name, value in (
        ("jobs", args.jobs),
        ("threads", args.threads),
        *(("seed", seed) for seed in args.seed),
    ):
        if value < 0:
            raise UsageError(f"{name} is {value}; it must be at least 0")
    if args.out.exists() and not args.out.is_dir():
        raise UsageError(f"--out {args.out} is a file; name a directory")
    _specs(args)  # a run refuses what cannot go together, here before its data is fetched


def _with_data(args: Run) -> Run:
    """Fetch what is missing; else fall back to the embedded digits if that was asked for."""
    from dgdmn.cli.data import fetch_with_bar
    from dgdmn.streams import sources

    if all(verdict.ok for verdict in sources.verify(args.dataset)):
        return args
    try:
        fetch_with_bar(args.dataset)
    except DataError as error:
        if args.fallback == "none":
            raise
        reason = str(error).split(";")[0]
        sys.stderr.write(
            f"{reason}: running on the embedded digits instead (dgdmn data fetch {args.dataset} says more)\n"
        )
        return replace(args, dataset="embedded")
    return args


def _entries(args: Run) -> list[tuple[str, str]]:
    """Each algorithm with its preset: the one behind its colon, else that of `--preset`."""
    entries = []
    for word in args.algorithm:
        name, colon, own = word.partition(":")
        check_name(name)
        entries.append((name, own if colon else args.preset))
    return list(dict.fromkeys(entries))


def _specs(args: Run) -> list[RunSpec]:
    from dgdmn.experiments.spec import RunSpec

    entries, seeds = _entries(args), dict.fromkeys(args.seed)
    options = {name: _options(args, name) for _, name in entries}
    threads = args.threads or max(1, cores() // min(_jobs(args), len(entries) * len(seeds)))
    return [
        RunSpec(
            args.dataset,
            algorithm,
            name,
            options[name],
            seed,
            args.evaluate_on,
            args.revise,
            args.together,
            args.device,
            threads,
        )
        for seed in seeds
        for algorithm, name in entries
    ]


def _jobs(args: Run) -> int:
    return args.jobs or cores()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def ordered(specs: list[RunSpec], jobs: int) -> list[RunSpec]:
    """The longest first, where some must wait."""
    if len(specs) <= jobs:
        return specs
    from dgdmn.experiments.forecast import longest_first

    return longest_first(specs)


def report(failures: list[Failure], debug: bool) -> int:
    """One line for each run that failed, and the exit code."""
    for failure in failures:
        sys.stderr.write(f"dgdmn: {failure.run} failed: {failure.message}\n")
        if debug:
            sys.stderr.write(failure.trace)
    if not failures:
        return 0
    return 2 if all(failure.usage for failure in failures) else 1
