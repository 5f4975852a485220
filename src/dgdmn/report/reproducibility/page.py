"""REPRODUCIBILITY.md: the same results give the same page, to the letter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dgdmn.report.reproducibility import beyond
from dgdmn.report.reproducibility.collected import Result
from dgdmn.report.reproducibility.details import DETAILS, ablation, equal_time
from dgdmn.report.reproducibility.findings import FINDINGS
from dgdmn.report.reproducibility.goals import goals, missed
from dgdmn.report.reproducibility.numbers import Shelf, explained, short, table
from dgdmn.report.sections.configuration import command
from dgdmn.wording import counted, duration


@dataclass(frozen=True)
class Section:
    """A target and what there is of it."""

    name: str
    what: str
    results: tuple[Result, ...]
    """Its runs, of whatever seeds."""
    missing: int
    """Runs that are still to be done for its default seeds."""
    figures: tuple[str, ...]
    """Its pictures, as the page links them."""
    pending: str = ""
    """Why there is no picture, where one is expected."""


INTRODUCTION = """# Reproducibility

Every table and figure of *Deep Generative Dual Memory Network for Continual Learning* (Kamra, Gupta, Liu 2018), ours
beside the paper's, and what it asserts in words where runs can tell (`ablation-*`, revision). This page is generated
from [results](results) by `dgdmn reproduce --draw-only`; a test compares the two, so no number in a table or figure was
typed. Reasons, findings and deviations are kept by hand, with numbers from [docs/LOG.md](docs/LOG.md). How to make it
again: [docs/reproduce.md](docs/reproduce.md).

A cell is the mean ± standard error over seeds, the number of seeds in brackets. Seeds are 0, 1, 2 …, none was
chosen: where a run was repeated, the one collected last stands, whatever it gave. Runs are of several machines and of
several states of the code (the last column of the last table). Where one was repeated on another machine that moved
its ACC by up to .01, DGDMN on Hindi by .04 (docs/LOG.md): a command below need not give the same last digits, and a
smaller difference between two settings says nothing if their runs are of two machines. The paper gives one run of
each, so the verdict is

- **reproduced** where ours is at most max(.02, 2 · sd · √(1 + 1/n)) below the paper's, or above it;
- **differs** otherwise, with the reason, or the best hypothesis, below the table;
- **single run** where there is one seed: *higher*, *lower* or *close* (within .02), and no more can be said;
- **not run yet** where there is none.

Faint dots in the figures are the paper's own values, read off its pictures (about ±.01, none where a curve is hidden).
Those of averages after each task and of TDigits come from version 1 (November 2017), whose runs are not all those of
the tables; its times on TDigits, of another machine, are scaled so that DGR's after the last task is ours.

All runs are tested on the test set, with the torch threads that their command says. They have the `paper` preset but
where `best` is said: under [Beyond the paper](#beyond-the-paper), and in the last of the targets to reach."""


def render(
    sections: Sequence[Section], results: Sequence[Result], left_out: Sequence[str], deviations: str
) -> str:
    """The whole page."""
    ordered = tuple(sorted(results, key=lambda one: one.run.name))
    shelf = Shelf(ordered)
    parts = [
        INTRODUCTION,
        _compute(ordered),
        "## Targets to reach\n\n" + _goals(shelf),
        *(_section(section, shelf) for section in sections if not _is_beyond(section)),
        beyond.INTRODUCTION,
        *(_section(section, shelf) for section in sections if _is_beyond(section)),
        "## Deviations\n\n" + _deviations(deviations),
        "## Every run\n\n" + _runs(ordered, left_out),
    ]
    return "\n\n".join(parts) + "\n"


def _deviations(text: str) -> str:
    """The numbered list of docs/deviations.md, its links as they go from here."""
    listed = text[text.find("\n1. ") :].strip() if "\n1. " in text else "docs/deviations.md is not at hand."
    return listed.replace("](", "](docs/")


def _compute(results: Sequence[Result]) -> str:
    if not results:
        return "No run has been collected yet."
    machines = sorted({_machine(one.run.record.config) for one in results})
    total = duration(sum(one.run.number("seconds") for one in results))
    return (
        f"{counted(len(results), 'run')}, {total} of wall clock in all, on cores that were shared with other work, "
        f"so times are upper bounds. Made with {'; '.join(machines)}."
    )


def _machine(config: dict[str, Any]) -> str:
    versions, machine = config.get("versions", {}), config.get("machine", {})
    return (
        f"Python {versions.get('python')}, torch {versions.get('torch')}, numpy {versions.get('numpy')} on "
        f"{machine.get('system')} {machine.get('cpu')}, {machine.get('cores')} cores"
        f"{' of ' + machine['processor'] if machine.get('processor') else ''}"
    )


def _goals(shelf: Shelf) -> str:
    everything = [*goals(shelf), *beyond.best_goals(shelf)]
    told = table(["target", "ours", ""], [[one.what, one.ours, str(one)] for one in everything])
    return "\n\n".join(part for part in (told, missed(everything)) if part)


def _is_beyond(section: Section) -> bool:
    return section.name.startswith("beyond-")


def _section(section: Section, shelf: Shelf) -> str:
    missing = f", {counted(section.missing, 'run')} still to be done" if section.missing else ""
    level = "###" if _is_beyond(section) else "##"
    head = (
        f"{level} {section.name}\n\n{section.what[:1].upper()}{section.what[1:]}. `dgdmn reproduce {section.name}`: "
        f"{_done(section)}{missing}."
    )
    pictures = [f"![{section.name}]({path})" for path in section.figures]
    if section.pending and not pictures:
        pictures = [section.pending]
    return "\n\n".join([head, *_numbers(section, shelf), *pictures])


def _done(section: Section) -> str:
    if not section.results:
        return "no run done"
    seconds = sum(one.run.number("seconds") for one in section.results)
    return f"{counted(len(section.results), 'run')} done, {duration(seconds)}"


def _numbers(section: Section, shelf: Shelf) -> list[str]:
    found = FINDINGS.get(section.name, "") if section.results and not section.missing else ""
    if section.name in DETAILS:
        return [explained(DETAILS[section.name](shelf), found)]
    if section.name == "beyond-ablation":
        return [beyond.option_table(section.results)]
    if not section.name.startswith("ablation-"):
        return []
    times = equal_time(shelf) if section.name == "ablation-dual" else ""
    return [explained(ablation(section.results), times, found)]


def _source(config: dict[str, Any]) -> str:
    """The checksum of the code that a run was made with, as its record has it."""
    return str(config.get("versions", {}).get("source", ""))[:7] or "not recorded"


_CODE = (
    "\n\nCode is the beginning of a checksum of the package's source files, `versions.source` in config.json, not a "
    "commit; the oldest runs did not record it."
)


def _runs(results: Sequence[Result], left_out: Sequence[str]) -> str:
    rows = [
        [
            f"[{one.run.name}](results/{one.run.name})",
            short(one.run.acc, 4),
            short(one.run.bwt, 4),
            duration(one.run.number("seconds")),
            f"`{command(one.run)} --threads {one.run.record.config.get('threads', 1)}`",
            _source(one.run.record.config),
        ]
        for one in results
    ]
    told = table(["run", "ACC", "BWT", "time", "command", "code"], rows) if rows else "None yet."
    told += _CODE
    if left_out:
        told += (
            "\n\nLeft out, since no target has them as they were run: " + ", ".join(sorted(left_out)) + "."
        )
    return told
