"""`dgdmn predict`, `evaluate` and `rename`: answers of a memory on disk."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import dgdmn
from dgdmn import DGDMN, metrics
from dgdmn.algorithms.persistence import load_with_notes, save
from dgdmn.cli import notes, store
from dgdmn.core.errors import UsageError

CENTERS = {"ash": 0.0, "beech": 8.0, "cedar": 16.0, "=elm": 24.0}
WIDTH = 70  # no random units: faster


def rows_of(*kinds, n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(CENTERS[kind], 1, (n, WIDTH)) for kind in kinds])
    return X, np.repeat(kinds, n)


@pytest.fixture
def trees(tmp_path, monkeypatch, call):
    """A memory of three tasks: two asleep, one awake; 280 rows were learned, so unknown rows are marked."""
    monkeypatch.chdir(tmp_path)
    for task, kinds in {"north": ("ash", "beech"), "south": ("cedar",), "west": ("=elm",)}.items():
        X, y = rows_of(*kinds, n=120)
        np.savez("rows.npz", X=X, y=y)
        call("learn", "trees", "rows.npz", "--task", task)
    X, y = rows_of(*CENTERS, seed=1)
    np.savez("test.npz", X=X, y=y, task=np.where(y == "=elm", "new", "old"))
    return tmp_path / "trees"


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


def files_in(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != ".lock"}


def evaluations(path):
    return load_with_notes(path)[1]["evaluations"]


# predict


def test_the_best_labels_their_probabilities_and_the_task(trees, call):
    model, X = dgdmn.load(trees), np.load("test.npz")["X"]
    rows = read_csv(call("predict", "trees", "test.npz")[0])
    p = np.sort(model.predict_proba(X), axis=1)[:, ::-1]
    found = np.array([[float(row[key]) for key in ("p", "p_2", "p_3")] for row in rows])
    assert found == pytest.approx(p[:, :3], rel=1e-5)
    assert [row["label"].removeprefix("'") for row in rows] == model.predict(X).tolist()
    assert rows[-1]["label"] == "'=elm", "a spreadsheet would run it"
    assert [row["task"] for row in rows] == model.answering_tasks(X).tolist()
    assert {(row["label"], row["task"]) for row in rows} == {
        ("ash", "north"),
        ("beech", "north"),
        ("cedar", "south"),
        ("'=elm", "west"),
    }
    assert {row["memory"] for row in rows} == {"long-term memory", "west"}
    for top, columns in ((1, ["label", "p"]), (9, 8)):
        (row, *_) = read_csv(call("predict", "trees", "test.npz", "--top", top)[0])
        assert list(row)[1:-3] == columns or len(row) - 4 == columns
    (row, *_) = read_csv(call("predict", "trees", "test.npz", "--task", "west")[0])
    assert (row["task"], row["memory"], row["label"]) == ("west", "west", "'=elm")
    rows = read_csv(call("predict", "trees", "test.npz", "--task", "north")[0])
    assert {row["task"] for row in rows} == {"north"}, "the task that was asked for"


def test_images_are_named_by_their_files(trees, call, monkeypatch):
    read, files = store.read_rows, tuple(f"+{n}.png" for n in range(160))
    monkeypatch.setattr(
        store, "read_rows", lambda *args, **more: read(*args, **more)._replace(files=files)
    )
    rows = read_csv(call("predict", "trees", "test.npz")[0])
    assert [row["row"] for row in rows[:2]] == ["'+0.png", "'+1.png"]


def test_mistakes_of_predict_are_one_line(trees, call, refuse):
    for rate in ("1", "-0.1", "x"):
        line = refuse("predict", "trees", "test.npz", "--unknown-rate", rate)
        assert f"is {rate}; it must be a number in [0, 1)" in line
    assert "--top" in refuse("predict", "trees", "test.npz", "--top", "0")
    call("learn", "means", "test.npz", "--algorithm", "ncm")
    assert "mixture memory" in refuse("predict", "means", "test.npz", "--unknown-rate", "0.1")
    rows = read_csv(call("predict", "means", "test.npz")[0])
    assert {(row["task"], row["memory"], row["unknown"]) for row in rows} == {("", "network", "")}


def test_a_young_memory_says_why_nothing_is_marked(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    X, y = rows_of("ash", "beech")
    np.savez("rows.npz", X=X, y=y)
    call("learn", "m", "rows.npz")
    out, err = call("predict", "m", "rows.npz")
    why = f"no input can be marked as unknown yet; learn {200 - len(y)} more rows\n"
    assert err.endswith(why)
    assert {row["unknown"] for row in read_csv(out)} == {""}
    out, err = call("evaluate", "m", "rows.npz", "--json")
    assert (json.loads(out)["unknown"], err) == (None, f"dgdmn: {why}")
    assert evaluations("m")[0]["unknown"] is None
    call("report", "m", "--data", "rows.npz", "--out", "m.html")
    assert f"No input {why.strip()[9:]}." in Path("m.html").read_text()


def test_the_rows_that_a_young_memory_asks_for_are_enough():
    rng = np.random.default_rng(0)
    model = DGDMN(n_stm=5).partial_fit(rng.normal(size=(60, 3)), ["a"] * 60)
    with pytest.raises(UsageError, match="learn 140 more rows and a second class"):
        model.unknown(np.zeros((1, 3)))
    model.partial_fit(rng.normal(9, 1, (139, 3)), ["b"] * 139)
    with pytest.raises(UsageError, match=r"learn 8 more rows$"):
        model.unknown(np.zeros((1, 3)))
    model.partial_fit(rng.normal(9, 1, (8, 3)), ["b"] * 8)
    with pytest.raises(UsageError, match="4 of 50 rows are tested, learn more in one call"):
        model.unknown(np.zeros((1, 3)))
    model.partial_fit(rng.normal(9, 1, (200, 3)), ["b"] * 200)
    assert model.unknown([[-900.0, 900, 0]]).all()


# evaluate


def test_evaluate_measures_and_remembers(trees, call):
    before = dgdmn.load(trees)
    facts = json.loads(call("evaluate", "trees", "test.npz", "--json")[0])
    data, model = np.load("test.npz"), dgdmn.load(trees)
    assert np.array_equal(model.predict_proba(data["X"]), before.predict_proba(data["X"]))
    right = model.predict(data["X"]) == data["y"]
    assert facts["accuracy"] == right.mean()
    assert facts["by_class"] == {label: [40, 40] for label in sorted(CENTERS)}
    assert facts["by_task"] == {"new": [40, 40], "old": [120, 120]}
    assert (facts["data"], facts["rows"], facts["change"]) == ("test.npz", 160, None)
    assert facts["unknown"] == model.unknown(data["X"]).mean()
    columns = np.searchsorted(model.classes_, data["y"])
    ece = metrics.expected_calibration_error(model.predict_proba(data["X"]), columns)
    assert facts["ece"] == ece
    kept = {key: value for key, value in facts.items() if key not in ("memory", "change")}
    assert evaluations(trees) == [kept]

    X, y = rows_of("ash", "beech", seed=2)
    np.savez("test.npz", X=X, y=np.where(np.arange(80) < 20, "oak", y))
    out = call("evaluate", "trees", "test.npz")[0].splitlines()
    assert out[0] == "trees: accuracy .750 (60 of 80 rows of test.npz)"
    assert out[1].startswith("macro accuracy .667; calibration error .")
    assert out[2].startswith("change since 20")
    assert out[2].endswith("accuracy −.250, macro −.333")
    assert out[3:] == [
        "by class, the worst first:",
        "class oak: .000 (0 of 20 rows)",
        "class ash: 1.000 (20 of 20 rows)",
        "class beech: 1.000 (40 of 40 rows)",
        "never learned: oak",
    ]
    assert [one["accuracy"] for one in evaluations(trees)] == [1.0, 0.75]
    call("sleep", "trees")
    call("rename", "trees", "--label", "ash", "oak")
    assert len(evaluations(trees)) == 2, "other commands keep the history"
    assert "never learned: ash\n" in call("evaluate", "trees", "test.npz")[0]


def test_mistakes_of_evaluate_leave_the_memory(trees, refuse):
    before = files_in(trees)
    X, _ = rows_of("ash", n=4)
    np.savez("plain.npz", X=X)
    np.savez("numbers.npz", X=X, y=np.arange(4))
    assert "has no labels" in refuse("evaluate", "trees", "plain.npz")
    assert "labels like 0, but trees like" in refuse("evaluate", "trees", "numbers.npz")
    assert "is not a memory" in refuse("evaluate", "shrubs", "numbers.npz")
    assert "does not exist" in refuse("evaluate", "trees", "none.npz")
    assert files_in(trees) == before


ENTRY = {
    "time": "2026-11-18T04:00:00+00:00",
    "data": "test.npz",
    "rows": 3,
    "accuracy": 0.5,
    "macro": 0.5,
    "by_class": {"ash": [1, 3]},
    "by_task": {},
    "ece": 0.25,
    "unknown": None,
}


@pytest.mark.parametrize(
    "forged",
    [
        7,
        [7],
        [{}],
        [{**ENTRY, "accuracy": 2.0}],
        [{**ENTRY, "accuracy": 1}],
        [{**ENTRY, "rows": 0}],
        [{**ENTRY, "time": None}],
        [{**ENTRY, "by_class": {"ash": [4, 3]}}],
        [{**ENTRY, "by_class": {"ash": 4}}],
        [{**ENTRY, "by_task": []}],
        [{**ENTRY, "unknown": "x"}],
        [{**ENTRY, "ece": -0.5}],
    ],
)
def test_a_forged_history_is_left_out(forged):
    saved = {"tasks": {"north": [1, 2]}, "slept": None, "label": "state", "ignore": ["id"]}
    found = notes.read_notes({**saved, "evaluations": forged})
    assert found == {**found, **saved, "evaluations": []}
    assert notes.read_notes({**saved, "evaluations": [ENTRY]})["evaluations"] == [ENTRY]
    assert notes.read_notes({"evaluations": [ENTRY], "tasks": 3})["evaluations"] == [ENTRY]


def test_text_of_a_history_does_not_steer_the_terminal(trees, call):
    model = dgdmn.load(trees)
    entry = {**ENTRY, "time": "\x1b[31m"}
    save(model, trees, {"tasks": {}, "slept": None, "evaluations": [entry]})
    assert "change since \ufffd[31m: accuracy" in call("evaluate", "trees", "test.npz")[0]


def test_a_history_has_a_bound(monkeypatch):
    monkeypatch.setattr(notes, "MAX_EVALUATIONS", 20)
    found = {"evaluations": []}
    for n in range(notes.MAX_EVALUATIONS + 5):
        notes.add_evaluation(found, {**ENTRY, "rows": n})
    assert len(found["evaluations"]) == notes.MAX_EVALUATIONS
    assert found["evaluations"][-1]["rows"] == n
    many = {"by_class": {str(n): [0, 1] for n in range(40_000)}}
    for _ in range(3):
        notes.add_evaluation(found, ENTRY | many)
    assert len(found["evaluations"]) == 1
    notes.add_evaluation(found, ENTRY | {"by_class": {str(n): [0, 1] for n in range(90_000)}})
    assert found["evaluations"][-1]["by_class"] == {}


# rename


def test_rename(trees, call, refuse):
    before, model = files_in(trees), dgdmn.load(trees)
    for words, expected in (
        ("", "nothing to rename; give --label OLD NEW, --task OLD NEW or both"),
        ("--label ahs oak", "trees has no label 'ahs' (did you mean ash?)"),
        ("--label ash beech", "label 'beech' exists already; choose another name for it"),
        ("--task north south", "task 'south' exists already; choose another name for it"),
        ("--task north west", "task 'west' exists already; choose another name for it"),
        ("--task nort x", "trees has no task 'nort' (did you mean north?)"),
        ("--label ash", "expected 2 arguments"),
    ):
        assert expected in refuse("rename", "trees", *words.split())
    assert files_in(trees) == before
    words = "--label ash oak --label beech ash --task west east --task north top"
    out, _ = call("rename", "trees", *words.split())
    assert out == "trees: renamed ash to oak, beech to ash, west to east, north to top\n"
    new, X = dgdmn.load(trees), np.load("test.npz")["X"]
    names = {"ash": "oak", "beech": "ash"}
    expected = [names.get(label, label) for label in model.predict(X).tolist()]
    assert new.predict(X).tolist() == expected
    assert new.awake_tasks() == ("east",)
    assert sorted(new.consolidated_tasks()) == ["south", "top"]
    assert set(new.answering_tasks(X)) == {"top", "south", "east"}
    tasks = json.loads(call("inspect", "trees", "--json")[0])["tasks"]
    assert {name: task["rows"] for name, task in tasks.items()} == {
        "south": 120,
        "top": 240,
        "east": 120,
    }


def test_rename_numbers_and_tasks_of_a_network(tmp_path, monkeypatch, call, refuse):
    monkeypatch.chdir(tmp_path)
    np.savez("rows.npz", X=rows_of("ash", "beech")[0], y=np.repeat([-1, 1], 40))
    call("learn", "m", "rows.npz", "--algorithm", "slda", "--task", "a")
    assert "'x' is not a number, but the labels of m are" in refuse(
        "rename", "m", "--label", "1", "x"
    )
    call("rename", "m", "--label", "-1", "-1e3", "--task", "a", "b")
    assert dgdmn.load("m").classes_.tolist() == [-1000.0, 1.0]
    assert list(load_with_notes("m")[1]["tasks"]) == ["b"]
    assert Path("m").is_dir()


def test_negative_numbers_with_exponents_are_values(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    np.savez("rows.npz", X=rows_of("ash", "beech")[0], y=np.repeat([0, 1], 40))
    words = "--algorithm nn --preset quick --value-range -1e3 1e3 --min-steps 1"
    call("learn", "m", "rows.npz", *words.split())
    assert dgdmn.load("m").value_range == (-1000.0, 1000.0)
