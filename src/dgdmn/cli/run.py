"""`dgdmn run` and `dgdmn resume`: learn streams with algorithms and seeds, and show the results."""

import itertools
import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from dgdmn.cli.options import split_algorithm
from dgdmn.cli.output import show
from dgdmn.cli.progress import fetch_with_bars, print_results, show_progress
from dgdmn.config import PAPER, field_docs, override, resolve, sources_of, to_dict
from dgdmn.config.registry import algorithm_info, stream_info
from dgdmn.core.errors import DataError, UsageError
from dgdmn.records import RunRecord
from dgdmn.report import write_report
from dgdmn.runs.environment import available_cores, default_threads
from dgdmn.runs.executor import Failure, run_all
from dgdmn.runs.spec import RunSpec, find_run
from dgdmn.streams.fetch import verify

Outcome = tuple[list[RunRecord], list[Failure]]


def run(args: Namespace) -> int:
    """Learn a stream, record it, and print the results."""
    stream_info(args.stream)
    if args.out.exists() and not args.out.is_dir():
        raise UsageError(f"--out {args.out} is a file; name a directory")
    specs = make_specs(args)
    if args.show_config:
        show(*_toml(specs).split("\n"))
        return 0
    args.stream = _stream_with_data(args.stream, args.fallback)
    records, failures = _execute(make_specs(args), args.out, args.jobs)
    if records:
        page = args.out / "report.html"
        write_report([record.directory for record in records], page)
        show(f"report: {page}")
    return _exit_code(failures, args.debug)


def resume(args: Namespace) -> int:
    """Continue runs from their last checkpoints, and print the results."""
    failures: list[Failure] = []
    paths = [path.resolve() for path in args.run]
    for out in dict.fromkeys(path.parent for path in paths):
        records = [RunRecord.read(path) for path in paths if path.parent == out]
        for record in records:
            _check_registered(record)
        failures += _execute([RunSpec.from_record(one) for one in records], out, args.jobs)[1]
    return _exit_code(failures, args.debug)


def _check_registered(record: RunRecord) -> None:
    """A run directory must not choose what code is imported; the same `dgdmn run` command may."""
    for name in (record.config["algorithm"], record.config["stream"]):
        if ":" in str(name):
            raise UsageError(
                f"{record.name} uses {name}; repeat its `dgdmn run` command to continue"
            )


def make_specs(args: Namespace) -> list[RunSpec]:
    """The runs that the arguments ask for, each once."""
    stream = args.stream if args.stream in PAPER else None
    common = {"evaluate_on": args.evaluate_on, "revise": tuple(args.revise), "device": args.device}
    common |= {"together": args.together, "threads": args.threads or default_threads()}
    names = [split_algorithm(word, args.preset) for word in args.algorithm]
    options = {preset: override(resolve(preset, stream), args.changes) for _, preset in names}
    specs: dict[str, RunSpec] = {}
    for seed, (name, preset) in itertools.product(args.seed, names):
        spec = RunSpec(args.stream, name, preset, options[preset], seed, **common)
        specs.setdefault(spec.key, spec)
    return list(specs.values())


def _stream_with_data(stream: str, fallback: str) -> str:
    if stream_info(stream).dataset is None:
        return stream
    try:
        if not all(verdict.ok for verdict in verify(stream)):
            fetch_with_bars(stream)
    except DataError as error:
        if fallback == "none":
            raise
        reason, more = str(error).split(";")[0], f"`dgdmn data fetch {stream}` says more"
        title = stream_info(fallback).title
        show(f"{reason}: running on {title} instead ({more})", error=True)
        return fallback
    return stream


def _execute(specs: Sequence[RunSpec], out: Path, jobs: int) -> Outcome:
    """Do the runs that are not complete, show their progress, and print the results of all."""
    jobs, pending, directories = jobs or available_cores(), [], {}
    for spec in sorted(specs, key=lambda spec: not algorithm_info(spec.algorithm).generative):
        record = find_run(spec, out)  # generative algorithms take longest, so they start first
        if record is None or not record.complete:
            pending.append(spec)
            directories[spec.name] = record.directory if record else out / spec.name
    with show_progress(directories, jobs) as update:
        failures = run_all(pending, out, jobs, lambda failed: update({one.run for one in failed}))
    found = (find_run(spec, out) for spec in specs)
    records = [record for record in found if record is not None and record.complete]
    print_results(records)
    return records, failures


def _exit_code(failures: Sequence[Failure], debug: bool) -> int:
    for failure in failures:
        trace = failure.trace.splitlines() if debug else ()
        show(f"dgdmn: {failure.run} failed: {failure.message}", *trace, error=True)
    return 0 if not failures else 2 if all(failure.usage for failure in failures) else 1


def _toml(specs: Sequence[RunSpec]) -> str:
    """The runs and their options with the source of each value; a table for each preset if several."""
    first, by_preset = specs[0], {spec.preset: spec for spec in specs}
    several = len(by_preset) > 1
    names = [f"{spec.algorithm}:{spec.preset}" if several else spec.algorithm for spec in specs]
    values = first.identity() | {
        "algorithm": list(dict.fromkeys(names)),
        "preset": list(by_preset) if several else first.preset,
        "seed": list(dict.fromkeys(spec.seed for spec in specs)),
    }
    del values["options"]
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    for name, spec in by_preset.items():
        docs = sources_of(name, spec.stream) if spec.stream in PAPER else field_docs()
        docs |= {key: f"changed; {docs[key]}" for key in spec.changes()}
        lines += ["", f"[options.{name}]" if several else "[options]"]
        options = to_dict(spec.options).items()
        lines += [f"{key} = {json.dumps(value)}  # {docs[key]}" for key, value in options]
    return "\n".join(lines)
