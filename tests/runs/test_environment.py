"""What a run records about its process, machine and code."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dgdmn
from dgdmn.config import default_threads, override, resolve
from dgdmn.runs import environment
from dgdmn.runs.environment import (
    large_pages,
    peak_memory_mb,
    processor_name,
    source_checksum,
)
from dgdmn.runs.runner import execute
from dgdmn.runs.spec import RunSpec

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process has one peak")
LARGE = 600  # MiB: more than any of these tests uses besides
CPUINFO = """processor\t: 0
cpu family\t: 6
model\t\t: 207
model name\t: Some Processor
stepping\t: 2

processor\t: 1
cpu family\t: 6
model\t\t: 85
"""


@pytest.mark.parametrize(
    ("value", "threads"), [(None, 1), ("3", 3), ("0", 1), ("", 1), ("-2", 1), ("2,1", 1)]
)
def test_threads_are_one_unless_the_environment_says_otherwise(monkeypatch, value, threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if value is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert default_threads() == threads


def test_processors_of_one_name_are_told_apart(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text(CPUINFO)
    assert processor_name(path) == "Some Processor, 6-207-2"
    path.write_text("Features : fp asimd\n")
    assert processor_name(path) == ""
    assert processor_name(tmp_path / "absent") == platform.processor()


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        ("glibc.malloc.check=0", "glibc.malloc.check=0:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"),
    ],
)
def test_large_pages_keep_what_is_set(monkeypatch, before, inside):
    monkeypatch.setenv("GLIBC_TUNABLES", before)
    with large_pages():
        assert os.environ["GLIBC_TUNABLES"] == inside
    assert os.environ["GLIBC_TUNABLES"] == before


@pytest.mark.parametrize("before", [None, "glibc.malloc.check=0"])
def test_a_child_gets_large_pages_and_the_environment_is_restored(monkeypatch, before):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    if before:
        monkeypatch.setenv("GLIBC_TUNABLES", before)
    command = [sys.executable, "-c", "import os; print(os.environ['GLIBC_TUNABLES'])"]
    with large_pages():
        assert "glibc.malloc.hugetlb=1" in subprocess.check_output(command, text=True)
    with pytest.raises(ZeroDivisionError), large_pages():
        _ = 1 / 0
    assert os.environ.get("GLIBC_TUNABLES") == before


@on_linux
def test_memory_used_before_a_run_is_not_its_peak(tmp_path):
    environment.reset_peak_memory()
    before = peak_memory_mb()
    np.ones(LARGE << 20, np.uint8)
    assert peak_memory_mb() > before + 0.9 * LARGE
    few = {"samples_per_task": 16, "learner_epochs": 1, "min_steps": 4}
    options = override(resolve("quick", "embedded"), few)
    record = execute(RunSpec("embedded", "nn", "quick", options), tmp_path)
    assert 0 < record.summary["peak_rss_mb"] < before + 0.5 * LARGE


@on_linux
def test_the_peak_of_a_parent_is_not_that_of_its_child():
    np.ones(LARGE << 20, np.uint8)
    script = "from dgdmn.runs.environment import peak_memory_mb; print(peak_memory_mb())"
    peak = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert 0 < float(peak) < LARGE / 2


def test_without_proc_the_system_is_asked(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "_PROC", tmp_path / "absent")
    environment.reset_peak_memory()
    assert peak_memory_mb() > 10


def test_checksum_changes_with_the_code_that_decides_numbers_only(tmp_path):
    package = tmp_path / "dgdmn"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(dgdmn.__file__).parent, package, ignore=ignore)
    before = source_checksum(package)
    for name, changes in (("report", False), ("cli", False), ("memory", True), ("config", True)):
        path = package / name / "__init__.py"
        path.write_text(path.read_text() + "# other\n")
        source_checksum.cache_clear()
        assert (source_checksum(package) != before) == changes, name
        before = source_checksum(package)
