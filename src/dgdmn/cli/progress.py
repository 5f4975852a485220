"""What runs and downloads show while they work, and the table of results at the end."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from dgdmn.cli.output import show
from dgdmn.core import text
from dgdmn.records import RunRecord, read_status, utc_now
from dgdmn.streams import fetch

_MAX_ROWS = 8  # with more runs, only active ones have a row


class _Status(NamedTuple):
    """What status.json says of a run."""

    share: float
    seconds: float
    seconds_left: float
    position: tuple[int, bool]
    """The number of its task, and whether the run is done."""
    text: str


@contextmanager
def show_progress(
    runs: Mapping[str, Path], jobs: int
) -> Iterator[Callable[[Collection[str]], None]]:
    """Show runs, given as directories by name, of which `jobs` are active at a time.

    In a terminal each run has a bar, elsewhere each task is a line. Yields a function that reads what is
    new; it takes the names of the runs that failed.
    """
    console, statuses = Console(stderr=True), dict[str, _Status]()
    began = utc_now()
    shown = ("{task.description}", "{task.fields[text]}")
    name, about = (TextColumn(key, markup=False) for key in shown)
    columns = name, BarColumn(24), about
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        ids = {name: bars.add_task(text.printable(name), total=1, text="") for name in runs}
        total = bars.add_task("all", total=1, text="", visible=len(runs) > min(jobs, _MAX_ROWS))

        def update(failed: Collection[str]) -> None:
            for name, directory in runs.items():
                status = _read(directory, began)
                if status is None:
                    continue
                before = statuses[name].position if name in statuses else (0, False)
                statuses[name], share = status, status.share
                if bars.disable and status.position != before:  # nothing before the first task
                    show(f"{name}: {status.text}", error=True)
                visible = len(runs) <= _MAX_ROWS or (name not in failed and 0 < share < 1)
                bars.update(ids[name], completed=share, text=status.text, visible=visible)
            known = [status for name, status in statuses.items() if name not in failed]
            share = sum(status.share for status in known) / max(1, len(runs))
            line = _describe_all(known, len(runs), len(failed), jobs)
            bars.update(total, completed=share, text=line)

        yield update


def _read(directory: Path, began: str) -> _Status | None:
    """The status of a run; None if it is absent, damaged or written by an earlier process."""
    try:
        status = read_status(directory) or {}
        if status["heartbeat"] < began:
            return None
        numbers = ("share", "seconds", "seconds_left")
        share, seconds, left = (float(status[key] or 0) for key in numbers)
        place = f"task {status['step']}/{status['steps']} ({status['task']})"
        parts = [place, str(status["phase"])]
        if status["acc"] is not None:
            parts.append(f"accuracy on tasks seen {text.format_ratio(status['acc'])}")
        parts.append(f"{text.format_percent(share)} of the work done")
        if left:
            parts.append(f"about {text.format_duration(left)} left")
    except (KeyError, TypeError, ValueError):
        return None
    position = status["step"], status["phase"] == "done"
    return _Status(share, seconds, left, position, text.printable(", ".join(parts)))


def _describe_all(known: Sequence[_Status], runs: int, failed: int, jobs: int) -> str:
    """All runs in a line. A waiting run is expected to take as long as the others do on average."""
    waiting = runs - failed - len(known)
    parts = [f"{sum(status.share >= 1 for status in known)} of {runs} done"]
    parts += [f"{n} {what}" for n, what in ((waiting, "waiting"), (failed, "failed")) if n]
    left = [status.seconds_left for status in known]
    if whole := [status.seconds / status.share for status in known if status.share]:
        seconds = max(*left, (sum(left) + waiting * fmean(whole)) / jobs)
        parts.append(f"about {text.format_duration(seconds)} left")
    return ", ".join(parts)


def print_result(record: RunRecord) -> None:
    """Print the result of a run in a line, as soon as it is there."""
    config, summary = record.config, record.summary or {}
    name = text.format_entry(f"{config['algorithm']}:{config['preset']}", _options(record))
    parts = [f"ACC {text.format_ratio(summary['acc'])}"] if "acc" in summary else []
    if isinstance(size := summary.get("memory_bytes"), int):
        parts.append(text.format_bytes(size))
    if isinstance(seconds := summary.get("seconds"), int | float):
        parts.append(text.format_duration(seconds))
    show(f"{config['stream']}, {name}, seed {config['seed']}: {', '.join(parts)}")


def print_results(records: Sequence[RunRecord]) -> None:
    """Print a table of runs of one stream, mean over the seeds, and where they are recorded."""
    if not records:
        return
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record, name in zip(records, _name_variants(records), strict=True):
        groups.setdefault((name, record.config["preset"]), []).append(record.summary or {})
    rows = []
    for key, group in groups.items():
        *shares, seconds = (
            [summary[name] for summary in group if isinstance(summary.get(name), int | float)]
            for name in ("acc", "macro_accuracy", "bwt", "acc_ltm", "seconds")
        )
        took = text.format_duration(fmean(seconds)) if seconds else text.MISSING
        rows.append((*key, *map(text.format_mean_sem, shares), took))
    seeds = sorted({record.config["seed"] for record in records})
    word = "seed" if len(seeds) == 1 else "seeds"
    title = f"{records[0].config['stream']}, {word} {', '.join(map(str, seeds))}"
    headings = ("algorithm", "preset", "ACC", "macro", "BWT", "ACC, LTM alone", "time")
    Console(soft_wrap=True).print(make_table(title, headings, rows, left=2))
    if note := records[0].config.get("note"):
        show(note)
    show("recorded in", *(f"  {record.directory}" for record in records))


def _options(record: RunRecord) -> dict[str, Any]:
    return {**record.config.get("changes", {}), **record.config.get("arguments", {})}


def _name_variants(records: Sequence[RunRecord]) -> list[str]:
    """The algorithm of each run, with the options that not all runs have."""
    options = [list(_options(record).items()) for record in records]
    shared = [item for item in options[0] if all(item in one for one in options)]
    own = [dict(item for item in one if item not in shared) for one in options]
    names = [record.config["algorithm"] for record in records]
    return [*map(text.format_entry, names, own)]


def make_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], left: int
) -> Table:
    """A table for the terminal. The first `left` columns are text, the others numbers."""
    table = Table(title=Text(text.printable(title)) if title else None)
    for place, heading in enumerate(headings):
        # Narrow terminals wrap headings rather than names.
        table.add_column(heading, justify="left" if place < left else "right", no_wrap=place == 0)
    for row in rows:
        table.add_row(*(Text(text.printable(cell)) for cell in row))  # no control codes, no markup
    return table


def fetch_with_bars(name: str) -> list[fetch.LocalFile]:
    """Fetch a dataset and show a progress bar for each file that is downloaded."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        ids = {}

        def show(file: str, done: int, total: int) -> None:
            if file not in ids:
                ids[file] = bars.add_task(file)
            bars.update(ids[file], completed=done, total=total or None)

        return fetch.fetch(name, show)
