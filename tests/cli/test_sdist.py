"""The source distribution is whole: its Makefile and its tests find what they name."""

import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_source_distribution_has_what_its_makefile_and_tests_need(tmp_path):
    results = {
        str(path.relative_to(ROOT)) for path in (ROOT / "results").rglob("*") if path.is_file()
    }
    built = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.split("/", 1)[1] for name in file.getnames()}
    assert {"Makefile", "scripts/torch_index.py", "benchmarks/speed.py", "constraints.txt"} <= names
    assert "REPRODUCIBILITY.md" in names
    assert results <= names
