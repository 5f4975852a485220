"""The process and machine of a run: threads, signals, memory, processor, code. No torch in here."""

import contextlib
import hashlib
import os
import platform
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dgdmn

_PROC = Path("/proc/self")
_TUNABLES, _LARGE_PAGES = "GLIBC_TUNABLES", "glibc.malloc.hugetlb"
_DISPLAY_PACKAGES = ("report", "cli", "service")  # they change no number


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def describe_versions() -> dict[str, str]:
    """The versions that a run records; `source` is a checksum of the code that decides its numbers."""
    packages = {name: version(name) for name in ("torch", "numpy", "scikit-learn")}
    own = {"dgdmn": dgdmn.__version__, "source": source_checksum()}
    return {**own, "python": platform.python_version(), **packages}


def describe_machine() -> dict[str, Any]:
    """The machine as a run records it. Times are comparable only if all of it is equal."""
    return {
        "system": platform.system(),
        "cpu": platform.machine(),
        "cores": os.cpu_count(),
        "processor": processor_name(),
        "denormals": "zero",  # in networks; before 2026-11-17 they were computed, which is slow
    }


def processor_name(path: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name; on Linux with its numbers, because clouds use one name for several."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    # There is one block per core; of equal names the first one counts.
    first = dict(reversed(re.findall(r"^(.+?)\s*: (.*)$", text, re.MULTILINE)))
    numbers = [first[name] for name in ("cpu family", "model", "stepping") if name in first]
    return ", ".join(filter(None, [first.get("model name", ""), "-".join(numbers)]))


@cache
def source_checksum(package: Path = Path(dgdmn.__file__).parent) -> str:
    """A checksum of the code and the TOML files that may change a run's numbers."""
    digest = hashlib.sha256()
    found = [*package.rglob("*.py"), *package.rglob("*.toml")]
    for path in sorted(path.relative_to(package) for path in found):
        if path.parts[0] not in _DISPLAY_PACKAGES:
            content = (package / path).read_bytes()
            digest.update(f"{path.as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def reset_peak_memory() -> None:
    """Measure the memory peak from here on, if Linux allows it: a process may have done other runs."""
    with contextlib.suppress(OSError):
        (_PROC / "clear_refs").write_text("5")


def peak_memory_mb() -> float:
    """Peak resident memory of this process in MiB."""
    with contextlib.suppress(OSError):  # on Linux a child inherits `ru_maxrss` from its parent
        if found := re.search(r"VmHWM:\s*(\d+) kB", (_PROC / "status").read_text()):
            return int(found[1]) / 1024
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


@contextlib.contextmanager
def large_pages() -> Iterator[None]:
    """Let glibc use large pages in processes started inside this block (docs/decisions/speed.md)."""
    before = os.environ.get(_TUNABLES)
    if _LARGE_PAGES not in (before or ""):  # else the user has chosen
        os.environ[_TUNABLES] = ":".join(filter(None, [before, f"{_LARGE_PAGES}=1"]))
    try:
        yield
    finally:
        del os.environ[_TUNABLES]
        if before is not None:
            os.environ[_TUNABLES] = before


@contextlib.contextmanager
def handle_signals(names: Iterable[str], handler: Any, only: Sequence[Any] = ()) -> Iterator[None]:
    """Handle these signals inside this block: all, or those whose handler now is one of `only`.

    Outside the main thread, which cannot, do nothing.
    """
    in_main = threading.current_thread() is threading.main_thread()
    found = [getattr(signal, name) for name in names if in_main and hasattr(signal, name)]
    found = [one for one in found if not only or signal.getsignal(one) in only]
    before = {one: signal.signal(one, handler) for one in found}
    try:
        yield
    finally:
        for one, old in before.items():
            signal.signal(one, old)
