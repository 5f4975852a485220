"""A memory on disk, as a user types it: learn, predict, inspect, sleep, dream and export."""

import csv
import io
import json
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dgdmn
from dgdmn.algorithms.persistence import save
from dgdmn.cli.memory import _split
from dgdmn.streams.readers import Arrays

QUICK = ["--preset", "deep", "--min-steps", "120", "--generator-epochs", "2"]
RANGE = ["--value-range", "-20", "20"]
CENTERS = {"ash": (0, 6), "beech": (6, 0), "cedar": (-6, -6), "elm": (6, 6)}


def trees(*kinds, n=50, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(CENTERS[kind], 1, (n, 2)) for kind in kinds]), np.repeat(
        kinds, n
    )


def write_npz(path, *kinds, **options):
    X, y = trees(*kinds, **options)
    np.savez(path, X=X, y=y)


def write_csv(path, header, rows):
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def files_in(memory):
    return {path.name: path.read_bytes() for path in memory.iterdir() if path.name != ".lock"}


@pytest.fixture
def forest(tmp_path, monkeypatch, call):
    """A memory that learned ash, beech and cedar; cedar is awake."""
    monkeypatch.chdir(tmp_path)
    write_npz("ash.npz", "ash")
    X, y = trees("beech", "cedar", seed=1)
    rows = [(*x, kind, f"{kind}s") for x, kind in zip(X, y, strict=True)]
    write_csv("two.csv", ("a", "b", "label", "task"), rows)
    write_npz("all.npz", "ash", "beech", "cedar", seed=2)
    out, _ = call("learn", "forest", "--task", "ashes", "ash.npz", *QUICK, *RANGE)
    line = r"forest: learned 'ashes' \(50 rows, 1 class\) in [\d.]+ s; short-term memory 1 of 2\n"
    assert re.fullmatch(line, out)
    out, err = call("learn", "forest", "two.csv")
    assert re.findall(
        r"learned '\w+' \(50 rows, 1 class\)|; .*", re.sub(r" in [\d.]+ s", "", out)
    ) == [
        "learned 'beechs' (50 rows, 1 class)",
        "; slept and consolidated ashes, beechs; short-term memory 0 of 2",
        "learned 'cedars' (50 rows, 1 class)",
        "; short-term memory 1 of 2",
    ]
    assert err == ""
    return tmp_path / "forest"


def test_a_memory_from_learning_to_export(forest, call, monkeypatch):
    model, data = dgdmn.load(forest), np.load("all.npz")
    out, err = call("predict", "forest", "all.npz", "--out", "y.csv")
    assert out == ""
    accuracy = float(re.fullmatch(r"accuracy ([\d.]+) \(\d+ of 150 rows\)\n", err)[1])
    assert accuracy == pytest.approx(np.mean(model.predict(data["X"]) == data["y"]), abs=5e-4)
    rows = list(csv.DictReader(io.StringIO(Path("y.csv").read_text())))
    ranked = ["label", "p", "label_2", "p_2", "label_3", "p_3"]
    assert list(rows[0]) == ["row", *ranked, "task", "memory", "unknown"]
    assert [row["label"] for row in rows] == model.predict(data["X"]).tolist()
    assert [row["memory"] for row in rows] == model.recognize(data["X"]).answered_by.tolist()
    assert {row["memory"] for row in rows} == {"cedars", "long-term memory"}
    assert {(row["memory"], row["task"]) for row in rows} == {
        ("cedars", "cedars"),
        ("long-term memory", ""),
    }
    assert {row["unknown"] for row in rows} == {"false"}
    rows = list(
        csv.DictReader(io.StringIO(call("predict", "forest", "all.npz", "--task", "cedars")[0]))
    )
    assert {(row["memory"], row["unknown"]) for row in rows} == {("cedars", "")}

    facts = json.loads(call("inspect", "forest", "--json")[0])
    assert facts["tasks"] == {
        "ashes": {"in": "long-term", "classes": ["ash"], "times": 1, "rows": 50},
        "beechs": {"in": "long-term", "classes": ["beech"], "times": 1, "rows": 50},
        "cedars": {"in": "short-term", "classes": ["cedar"], "times": 1, "rows": 50},
    }
    assert (facts["age"], facts["awake"], facts["n_stm"]) == (100, {"cedars": 50}, 2)
    assert re.match(r"20\d\d-\d\d-\d\dT.*\+00:00", facts["slept"])
    assert facts["bytes"]["memory"] == model.memory_bytes()
    assert facts["bytes"]["disk"] == sum(map(len, files_in(forest).values()))
    assert facts["next"] == {
        "rows": 50,
        "learn": {"samples": 50, "steps": 240},
        "sleep": {"samples": 200, "steps": facts["next"]["sleep"]["steps"]},
    }
    text = call("inspect", "forest", "--samples", "9")[0]
    assert "task beechs: in long-term, times 1, classes beech, rows 50\n" in text
    assert "next: rows 9, learn (samples 9, steps 240), sleep (samples 159, steps" in text

    out, _ = call("sleep", "forest")
    assert re.fullmatch(r"forest: slept [\d.]+ s and consolidated cedars from 50 dreams\n", out)
    assert "nothing to consolidate" in call("sleep", "forest")[0]
    assert call("dream", "forest", "--n", "7", "--out", "d.csv")[0] == "d.csv: 7 dreams of forest\n"
    dreams, labels = dgdmn.load(forest).sample(7, random_state=0)
    lines = list(csv.reader(io.StringIO(Path("d.csv").read_text())))
    assert lines[0] == ["x0", "x1", "label"]
    assert [line[-1] for line in lines[1:]] == labels.tolist()
    assert np.array([line[:2] for line in lines[1:]], float) == pytest.approx(dreams, rel=1e-5)
    call("dream", "forest", "--n", "7", "--out", "d.npz")
    assert np.load("d.npz")["x"] == pytest.approx(dreams)
    monkeypatch.setattr("dgdmn.export.onnx.onnx_bytes", lambda model: b"a model")
    out, err = call("export", "forest", "--onnx", "forest.onnx")
    assert (out, err) == ("forest.onnx: 7 B; X (n, 2) to probabilities of ash, beech, cedar\n", "")


