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

from dgdmn.core.errors import UsageError
from dgdmn.records import RunWriter
from dgdmn.report import load_runs, write_report
from dgdmn.report.page import content_policy, explain, render


class Reader(HTMLParser):
    """Tags with their attributes, and the text between them."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.words, self.contents, self._inside = (
            [],
            [],
            {"script": [], "style": []},
            None,
        )
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


def html_of(*paths, **options):
    return render(*load_runs(paths), **options)


def lead_of(html):
    return re.search(r'<p class="lead">(.*?)</p>', html)[1].replace("\N{NO-BREAK SPACE}", " ")


def page_of(*paths, **options):
    return Reader(html_of(*paths, **options))


def test_names_of_users_are_text(make_run, nasty):
    names = [nasty, "\"'><img src=x onerror=alert(1)>", "a&amp;b"]
    make_run(
        "a",
        task_names=names,
        note=nasty,
        preset=nasty,
        changes={nasty: nasty},
        versions={nasty: nasty},
    )
    path = make_run("b", task_names=names, algorithm=nasty, stream=nasty)
    broken = path.with_name(nasty.replace("/", "∕"))
    broken.mkdir()
    html = html_of(path.with_name("a"), path, broken)
    page = Reader(html)
    assert len(page.named("script")) == 1
    assert "alert(1)" not in page.contents["script"][0]
    assert page.text.count(nasty) > 10
    assert not any(img.get("src") == "x" for img in page.named("img"))
    assert nasty not in html


def test_nothing_inline_and_nothing_from_elsewhere(make_run):
    html = html_of(make_run("a"), make_run("b", algorithm="nn", stream="mine"))
    for tag, attributes in Reader(html).tags:
        assert "style" not in attributes, tag
        assert not any(name.startswith("on") for name in attributes), tag
        for name in ("src", "href", "action", "srcset", "data"):
            if attributes.get(name):
                assert attributes[name].startswith(("data:", "#")), attributes
    assert "url(http" not in html
    assert "@import" not in html
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")


def test_ids_are_unique(make_run):
    page = page_of(make_run("a"), make_run("b", algorithm="nn", stream="mine"))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("live", [False, True])
def test_the_policy_allows_what_is_on_the_page_and_nothing_else(make_run, live):
    page = page_of(make_run("a"), live=live)
    policy = dict(part.split(" ", 1) for part in content_policy(live).split("; "))
    (meta,) = [one["content"] for one in page.named("meta") if one.get("http-equiv")]
    assert meta == content_policy(live)
    assert policy["default-src"] == "'none'"
    for kind in ("script", "style"):
        (inline,) = [text for text in page.contents[kind] if text.strip()]
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert policy[f"{kind}-src"].split()[0] == f"'sha256-{digest}'"
    assert ("'self'" in meta) == live
    assert "unsafe" not in meta


def test_a_live_page_has_a_place_for_the_state(make_run):
    html = html_of(make_run("a"), live=True)
    assert re.search(r'</header>\s*<div id="live"></div>\s*<main id="report">', html)
    assert [one["src"] for one in Reader(html).named("script") if "src" in one] == ["/live.js"]
    still = html_of(make_run("b"))
    assert 'id="live"' not in still
    assert "live.js" not in still


def test_no_runs_at_all(tmp_path):
    assert "There are no runs to show yet." in page_of().text
    text = page_of(tmp_path / "gone").text
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
        {"algorithm": "nn", "arrays": False},
        {"shape": [64], "arrays": False},
        {"options": {}, "classes": [], "versions": None, "machine": None, "note": None},
    ],
    ids=lambda options: "-".join(f"{key}-{value}" for key, value in options.items())[:40],
)
def test_every_kind_of_run_has_a_page(make_run, options):
    page = page_of(make_run("a", **options))
    assert all(heading in page.text for heading in ("Result", "Time and memory", "Configuration"))
    assert not page.named("h2"), "one stream needs no heading, and there is no problem"


def test_everything_recorded_is_shown(make_run):
    page = page_of(make_run("a"), make_run("b", algorithm="nn"), make_run("c", algorithm="joint"))
    for heading in ("Accuracy curves", "Accuracy matrix", "Dreams", "Latent space and resilience"):
        assert heading in page.text
    for text in ("Label purity of replay", "Class balance of replay", "Cumulative training time"):
        assert text in page.text
    assert "Samples each consolidation trains on" in page.text
    labels = [one["aria-label"] for one in page.named("svg") if "aria-label" in one]
    assert "Noise, Digits" in labels
    assert "Occlusion, Digits" in labels
    assert "t-SNE of the latent space, a" in labels
    charts = [one for one in page.named("svg") if one.get("role") == "img"]
    assert all(one.get("aria-label") for one in charts)
    assert page.text.count("Values") >= 5, "charts have tables"
    assert "dgdmn run digits --algorithm nn --preset paper --seed 0" in page.text
    assert all(one.get("alt") for one in page.named("img"))


def test_rows_of_nan(tmp_path):
    writer = RunWriter(
        tmp_path / "r", {"key": "k", "stream": "d", "algorithm": "nn", "tasks": ["a", "b"]}
    )
    writer.row("accuracy", "a", [math.nan, math.nan])
    writer.row("accuracy", "b", [math.nan, 0.5])
    writer.summary({})
    page = page_of(tmp_path / "r")
    assert "Some accuracies are missing" in page.text
    cells = [
        one.get("class") for one in page.named("td") if str(one.get("class", "")).startswith("h")
    ]
    assert cells == ["hn now", "hn", "h10 now"], "b is blank before it is learned"


def test_cells_before_a_task_is_learned_are_blank_and_numbers_are_the_same(matrix_run):
    run = matrix_run("nn", 0, [[1, 1, 0.25], [0, 1, 1], [0, 0.5, 1]])
    heat = render([run]).partition("<table class=heat>")[2].partition("</table>")[0]
    rows = [re.findall(r"<td[^>]*>([^<]*)", row) for row in heat.split("<tr>")[2:]]
    assert rows == [["1.00", "", ""], [".00", "1.00", ""], [".00", ".50", "1.00"]]
    assert (run.acc, run.bwt) == (0.5, -0.75)


def test_the_page_opens_with_what_happened(matrix_run):
    forgets, keeps = [[1, 0], [0, 1]], [[1, 0], [0.98, 1]]
    runs = [
        matrix_run("nn", 0, forgets),
        matrix_run("dgdmn", 0, keeps, preset="best", options={"generator": "mixture"}),
        matrix_run("joint", 0, keeps),
    ]
    html = render(runs)
    lead = lead_of(html)
    assert lead == (
        "3 methods learned 2 tasks, one after the other. In the final test on all tasks, DGDMN "
        "remembers most among the methods that keep no training rows: accuracy .990. NN remembers least, "
        ".500: only the last task is known. Joint, which learns from the data of all tasks together, "
        "has .990."
    )
    assert html.index('class="lead"') < html.index('class="bars"') < html.index("<h3>Result</h3>")
    assert html.count('class="ours a-dgdmn"') == 1
    assert html.count("ours a-dgdmn") == 3, "a bar, a row and its sentence have the color"
    alone = lead_of(render(runs[1:2]))
    assert alone == (
        "DGDMN learned 2 tasks, one after the other. Final accuracy is .990; "
        "accuracy right after each task was 1.000."
    )


def test_the_page_of_a_run_that_learns_opens_with_how_far_it_is(make_run):
    html = html_of(make_run("a", steps=2), make_run("b", steps=0, algorithm="nn"))
    lead = lead_of(html)
    assert lead.startswith(
        "2 methods are learning 4 tasks, one after the other. After 2 tasks, DGDMN has an accuracy of "
    )
    assert lead.endswith(" on them. 2 runs are not finished.")
    assert "is learning 4 tasks" in html_of(make_run("c", steps=0))


def test_an_axis_that_does_not_start_at_0_says_so(matrix_run):
    note, high = "accuracy (from .80)", [[1, 0], [0.9, 1]]
    assert note in render([matrix_run("nn", 0, high)])
    assert note not in render([matrix_run("nn", 0, high), matrix_run("ewc", 0, [[1, 0], [0, 1]])])


@pytest.mark.parametrize(
    ("by_class", "shown"),
    [
        ({"a": [5, 10], "b": [2, 30]}, True),
        ({"a": [5, 10], "b": [2, 11]}, False),
        ({"a": [5], "b": "x", "c": None}, False),
        ([1], False),
        (None, False),
    ],
)
def test_unbalanced_classes_have_macro_accuracy(matrix_run, by_class, shown):
    summary = {"by_class": by_class, "macro_accuracy": 0.4321}
    html = render([matrix_run("nn", 0, [[1, 0], [0, 1]], summary=summary)])
    assert ("<b>.432</b>" in html) == ("judge by" in html) == shown
    assert ("ACC&nbsp;.500, macro&nbsp;.432." in html) == ("By macro accuracy" in html) == shown
    table = html.partition('class="results')[2].partition("</table>")[0]
    (width,) = set(re.findall(r'colspan="(\d)"', table))
    assert int(width) == table.count('scope="col"') == 6 + shown


def test_bold_is_explained_where_something_is_bold(matrix_run):
    one, ceiling = (matrix_run(name, 0, [[1, 0], [0, 1]]) for name in ("nn", "joint"))
    assert "Bold:" in render([one])
    assert "Bold:" not in render([ceiling])
    assert "<b>" not in render([ceiling]).partition('class="results')[2].partition("</table>")[0]


def test_the_column_of_seeds_may_be_hidden_if_each_method_has_one(matrix_run):
    one, two = (matrix_run("nn", seed, [[1, 0], [0, 1]]) for seed in (0, 1))
    assert 'class="results one-seed"' in render([one])
    assert 'class="results"' in render([one, two])


def test_latent_space_has_a_heading_and_words_of_what_follows(make_run):
    path = make_run("a")
    page = html_of(path)
    assert "<h3>Latent space and resilience</h3>" in page
    assert "is the same memory, trained on all tasks at once" not in page
    (path / "artifacts" / "resilience.npz").unlink()
    assert "<h3>Latent space</h3>" in html_of(path)
    assert "is the same memory, trained" in html_of(make_run("b", together=True))


def test_terms_are_explained(make_run):
    page = page_of(make_run("a"))
    tips = {one["data-tip"].split(":")[0] for one in page.named("abbr")}
    assert all(one["tabindex"] == "0" for one in page.named("abbr"))
    assert tips >= {"Accuracy at the end", "Backward transfer", "Short-term memory"}
    assert tips >= {
        "Long-term memory",
        "Share of dreams whose label agrees with the real test samples nearest to them.",
    }
    assert explain("<b> ACC, ACC").count("<abbr") == 1
    assert explain("<b> ACC").startswith("&lt;b&gt; <abbr")


def test_dreams_are_sorted_by_label(make_run):
    html = html_of(make_run("a", task_names=["x", "b", "c", "d"], classes=["d", "x", "b", "c"]))
    rows = re.search(r'aria-label="Labels">(.*?)</ul>', html)[1]
    assert re.findall("<li>(.*?)</li>", rows) == ["d", "x", "b", "c"], "in the order of the stream"


def test_a_damaged_artifact_is_a_note_in_its_section(make_run):
    path = make_run("a")
    for name in ("dreams-002", "latents"):
        (path / "artifacts" / f"{name}.npz").write_bytes(b"no zip")
    text = page_of(path).text
    assert "dreams-002.npz could not be used" in text
    assert "a: latents.npz could not be used" in text
    assert "after task 4" in text


def test_colored_dreams(make_run):
    path = make_run("a", arrays=False)
    x, y = np.zeros((4, 6, 6, 3), np.uint8), np.arange(4)
    RunWriter.resume(path, 4).artifact("dreams-002", x=x, y=y, task=y, labels=y, judged=y)
    assert len(page_of(path).named("img")) == 1


def test_dreams_of_a_table_have_no_pictures_and_the_page_says_so(make_run):
    def text_of(name, shape):
        path = make_run(name, arrays=False, shape=shape)
        y = np.arange(4)
        RunWriter.resume(path, 4).artifact(
            "dreams-002", x=np.zeros((4, 17), np.uint8), y=y, task=y, labels=y, judged=y
        )
        return page_of(path).text

    text, pictures = text_of("a", [17]), "Read a row from left to right"
    assert "There are no pictures: the samples are not images." in text
    assert pictures not in text
    assert "There are no pictures: none were kept." in text_of("c", [8, 8])
    assert "There are no pictures: none were kept." in text_of("d", None)
    assert pictures in page_of(make_run("b")).text


def test_settings_have_tables_of_their_own(make_run):
    page = page_of(
        make_run("a"), make_run("b", evaluate_on="validation"), make_run("c", revise=[1])
    )
    for title in (
        "preset paper",
        "preset paper, on validation rows",
        "preset paper, tasks 1 revised",
    ):
        assert title in page.text


def test_joint_is_beside_sequential(make_run):
    page = page_of(make_run("a"), make_run("b", together=True, steps=1))
    maps = [one["aria-label"] for one in page.named("svg") if one.get("class") == "chart map"]
    assert maps == ["t-SNE of the latent space, a", "t-SNE of the latent space, b"]


def test_the_same_runs_give_the_same_bytes(make_run):
    paths = [make_run("a"), make_run("b", algorithm="dgr")]
    code = (
        "import sys; from pathlib import Path; from dgdmn.report import load_runs;"
        "from dgdmn.report.page import render;"
        f"print(render(*load_runs([Path(p) for p in {list(map(str, paths))}])), end='')"
    )
    again = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert again.stdout == html_of(*paths)


def test_a_lone_surrogate_does_not_stop_it(make_run):
    path = make_run("a")
    config = json.loads((path / "config.json").read_text())
    config |= {"algorithm": "\ud800", "machine": {"\udfff": "\ud800"}, "options": {"\ud800": 1}}
    (path / "config.json").write_text(json.dumps(config))
    assert html_of(path).encode()


def test_a_huge_matrix_is_left_to_its_file(make_run):
    html = html_of(make_run("a", tasks=70, arrays=False))
    assert "70 × 70 cells do not fit on a page" in html
    assert "table class=heat" not in html


def test_many_runs_stay_small(make_run):
    paths = [
        make_run(f"{name}{seed}", seed=seed, algorithm=name, arrays=False)
        for name in ("dgdmn", "nn")
        for seed in range(12)
    ]
    assert len(html_of(*paths)) < 250_000


# ---- files ----


@pytest.mark.slow
def test_the_report_and_its_figures_as_files(make_run, tmp_path):
    make_run("a", tasks=20, arrays=False)
    make_run("d")
    make_run("b", algorithm="nn", stream="mine")
    make_run("c", algorithm="dgr", stream="mine", revise=[1])
    out, figures = tmp_path / "deep" / "report.html", tmp_path / "deep" / "figures"
    report = write_report([tmp_path / "runs"], out, figures)
    names = sorted(path.name for path in figures.iterdir())
    assert (report.runs, report.problems, report.figures) == (4, 0, len(names))
    stems = {name[:-4] for name in names}
    assert {f"{stem}.{kind}" for stem in stems for kind in ("svg", "pdf")} == set(names)
    wanted = "curves curves-ltm forgetting long resilience recognition tsne dreams-2-dgdmn"
    assert {f"digits-{name}" for name in wanted.split()} <= stems
    assert {"mine-revision", "mine-curves", "forgetting"} <= stems
    assert '<a href="figures/">figures/</a>' in out.read_text()


def test_without_figures_there_is_one_file(make_run, tmp_path):
    assert write_report([make_run("a")], tmp_path / "out" / "page.html").figures == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["page.html"]
    assert "SVG and PDF" not in (tmp_path / "out" / "page.html").read_text()


@pytest.mark.slow
def test_names_of_figures_stay_in_their_directory(make_run, tmp_path):
    make_run("a", stream="../../x", algorithm="nn")
    make_run("b", stream="../../<x", algorithm="nn")
    write_report([tmp_path / "runs"], tmp_path / "report.html", tmp_path / "figures")
    assert {path.name for path in (tmp_path / "figures").iterdir()} >= {
        "_x-1-curves.svg",
        "_x-2-curves.svg",
    }


def test_wrong_use_is_one_sentence(make_run, tmp_path):
    with pytest.raises(UsageError, match="is a directory; name a file"):
        write_report([make_run("a")], tmp_path)
    with pytest.raises(UsageError, match=r"no run to report on \(gone: the directory is not a run"):
        write_report([tmp_path / "gone"], tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()
