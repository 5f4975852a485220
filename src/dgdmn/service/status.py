"""The state of runs, from status.json and summary.json. Nothing is written and no lock is taken."""

import hashlib
import shlex
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from dgdmn.core.errors import DgdmnError
from dgdmn.core.files import read_json
from dgdmn.core.text import printable
from dgdmn.report.artifacts import newest_dreams
from dgdmn.report.load import LIMITS, check_size, find_directories, is_run

QUIET = 60.0  # seconds without a heartbeat after which a process that cannot be seen counts as gone
MAX_RUNS = 50  # runs listed one by one in each state; the others are counted
STATES = ("running", "stopped", "done", "broken")
WATCHED = (*(name for name in LIMITS if name != "events.jsonl"), "artifacts")  # what a report shows


def watched_runs(paths: Iterable[Path]) -> list[Path]:
    """The run directories in these directories; one that is still empty is left out."""
    return [path for path in find_directories(paths) if is_run(path)]


def run_stamp(directory: Path) -> tuple[object, ...]:
    """A value that differs when a report of the run would differ."""
    found = [path.stat() for name in WATCHED if (path := directory / name).exists()]
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in found)


def run_id(directory: Path) -> str:
    """A name of a run directory for URLs."""
    return hashlib.sha256(str(directory).encode(errors="surrogateescape")).hexdigest()[:16]


def summarize(directories: Iterable[Path], now: float) -> dict[str, Any]:
    """The number of runs in each state, and those that are not done one by one."""
    found: dict[str, list[dict[str, Any]]] = {state: [] for state in STATES}
    for directory in directories:
        state, facts = describe_run(directory, now)
        found[state].append(facts)
    listed = {state: found[state][:MAX_RUNS] for state in STATES if state != "done"}
    return {"counts": {state: len(found[state]) for state in STATES}, **listed}


def describe_run(directory: Path, now: float) -> tuple[str, dict[str, Any]]:
    """The state of a run and the facts that the page shows of it."""
    facts: dict[str, Any] = {"id": run_id(directory), "name": printable(directory.resolve().name)}
    try:
        if _read(directory / "summary.json").get("done") is True:
            return "done", facts
        if not isinstance(_read(directory / "config.json").get("key"), str):
            raise DgdmnError("not a run directory: there is no config.json with a key")
        status = _read(directory / "status.json")
    except (DgdmnError, OSError, RecursionError) as error:
        reason = str(error).replace(f"{directory}/", "").partition("\n")[0]
        return "broken", facts | {"problem": printable(reason)}
    heartbeat, left = _time(status.get("heartbeat")), _number(status, "seconds_left")
    facts |= {name: printable(status.get(name)) for name in ("phase", "task", "message")}
    facts |= {name: int(_number(status, name) or 0) for name in ("step", "steps", "seconds")}
    facts["share"] = min(1.0, max(0.0, _number(status, "share") or 0.0))
    facts |= {"acc": _number(status, "acc"), "ends": None if left is None else heartbeat + left}
    facts["command"] = f"dgdmn resume {shlex.quote(str(directory))}"
    dreams = newest_dreams(directory)
    facts["dreams"] = f"/dreams/{facts['id']}.png?{dreams.stem}" if dreams else ""
    if facts["phase"] == "done":
        return "done", facts
    active = facts["phase"] not in ("", "failed", "stopped")
    alive = active and _is_alive(int(_number(status, "pid") or 0), heartbeat, now)
    return "running" if alive else "stopped", facts


def _is_alive(pid: int, heartbeat: float, now: float) -> bool:
    # An epoch may take longer than QUIET, so the process decides: the same one is older than its heartbeat.
    # If that cannot be seen, the age of the heartbeat decides.
    try:
        process = psutil.Process(pid)
        same = bool(process.create_time() <= heartbeat + 1)
        return same and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return False
    except psutil.Error:
        return now - heartbeat < QUIET


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    check_size(path)
    return read_json(path)


def _number(values: dict[str, Any], name: str) -> float | None:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) and abs(value) < 1e12 else None


def _time(value: Any) -> float:
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
