"""`dgdmn run` and `dgdmn resume`: learn streams with algorithms and seeds, and show the results."""

import itertools
import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dgdmn.cli.output import show
from dgdmn.cli.progress import fetch_with_bars, print_result, print_results, show_progress
from dgdmn.config import PAPER, default_threads, field_docs, sources_of, to_dict
from dgdmn.config.entries import Entry, flag, parse_entry
from dgdmn.config.registry import STREAMS, algorithm_info, stream_info
from dgdmn.core.errors import DataError, UsageError, suggestion
from dgdmn.core.text import format_entry, join_names
from dgdmn.records import RunRecord, read_status
from dgdmn.report import preload, write_report
from dgdmn.report.load import find_directories
from dgdmn.runs.environment import available_cores
from dgdmn.runs.executor import Failure, LocalCluster, run_all
from dgdmn.runs.spec import RunSpec, find_run, make_spec
from dgdmn.streams import DataFile
from dgdmn.streams.fetch import verify

COLUMNS = ("label", "task", "order_by", "tasks", "test", "ignore", "text")
"""Options that say how the rows of a file become tasks."""
Outcome = tuple[list[RunRecord], list[Failure]]


def run(args: Namespace) -> int:
    """Learn a stream, record it, and print the results."""
    check_out(args.out)
    data = find_data(args, [args.stream])
    specs = make_specs(args, data)
    if args.show_config:
        show(*_toml(specs, args.changes).split("\n"))
        return 0
    if not data:
        args.stream = stream_with_data(args.stream, args.fallback)
        specs = make_specs(args, data)
    preload()
    records, failures = execute_all(specs, args.out, args.jobs)
    print_results(records)
    if records:
        page = args.out / "report.html"
        write_report([args.out], page)  # with earlier runs
        show(f"report: {page}")
    return exit_code(failures, args.debug)


def resume(args: Namespace) -> int:
    """Continue runs from their last checkpoints, and print the results."""
    failures: list[Failure] = []
    paths = [path.resolve() for path in find_directories(args.run)]
    for out in dict.fromkeys(path.parent for path in paths):
        records = [RunRecord.read(path) for path in paths if path.parent == out]
        for record in records:
            _check_registered(record)
        specs = list(map(RunSpec.from_record, records))
        records, failed = execute_all(specs, out, args.jobs)
        print_results(records)
        failures += failed
    return exit_code(failures, args.debug)


