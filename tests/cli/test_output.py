"""Text that is not trusted: control characters, markup and formulas; and targets that are not files."""

import csv
import io
import json
import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import dgdmn
from dgdmn.algorithms.persistence import save
from dgdmn.cli.output import csv_text
from dgdmn.cli.progress import make_table, print_results
from dgdmn.cli.run import _check_registered
from dgdmn.core.errors import UsageError

ESCAPE = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202e"
RESULTS = Path(__file__).parents[2] / "results"
FORMULA = "=cmd|' /C calc'!A0"


def assert_plain(*texts):
    for text in texts:
        assert text
        assert all(character.isprintable() or character == "\n" for character in text), text


@pytest.fixture
def memory(tmp_path, monkeypatch, call):
    """A memory with hostile labels and task names, and no task awake."""
    monkeypatch.chdir(tmp_path)
    X = np.concatenate([np.random.default_rng(0).normal(n, 1, (20, 2)) for n in (-5, 5)])
    y = np.repeat([f"a{ESCAPE}", FORMULA], 20)
    np.savez("rows.npz", X=X, y=y, task=np.repeat([f"one{ESCAPE}", "=two"], 20))
    quick = ("--min-steps", "20", "--generator-epochs", "2", "--learner-epochs", "2")
    assert_plain(
        call("learn", "m", "rows.npz", "--preset", "deep", *quick, "--value-range", "-9", "9")[0]
    )
    return tmp_path / "m"


def test_no_text_of_a_memory_steers_the_terminal(memory, call, refuse, monkeypatch):
    monkeypatch.setattr("dgdmn.export.onnx.onnx_bytes", lambda model: b"a model")
    assert_plain(*call("predict", "m", "rows.npz"))
    assert_plain(call("export", "m", "--onnx", "m.onnx")[0])
    assert_plain(call("inspect", "m")[0], call("plan", "m")[0])
    text = call("inspect", "m", "--json")[0]
    assert_plain(text, refuse("predict", "m", "rows.npz", "--task", ESCAPE))
    assert f"one{ESCAPE}" in json.loads(text)["tasks"], "json keeps the text, escaped"
    assert_plain(refuse("predict", f"none{ESCAPE}", "rows.npz"), refuse(ESCAPE))


def test_a_table_shows_control_codes_and_markup_as_text(capsys):
    rows = [(f"[red]{ESCAPE}", "[/x]")]
    Console(width=99).print(make_table("[b]title\x1b", ("one", "two"), rows, left=2))
    out = capsys.readouterr().out
    assert_plain(out)
    assert "[red]" in out
    assert "[/x]" in out
    assert "[b]title" in out


def test_csv_has_no_formulas(memory, call):
    call("predict", "m", "rows.npz", "--out", "y.csv")
    call("dream", "m", "--n", "30", "--out", "d.csv")
    rows = list(csv.reader(io.StringIO(Path("y.csv").read_text())))
    assert {row[1] for row in rows[1:]} <= {f"a{ESCAPE}", f"'{FORMULA}"}
    assert f"'{FORMULA}" in {row[1] for row in rows}
    for name in ("y.csv", "d.csv"):
        cells = [cell for row in csv.reader(io.StringIO(Path(name).read_text())) for cell in row]
        starts = {cell for cell in cells if cell.startswith(("=", "@", "\t", "\r"))}
        assert not starts
    cells = ["-7", "+1e5", -7, "-7+1", "+x", "@x", "\tx", "\rx", "x=1", "=1"]
    (row,) = csv.reader(io.StringIO(csv_text(cells, []), newline=""))
    assert row == ["-7", "+1e5", "-7", "'-7+1", "'+x", "'@x", "'\tx", "'\rx", "x=1", "'=1"]


def outputs(folder):
    """Commands that write one file, and the file."""
    return [
        ("predict", "m", "rows.npz", "--out", folder / "y.csv"),
        ("dream", "m", "--n", "3", "--out", folder / "d.npz"),
        ("export", "m", "--onnx", folder / "m.onnx"),
        ("report", "runs", "--no-figures", "--out", folder / "r.html"),
    ]


def test_a_link_is_replaced_and_never_followed(memory, call, monkeypatch):
    monkeypatch.setattr("dgdmn.export.onnx.onnx_bytes", lambda model: b"a model")
    shutil.copytree(next(RESULTS.glob("*/config.json")).parent, "runs/one")
    secret, folder = Path("secret.txt").absolute(), Path("out")
    secret.write_text("keep this")
    folder.mkdir()
    for words in outputs(folder):
        path = words[-1]
        for name in (path.name, f".{path.name}.tmp"):
            path.with_name(name).symlink_to(secret)
        call(*words)
        assert path.is_file()
        assert not path.is_symlink()
        assert secret.read_text() == "keep this"
    assert len(list(folder.iterdir())) == 8, "no temporary file is left"


def test_only_files_are_written_to(memory, refuse):
    Path("runs").mkdir()
    for words in outputs(Path()):
        path = words[-1]
        for make in (os.mkfifo, os.mkdir, lambda path: Path(path).symlink_to("/dev/null")):
            make(path)
            line = refuse(*words)
            assert line == f"dgdmn: {path} is a directory, a pipe or a device; name a file"
            path.rmdir() if path.is_dir() else path.unlink()


def test_numbers_beyond_the_memory_of_the_machine_are_one_line(memory, refuse):
    line = "dgdmn: --n is 1,000,000,000,000; at most 67,108,864 dreams of this shape can be written"
    assert refuse("dream", "m", "--n", 10**12, "--out", "d.csv") == line
    line = "dgdmn: --tasks is 100,000,000,000; at most 1,000 can be planned"
    assert refuse("plan", "m", "--tasks", 10**11) == line


@pytest.mark.parametrize("count", [10**15, 10**400, -1, 1.5, "9", None, [1]])
def test_inspect_is_fast_whatever_the_notes_say(memory, call, count):
    model = dgdmn.load(memory)
    save(model, memory, {"tasks": {"one": [1, count], "two": [count, 1]}, "slept": "\x1b"})
    began = time.monotonic()
    assert_plain(call("inspect", "m")[0])
    assert time.monotonic() - began < 1


def test_inspect_is_fast_whatever_the_options_say(tmp_path, call):
    X = np.random.default_rng(0).normal(size=(20, 2))
    options = {"min_steps": 5, "generator_epochs": 2, "learner_epochs": 2}
    model = dgdmn.DGDMN("deep", n_stm=9_000, **options).partial_fit(X, np.zeros(20, int))
    model.save(tmp_path / "m")
    began = time.monotonic()
    assert "next: unknown 8,999 tasks to plan; at most 1,000" in call("inspect", tmp_path / "m")[0]
    assert time.monotonic() - began < 1


def test_a_recorded_run_does_not_choose_what_code_runs():
    record = SimpleNamespace(name="run", config={"algorithm": "evil:Class", "stream": "digits"})
    with pytest.raises(UsageError, match="repeat its `dgdmn run` command"):
        _check_registered(record)


def test_results_with_odd_numbers_are_printed(capsys):
    config = {"algorithm": "nn", "preset": "best", "seed": 0, "stream": "digits"}
    summaries = [{"done": True}, {"acc": "x", "seconds": None}, {"acc": 0.5, "seconds": 60}]
    print_results([SimpleNamespace(config=config, summary=s, directory="d") for s in summaries])
    assert ".500" in capsys.readouterr().out
