"""Configuration: what differs between runs, what they share, and the command that repeats each of them."""

import shlex

from dgdmn.core.text import MISSING, format_entry, format_option, shorten
from dgdmn.report.load import Run
from dgdmn.report.sections import Data
from dgdmn.report.table import Stream

# Sections of config.json, and what comes before their names.
NESTED = {"options": "", "arguments": "", "versions": "versions.", "machine": "machine."}
OMITTED = {"changes", "note", "key", "data", *NESTED}


def configuration(stream: Stream) -> Data:
    """How the runs of a stream were made."""
    flat = {run: _flatten(run) for run in stream.runs}
    names = list(dict.fromkeys(name for one in flat.values() for name in one))
    values = {name: [one.get(name, MISSING) for one in flat.values()] for name in names}
    different = [name for name in names if len(set(values[name])) > 1]
    notes = dict.fromkeys(str(run.config.get("note") or "") for run in flat)
    rows = [[shorten(one.get(k, MISSING), 40) for k in different] for one in flat.values()]
    shared = [name for name in names if name not in different]
    return {
        "commands": [(run.name, run_command(run)) for run in flat],
        "different": different,
        "rows": [(run.name, row) for run, row in zip(flat, rows, strict=True)],
        "shared": [(name, shorten(values[name][0], 200)) for name in shared],
        "notes": [note for note in notes if note],
    }


def _flatten(run: Run) -> dict[str, str]:
    flat = {name: value for name, value in run.config.items() if name not in OMITTED}
    for section, prefix in NESTED.items():
        inner = run.config.get(section)
        flat |= {f"{prefix}{k}": v for k, v in inner.items()} if isinstance(inner, dict) else {}
    flat |= {f"data.{k}": v for k, v in run.data.items()}
    return {name: format_option(value) for name, value in flat.items()}


def run_command(run: Run) -> str:
    """The command that repeats a run, quoted for a shell."""
    algorithm = format_entry(run.algorithm, run.arguments)
    words = ["dgdmn", "run", run.stream, "--algorithm", algorithm, "--preset", run.preset]
    words += ["--seed", str(run.seed)]
    changes = {name: value for name, value in run.changes.items() if name not in run.arguments}
    for name, value in (*run.columns_of_data().items(), *changes.items()):
        words.append(f"--{'no-' if value is False else ''}{name.replace('_', '-')}")
        if not isinstance(value, bool):
            words += map(str, value if isinstance(value, list | tuple) else [value])
    words += ["--revise", *map(str, run.revise)] if run.revise else []
    words += ["--together"] if run.together else []
    words += ["--evaluate-on", run.evaluate_on] if run.evaluate_on != "test" else []
    device = str(run.config.get("device") or "cpu")
    words += ["--device", device] if device != "cpu" else []
    return shlex.join(words)
