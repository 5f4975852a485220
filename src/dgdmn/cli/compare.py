"""`dgdmn compare`: methods on the same tasks, and one table of them as text, csv, Markdown and TeX."""

import math
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dgdmn.cli.output import check_target, csv_text, show
from dgdmn.cli.run import check_out, execute_all, exit_code, find_data, specs_of, stream_with_data
from dgdmn.config.entries import parse_entry
from dgdmn.core.errors import UsageError
from dgdmn.core.files import os_errors, write_atomic
from dgdmn.core.text import printable
from dgdmn.report.load import Run, load_runs
from dgdmn.report.style import stream_title
from dgdmn.report.table import COLUMNS, Group, group_methods, group_runs
from dgdmn.runs.spec import RunSpec, find_run

Comparison = Mapping[str, Sequence[Group]]
"""The methods of each stream, in the order of the command line."""
Cell = tuple[str, bool]  # a text, and whether it is the best of its column

HEADINGS = ("stream", "method", *(column.heading for column in COLUMNS), "seeds")
ROWS_MARK, CEILING_MARK = "†", "‡"


def compare(args: Namespace) -> int:
    """Run the methods that are not finished, and write the table of all."""
    check_out(args.out)
    if not args.algorithms:
        raise UsageError("--algorithms is missing; name the methods to compare")
    paths = args.table or [args.out / f"compare{ending}" for ending in WRITERS]
    for path in paths:
        if path.suffix not in WRITERS:
            raise UsageError(f"--table {path} must end with {', '.join(WRITERS)}; rename it")
        check_target(path)
    entries = [parse_entry(word, args.preset) for word in args.algorithms]
    streams = list(dict.fromkeys(args.stream))
    data, seeds, specs = find_data(args, streams), range(args.seeds), list[RunSpec]()
    for stream in streams:
        specs += specs_of(args, stream, entries, seeds, data, ceilings_together=True)
    for stream in streams:
        if stream not in data:
            stream_with_data(stream)
    failures = execute_all(specs, args.out, args.jobs)[1]
    table = read_comparison(specs, args.out)
    if table:
        print_comparison(table)
        for path in paths:
            with os_errors("write", path):
                path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, WRITERS[path.suffix](table).encode())
        show(f"table: {', '.join(map(str, paths))}")
    return exit_code(failures, args.debug)


def table_of_runs(paths: Sequence[Path], ending: str) -> str:
    """The runs that ended, as a table in the format of a file with this ending."""
    runs, problems = load_runs(paths)
    for problem in problems:
        show(f"dgdmn: {problem.name} is not in the table: {problem.reason}", error=True)
    streams = group_runs([run for run in runs if run.complete])
    if not streams:
        raise UsageError("no run has ended; give directories that `dgdmn run` wrote")
    return WRITERS[ending]({stream.name: stream.groups for stream in streams})


def read_comparison(specs: Sequence[RunSpec], out: Path) -> Comparison:
    """The finished runs of these specs, wherever they are in `out`; streams without any are left out."""
    methods: dict[str, dict[str, list[Run]]] = {}
    for spec in specs:
        record = find_run(spec, out)
        if record is None or not record.complete:
            continue
        runs, problems = load_runs([record.directory])
        for problem in problems:
            show(f"dgdmn: {problem.name} is not in the table: {problem.reason}", error=True)
        # A run found by its key may have another preset's name: the spec says which method it is.
        method = replace(spec, seed=0).key
        methods.setdefault(spec.stream, {}).setdefault(method, []).extend(runs)
    found = {stream: group_methods(one.values()) for stream, one in methods.items()}
    return {stream: groups for stream, groups in found.items() if groups}


def print_comparison(table: Comparison) -> None:
    """Print the table with a section for each stream, and what its marks mean."""
    view = Table(box=SIMPLE_HEAD)
    view.add_column("method", overflow="fold")
    for heading in HEADINGS[2:]:
        view.add_column(heading.replace(" ", "\n", 1), justify="right", no_wrap=True)
    for rows in _sections(table):
        view.add_row(Text(printable(rows[0][0][0]), "italic"))
        for _, *row in rows:
            # Names come from run directories: no control codes, no markup.
            view.add_row(*(Text(printable(text), "bold" if best else "") for text, best in row))
        view.add_section()
    # A file or a pipe has no width that long names would have to fit.
    Console(width=None if sys.stdout.isatty() else 200, soft_wrap=True).print(view)
    show(*_notes(table))


