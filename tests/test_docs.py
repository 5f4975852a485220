"""The pages about the paper keep what their headings promise."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_deviation_has_its_reason_and_its_effect():
    listed = re.findall(r"^\d+\. .*", (ROOT / "docs/deviations.md").read_text(encoding="utf-8"), re.M)
    assert [int(line.split(".")[0]) for line in listed] == list(range(1, len(listed) + 1))
    assert [line[:60] for line in listed if "Reason:" not in line or "Effect" not in line] == []


def test_the_map_of_the_paper_leads_to_files_that_are_there():
    page = (ROOT / "docs/paper-map.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_/]+\.py)`", page))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / "src/dgdmn" / name).exists()] == []
    assert "not yet" not in page
