"""Section 7: configuration, versions, and the command that makes a run again."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dgdmn.report.entries import Dataset
from dgdmn.report.runs import Run
from dgdmn.report.words import plain, short


@dataclass(frozen=True)
class Differences:
    """What is not the same in all runs."""

    fields: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    """A run's name and its values."""


@dataclass(frozen=True)
class Configuration:
    """All that the section shows."""

    commands: tuple[tuple[str, str], ...]
    """A run's name and the command that makes it again."""
    differences: Differences
    same: tuple[tuple[str, str], ...]
    """What all runs share."""
    notes: tuple[str, ...]


def configuration(dataset: Dataset) -> Configuration:
    """How the runs of a dataset were made."""
    runs = dataset.runs
    flat = [_flat(run) for run in runs]
    fields = list(dict.fromkeys(field for one in flat for field in one))
    values = {field: {one.get(field, "–") for one in flat} for field in fields}
    differing = tuple(field for field in fields if len(values[field]) > 1)
    return Configuration(
        tuple((run.name, command(run)) for run in runs),
        Differences(differing, _rows(runs, flat, differing)),
        tuple((field, short(flat[0][field], 200)) for field in fields if field not in differing),
        tuple(dict.fromkeys(note for run in runs if (note := run.text("note")))),
    )


def _rows(
    runs: Sequence[Run], flat: Sequence[dict[str, str]], fields: Sequence[str]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(
        (run.name, tuple(short(one.get(field, "–"), 40) for field in fields))
        for run, one in zip(runs, flat, strict=True)
    )


_NESTED = ("options", "versions", "machine")
_LEFT_OUT = {"changes", "note", *_NESTED}


def _flat(run: Run) -> dict[str, str]:
    """config.json in one level, as text."""
    config = run.record.config
    flat = {str(key): _value(value) for key, value in config.items() if key not in _LEFT_OUT}
    for name in _NESTED:
        inner = config.get(name)
        if isinstance(inner, dict):
            flat |= {
                f"{name}.{key}" if name != "options" else str(key): _value(value)
                for key, value in inner.items()
            }
    return flat


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else plain(value)


def command(run: Run) -> str:
    """The command that makes a run again, quoted for a shell."""
    words = ["dgdmn", "run", run.dataset, "--algorithm", run.algorithm, "--preset", run.preset]
    words += ["--seed", str(run.seed)]
    for name, value in run.changes.items():
        words.append(f"--{name.replace('_', '-')}")
        words += [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
    words += ["--revise", *map(str, run.revise)] if run.revise else []
    words += ["--together"] if run.together else []
    words += ["--evaluate-on", run.evaluate_on] if run.evaluate_on != "test" else []
    words += ["--device", device] if (device := run.text("device")) not in ("", "cpu") else []
    return shlex.join(words)
