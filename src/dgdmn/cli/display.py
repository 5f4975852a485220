"""Progress and results in the terminal, read from the run directories; plain lines without a terminal."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from dgdmn.experiments.spec import RunSpec
from dgdmn.experiments.sweep import Failure
from dgdmn.metrics import standard_error
from dgdmn.paper import published
from dgdmn.records import RunRecord
from dgdmn.wording import duration

_CROWDED = 8
"""More runs than a terminal has room for."""
_WHERE = {"stm": "short-term memory", "ltm": "long-term memory", "": "network"}


class _Line:
    """What is known of one run, from the events it has written so far."""

    def __init__(self, directory: Path, spec: RunSpec) -> None:
        self._spec = spec
        self._path = directory / "events.jsonl"
        self._old = self._path.stat().st_ino if self._path.exists() else None
        self._offset = 0
        self.began: float | None = None
        self.done, self.part = 0.0, 0.0
        self._before: float | None = None
        self.tasks, self.step, self.task = 0, 0, ""
        self.doing = "waiting"

    def news(self) -> list[dict[str, Any]]:
        """Whole lines written since the last look.

        What an earlier attempt left is not news: going on with a run puts a new file in its place, which
        ends with the `resumed` that this attempt begins with.
        """
        if not self._path.exists() or self._path.stat().st_ino == self._old:
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        events = [json.loads(line) for line in whole.splitlines()]
        if self._offset == 0 and events:
            self.began = time.monotonic()
            last = [n for n, event in enumerate(events) if event["kind"] == "resumed"]
            if self._old is not None and not last:
                return []  # the new file is there, its `resumed` is not yet
            events = events[last[-1] + 1 :] if last else events
        self._offset += len(whole)
        return events

    def take(self, event: dict[str, Any]) -> None:
        kind = event["kind"]
        if kind == "task_began":
            self.step, self.task, self.doing, self.part = event["step"], event["task"], "starting", 0.0
        elif kind == "epoch_done":
            self._before = event["done"] if self._before is None else self._before
            self.done, self.part = event["done"], event["epoch"] / event["epochs"]
            self.doing = f"{_WHERE[event['memory']]}, {event['network']} {event['epoch']}/{event['epochs']}"
        elif kind == "sleep_began":
            self.doing, self.part = f"asleep: {event['dreams']:,} dreams", 0.0
        elif kind == "evaluated":
            self.tasks = 1 if self._spec.together else len(event["accuracy"]) + len(self._spec.revise)

    def seen(self, event: dict[str, Any]) -> list[float]:
        """The accuracies on the tasks learnt so far: on all, when they come again or came together."""
        accuracy: list[float] = event["accuracy"]
        return accuracy if self._spec.together else accuracy[: event["step"]]

    def seconds_left(self) -> float | None:
        here = self.done - (self._before or 0.0)  # what an earlier attempt did took none of this one's time
        if self.began is None or here < 0.005:
            return None
        return (time.monotonic() - self.began) * (1 - self.done) / here


class Display:
    """Draws the runs while they go: bars in a terminal, a line for each task learnt elsewhere."""

    def __init__(
        self, out: Path, specs: Sequence[RunSpec], jobs: int, before: Mapping[RunSpec, float] | None = None
    ) -> None:
        """`jobs` runs go at a time; `before` says how many seconds runs took that were done."""
        self._specs, self._jobs, self._before = specs, jobs, before or {}
        self._lines = {spec.name: _Line(out / spec.name, spec) for spec in specs}
        self._failed: set[str] = set()
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def look(self, failures: Sequence[Failure] = ()) -> None:
        """Read what is new and show it."""
        self._failed = {failure.run for failure in failures}
        for name, line in self._lines.items():
            for event in line.news():
                line.take(event)
                if event["kind"] == "evaluated" and not self._live:
                    self._say(name, line, event)
        if self._live:
            self._live.update(self._table(), refresh=True)

    def _say(self, name: str, line: _Line, event: dict[str, Any]) -> None:
        left = line.seconds_left()
        tail = f", about {duration(left)} left" if left and line.done < 1 else ""
        sys.stderr.write(
            f"{name}: task {event['step']}/{line.tasks} ({event['task']}) learnt, "
            f"accuracy on tasks seen {np.mean(line.seen(event)):.3f}, {line.done:.0%} done{tail}\n"
        )
        sys.stderr.flush()

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 1))
        crowded = len(self._lines) > _CROWDED  # then only what moves has a line
        for name, line in self._lines.items():
            if crowded and (name in self._failed or not 0 < line.done < 1):
                continue
            table.add_row(name, *_cells(line.done, line.seconds_left() if line.done < 1 else None))
            if 0 < line.done < 1:
                what = (
                    f"  task {line.step}{f'/{line.tasks}' if line.tasks else ''}: {line.task} · {line.doing}"
                )
                table.add_row(what, ProgressBar(total=1, completed=line.part, width=24), "", "")
        if crowded or len(self._lines) > self._jobs:
            table.add_row(*self._all())
        return table

    def _all(self) -> tuple[str, ProgressBar, str, str]:
        """The row for all runs: where some wait, no run's own line says when the last will be done."""
        lines = {name: line for name, line in self._lines.items() if name not in self._failed}
        left = [line.seconds_left() or self._whole[name] * (1 - line.done) for name, line in lines.items()]
        done = sum(line.done >= 1 for line in lines.values())
        others = {"waiting": sum(line.began is None for line in lines.values()), "failed": len(self._failed)}
        said = [
            f"{done} of {len(self._lines)} runs done",
            *(f"{n} {what}" for what, n in others.items() if n),
        ]
        share = sum(line.done for line in lines.values()) / len(self._lines)
        return ", ".join(said), *_cells(share, max(sum(left) / self._jobs, *left, 0.0))

    @cached_property
    def _whole(self) -> dict[str, float]:
        """Seconds that each run will take; first asked for when runs are starting, so that none waits for it."""
        from dgdmn.experiments.forecast import seconds

        return seconds(self._specs, self._before)


