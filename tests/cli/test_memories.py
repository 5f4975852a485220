"""Memories at the command line: learn, sleep, predict, dream, inspect and export, as a user types them."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dgdmn
from dgdmn import cli
from dgdmn.algorithms import algorithm
from dgdmn.algorithms.onnx import onnx_bytes
from dgdmn.cli import VERBS
from dgdmn.errors import DgdmnError
from dgdmn.presets import preset

QUICK = ["--preset", "arrays", "--threads", "1", "--min-steps", "120", "--generator-epochs", "2",
         "--value-range", "-20", "20"]  # fmt: skip
ON_DISK = ("learn", "predict", "inspect", "sleep", "dream", "export", "plan")
CENTRES = {"ash": (0, 6), "beech": (6, 0), "cedar": (-6, -6), "elm": (6, 6)}


def command(*words):
    return [sys.executable, "-m", "dgdmn.cli", *map(str, words)]


def said(*words, cwd, code=0):
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command(*words), cwd=cwd, capture_output=True, text=True, timeout=120, env=variables
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def refused(capsys, *words):
    """The line of complaint and the exit code, in this process: nothing is trained."""
    with pytest.raises(SystemExit) as end:
        cli.main([str(word) for word in words])
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line, end.value.code


def heard(capsys, *words):
    """What a command that ends well writes, in this process."""
    with pytest.raises(SystemExit) as end:
        cli.main([str(word) for word in words])
    assert end.value.code == 0
    return capsys.readouterr()


def trees(*kinds, n=50, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(CENTRES[kind], 1, (n, 2)) for kind in kinds]), np.repeat(kinds, n)


def write_npz(path, *kinds, **options):
    X, y = trees(*kinds, **options)
    np.savez(path, X=X, y=y)


def write_csv(path, *kinds):
    X, y = trees(*kinds, seed=1)
    rows = [("a", "b", "label", "task"), *((*x, kind, f"{kind}s") for x, kind in zip(X, y, strict=True))]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def files_in(memory):
    return {path.name: path.read_bytes() for path in memory.iterdir()}


@pytest.fixture(scope="module")
def forest(tmp_path_factory):
    """A memory that learnt ash, beech and cedar; cedar is awake."""
    home = tmp_path_factory.mktemp("forest")
    write_npz(home / "ash.npz", "ash")
    write_csv(home / "two.csv", "beech", "cedar")
    write_npz(home / "all.npz", "ash", "beech", "cedar", seed=2)
    first = said("learn", "forest", "--task", "ashes", "ash.npz", *QUICK, cwd=home)
    assert re.fullmatch(
        r"forest: learnt 'ashes' \(50 rows, 1 class\) in [\d.]+ s; short-term memory 1 of 2\n", first.stdout
    )
    second = said("learn", "forest", "two.csv", "--threads", "1", cwd=home)
    assert [line.split(" in ")[0] for line in second.stdout.splitlines()] == [
        "forest: learnt 'beechs' (50 rows, 1 class)",
        "forest: learnt 'cedars' (50 rows, 1 class)",
    ]
    assert "slept, and consolidated ashes, beechs; short-term memory 0 of 2" in second.stdout.splitlines()[0]
    assert second.stderr == ""
    return home


def test_predict_says_who_answered(forest):
    done = said("predict", "forest", "all.npz", "--out", "y.csv", "--threads", "1", cwd=forest)
    assert done.stdout == ""
    right = float(re.fullmatch(r"accuracy ([\d.]+) \(\d+ of 150 rows\)\n", done.stderr)[1])
    rows = list(csv.DictReader(io.StringIO((forest / "y.csv").read_text())))
    assert list(rows[0]) == ["row", "label", "p(ash)", "p(beech)", "p(cedar)", "memory", "known"]
    model, X = dgdmn.load(forest / "forest"), np.load(forest / "all.npz")
    assert [row["label"] for row in rows] == model.predict(X["X"]).tolist()
    assert right == pytest.approx(np.mean(model.predict(X["X"]) == X["y"]), abs=1e-4)
    assert [row["memory"] for row in rows] == model.recognise(X["X"]).answered_by.tolist()
    assert {row["memory"] for row in rows} == {"cedars", "long-term memory"}
    assert {row["known"] for row in rows} == {"true"}
    by_task = said("predict", "forest", "all.npz", "--task", "cedars", cwd=forest)
    rows = list(csv.DictReader(io.StringIO(by_task.stdout)))
    assert {(row["memory"], row["known"]) for row in rows} == {("cedars", "")}


def test_columns_are_known_by_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = trees("ash", "beech")
    tables = {"ab.csv": ("a", "b", X), "ba.csv": ("b", "a", X[:, ::-1]), "ac.csv": ("a", "c", X)}
    for name, (first, second, rows) in tables.items():
        with Path(name).open("w", newline="") as file:
            lines = [(*row, kind) for row, kind in zip(rows.tolist(), y, strict=True)]
            csv.writer(file).writerows([(first, second, "label"), *lines])
    heard(capsys, "learn", "m", "ab.csv", "--algorithm", "nn", *QUICK)
    assert dgdmn.load("m").feature_names_in_.tolist() == ["a", "b"]
    as_learnt, turned = (heard(capsys, "predict", "m", name, "--threads", 1) for name in ("ab.csv", "ba.csv"))
    assert as_learnt == turned
    assert turned.err == "accuracy 1.0000 (100 of 100 rows)\n", "and no word on names"
    expected = "dgdmn: ac.csv has columns c where this memory learnt b: rename them"
    for verb in ("predict", "learn"):
        assert refused(capsys, verb, "m", "ac.csv") == (expected, 2)
    heard(capsys, "learn", "m", "ba.csv", "--task", "again", "--threads", 1)
    assert heard(capsys, "predict", "m", "ab.csv", "--threads", 1).err.startswith("accuracy 1.0000")


def test_inspect_tells_tasks_bytes_and_what_comes_next(forest):
    facts = json.loads(said("inspect", "forest", "--json", "--threads", "1", cwd=forest).stdout)
    assert [(task["task"], task["where"], task["times"], task["rows"]) for task in facts["tasks"]] == [
        ("ashes", "long-term memory", 1, 50),
        ("beechs", "long-term memory", 1, 50),
        ("cedars", "short-term memory", 1, 50),
    ]
    assert facts["tasks"][1]["classes"] == ["beech"]
    assert (facts["age"], facts["awake"], facts["n_stm"]) == (100, {"cedars": 50}, 2)
    assert re.match(r"20\d\d-\d\d-\d\dT.*\+00:00", facts["slept"])
    model = dgdmn.load(forest / "forest")
    assert facts["bytes"]["memory"] == model.memory_bytes()
    assert facts["bytes"]["disk"] == sum(map(len, files_in(forest / "forest").values()))
    coming = facts["next"]
    assert (coming["rows"], coming["threads"]) == (50, 1)
    assert coming["task"]["samples"] == 50
    assert coming["sleep"]["samples"] == 200, "100 of age, the task that is awake and the one to come"
    assert coming["task"]["steps"] == 240, "two networks, min_steps each"
    assert 0 < coming["sleep"]["seconds"] < 60


def test_export_names_the_tasks_that_are_awake(forest, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(forest)
    monkeypatch.setattr("dgdmn.algorithms.onnx.onnx_bytes", lambda model: b"a model")
    line, code = refused(capsys, "export", "forest", "--onnx", tmp_path / "m.onnx")
    expected = f"dgdmn: still awake, and not in {tmp_path}/m.onnx: cedars; `dgdmn sleep forest` first"
    assert (line, code) == (expected, 0)
    assert (tmp_path / "m.onnx").read_bytes() == b"a model"


def test_sleep_dream_and_export(forest):
    slept = said("sleep", "forest", "--threads", "1", cwd=forest)
    assert re.fullmatch(r"forest: slept [\d.]+ s, and consolidated cedars from 50 dreams\n", slept.stdout)
    drawn = said("dream", "forest", "--n", "7", "--out", "dreams.csv", cwd=forest)
    assert drawn.stdout == "dreams.csv: 7 dreams of forest\n"
    dreams, labels = dgdmn.load(forest / "forest").sample(7, random_state=0)
    lines = list(csv.reader(io.StringIO((forest / "dreams.csv").read_text())))
    assert lines[0] == ["x0", "x1", "label"]
    assert [line[-1] for line in lines[1:]] == labels.tolist()
    assert np.array([line[:2] for line in lines[1:]], float) == pytest.approx(dreams, rel=1e-5)
    done = said("export", "forest", "--onnx", "forest.onnx", cwd=forest)
    assert done.stderr == ""
    assert "X (n, 2) to the probabilities of ash, beech, cedar" in done.stdout
    X = np.load(forest / "all.npz")["X"].astype(np.float32)
    runs_alike((forest / "forest.onnx").read_bytes(), dgdmn.load(forest / "forest"), X)


def runs_alike(content, model, X):
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for rows in (X, X[:1], X[3:10]):
        (answers,) = session.run(["probabilities"], {"X": rows})
        assert answers == pytest.approx(model.predict_proba(rows), abs=1e-5)
    meta = session.get_modelmeta().custom_metadata_map
    assert json.loads(meta["classes"]) == model.classes_.tolist()


def test_a_folder_of_images(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for kind, bright in (("day", 160), ("night", 0)):
        folder = tmp_path / "pictures" / f"a {kind}" / kind
        folder.mkdir(parents=True)
        for n in range(12):
            pixels = bright + rng.integers(0, 60, (9, 7, 3), dtype=np.uint8)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{n}.png")
    done = said("learn", "sky", "pictures", *QUICK[:-3], "--seed", "3", cwd=tmp_path)
    assert "consolidated a day, a night" in done.stdout
    said("dream", "sky", "--n", "10", "--out", "dreams.png", cwd=tmp_path)
    with Image.open(tmp_path / "dreams.png") as sheet:
        assert (sheet.size, sheet.mode) == ((4 * 9 - 2, 3 * 11 - 2), "RGB")
    model = dgdmn.load(tmp_path / "sky")
    assert model.predict(np.full((1, 9, 7, 3), 200, np.uint8)).tolist() == ["day"]
    line, code = refused(capsys, "learn", tmp_path / "sky", tmp_path / "pictures", "--seed", "4")
    assert (code, "made with --seed 3, not --seed 4" in line) == (2, True)


@pytest.mark.parametrize("name", ["dgdmn", "si"])
def test_a_convolutional_memory_is_exported(name):
    rng = np.random.default_rng(0)
    few = {"generator_epochs": 1, "learner_epochs": 2, "n_classes": 0, "n_stm": 1}
    model = algorithm(name)(replace(preset("paper", "hindi"), **few), random_state=0)
    for label in (7, 3):
        model.partial_fit(rng.random((20, 15, 14)), np.full(20, label), task=str(label))
    runs_alike(onnx_bytes(model), model, rng.random((12, 15, 14)).astype(np.float32))


def test_a_memory_with_a_prior_is_exported_with_it():
    """The default preset: the prior has a say, and a class that is still to come has none."""
    rng = np.random.default_rng(0)
    model = dgdmn.DGDMN(min_steps=60, n_stm=1, random_state=0, threads=1, value_range=(-9.0, 16.0))
    for label in ("a", "b", "c"):
        model.partial_fit(
            rng.normal(ord(label) % 7, 1, (60, 3)), [label] * 60, ["a", "b", "c", "d"], task=label
        )
    X = rng.normal(1, 2, (40, 3)).astype(np.float32)
    prior = model.learnt_.memory.ltm.answering_prior
    assert prior is not None
    runs_alike(onnx_bytes(model), model, X)
    assert model.predict_proba(X)[:, 3].tolist() == [0] * 40


def test_export_names_what_is_missing(monkeypatch):
    model = dgdmn.NN(min_steps=1, random_state=0).fit([[0.0], [1.0]], [0, 1])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DgdmnError, match=r"pip install '\.\[onnx\]'"):
        onnx_bytes(model)


@pytest.mark.skipif(sys.platform != "linux", reason="sees the lock in /proc")
def test_a_killed_learn_leaves_the_memory_and_two_writers_never_share_it(forest, tmp_path):
    write_npz(tmp_path / "ash.npz", "ash")
    write_npz(tmp_path / "many.npz", "beech", n=300_000)
    said("learn", "m", "ash.npz", *QUICK, cwd=tmp_path)
    before = files_in(tmp_path / "m")
    long = subprocess.Popen(command("learn", "m", "many.npz", "--threads", "1"), cwd=tmp_path)
    try:
        wait_for(lambda: re.search(rf"FLOCK .* {long.pid} ", Path("/proc/locks").read_text()))
        second = said("learn", "m", "ash.npz", cwd=tmp_path, code=1)
        assert second.stderr == "dgdmn: m is being written by another process; wait for it, or stop it\n"
        assert long.poll() is None, "the first was still learning"
    finally:
        long.send_signal(signal.SIGKILL)
        long.wait()
    assert files_in(tmp_path / "m") == before
    assert dgdmn.load(tmp_path / "m").awake_tasks() == ("task 1",)


def test_ctrl_c_is_one_line_and_a_new_memory_is_not_there(tmp_path):
    write_npz(tmp_path / "many.npz", "beech", n=300_000)
    process = subprocess.Popen(
        command("learn", "m", "many.npz", *QUICK), cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    wait_for((tmp_path / "m" / ".lock").exists)
    time.sleep(2)  # until it trains
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[1] == "dgdmn: interrupted; m is as it was\n"
    assert process.returncode == 1
    assert not (tmp_path / "m").exists()


def test_a_first_save_that_fails_says_why_and_leaves_nothing(tmp_path, capsys, monkeypatch):
    """A disk that is full after the first file."""
    from dgdmn.storage import directory

    written = []

    def full(path, content):
        written.append(path)
        if len(written) > 1:
            raise OSError(28, "No space left on device", str(path))
        path.write_bytes(content)

    monkeypatch.chdir(tmp_path)
    write_npz("rows.npz", "elm")
    monkeypatch.setattr(directory, "replace", full)
    line, code = refused(capsys, "learn", "m", "rows.npz", *QUICK)
    assert "No space left on device" in line
    assert code == 1
    assert not Path("m").exists()


def test_what_was_set_for_the_next_fit_is_not_what_is_inspected(tmp_path, capsys):
    write_npz(tmp_path / "rows.npz", "elm")
    rows = np.load(tmp_path / "rows.npz")
    model = dgdmn.DGDMN("arrays", n_stm=3, min_steps=5, value_range=(-20, 20)).partial_fit(
        rows["X"], rows["y"]
    )
    model.set_params(n_stm=7).save(tmp_path / "m")
    with pytest.raises(SystemExit):
        cli.main(["inspect", str(tmp_path / "m")])
    assert "1 of 3 task memories awake\n" in capsys.readouterr().out, "and it has no codes"


def test_inspect_says_that_there_are_codes(tmp_path, capsys):
    write_npz(tmp_path / "rows.npz", "elm")
    rows = np.load(tmp_path / "rows.npz")
    dgdmn.DGDMN(min_steps=5).partial_fit(rows["X"], rows["y"]).save(tmp_path / "m")
    with pytest.raises(SystemExit):
        cli.main(["inspect", str(tmp_path / "m")])
    expected = "short-term memory: 1 of 2 task memories awake, with 50 codes of samples until it sleeps\n"
    assert expected in capsys.readouterr().out


def wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it never happened")


def test_mistakes_are_one_line(forest, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memory = forest / "forest"
    before = files_in(memory)
    write_npz("other.npz", "elm")
    np.savez("wide.npz", X=np.zeros((3, 5)), y=[0, 1, 2])
    np.save("bare.npy", np.zeros((3, 2)))
    np.savez("real.npz", X=np.zeros((3, 2)), y=[0.5, 1.5, 2.5])
    np.savez("bytes.npz", X=np.zeros((3, 2)), y=np.array([b"a", b"b", b"b"]))
    Path("full").mkdir()
    Path("full", "thesis.txt").write_text("do not lose this")
    for words, expected in (
        (
            ("predict", "nowhere", "other.npz"),
            "nowhere holds no memory; `dgdmn learn nowhere data.npz` makes",
        ),
        (("sleep", "nowhere"), "holds no memory"),
        (("inspect", "nowhere"), "holds no memory"),
        (("export", "nowhere", "--onnx", "m.onnx"), "holds no memory"),
        (("predict", memory, "missing.npz"), "missing.npz does not exist"),
        (("predict", memory, "wide.npz"), r"samples of shape \(5,\); this memory knows \(2,\)"),
        (
            ("predict", memory, "other.npz", "--task", "cedar"),
            r"knows no task 'cedar' \(did you mean cedars\?",
        ),
        (("learn", memory, "wide.npz"), r"samples of shape \(5,\)"),
        (("learn", memory, "bare.npy"), "has no labels"),
        (("learn", memory, forest / "two.csv", "--task", "x"), "leave --task out"),
        (
            ("learn", memory, "other.npz", "--algorithm", "nn"),
            "was made with --algorithm dgdmn, not --algorithm nn",
        ),
        (
            ("learn", memory, "other.npz", "--kappa", "0.5"),
            r"forest was made with --kappa 0.0, not --kappa 0.5; leave --kappa out, or make a new memory",
        ),
        (
            ("learn", memory, "other.npz", "--learner-layers", "7", "8"),
            r"was made with --learner-layers 64 64, not --learner-layers 7 8",
        ),
        (
            ("learn", memory, "other.npz", "--preset", "arrays"),
            r"was made with --generator-epochs 2, not --generator-epochs 25; leave --preset out",
        ),
        (("learn", memory, "other.npz", "--seed", "3"), "was made with --seed 0, not --seed 3"),
        (
            ("learn", memory, "other.npz", "--value-range", "0", "1"),
            "with --value-range -20.0 20.0, not --value-range 0.0 1.0",
        ),
        (("learn", "new", "other.npz", "--recognition", "dens"), r"'dens'.*\('reconstruction', 'density'\);"),
        (("learn", "new", "real.npz"), "Unknown label type"),
        (("learn", "new", "bytes.npz"), "y has labels of kind bytes"),
        (("learn", "new", "other.npz", "--algorithm", "dgdm"), "did you mean dgdmn"),
        (("learn", "new", "other.npz", "--preset", "papr"), "did you mean paper"),
        (("learn", "new", "other.npz", "--value-range", "3", "1"), "with low below high"),
        (("learn", "full", "other.npz"), "full holds 'thesis.txt' and no memory"),
        (
            ("dream", memory, "--out", "d.png"),
            r"samples of shape \(2,\) are no images; let --out end with .csv",
        ),
        (("dream", memory, "--out", "d.pdf"), "ends with none of .png"),
        (("dream", memory, "--out", "d.csv", "--n", "0"), "n is 0"),
        (("dream", memory), "dgdmn dream --help"),
    ):
        line, code = refused(capsys, *words)
        assert re.search(expected, line), line
        assert code == 2, line
    assert files_in(memory) == before
    assert {path.name for path in Path().iterdir()} == {
        "other.npz",
        "wide.npz",
        "bare.npy",
        "real.npz",
        "bytes.npz",
        "full",
    }
    assert {path.name for path in Path("full").iterdir()} == {"thesis.txt"}


def test_a_network_learns_too_but_neither_sleeps_nor_dreams(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_npz("ash.npz", "ash", "beech")
    for options in (["--algorithm", "icarl", *QUICK], []):
        with pytest.raises(SystemExit) as end:
            cli.main(["learn", "m", "ash.npz", *options])
        assert end.value.code == 0
    assert "learnt 'task 2' (100 rows, 2 classes)" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["inspect", "m", "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert [task["task"] for task in facts["tasks"]] == ["task 1", "task 2"]
    assert facts["bytes"]["exemplars"] > 0
    assert "sleep" not in facts["next"]
    assert refused(capsys, "sleep", "m") == ("dgdmn: m is of icarl, which never sleeps", 2)
    assert refused(capsys, "dream", "m", "--out", "d.csv") == ("dgdmn: m is of icarl, which cannot dream", 2)
    assert "nearest of its rows" in refused(capsys, "export", "m", "--onnx", "m.onnx")[0]


def test_help_imports_nothing_heavy():
    assert set(ON_DISK) <= VERBS.keys()
    script = f"import sys, dgdmn.cli\nfor verb in {ON_DISK}:\n  try: dgdmn.cli.main([verb, '--help'])\n"
    script += "  except SystemExit as end: assert not end.code\n"
    script += "assert not {'torch', 'sklearn', 'scipy', 'numpy', 'onnx', 'PIL'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