def test_export_names_the_tasks_that_are_awake(forest, call, monkeypatch):
    monkeypatch.setattr("dgdmn.export.onnx.onnx_bytes", lambda model: b"a model")
    _, err = call("export", "forest", "--onnx", "m.onnx")
    advice = "`dgdmn sleep forest` consolidates them"
    assert err == f"dgdmn: m.onnx lacks the tasks still awake: cedars; {advice}\n"
    assert Path("m.onnx").read_bytes() == b"a model"


def test_columns_are_matched_by_name(tmp_path, monkeypatch, call, refuse):
    monkeypatch.chdir(tmp_path)
    X, y = trees("ash", "beech")
    for name, header, rows in (("ab", "ab", X), ("ba", "ba", X[:, ::-1]), ("ac", "ac", X)):
        lines = [(*row, kind) for row, kind in zip(rows.tolist(), y, strict=True)]
        write_csv(f"{name}.csv", (*header, "label"), lines)
    call("learn", "m", "ab.csv", "--algorithm", "nn", "--min-steps", "120")
    assert dgdmn.load("m").feature_names_in_.tolist() == ["a", "b"]
    in_order, swapped = (call("predict", "m", f"{name}.csv") for name in ("ab", "ba"))
    assert in_order == swapped
    assert swapped[1] == "accuracy 1.000 (100 of 100 rows)\n"
    for verb in ("predict", "learn"):
        assert refuse(verb, "m", "ac.csv") == "dgdmn: ac.csv lacks column 'b'; it has a, c"
    call("learn", "m", "ba.csv", "--task", "again")
    assert call("predict", "m", "ab.csv")[1].startswith("accuracy 1.000 ")


