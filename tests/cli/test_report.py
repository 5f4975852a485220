"""`dgdmn report`: tables of runs, the page of a memory, and what is refused."""

import csv
import io
import re

import numpy as np
import pytest

from dgdmn.records import RunWriter


@pytest.fixture
def runs(tmp_path):
    """Two methods and one run that has not ended."""
    for name, last in (("nn", [0, 1]), ("slda", [1, 0.5]), ("ewc", None)):
        known = {"key": name, "stream": "mine", "algorithm": name, "preset": "paper", "seed": 0}
        writer = RunWriter(tmp_path / "runs" / name, {**known, "tasks": ["a", "b"]})
        writer.row("accuracy", "a", [1, 0])
        if last:
            writer.row("accuracy", "b", last)
            writer.summary({"memory_bytes": 1000, "steps_trained": 1})
    return tmp_path / "runs"


def test_a_table_of_runs(call, refuse, runs, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    out, err = call("report", runs, "--table", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["method"], float(row["acc"])) for row in rows] == [("NN", 0.5), ("SLDA", 0.75)]
    assert err == ""
    assert "| mine | SLDA | **.750** |" in call("report", runs, "--table", "md")[0]
    assert r"mine & SLDA & \textbf{.750}" in call("report", runs, "--table", "tex")[0]
    assert refuse("report", runs / "ewc", "--table", "md").startswith(
        "dgdmn: no run has ended; give"
    )
    assert "it must be csv or md or tex" in refuse("report", runs, "--table", "xls")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"], "nothing is written"


@pytest.mark.parametrize("name", ["t.csv", "t.md", "page", "page.htm"])
def test_another_ending_is_refused(refuse, runs, name):
    line = refuse("report", runs, "--out", runs / name)
    assert line.endswith(
        f"{name} must end with .html; name a page, or print a table with --table csv, md or tex"
    )
    assert not (runs / name).exists()


@pytest.fixture
def memory(call, tmp_path, monkeypatch):
    """A memory of a table with two large classes and a small one; `test.csv` has one more label."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)

    def write(name, parts):
        lines = ["width,height,label,task"]
        for label, task, n, place in parts:
            x = rng.normal(place, 1, (n, 2))
            lines += [f"{a:.9f},{b:.9f},{label},{task}" for a, b in x]
        (tmp_path / name).write_text("\n".join(lines) + "\n")

    write("train.csv", [("<u>big", 1, 150, 0), ("far", 2, 150, 9), ("few", 2, 5, -9)])
    write("test.csv", [("<u>big", 1, 30, 0), ("far", 2, 20, 9), ("new", 2, 10, 90)])
    call("learn", "memory", "train.csv")
    return tmp_path / "memory"


def test_the_page_of_a_memory(call, memory):
    out, err = call("report", "memory", "--data", "test.csv", "--out", "page.html")
    assert (out, err) == ("page.html: memory, 3 classes\n", "")
    html = (memory.parent / "page.html").read_text()
    lead = re.search(r'<p class="lead">(.*?)</p>', html)[1]
    assert lead.startswith(
        "This memory knows 3 classes of 2 tasks, learned from 305 rows. It keeps "
    )
    assert lead.endswith("no training row. Its accuracy on the 60 rows of test.csv is .833.")
    assert "&lt;u&gt;big" in html
    assert "<u>" not in html
    assert "Left out, because they have fewer than 20 rows: few." in html
    typical = html.partition("Typical values")[2].partition("</table>")[0]
    assert "<td>" in typical
    assert "few" not in typical, "its dreams are close to its rows"
    assert re.search(r"2 *</th>.*?<td>155</td>", html), "rows of a task"
    assert "pooled scatter" in html
    assert "shrinkage (λ)" in html
    (row,) = re.findall(r'<th scope="row">new</th>(.*?)</tr>', html.partition("Confusion")[2])
    assert re.findall(r">(\d+)<", row) == ["10"], "a label that was never learned is always wrong"
    for line in (memory.parent / "train.csv").read_text().splitlines()[1:]:
        assert line.split(",")[0] not in html, "no row is written into the page"


def test_a_memory_without_data_or_dreams(call, refuse, memory):
    call("learn", "net", "train.csv", "--algorithm", "nn", "--preset", "quick")
    call("report", "net", "--out", "net.html")
    html = (memory.parent / "net.html").read_text()
    assert "nn has no generative memory, so it does not dream" in html
    assert "Confusion" not in html
    advice = "is a memory; give it alone, with --out and --data only"
    assert advice in refuse("report", "memory", "net")
    assert advice in refuse("report", "memory", "--table", "csv")
    (memory.parent / "plain.csv").write_text("width,height\n1,2\n")
    assert "has no labels" in refuse("report", "memory", "--data", "plain.csv")
    assert not (memory.parent / "report.html").exists()


def test_data_is_for_memories(refuse, runs):
    assert refuse("report", runs, "--data", "x.csv").endswith("are for a memory; leave them out")
