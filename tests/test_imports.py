"""What an import loads: torch, plots and progress bars only when they are used."""

import subprocess
import sys

import pytest

import dgdmn

HEAVY = {"torch", "sklearn", "matplotlib", "rich", "pooch"}
WITHOUT_TORCH = [
    "dgdmn.config",
    "dgdmn.config.registry",
    "dgdmn.core.batch",
    "dgdmn.core.events",
    "dgdmn.core.files",
    "dgdmn.core.text",
    "dgdmn.memory.dual",
    "dgdmn.memory.protocols",
    "dgdmn.memory.recognition",
    "dgdmn.memory.replay",
    "dgdmn.memory.short_term",
    "dgdmn.memory.task_log",
    "dgdmn.metrics",
    "dgdmn.records",
    "dgdmn.report",
    "dgdmn.cli.facts",
    "dgdmn.runs.environment",
    "dgdmn.runs.plan",
    "dgdmn.runs.runner",
    "dgdmn.service",
    "dgdmn.storage",
    "dgdmn.streams",
]


def packages_loaded_by(code):
    """The top-level packages in memory after running this code in a new interpreter."""
    show = "import sys\nprint(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{show}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    assert not packages_loaded_by("import dgdmn; dir(dgdmn); dgdmn.Config") & HEAVY


def test_modules_that_do_not_train_need_no_torch():
    check = "; assert 'torch' not in sys.modules, "
    code = ["import sys", *(f"import {name}{check}{name!r}" for name in WITHOUT_TORCH)]
    assert "torch" not in packages_loaded_by("\n".join(code))


def test_the_command_line_starts_where_the_module_resource_is_missing():
    """As on Windows."""
    hide = "import sys; sys.modules['resource'] = None"
    assert "dgdmn" in packages_loaded_by(f"{hide}; import dgdmn.cli.app, dgdmn.runs.runner")


def test_a_run_without_networks_needs_no_torch(tmp_path):
    code = f"""
from pathlib import Path
from dgdmn.config.entries import parse_entry
from dgdmn.runs.runner import execute
from dgdmn.runs.spec import make_spec
execute(make_spec("wine", parse_entry("dgdmn", None), 0), Path({str(tmp_path)!r}))"""
    assert "torch" not in packages_loaded_by(code)


@pytest.mark.parametrize("preset", ["best", "deep"])
def test_learning_loads_torch_only_for_networks_and_no_plots(preset):
    learn = f"DGDMN({preset!r}, min_steps=1).fit([[0.0], [1.0], [2.0]], [0, 1, 1])"
    loaded = packages_loaded_by(f"from dgdmn import DGDMN\n{learn}")
    assert ("torch" in loaded) == (preset == "deep")
    assert not loaded & {"matplotlib", "rich", "pooch"}


def test_exports():
    for name in dgdmn.__all__:
        assert getattr(dgdmn, name).__name__ == name
        assert name in dir(dgdmn)
    with pytest.raises(AttributeError, match="has no attribute 'DGDNM'"):
        _ = dgdmn.DGDNM