def check_out(out: Path) -> None:
    """Refuse a file as the parent directory of the runs."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file; name a directory")


def _check_registered(record: RunRecord) -> None:
    """A run directory must not choose what code is imported; the same `dgdmn run` command may."""
    for name in (record.config["algorithm"], record.config["stream"]):
        if ":" in str(name):
            advice = "repeat its `dgdmn run` command to continue"
            raise UsageError(f"{record.name} uses {name}; {advice}")


def find_data(args: Namespace, words: Sequence[str]) -> dict[str, DataFile]:
    """The user's own files and folders among the words; the others are names of streams.

    A stream wins over a file of its name; `./digits` is the file. Each file is read once, so that what is wrong
    with it is one sentence before anything is learned.
    """
    options = {key: value for key in COLUMNS if (value := getattr(args, key, None))}
    options |= {key: tuple(options[key]) for key in ("ignore", "text") if key in options}
    found = {}
    for word in words:
        if _is_stream(word):
            continue
        if not (path := Path(word)).exists():
            near = [one.name for one in path.parent.glob("*")] if path.parent.is_dir() else []
            hint = suggestion(path.name, [*STREAMS, *near])
            streams = ", ".join(STREAMS)
            raise UsageError(f"no stream or file {word!r}{hint}; the streams are {streams}")
        data = DataFile.find(path, **options)
        data.load()
        found[word] = data
    if options and not found:
        option, names = flag(next(iter(options))), join_names(words)
        raise UsageError(f"{option} is for files of your own; {names} has its tasks and labels")
    return found


def _is_stream(word: str) -> bool:
    if ":" in word:  # package.module:function
        return not Path(word).exists()
    try:
        return bool(stream_info(word))
    except UsageError:
        return False


def make_specs(args: Namespace, data: Mapping[str, DataFile] | None = None) -> list[RunSpec]:
    """The runs of a `dgdmn run` command, without duplicates."""
    entries = [parse_entry(word, args.preset) for word in args.algorithm]
    protocol = {"revise": tuple(args.revise), "together": args.together}
    return specs_of(args, args.stream, entries, args.seed, data, **protocol)


def specs_of(
    args: Namespace,
    stream: str,
    entries: Sequence[Entry],
    seeds: Sequence[int],
    data: Mapping[str, DataFile] | None,
    ceilings_together: bool = False,
    **protocol: Any,
) -> list[RunSpec]:
    """The runs of these methods on a stream, each once.

    A comparison needs only the end of a ceiling, so `ceilings_together` trains it once on all tasks.
    """
    protocol |= {"evaluate_on": args.evaluate_on, "device": args.device, "changes": args.changes}
    protocol["threads"] = args.threads or default_threads()
    own = (data or {}).get(stream)
    name, specs = own.name if own else stream, dict[str, RunSpec]()
    for seed, entry in itertools.product(seeds, entries):
        given = dict(protocol)
        if ceilings_together and algorithm_info(entry.algorithm).category == "ceiling":
            given["together"] = True
        spec = make_spec(name, entry, seed, data=own, **given)
        specs.setdefault(spec.key, spec)
    return list(specs.values())


def stream_with_data(stream: str, fallback: str = "none") -> str:
    """The stream, with its data fetched; the fallback if the data is unavailable."""
    if stream_info(stream).dataset is None:
        return stream
    try:
        if not all(verdict.ok for verdict in verify(stream)):
            fetch_with_bars(stream)
    except DataError as error:
        if fallback == "none":
            raise
        reason, more = str(error).split(";")[0], f"details: `dgdmn data fetch {stream}`"
        title = stream_info(fallback).title
        show(f"{reason}: running on {title} instead ({more})", error=True)
        return fallback
    return stream


def execute_all(specs: Sequence[RunSpec], out: Path, jobs: int) -> Outcome:
    """Do the runs that are not complete, in this order; print results as they arrive; return all records."""
    jobs, pending, directories = jobs or available_cores(), list[RunSpec](), dict[str, Path]()
    for spec in specs:
        record = find_run(spec, out)
        if record is None or not record.complete:
            pending.append(spec)
            directories[spec.name] = record.directory if record else out / spec.name
        elif len(specs) > 1:
            print_result(record)
    waiting = dict(directories)

    def look(failed: Sequence[Failure]) -> None:
        update({one.run for one in failed})
        for name, directory in [*waiting.items()] if len(specs) > 1 else ():
            if (read_status(directory) or {}).get("phase") == "done":
                del waiting[name]
                print_result(RunRecord.read(directory))

    with show_progress(directories, jobs) as update:
        failures = run_all(pending, out, LocalCluster(jobs), look)
    found = (find_run(spec, out) for spec in specs)
    return [record for record in found if record is not None and record.complete], failures


def exit_code(failures: Sequence[Failure], debug: bool) -> int:
    """Print the failures, a line each; the exit code of the command."""
    for failure in failures:
        trace = failure.trace.splitlines() if debug else ()
        show(f"dgdmn: {failure.run} failed: {failure.message}", *trace, error=True)
    return 0 if not failures else 2 if all(failure.usage for failure in failures) else 1


def _toml(specs: Sequence[RunSpec], changes: Mapping[str, Any]) -> str:
    """The runs and their options with the source of each value; a table for each set of options.

    `changes` are those of all runs; a run's own ones are in its name and in that of its table.
    """
    first, presets = specs[0], list(dict.fromkeys(spec.preset for spec in specs))
    common = json.loads(json.dumps(changes))  # tuples become lists, as in `RunSpec.changes`
    names, tables = dict[str, None](), dict[str, RunSpec]()
    for spec in specs:
        own = {k: v for k, v in spec.changes().items() if k not in common or common[k] != v}
        name = f"{spec.algorithm}:{spec.preset}" if len(presets) > 1 else spec.algorithm
        names[format_entry(name, {**own, **spec.arguments})] = None
        tables[format_entry(spec.preset, own)] = spec
    values = first.identity() | {
        "algorithm": list(names),
        "preset": presets if len(presets) > 1 else first.preset,
        "seed": list(dict.fromkeys(spec.seed for spec in specs)),
    }
    del values["options"], values["arguments"]
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    for name, spec in tables.items():
        is_paper = spec.stream in PAPER and not spec.data
        docs = sources_of(spec.preset, spec.stream) if is_paper else field_docs()
        docs |= {key: f"changed; {docs[key]}" for key in spec.changes()}
        title = name if name.isalnum() else json.dumps(name)
        lines += ["", f"[options.{title}]" if len(tables) > 1 else "[options]"]
        options = to_dict(spec.options).items()
        lines += [f"{key} = {json.dumps(value)}  # {docs[key]}" for key, value in options]
    return "\n".join(lines)