def test_a_folder_of_images(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for kind, bright in (("day", 160), ("night", 0)):
        folder = tmp_path / "pictures" / f"a {kind}" / kind
        folder.mkdir(parents=True)
        for n in range(12):
            pixels = bright + rng.integers(0, 60, (9, 7, 3), dtype=np.uint8)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{n}.png")
    out, _ = call("learn", "sky", "pictures", *QUICK)
    assert "consolidated a day, a night" in out
    call("dream", "sky", "--n", "10", "--out", "dreams.png")
    with Image.open("dreams.png") as sheet:
        assert (sheet.size, sheet.mode) == ((4 * 7, 3 * 9), "RGB")
    model = dgdmn.load("sky")
    assert model.predict(np.full((1, 9, 7, 3), 200, np.uint8)).tolist() == ["day"]


def test_a_network_learns_but_neither_sleeps_nor_dreams(tmp_path, monkeypatch, call, refuse):
    monkeypatch.chdir(tmp_path)
    write_npz("ash.npz", "ash", "beech")
    call("learn", "m", "ash.npz", "--algorithm", "icarl", "--min-steps", "20")
    assert "learned 'task 2' (100 rows, 2 classes)" in call("learn", "m", "ash.npz")[0]
    facts = json.loads(call("inspect", "m", "--json")[0])
    assert facts["tasks"] == {
        "task 1": {"in": "network", "times": 1, "rows": 100},
        "task 2": {"in": "network", "times": 1, "rows": 100},
    }
    assert facts["bytes"]["exemplars"] > 0
    assert "sleep" not in facts["next"]
    for words in (("sleep", "m"), ("dream", "m", "--out", "d.csv")):
        assert refuse(*words) == "dgdmn: m uses icarl, which neither sleeps nor dreams"
    refuse("export", "m", "--onnx", "m.onnx")


@pytest.mark.parametrize("preset", ["best", "quick"])
def test_without_task_names_a_task_is_named_by_the_memory(tmp_path, monkeypatch, call, preset):
    monkeypatch.chdir(tmp_path)
    write_npz("ash.npz", "ash")
    words = ["learn", "m", "ash.npz", "--task", "ashes"]
    for algorithm in (["--algorithm", "dgdmn-recog", "--preset", preset], []):
        out = call(*words, *algorithm)[0]
        assert f"learned {'' if algorithm else 'more of '}'task 1' (50 rows" in out
        assert "--task" not in out, "it was given"
    tasks = json.loads(call("inspect", "m", "--json")[0])["tasks"]
    assert [(name, task["times"], task["rows"]) for name, task in tasks.items()] == [
        ("task 1", 2, 100)
    ]


def test_an_algorithm_without_a_value_range(tmp_path, monkeypatch, call, refuse):
    monkeypatch.chdir(tmp_path)
    write_npz("two.npz", "ash", "beech")
    words = ["learn", "m", "two.npz", "--algorithm", "ncm"]
    assert "--value-range has no effect on ncm" in refuse(*words, "--value-range", "0", "1")
    call(*words)
    assert "learned 'task 2'" in call("learn", "m", "two.npz")[0]


def test_inspect_shows_the_options_it_learned_with(tmp_path, call):
    X, y = trees("elm")
    model = dgdmn.DGDMN("deep", n_stm=3, min_steps=5).partial_fit(X, y)
    model.set_params(n_stm=7).save(tmp_path / "m")  # for the next fit
    facts = json.loads(call("inspect", tmp_path / "m", "--json")[0])
    assert (facts["n_stm"], facts["codes"], facts["slept"]) == (3, {"task 1": 50}, None)
    assert facts["next"]["rows"] == 50, "from the samples seen, because Python saves no notes"
    dgdmn.NN(min_steps=5).partial_fit(X, y).save(tmp_path / "nn")
    assert "Row counts are not recorded" in call("inspect", tmp_path / "nn")[0]


def test_inspect_shows_the_latest_of_many_tasks(tmp_path, call):
    model = dgdmn.NN(min_steps=5).partial_fit(*trees("elm"))
    save(
        model, tmp_path / "m", {"tasks": {f"day {n}": [1, 50] for n in range(1000)}, "slept": None}
    )
    lines = call("inspect", tmp_path / "m")[0].splitlines()
    assert len(lines) < 120
    assert lines[-1] == "These are 100 of 1,000 tasks; --json shows all."
    assert any(line.startswith("task day 999:") for line in lines)
    assert len(json.loads(call("inspect", tmp_path / "m", "--json")[0])["tasks"]) == 1000


def test_inspect_beside_a_saver(tmp_path, monkeypatch, call):
    """A saver removes an old file after `inspect` has listed it."""
    dgdmn.NN(min_steps=5).partial_fit(*trees("elm")).save(tmp_path / "m")
    (tmp_path / "m" / "old").write_text("x")
    is_file = Path.is_file

    def remove(path):
        found = is_file(path)
        if path.name == "old":
            path.unlink()
        return found

    monkeypatch.setattr(Path, "is_file", remove)
    assert "algorithm: nn" in call("inspect", tmp_path / "m")[0]


def test_a_task_for_each_row_takes_little_memory():
    n = 5000
    tracemalloc.start()
    rows = Arrays(np.zeros((n, 1)), np.zeros(n), np.arange(n))
    assert len(_split(Namespace(task=None, data="a.npz"), rows)) == n
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


def test_mistakes_are_one_line(forest, refuse):
    before = files_in(forest)
    write_npz("other.npz", "elm")
    np.savez("wide.npz", X=np.zeros((3, 5)), y=[0, 1, 2])
    np.save("bare.npy", np.zeros((3, 2)))
    np.savez("real.npz", X=np.zeros((3, 2)), y=[0.5, 1.5, 2.5])
    Path("full").mkdir()
    Path("full", "thesis.txt").write_text("keep this")
    names = {path.name for path in Path().iterdir()}
    for words, expected in (
        (
            "predict nowhere other.npz",
            "nowhere is not a memory; `dgdmn learn nowhere data.npz` creates",
        ),
        ("sleep nowhere", "is not a memory"),
        ("inspect nowhere", "is not a memory"),
        ("export nowhere --onnx m.onnx", "is not a memory"),
        ("predict forest missing.npz", "missing.npz does not exist"),
        ("predict forest wide.npz", "X has 5 features, but DGDMN is expecting 2 features"),
        ("predict forest other.npz --task cedar", "no task 'cedar' (did you mean cedars?); it has"),
        ("learn forest wide.npz", "X has 5 features"),
        ("learn forest bare.npy", "has no labels"),
        ("learn forest two.csv --task x", "leave --task out"),
        ("learn forest other.npz --task ", "--task is empty"),
        ("predict forest other.npz --task ", "--task is empty"),
        ("learn new/er other.npz --n-classes 1 --threads 2000", "whole number in [1, 1024]"),
        ("learn new/er real.npz", "Unknown label type"),
        (f"dream forest --out d.csv --seed {2**32}", "Seed must be between 0 and 2**32 - 1"),
        (
            "learn forest other.npz --algorithm nn",
            "created with --algorithm dgdmn, not --algorithm nn",
        ),
        (
            "learn forest other.npz --kappa 0.5",
            "forest was created with --kappa 0.0, not --kappa 0.5; leave --kappa out, or create a new",
        ),
        (
            "learn forest other.npz --learner-layers 7 8",
            "--learner-layers 64 64, not --learner-layers 7 8",
        ),
        (
            "learn forest other.npz --preset deep",
            "--generator-epochs 2, not --generator-epochs 25; leave --preset",
        ),
        ("learn forest other.npz --seed 3", "was created with --seed 0, not --seed 3"),
        (
            "learn forest other.npz --value-range 0 1",
            "--value-range -20.0 20.0, not --value-range 0.0 1.0",
        ),
        ("learn new other.npz --recognition dens", "must be one of reconstruction, density"),
        ("learn new other.npz --kappa 2", "kappa (κ) is 2.0; it must be in [0, 1]"),
        ("learn new other.npz --samples-per-task 9", "--samples-per-task is for `dgdmn run`"),
        (
            "learn new other.npz --ewc-coefficient 9",
            "--ewc-coefficient has no effect on dgdmn; leave it out",
        ),
        ("learn new other.npz --algorithm nn --n-stm 3", "--n-stm has no effect on nn"),
        (
            "learn new other.npz --min-steps 3",
            "--min-steps has no effect on dgdmn with the mixture memory; leave it out, or use --preset",
        ),
        ("learn new other.npz --value-range 0 1", "--value-range has no effect on dgdmn with the"),
        ("learn new other.npz --preset deep --image-shape 1 2", "--image-shape has no effect on"),
        (
            "learn new other.npz --image-shape 3 1",
            "image_shape is (3, 1), but an input has 2 values",
        ),
        ("learn new other.npz --memory-budget 1000", "memory_budget is 1,000; 1,000 features need"),
        ("forget forest --labels ash", "DeepGenerativeMemory cannot forget; only the mixture"),
        ("merge forest forest --out both", "DeepGenerativeMemory cannot merge; only the mixture"),
        ("learn new real.npz", "Unknown label type"),
        ("learn new other.npz --algorithm dgdm", "did you mean dgdmn"),
        ("learn new other.npz --preset papr", "did you mean paper"),
        ("learn new other.npz --preset deep --value-range 3 1", "value_range"),
        ("learn full other.npz", "full holds 'thesis.txt' and no memory"),
        (
            "dream forest --out d.png",
            "samples of shape (2,) are not images; use .csv",
        ),
        ("dream forest --out d.pdf", "has an unknown ending; use .png"),
        ("dream forest --out d.csv --n 0", "--n is 0; it must be a whole number of at least 1"),
        ("dream", "required: MEMORY; `dgdmn dream --help`"),
    ):
        line = refuse(*words.split(" "))
        assert expected in line, line
    assert files_in(forest) == before
    assert {path.name for path in Path().iterdir()} == names


@pytest.fixture
def grove(tmp_path, monkeypatch, call):
    """A mixture memory that learned two tasks, slept, and learned a third of few rows."""
    monkeypatch.chdir(tmp_path)
    write_npz("two.npz", "ash", "beech")
    write_npz("cedar.npz", "cedar", seed=1)
    write_npz("few.npz", "elm", n=9)
    write_npz("all.npz", *CENTERS, seed=2)
    call("learn", "grove", "two.npz", "--task", "first")
    assert (
        "consolidated first, second" in call("learn", "grove", "cedar.npz", "--task", "second")[0]
    )
    call("learn", "grove", "few.npz")
    return tmp_path / "grove"


def test_a_mixture_of_a_table(grove, call, refuse, monkeypatch):
    out, err = call("predict", "grove", "all.npz")
    assert float(err.split()[1]) > 0.9
    assert {row["memory"] for row in csv.DictReader(io.StringIO(out))} == {
        "task 1",
        "long-term memory",
    }
    facts = json.loads(call("inspect", "grove", "--json")[0])
    assert sum(facts["parts"].values()) == facts["bytes"]["memory"]
    assert set(facts["chosen"]) == {"shrinkage (λ)", "own covariance (g)", "temperature"}
    assert facts["front end"] == {"features": "relu", "numbers": 1000, "code": 192}
    assert [(one["task"], one["label"], one["rows"]) for one in facts["components"]] == [
        ("first", "ash", 50),
        ("first", "beech", 50),
        ("second", "cedar", 50),
        ("task 1", "elm", 9),
    ]
    assert facts["components with fewer than 20 rows"] == ["elm in task 1"], "privacy: few rows"
    assert facts["tasks"]["task 1"]["rows"] == 9
    assert "n_max" not in facts
    text = call("inspect", "grove")[0]
    assert "component elm of task 1: rows 9, code 192, in short-term\n" in text
    assert "components with fewer than 20 rows: elm in task 1\n" in text
    assert f"temperature {facts['chosen']['temperature']:g}\n" in text, "six digits are enough"

    out, _ = call("learn", "grove", "all.npz")  # each class joins its task
    assert "learned more of 'first', 'second', 'task 1' (200 rows, 4 classes)" in out
    assert "without --task, rows join the task that has their class" in out
    tasks = json.loads(call("inspect", "grove", "--json")[0])["tasks"]
    assert {name: task["rows"] for name, task in tasks.items()} == {
        "first": 200,
        "second": 100,
        "task 1": 59,
    }
    assert "budget is not reached, so nothing is forgotten" in call("plan", "grove")[0]
    out, _ = call("sleep", "grove")
    assert re.fullmatch(r"grove: slept [\d.]+ s and consolidated task 1\n", out)
    assert "are not images; use .csv" in refuse("dream", "grove", "--out", "d.png")
    call("dream", "grove", "--n", "20", "--out", "d.csv")
    dreams = np.array([line.split(",")[:2] for line in Path("d.csv").read_text().split()[1:]])
    assert np.abs(dreams.astype(float)).max() < 15


def test_a_mixture_tells_rows_that_are_like_nothing_learned(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    write_npz("three.npz", "ash", "beech", "cedar", n=300)
    call("learn", "m", "three.npz", "--task", "a")
    write_npz("again.npz", "ash", "beech", "cedar", n=300, seed=1)
    call("learn", "m", "again.npz", "--task", "a")
    np.savez("new.npz", X=np.concatenate([trees("ash", n=20, seed=3)[0], np.full((20, 2), 60.0)]))
    rows = list(csv.DictReader(call("predict", "m", "new.npz")[0].split("\n")))
    marks = [row["unknown"] for row in rows]
    assert marks[:20].count("false") >= 18
    assert marks[20:] == ["true"] * 20
    rows = csv.DictReader(call("predict", "m", "new.npz", "--unknown-rate", "0")[0].split("\n"))
    assert {row["unknown"] for row in rows} == {""}
    out, err = call("predict", "m", "new.npz", "--unknown-rate", "0.3")
    assert "of 40 marked as unknown\n" in err
    assert out.count("true") > 20


def test_predicting_with_a_mixture_imports_no_torch(grove):
    code = (
        "import sys\nfrom dgdmn import cli\n"
        "try: cli.main(['predict', 'grove', 'all.npz', '--out', 'y.csv'])\n"
        "except SystemExit as end: assert end.code == 0, end.code\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True)


def test_forget(grove, call, refuse):
    before = files_in(grove)
    for words, expected in (
        ("", "nothing to forget; give --labels, --tasks or both"),
        (
            "--labels ashes",
            "grove has no label 'ashes' (did you mean ash?); it has ash, beech, cedar",
        ),
        ("--tasks fist", "grove has no task 'fist' (did you mean first?); it has first, second"),
        ("--labels cedar --tasks first", "nothing of these labels was learned in these tasks"),
        ("--labels ash beech cedar elm", "that would forget everything"),
    ):
        assert expected in refuse("forget", "grove", *words.split())
    assert files_in(grove) == before
    out, _ = call("forget", "grove", "--labels", "beech", "--tasks", "first")
    assert out == "grove: forgot what it learned from 50 rows; 3 classes left\n"
    assert dgdmn.load("grove").classes_.tolist() == ["ash", "cedar", "elm"]
    call("forget", "grove", "--tasks", "second", "task 1")
    facts = json.loads(call("inspect", "grove", "--json")[0])
    assert facts["tasks"] == {
        "first": {"in": "long-term", "classes": ["ash"], "times": 1, "rows": 50}
    }


def test_recognition_names_the_tasks_of_a_mixture(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    write_npz("two.npz", "ash", "beech")
    out, _ = call("learn", "m", "two.npz", "--algorithm", "dgdmn-recog", "--task", "ignored")
    assert "learned 'task 1' (100 rows, 2 classes)" in out
    assert list(json.loads(call("inspect", "m", "--json")[0])["tasks"]) == ["task 1"]


def test_forget_labels_that_are_numbers(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("rows.npz", X=rng.normal(size=(60, 70)), y=np.repeat([3, 10, 12], 20))
    call("learn", "m", "rows.npz", "--algorithm", "dgr")
    call("forget", "m", "--labels", "10", "3")
    assert dgdmn.load("m").classes_.tolist() == [12]


def test_merge(tmp_path, monkeypatch, call, refuse):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for n, name in enumerate("abc"):
        X = rng.random((24, 12, 12)) + 2 * n
        np.savez(f"{name}.npz", X=X, y=np.full(24, n))
        call("learn", name, f"{name}.npz", "--task", name)
    before = files_in(tmp_path / "a")
    assert call("merge", "a", "b", "--out", "ab")[0] == "ab: merged a, b; 2 tasks, 2 classes\n"
    assert files_in(tmp_path / "a") == before
    assert dgdmn.load("ab").predict(np.load("b.npz")["X"]).tolist() == [1] * 24
    tasks = json.loads(call("inspect", "ab", "--json")[0])["tasks"]
    assert {name: task["rows"] for name, task in tasks.items()} == {"a": 24, "b": 24}
    assert "3 tasks, 3 classes" in call("merge", "ab", "c", "--out", "ab")[0]
    call("learn", "other", "a.npz", "--code-seed", "3")
    names = {path.name for path in tmp_path.iterdir()}
    for words, expected in (
        ("a b", "--out is missing"),
        ("a b --out c", "c is another memory; name a new directory, or one of the two"),
        ("a nowhere --out d", "nowhere is not a memory"),
        ("a other --out d", "cannot merge: the front end or its code_seed"),
    ):
        assert expected in refuse("merge", *words.split())
    assert {path.name for path in tmp_path.iterdir()} == names


def test_flat_rows_that_are_images(tmp_path, monkeypatch, call, refuse):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).random((40, 12 * 14)) * np.repeat([0.4, 1], 20)[:, None]
    np.savez("flat.npz", X=X, y=np.repeat([0, 1], 20))
    budget = ["--memory-budget", "6000000", "--features", "gabor"]
    call("learn", "m", "flat.npz", "--image-shape", "12", "14", "--n-stm", "1", *budget)
    assert "features gabor, numbers 1,024" in call("inspect", "m")[0]
    call("dream", "m", "--n", "4")
    with Image.open("dreams.png") as sheet:
        assert sheet.size == (2 * 14, 2 * 12)
        assert 20 < np.asarray(sheet).mean() < 200
    assert "created with --image-shape 12 14, not --image-shape 14 12" in refuse(
        "learn", "m", "flat.npz", "--image-shape", "14", "12"
    )


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize(
    ("y", "options", "why"),
    [
        ([0.0, 1.0, 2.5], [], "Unknown label type"),
        ([0, 1, 2], ["--n-classes", "2"], "n_classes is 2"),
        (np.array([0, 1, 2**63 + 1], np.uint64), [], "are not distinct in an array"),
    ],
)
def test_all_tasks_of_a_file_are_checked_before_one_is_learned(
    tmp_path, monkeypatch, call, refuse, y, options, why, is_new
):
    monkeypatch.chdir(tmp_path)
    words = ["--algorithm", "nn", "--min-steps", "5", *options]
    y, X = np.asarray(y), np.random.default_rng(0).uniform(size=(30, 2))
    np.savez("one.npz", X=X, y=np.zeros(30, y.dtype))
    np.savez("three.npz", X=X, y=np.repeat(y, 10), task=np.repeat([1, 2, 3], 10))
    if not is_new:
        call("learn", "m", "one.npz", *words)
    before = None if is_new else files_in(Path("m"))
    assert why in refuse("learn", "m", "three.npz", *words)
    assert (files_in(Path("m")) if Path("m").exists() else None) == before


def test_a_first_save_that_fails_leaves_nothing(tmp_path, monkeypatch, refuse):
    """A disk that is full after the first file."""
    monkeypatch.chdir(tmp_path)
    write_npz("rows.npz", "elm")
    written = []

    def write(path, content):
        written.append(path)
        if len(written) > 1:
            raise OSError(28, "No space left on device", str(path))
        path.write_bytes(content)

    monkeypatch.setattr("dgdmn.storage.directory.write_atomic", write)
    assert "No space left on device" in refuse("learn", "m", "rows.npz", code=1)
    assert not Path("m").exists()


def begin_learning(memory, *words):
    """Start to learn many rows, and wait until the memory is locked."""
    command = [sys.executable, "-m", "dgdmn.cli", "learn", memory, "many.npz", *words]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    for _ in range(600):
        if sys.platform == "linux" and f" {process.pid} " in Path("/proc/locks").read_text():
            return process
        time.sleep(0.05)
    process.kill()
    raise AssertionError("it never began")


linux = pytest.mark.skipif(sys.platform != "linux", reason="sees the lock in /proc")


@linux
def test_a_killed_learn_leaves_the_memory_and_two_writers_never_share_it(
    tmp_path, monkeypatch, call, refuse
):
    monkeypatch.chdir(tmp_path)
    write_npz("ash.npz", "ash")
    write_npz("many.npz", "beech", n=20_000)
    call("learn", "m", "ash.npz", *QUICK, *RANGE)
    before = files_in(tmp_path / "m")
    process = begin_learning("m")
    try:
        line = refuse("learn", "m", "ash.npz", code=1)
        assert line == "dgdmn: m is in use by another process; wait until it ends, or stop it"
        assert process.poll() is None, "the first was still learning"
    finally:
        process.kill()
        process.communicate()
    assert files_in(tmp_path / "m") == before
    assert dgdmn.load("m").awake_tasks() == ("task 1",)


@linux
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_one_line_and_a_new_memory_is_not_there(tmp_path, monkeypatch, number):
    monkeypatch.chdir(tmp_path)
    write_npz("many.npz", "beech", n=20_000)
    process = begin_learning("m", *QUICK, *RANGE)
    time.sleep(0.5)
    process.send_signal(number)
    assert process.communicate(timeout=30)[1] == "dgdmn: interrupted; m is unchanged\n"
    assert process.returncode == 1
    assert not Path("m").exists()
