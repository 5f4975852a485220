"""`dgdmn run`, `resume`, `compare` and `plan` on files and folders of the user's own."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgdmn.records import RunRecord
from dgdmn.report.load import load_runs
from dgdmn.report.sections.configuration import run_command

N = 90
ARGUMENTS = ("--label", "state", "--task", "month")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A directory with my.csv: two numbers, one of them with a gap, a category and a state in three months."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = ["month,heat,load,machine,state"]
    for row in range(N):
        state, shift = (("ok", 0), ("worn", 6), ("broken", -6))[row % 3]
        a, b = rng.normal(shift, 1, size=2)
        cell = "" if row == 7 else f"{a:.3f}"
        lines.append(f"{row * 3 // N + 1},{cell},{b:.3f},m{row % 2},{state}")
    return _write("my.csv", lines)


def _write(name, lines):
    Path(name).write_text("\n".join(lines) + "\n")
    return Path(name)


@pytest.fixture
def bare(monkeypatch, in_process):
    """Runs in this process without artifacts and report."""
    monkeypatch.setattr("dgdmn.cli.run.write_report", lambda *_: None)
    for name in ("write_dreams", "write_final"):
        monkeypatch.setattr(f"dgdmn.runs.artifacts.Artifacts.{name}", lambda *_: None)


def test_a_file_is_run_like_a_stream(table, spawn, call, monkeypatch):
    """The real command line: a run directory, a report, and nothing to do the second time."""
    done = spawn("run", table, *ARGUMENTS, "--algorithm", "slda")
    assert "report: runs/report.html" in done.stdout
    assert re.search(r"│ slda +│ best +│ +(1\.000|\.\d{3}) │", done.stdout)
    page = Path("runs/report.html").read_text()
    assert "my.csv" in page
    assert str(table.absolute().parent) not in page, "a page does not say where a file is"
    (run,), problems = load_runs([Path("runs")])
    assert not problems
    assert run.acc > 0.9
    command = run_command(run)
    assert command.startswith("dgdmn run my.csv --algorithm slda --preset best --seed 0 --label")
    monkeypatch.setattr("dgdmn.cli.run.write_report", lambda *_: None)
    assert call(*command.split()[1:])[1] == "", "nothing is learned again"


@pytest.mark.slow
def test_a_killed_command_is_resumed(table, call, spawn):
    words = ("run", table, *ARGUMENTS, "--algorithm", "nn:paper", "--min-steps", "1500")
    command = [sys.executable, "-m", "dgdmn.cli", *map(str, words)]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        deadline = time.monotonic() + 60
        while not list(Path("runs").glob("*/accuracy.csv")) and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        os.kill(process.pid, signal.SIGINT)
        process.wait()
    (place,) = Path("runs").iterdir()
    assert not RunRecord.read(place).complete
    table.rename("moved.csv")
    assert "my.csv does not exist; put it back" in spawn("resume", place, code=1).stderr
    Path("moved.csv").rename(table)
    content = table.read_text()
    table.write_text(content.replace("ok", "fine"))
    assert "my.csv has changed since this run began" in spawn("resume", place, code=1).stderr
    table.write_text(content)
    assert "ACC" in spawn("resume", place).stdout
    assert RunRecord.read(place).complete


def test_resume_refuses_changed_data(table, call, refuse, bare):
    call("run", table, *ARGUMENTS, "--algorithm", "ncm")
    (place,) = Path("runs").glob("my.csv-*")
    (place / "summary.json").unlink()
    content = table.read_text()
    table.write_text(content.replace("ok", "fine"))
    line = refuse("resume", place, code=1)
    assert "failed: my.csv has changed since this run began; restore it" in line
    line = refuse("run", table, *ARGUMENTS, "--algorithm", "ncm")
    assert "holds a run on different rows of my.csv; remove it or choose another --out" in line
    table.write_text(content)
    assert str(place) in call("resume", place)[0]


def test_rows_without_tasks_are_cut_or_one_task_per_class(table, call, bare):
    call(
        "run", table, "--label", "state", "--order-by", "month", "--tasks", 2, "--algorithm", "ncm"
    )
    call("run", table, "--label", "state", "--ignore", "month", "machine", "--algorithm", "ncm")
    cut, classes = sorted(Path("runs").glob("my.csv-*"), key=lambda path: "order" not in path.name)
    assert RunRecord.read(cut).task_names == ("part 1", "part 2")
    assert sorted(RunRecord.read(classes).task_names) == ["broken", "ok", "worn"]
    assert RunRecord.read(classes).config["shape"] == [2]


@pytest.mark.parametrize("has_month", [True, False])
def test_the_next_month_tests_every_month(table, call, refuse, bare, has_month):
    header, *rows = (line.partition(",") for line in table.read_text().splitlines())
    lines = ["4," * has_month + rest for _, _, rest in rows[:30]]
    _write("next.csv", ["month," * has_month + header[2], *lines, "4," * has_month + "1,1,m0,new"])
    call("run", table, *ARGUMENTS, "--algorithm", "ncm")
    call("run", table, *ARGUMENTS, "--algorithm", "ncm", "--test", "next.csv")
    name = "my.csv-ncm-best-label-state-task-month{}-seed0"
    record = RunRecord.read(Path("runs", name.format("-test-next.csv")))
    assert RunRecord.read(Path("runs", name.format(""))).complete, "it has a name of its own"
    assert (record.accuracy == record.accuracy[:, :1]).all()
    assert 0.9 < record.summary["acc"] < 1, "a label that was never learned counts as wrong"
    assert "all tasks have the same test rows" in record.config["note"]
    _write("next.csv", ["month," + header[2], *("".join(row) for row in rows[:31])])
    line = refuse("run", table, *ARGUMENTS, "--algorithm", "ncm", "--test", "next.csv")
    assert "tasks '3' are in only one of data and test: give both all tasks, or give test" in line


@pytest.mark.parametrize("kind", ["tsv", "gz", "parquet", "npz", "folder"])
def test_other_kinds_of_data(table, call, bare, kind):
    rows = [line.split(",") for line in table.read_text().splitlines()]
    path, words = Path(f"my.{kind}"), list(ARGUMENTS)
    if kind == "tsv":
        _write(path, ["\t".join(row) for row in rows])
    elif kind == "gz":
        import gzip

        path = Path("my.csv.gz")
        path.write_bytes(gzip.compress(table.read_bytes()))
    elif kind == "parquet":
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        pandas.read_csv(table).to_parquet(path)
    elif kind == "npz":
        x = np.array([[row[2]] for row in rows[1:]], float)
        month, state = (np.array([row[at] for row in rows[1:]]) for at in (0, 4))
        np.savez(path, X=x, state=state, month=month)
    else:
        words = []
        for number, row in enumerate(rows[1:25]):
            place = path / row[4]
            place.mkdir(parents=True, exist_ok=True)
            shade = {"ok": 20, "worn": 120, "broken": 220}[row[4]]
            image = np.random.default_rng(number).integers(shade, shade + 30, (12, 12))
            Image.fromarray(image.astype(np.uint8)).save(place / f"{number}.png")
    call("run", path, *words, "--algorithm", "slda")
    (place,) = Path("runs").glob("my*")
    record = RunRecord.read(place)
    assert record.summary["acc"] > 0.6
    assert len(record.task_names) == 3


def test_compare_takes_a_file(table, call, bare):
    words = (
        table,
        "wine",
        *ARGUMENTS,
        "--algorithms",
        "ncm",
        "logistic+features=none",
        "--seeds",
        1,
    )
    out, _ = call("compare", *words, "--jobs", 1)
    assert re.search(r"my\.csv\s", out)
    text = Path("runs/compare.csv").read_text()
    assert [line.split(",")[0] for line in text.splitlines()[1:]] == ["my.csv"] * 2 + ["wine"] * 2


def test_plan_takes_a_file(table, call):
    out, _ = call("plan", table, *ARGUMENTS)
    assert "my.csv, dgdmn: budget" in out
    assert "learn 3" in out


IN_FILE = (
    "my.csv has 'm0' in row 2, column 'machine': order rows by numbers",
    "ragged.csv has 2 values in row 3",
    "twice.csv has two label columns, 'state' and 'label'",
    "gap.csv has no task in row 3, column 'month'",
    "empty holds no images",
    "broken/one/0.png cannot be read as an image",
)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("my.cvs", "no stream or file 'my.cvs' (did you mean my.csv?); the streams are digits"),
        ("embeded", "no stream or file 'embeded' (did you mean embedded?)"),
        ("nowhere/my.csv", "no stream or file 'nowhere/my.csv'"),
        ("embedded --label state", "--label is for files of your own; embedded has its tasks"),
        ("my.csv --label stat", "has no column 'stat': it has"),
        ("my.csv", "my.csv has no labels: name their column (label, --label); it has "),
        ("my.csv --label state --ignore heet", "has no column 'heet'"),
        ("my.csv --label state --order-by month", "is ordered but has no tasks: give their number"),
        ("my.csv --label state --task month --tasks 2", "has tasks already: leave one out"),
        ("my.csv --label state --order-by machine --tasks 2", IN_FILE[0]),
        ("my.csv --label state --order-by state --tasks 2", "'state' is label and order_by: give"),
        ("my.csv --label state --tasks 91", "tasks is 91: my.csv has 90 rows, give 1 to 90"),
        ("my.csv --label state --test none.csv", "none.csv does not exist"),
        ("ragged.csv --label state", IN_FILE[1]),
        ("twice.csv --label state", IN_FILE[2]),
        ("gap.csv --label state --task month", IN_FILE[3]),
        ("odd.txt --label state", "has an unknown type"),
        ("empty --label state", IN_FILE[4]),
        ("broken", IN_FILE[5]),
    ],
)
@pytest.mark.parametrize("verb", ["run", "compare"])
def test_bad_input_is_one_sentence_and_nothing_is_learned(table, refuse, verb, words, message):
    _write("ragged.csv", ["a,b,state", "1,2,x", "1,2"])
    _write("twice.csv", ["a,label,state", "1,x,x", "2,y,y"])
    _write("gap.csv", ["a,month,state", "1,1,x", "2,,y", "3,2,y"])
    _write("odd.txt", ["a"])
    Path("empty").mkdir()
    for name in ("one", "two"):
        Path("broken", name).mkdir(parents=True)
        Path("broken", name, "0.png").write_text("no image")
    methods = (
        ("--algorithms", "ncm", "slda") if verb == "compare" else ("--algorithm", "ncm", "slda")
    )
    line = refuse(verb, *words.split(), *methods, code=1 if message in IN_FILE else 2)
    assert message in line
    assert not Path("runs").exists()
