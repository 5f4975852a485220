"""What importing costs: torch, plots and progress bars come only when they are touched."""

import subprocess
import sys

import pytest

import dgdmn

HEAVY = ("torch", "sklearn", "matplotlib", "rich", "tyro", "pooch")


def loaded_by(code):
    """The top-level packages in memory after running this code in a new interpreter."""
    report = f"{code}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def test_the_package_is_light():
    assert loaded_by("import dgdmn; dir(dgdmn); dgdmn.Preset") & set(HEAVY) == set()


@pytest.mark.parametrize(
    "module", ["metrics", "records", "presets", "streams", "report.files", "report.server"]
)
def test_what_trains_nothing_needs_no_torch(module):
    assert "torch" not in loaded_by(f"import dgdmn.{module}")


def test_touching_an_estimator_brings_torch_but_no_pictures():
    loaded = loaded_by("from dgdmn import DGDMN")
    assert "torch" in loaded
    assert loaded & {"matplotlib", "rich", "tyro", "pooch"} == set()


def test_exports():
    for name in dgdmn.__all__:
        assert getattr(dgdmn, name).__name__ == name
        assert name in dir(dgdmn)
    with pytest.raises(AttributeError, match="has no attribute 'DGDNM'"):
        _ = dgdmn.DGDNM
