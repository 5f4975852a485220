"""The page: self-contained, escaped, allowed by its own policy; every kind of run has its place on it."""

import base64
import hashlib
import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from dgdmn.records import RunWriter
from dgdmn.report import csp, render


class Reader(HTMLParser):
    """Tags with their attributes, and the text between them."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.words, self.contents, self._inside = [], [], {"script": [], "style": []}, None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        self.contents.get(self._inside, self.words).append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def named(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def test_names_of_users_are_text(make_run, nasty):
    names = [nasty, "\"'><img src=x onerror=alert(1)>", "a&amp;b"]
    make_run("a", task_names=names, note=nasty, preset=nasty, changes={nasty: nasty}, versions={nasty: nasty})
    path = make_run("b", task_names=names, algorithm=nasty, dataset=nasty, artefacts="old")
    broken = path.with_name(nasty.replace("/", "\u2215"))
    broken.mkdir()
    html = render([path.with_name("a"), path, broken])
    page = Reader(html)
    assert len(page.named("script")) == 1
    assert "alert(1)" not in page.contents["script"][0]
    assert page.text.count(nasty) > 10
    assert not any(img.get("src") == "x" for img in page.named("img"))
    assert nasty not in html


def test_nothing_inline_and_nothing_from_elsewhere(make_run):
    html = render([make_run("a"), make_run("b", algorithm="nn", dataset="mine")])
    page = Reader(html)
    for tag, attributes in page.tags:
        assert "style" not in attributes, tag
        assert not any(name.startswith("on") for name in attributes), tag
        for name in ("src", "href", "action", "srcset", "data"):
            if attributes.get(name):
                assert attributes[name].startswith(("data:", "#")), attributes
    assert "url(http" not in html
    assert "@import" not in html


@pytest.mark.parametrize("live", [False, True])
def test_the_policy_allows_what_is_on_the_page_and_nothing_else(make_run, live):
    page = Reader(render([make_run("a")], live=live))
    policy = dict(part.split(" ", 1) for part in csp(live).split("; "))
    (meta,) = [one["content"] for one in page.named("meta") if one.get("http-equiv")]
    assert meta == csp(live)
    assert policy["default-src"] == "'none'"
    for kind in ("script", "style"):
        (inline,) = [text for text in page.contents[kind] if text.strip()]
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert policy[f"{kind}-src"].split()[0] == f"'sha256-{digest}'"
    assert ("'self'" in meta) == live
    assert "unsafe" not in meta


def test_a_live_page_has_a_place_for_what_is_new(make_run):
    html = render([make_run("a")], live=True)
    assert re.search(r'</header>\s*<div id="live"></div>\s*<main id="report">', html)
    assert [one["src"] for one in Reader(html).named("script") if "src" in one] == ["/live.js"]
    still = render([make_run("b")])
    assert 'id="live"' not in still
    assert "live.js" not in still


def test_no_runs_at_all(tmp_path):
    text = Reader(render([])).text
    assert "There is no run to show yet." in text
    text = Reader(render([tmp_path / "gone"])).text
    assert "1 directory could not be read" in text
    assert "gone : the directory is not a run directory (no config.json)" in text


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 0},
        {"steps": 1},
        {"tasks": 1},
        {"tasks": 40},
        {"revise": [1, 3]},
        {"evaluate_on": "validation"},
        {"together": True, "steps": 1},
        {"algorithm": "my-own"},
        {"algorithm": "nn", "artefacts": "none"},
        {"artefacts": "old"},
        {"shape": [64], "artefacts": "none"},
        {"options": {}, "classes": [], "versions": None, "machine": None, "note": None},
    ],
    ids=lambda options: "-".join(f"{key}-{value}" for key, value in options.items())[:40],
)
def test_every_kind_of_run_has_a_page(make_run, options):
    page = Reader(render([make_run("a", **options)]))
    headings = ["Result", "Time and memory", "Configuration"]
    assert all(heading in page.text for heading in headings)
    assert not page.named("h2"), "one dataset needs no heading, and there is no problem"


def test_rows_of_nan(tmp_path):
    writer = RunWriter(tmp_path / "r", {"dataset": "d", "algorithm": "nn", "tasks": ["a", "b"]})
    writer.row("accuracy", "a", [math.nan, math.nan])
    writer.row("accuracy", "b", [math.nan, 0.5])
    writer.summary({})
    page = Reader(render([tmp_path / "r"]))
    assert "Some accuracies are missing" in page.text
    cells = [one.get("class") for one in page.named("td") if str(one.get("class", "")).startswith("h")]
    assert cells == ["hn now", "hn", "hn", "h10 now"]


def test_coloured_dreams_and_rows_without_pictures(make_run):
    path = make_run("a", artefacts="none")
    writer = RunWriter.resume(path, 4)
    writer.artefact("dreams-002", x=np.zeros((4, 6, 6, 3), np.uint8), y=np.arange(4))
    assert len(Reader(render([path])).named("img")) == 1
    writer.artefact("dreams-002", x=np.zeros((4, 36), np.uint8), y=np.arange(4))
    assert Reader(render([path])).named("img") == []


def test_a_damaged_artefact_is_a_note_in_its_section(make_run):
    path = make_run("a")
    for name in ("dreams-002", "latents"):
        (path / "artefacts" / f"{name}.npz").write_bytes(b"no zip")
    text = Reader(render([path])).text
    assert "dreams-002.npz could not be used" in text
    assert "latents.npz could not be used" in text
    assert "after task 4" in text


def test_settings_stand_apart_and_validation_not_beside_the_paper(make_run):
    page = Reader(render([make_run("a"), make_run("b", evaluate_on="validation"), make_run("c", revise=[1])]))
    assert "On validation rows" in page.text
    assert "Tested on validation rows" in page.text
    assert "Tasks 1 revised" in page.text
    assert page.text.count("0.818") == 1, "the paper's ACC, beside the plain run only"


def test_the_papers_times_are_scaled_and_said_to_be(make_run):
    options = {"dataset": "tdigits", "tasks": 40, "artefacts": "none"}
    paths = [make_run("a", **options), make_run("b", algorithm="dgr", **options)]
    page = Reader(render(paths))
    names = [one["data-n"] for one in page.named("g") if one.get("data-n", "").endswith("scaled")]
    assert names == ["DGR, the paper's, scaled", "DGDMN, the paper's, scaled"]
    assert "Faint dots: the paper's times" in page.text
    assert "Faint dots: the paper's times" not in Reader(render(paths[:1])).text, "no DGR to scale by"


def test_the_papers_resilience_stands_where_all_was_learnt_together(make_run):
    sequential = make_run("a")
    together = make_run("b", algorithm="dgr", together=True, steps=1)
    text = Reader(render([sequential])).text
    assert "Noise is not clipped to [0, 1], as in the paper; in the pictures below it is." in text
    assert "Faint dots: the paper's LTM" not in text
    page = Reader(render([sequential, together]))
    points = [one for one in page.named("g") if one.get("data-n") == "LTM, the paper's"]
    assert [one["data-key"] for one in points] == ["DGR (all tasks together)"] * 2
    assert not any(one.get("data-n") == "NN, the paper's" for one in page.named("g"))
    assert "Faint dots: the paper's LTM" in page.text


def test_joint_beside_sequential(make_run):
    page = Reader(render([make_run("a"), make_run("b", together=True, steps=1, algorithm="dgdmn")]))
    maps = [one["aria-label"] for one in page.named("svg") if one.get("class") == "map"]
    assert maps == ["t-SNE of the latent space, a", "t-SNE of the latent space, b"]


def test_the_same_runs_give_the_same_bytes(make_run):
    paths = [make_run("a"), make_run("b", algorithm="dgr")]
    html = render(paths)
    code = "import sys; from pathlib import Path; from dgdmn.report import render;"
    code += f"print(render([Path(p) for p in {list(map(str, paths))}]), end='')"
    again = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert again.stdout == html


def test_half_a_character_does_not_stop_it(make_run):
    path = make_run("a")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(
        json.dumps({**config, "algorithm": "\ud800", "machine": {"\udfff": "\ud800"}})
    )
    assert "\\ud800" in render([path]).encode().decode()


def test_a_huge_matrix_is_left_to_its_file(make_run):
    html = render([make_run("a", tasks=70, artefacts="none")])
    assert "70 × 70 cells are too many for a page" in html
    assert "table class=heat" not in html


def test_many_runs_stay_small(make_run):
    paths = [
        make_run(f"{name}{i}", seed=i, algorithm=name, artefacts="none")
        for name in ("dgdmn", "nn")
        for i in range(12)
    ]
    assert len(render(paths)) < 200_000


def test_reading_needs_no_torch_and_no_matplotlib(make_run):
    path = make_run("a")
    code = (
        "import sys; from pathlib import Path; import dgdmn.report as r;"
        f"r.render([Path({str(path)!r})]); print([m for m in ('torch', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