def _sections(table: Comparison) -> Iterator[list[list[Cell]]]:
    """The cells of each stream's rows, as people read them."""
    for stream, groups in table.items():
        best = [column.best_groups(groups) for column in COLUMNS]
        rows = []
        for group in groups:
            mark = CEILING_MARK if group.is_ceiling else ROWS_MARK if group.stores_rows else ""
            row = [(stream_title(stream), False), (group.name + mark, False)]
            for column, winners in zip(COLUMNS, best, strict=True):
                row.append((column.format(group.values(column.number)), group in winners))
            rows.append([*row, (str(len(group.ended)), False)])
        yield rows


def _notes(table: Comparison) -> list[str]:
    groups = [group for one in table.values() for group in one]
    runs = [run for group in groups for run in group.runs]
    notes = [
        "accuracy: mean over tasks after the last one, ± standard error over seeds; macro: mean over "
        "classes; CPU seconds: mean over seeds, evaluation tests all tasks after each one; bold: best "
        "without stored rows"
    ]
    if any(group.stores_rows and not group.is_ceiling for group in groups):
        notes.append(f"{ROWS_MARK} keeps training rows")
    if any(group.is_ceiling for group in groups):
        notes.append(f"{CEILING_MARK} ceiling: trains on the rows of all tasks together")
    if len({run.machine for run in runs}) > 1:
        notes.append("the runs are from different machines, so their CPU seconds do not compare")
    return notes + [note for note in dict.fromkeys(run.note for run in runs) if note]


def to_csv(table: Comparison) -> str:
    """The numbers with every digit: means, and standard errors as `…_se`; no value is an empty cell."""
    numbers = ["acc", "row_accuracy", *(column.number for column in COLUMNS[1:])]
    header = ["stream", "method", "stores_rows", "ceiling"]
    header += [name for number in numbers for name in (number, f"{number}_se")] + ["seeds"]
    rows: list[list[object]] = []
    for stream, groups in table.items():
        for group in groups:
            known = [(group.mean(number), group.sem(number)) for number in numbers]
            pairs = [pair if math.isfinite(pair[0]) else ("", "") for pair in known]
            flags = (int(group.stores_rows), int(group.is_ceiling))
            cells = [cell for pair in pairs for cell in pair]
            rows.append([stream, group.name, *flags, *cells, len(group.ended)])
    return csv_text(header, rows)


def to_markdown(table: Comparison) -> str:
    """The table as a person reads it; the notes follow."""

    def escape(text: str) -> str:
        return re.sub(r"([\\`*<|\[\]])", r"\\\1", text)

    lines = [HEADINGS, ("---", "---", *("---:" for _ in HEADINGS[2:]))]
    for rows in _sections(table):
        lines += [tuple(f"**{escape(t)}**" if best else escape(t) for t, best in r) for r in rows]
    text = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([*text, "", *(f"{escape(note)}.  " for note in _notes(table)), ""])


_TEX = {c: f"\\{c}" for c in "&%$#_{}"}
_TEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX |= {"±": r"$\pm$", "−": "$-$", "–": "--", "<": "$<$", ">": "$>$", "|": "$|$"}
_TEX |= {ROWS_MARK: r"$^\dagger$", CEILING_MARK: r"$^\ddagger$", "…": r"\ldots{}"}


def to_tex(table: Comparison) -> str:
    """A tabular without any package, with the notes as comments."""

    def escape(text: str) -> str:
        return "".join(_TEX.get(character, character) for character in text)

    def line(cells: Sequence[Cell]) -> str:
        texts = (rf"\textbf{{{escape(t)}}}" if best else escape(t) for t, best in cells)
        return " & ".join(texts) + r" \\"

    lines = [f"% {note}" for note in _notes(table)]
    lines += [rf"\begin{{tabular}}{{ll{'r' * (len(HEADINGS) - 2)}}}", r"\hline"]
    lines += [line([(heading, False) for heading in HEADINGS]), r"\hline"]
    for rows in _sections(table):
        lines += [*(line(row) for row in rows), r"\hline"]
    return "\n".join([*lines, r"\end{tabular}", ""])


WRITERS = {".csv": to_csv, ".md": to_markdown, ".tex": to_tex}
