"""The documentation: links lead somewhere, names exist, pages stay short and in plain English."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
ODD_WORDS = r"\b(anew|whence|learnt|optimis\w+|artefacts?|recognis\w+|colour\w*|behaviour)\b"


def read(path):
    return (ROOT / path).read_text("utf-8")


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    broken = []
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_deviation_is_numbered_and_begins_with_what_differs():
    listed = re.findall(r"^\d+\. .*", read("docs/deviations.md"), re.MULTILINE)
    assert [int(line.split(".")[0]) for line in listed] == list(range(1, len(listed) + 1))
    assert [line for line in listed if not re.match(r"\d+\. \*\*", line)] == []
    assert "deviations" in anchors(ROOT / "REPRODUCIBILITY.md"), "their effects"


def test_the_paper_map_names_files_and_objects_that_exist():
    named, missing = set(), []
    for cell in re.split(r"[|;]", read("docs/paper-map.md")):
        text = None
        for word in re.findall(r"`([\w./-]+)`", cell):
            if word.endswith(".py"):
                homes = (ROOT / "src/dgdmn" / word, ROOT / word)
                path = next((home for home in homes if home.exists()), None)
                named.add(word)
                text = path.read_text("utf-8") if path else word
                missing += [] if path else [word]
            elif text is not None and word.split(".")[-1] not in text:
                missing.append(word)
    assert len(named) > 20
    assert missing == []


def test_the_first_pages_are_short():
    assert len(read("README.md").splitlines()) <= 120
    assert len(read("REPRODUCIBILITY.md").encode()) <= 25_000


def test_spelling_is_american_and_words_are_modern():
    paths = [path for path in PAGES if path.name != "LOG.md"]
    for folder in ("src", "reproduction", "examples", "benchmarks"):
        paths += [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md")]
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in paths
        for word in re.findall(ODD_WORDS, path.read_text("utf-8"), re.IGNORECASE)
    ]
    assert found == []