def _cells(done: float, left: float | None) -> tuple[ProgressBar, str, str]:
    bar = ProgressBar(total=1, completed=done, width=24)
    return bar, f"{done:4.0%}", "" if left is None else f"{duration(left)} left"


def print_results(out: Path, specs: Sequence[RunSpec]) -> None:
    """The table at the end: ours, mean over the seeds, beside the paper's; and where everything is."""
    if not specs:
        return
    console = Console(soft_wrap=True)
    records = [RunRecord.read(out / spec.name) for spec in specs]
    console.print(_results(specs, records))
    if note := records[0].config.get("note"):
        console.print(note, markup=False, highlight=False)
    console.print(
        "recorded in",
        *[str(record.directory) for record in records],
        sep="\n  ",
        markup=False,
        highlight=False,
    )


def _results(specs: Sequence[RunSpec], records: Sequence[RunRecord]) -> Table:
    presets = Counter(spec.preset for spec in specs)
    usual = presets.most_common(1)[0][0]
    about = f"{usual} preset{' unless named' if len(presets) > 1 else ''}"
    table = Table(title=f"{specs[0].dataset}, {about}, seeds {_listed(spec.seed for spec in specs)}")
    table.add_column("algorithm", no_wrap=True)
    for heading in ("ACC", "BWT", "ACC, LTM alone", "minutes"):
        table.add_column(heading, justify="right")
    compared = not (specs[0].together or specs[0].revise)  # the paper's tables are of streams met once
    with_paper = compared and any(published(spec.algorithm, spec.dataset) for spec in specs)
    for heading in ("paper's ACC", "paper's BWT") if with_paper else ():
        table.add_column(heading, justify="right")
    labels = _labels(specs, usual)
    for label, spec in dict(zip(labels, specs, strict=True)).items():
        mine = [record.summary or {} for record, own in zip(records, labels, strict=True) if own == label]
        theirs = published(spec.algorithm, spec.dataset)
        cells = [_mean(mine, "acc"), _mean(mine, "bwt"), _mean(mine, "acc_ltm"), _minutes(mine)]
        paper = [f"{theirs.acc:.3f}", f"{theirs.bwt:.3f}"] if theirs else ["", ""]
        table.add_row(label, *cells, *(paper if with_paper else []))
    return table


def _labels(specs: Sequence[RunSpec], usual: str) -> list[str]:
    """Each run's algorithm, with its preset unless all runs of that algorithm have the usual one."""
    presets: dict[str, set[str]] = {}
    for spec in specs:
        presets.setdefault(spec.algorithm, set()).add(spec.preset)
    return [
        spec.algorithm if presets[spec.algorithm] == {usual} else f"{spec.algorithm} ({spec.preset})"
        for spec in specs
    ]


def _mean(summaries: Sequence[dict[str, Any]], key: str) -> str:
    values = [summary[key] for summary in summaries if summary.get(key) is not None]
    if not values:
        return "–"
    spread = f" ± {standard_error(values):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{spread}"


def _minutes(summaries: Sequence[dict[str, Any]]) -> str:
    return f"{np.mean([summary['seconds'] for summary in summaries]) / 60:.1f}"


def _listed(seeds: Any) -> str:
    return ", ".join(map(str, dict.fromkeys(seeds)))
