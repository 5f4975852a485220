"""`learn` and `predict` with tables as people have them."""

import csv
import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dgdmn

RNG = np.random.default_rng(0)
STATES = {"ok": ("low", 0.0), "worn": ("high", 4.0), "broken": ("none", -4.0)}


def sensors(path, states, n=60, separator=",", columns=("id", "temp", "load", "mode", "state")):
    """A table with an id, gaps, a category and a label that is called `state`."""
    lines = [separator.join(columns)]
    for row in range(n):
        state = states[row % len(states)]
        mode, center = STATES[state]
        temp = "" if row % 7 == 3 else f"{RNG.normal(center, 1):.3f}"
        cells = {"id": f"s{row}", "temp": temp, "load": f"{RNG.normal(center, 1):.3f}"}
        cells |= {"mode": "NA" if row % 11 == 5 else mode, "state": state}
        lines.append(separator.join(cells[name] for name in columns))
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def plant(tmp_path, monkeypatch, call):
    """A memory that has learned January."""
    monkeypatch.chdir(tmp_path)
    sensors(tmp_path / "jan.csv", ["ok", "worn"])
    call("learn", "m", "jan.csv", "--label", "state", "--ignore", "id", "--task", "jan")
    return tmp_path


def content(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_a_memory_remembers_its_columns(plant, call, refuse):
    """The label column, the ignored column, and kinds and order of the rest."""
    names = ("state", "mode", "load", "id", "temp")
    sensors(plant / "feb.tsv", ["broken"], separator="\t", columns=names)
    assert "learned 'feb'" in call("learn", "m", "feb.tsv", "--task", "feb")[0]
    assert dgdmn.load("m").columns_.state() == {
        "temp": "number",
        "load": "number",
        "mode": "category",
    }
    facts = call("inspect", "m")[0]
    assert "columns: temp number, load number, mode category\nlabel column: state\n" in facts
    sensors(plant / "new.csv", list(STATES), columns=("mode", "load", "temp"))
    out, err = call("predict", "m", "new.csv")
    rows = [*csv.DictReader(io.StringIO(out))]
    right = [row["label"] == [*STATES][n % 3] for n, row in enumerate(rows)]
    assert sum(right) >= 57
    assert "accuracy" not in err
    sensors(plant / "test.csv", list(STATES))
    assert float(call("predict", "m", "test.csv")[1].split()[1]) > 0.95
    sensors(plant / "more.csv", ["ok"], columns=("mode", "load", "temp"))
    assert refuse("learn", "m", "more.csv").startswith("dgdmn: more.csv has no labels")


@pytest.mark.parametrize(
    ("text", "message", "code"),
    [
        ("temp,load,mode,state\n1,2,a\n", "has 3 values in row 2, not 4 as in its header", 1),
        ("temp,load,mode,state,state\n1,2,a,ok,ok\n", "has 2 columns named 'state'", 1),
        ("temp,load,mode,state,label\n1,2,a,ok,ok\n", "two label columns, 'state' and 'label'", 1),
        ("temp,load,mode,state\n1,2,a,ok\nx,2,a,ok\n", "'x' in row 3, column 'temp', which has", 1),
        (
            "temp,load,mode,state\nx,2,a,ok\ny,2,a,ok\n",
            "'x' in row 2, column 'temp': the column",
            2,
        ),
        ("temp,load,mode,state\n1,2,3,ok\n", "3.0 in row 2, column 'mode': the column had text", 2),
        (
            "temp,load,mode,state,task\n1,2,a,ok,x\n1,2,a,ok,\n",
            "no task in row 3, column 'task'",
            1,
        ),
        ("temp,load,mode,state\n1,2,a,\n", "no label in row 2, column 'state'", 1),
        ("temp,mode,state\n1,a,ok\n", "lacks column 'load'; it has temp, mode", 2),
        ("temp,load,mode,hour,state\n1,2,a,7,ok\n", "unknown column 'hour'; leave it out", 2),
    ],
)
def test_bad_tables_are_named_and_nothing_is_learned(plant, refuse, text, message, code):
    (plant / "bad.csv").write_text(text)
    before = content(plant / "m")
    line = refuse("learn", "m", "bad.csv", code=code)
    assert line.startswith("dgdmn: bad.csv ")
    assert message in line
    assert content(plant / "m") == before


def test_task_may_name_a_column_which_is_remembered(tmp_path, monkeypatch, call, refuse):
    monkeypatch.chdir(tmp_path)
    sensors(tmp_path / "year.csv", ["ok", "worn"])
    header, *lines = (tmp_path / "year.csv").read_text().splitlines()
    months = [f"{line},{month}" for line, month in zip(lines, ["jan", "feb"] * 30, strict=True)]
    (tmp_path / "year.csv").write_text("\n".join([header + ",month", *months]) + "\n")
    assert "its columns are id, temp, load" in refuse("learn", "m", "year.csv", code=2)
    call("learn", "m", "year.csv", "--label", "state", "--task", "month", "--ignore", "id")
    assert dgdmn.load(tmp_path / "m").consolidated_tasks() == ("jan", "feb")
    assert "task jan:" in call("evaluate", "m", "year.csv")[0]
    call("predict", "m", "year.csv")
    sensors(tmp_path / "march.csv", ["ok", "worn"])
    call("learn", "m", "march.csv", "--task", "march")
    assert dgdmn.load(tmp_path / "m").awake_tasks() == ("march",)
    message = refuse("learn", "m", "year.csv", "--task", "april", code=2)
    assert "names the task of each row" in message


def test_text_columns_are_remembered(tmp_path, monkeypatch, call, refuse):
    pytest.importorskip("tokenizers")
    monkeypatch.chdir(tmp_path)
    bank = ["my card was stolen", "send money to my account", "what is my balance", "pay the bill"]
    sky = ["is it going to rain", "how cold is it outside", "a sunny day", "snow in the mountains"]
    lines = [f"{note},{label}" for label, notes in (("bank", bank), ("sky", sky)) for note in notes]
    (tmp_path / "a.csv").write_text("note,label\n" + "\n".join(lines) + "\n")
    call("learn", "m", "a.csv", "--text", "note", "--features", "none")
    (tmp_path / "b.csv").write_text("note\nlost my bank card\n12\nsnow and rain\n")
    out, _ = call("predict", "m", "b.csv")
    labels = [row["label"] for row in csv.DictReader(io.StringIO(out))]
    assert (labels[0], labels[2]) == ("bank", "sky")
    assert "created with --text note" in refuse("learn", "m", "a.csv", "--text", "label")


def test_photos_are_resized_to_what_the_memory_knows(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    for kind, value in (("a", 20), ("b", 220)):
        for n in range(6):
            path = tmp_path / "photos" / kind / f"{n}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            size = (12, 10) if n else (20, 20)
            pixels = RNG.integers(value, value + 30, (*size[::-1], 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path)
    note = "2 of 12 images are resized to 12 x 10 pixels"
    assert note in call("learn", "m", "photos")[1]
    Image.new("L", (30, 30), 225).save(tmp_path / "new.png")
    (tmp_path / "new").mkdir()
    (tmp_path / "new.png").rename(tmp_path / "new" / "x.png")
    out, err = call("predict", "m", "new")
    assert next(csv.DictReader(io.StringIO(out)))["label"] == "b"
    assert "1 of 1 images are resized to 12 x 10 pixels" in err


def test_dreams_of_a_table_have_its_column_names(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = ["height,soil,old,kind"]
    for n in range(80):
        high = 10 * (n % 2) + rng.normal()
        lines.append(f"{high:.3f},{'wet' if n % 2 else 'dry'},{n % 3 == 0},{'ab'[n % 2]}")
    Path("trees.csv").write_text("\n".join(lines))
    call("learn", "m", "trees.csv", "--label", "kind", "--task", "all")
    call("sleep", "m")
    out, _ = call("dream", "m", "--n", "30", "--out", "d.csv")
    assert "30 dreams of m; without 'soil': the memory keeps codes of text" in out
    header, *rows = (line.split(",") for line in Path("d.csv").read_text().split())
    assert header == ["height", "old", "kind"]
    heights = {kind: [float(row[0]) for row in rows if row[2] == kind] for kind in "ab"}
    assert np.mean(heights["a"]) < 3 < 7 < np.mean(heights["b"])


def test_columns_of_dates_are_mentioned_once(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    for name, header in (("one.csv", "day,a,b,label"), ("two.csv", "day,until,a,b,label")):
        days = [",".join(["2024-03-01"] * (header.count(",") - 2)) for _ in range(8)]
        rows = [f"{day},{n},{-n % 3},{'xy'[n % 2]}" for n, day in enumerate(days)]
        Path(name).write_text("\n".join([header, *rows]) + "\n")
    assert "dates in 'day' are left out" in call("learn", "m", "one.csv")[1]
    for verb in ("learn", "predict", "evaluate"):
        assert "left out" not in call(verb, "m", "one.csv")[1]
    assert "dates in 'until' are left out" in call("predict", "m", "two.csv")[1], "it is new"
