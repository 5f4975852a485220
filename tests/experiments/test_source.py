"""A run says which code made it."""

import shutil
from pathlib import Path

import dgdmn
from dgdmn.experiments.source import checksum


def test_it_changes_with_the_code_that_makes_numbers_and_not_with_what_shows_them(tmp_path):
    package = tmp_path / "dgdmn"
    shutil.copytree(Path(dgdmn.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    before = checksum(package)
    assert before == checksum()
    for room, other in (("report", False), ("cli", False), ("memory", True), ("presets", True)):
        changed = package / room / "__init__.py"
        changed.write_text(changed.read_text() + "# other\n")
        checksum.cache_clear()
        assert (checksum(package) != before) == other, room
        before = checksum(package)
