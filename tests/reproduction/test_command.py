"""`python -m reproduction`: a small target through the real command, killed once; and mistakes."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from dgdmn.core.errors import UsageError
from dgdmn.records import RunRecord
from reproduction.__main__ import main

PROGRAM = """
import sys
from reproduction import targets

RUNS = "embedded {dgdmn,nn} quick samples_per_task=20 min_steps=30 generator_epochs=3"
targets.TARGETS |= {
    "tiny": targets.Target("tiny", "two small runs", targets.parse_runs(RUNS), figures="average"),
    "broken": targets.Target("broken", "wrong usage", targets.parse_runs("embedded nn quick revise=1x99")),
    "sheet": targets.Target(
        "sheet", "dreams", targets.parse_runs(RUNS)[:1], figures="dreams", artifacts=("dreams",)
    ),
}

if __name__ == "__main__":
    from reproduction.__main__ import main
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def start(root, tmp_path):
    """Start the command with small targets in a process of its own."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def popen(*words):
        return subprocess.Popen(
            [sys.executable, program, *words],
            cwd=tmp_path,
            text=True,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)},
        )

    return popen


def finish(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.slow
def test_a_target_is_run_killed_continued_collected_and_drawn(start, tmp_path):
    name = "embedded-dgdmn-quick-generator_epochs-3-min_steps-30-samples_per_task-20-seed0"
    run = tmp_path / "runs" / name
    first, since = start("tiny", "--jobs", "2", "--seeds", "1"), time.monotonic()
    while not (run / "accuracy.csv").exists():
        assert first.poll() is None, first.communicate()
        assert time.monotonic() - since < 100
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert not (run / "summary.json").exists()

    code, out, err = finish(start("tiny", "broken", "sheet", "--seeds", "1"))
    assert code == 2, err
    assert "99" in err.splitlines()[-1], "the failure comes last"
    record = RunRecord.read(run)
    assert record.complete
    assert any(event["kind"] == "resumed" for event in record.events)
    collected = tmp_path / "results" / name
    assert (RunRecord.read(collected).accuracy == record.accuracy).all()
    assert "2 runs collected" in out
    assert not list((tmp_path / "results").rglob("*.npz"))
    drawn = {path.name for path in (tmp_path / "results/figures").iterdir()}
    assert drawn == {"tiny.svg", "sheet-in-sequence.svg"}
    assert name in (tmp_path / "results/runs.md").read_text()

    before = (run / "summary.json").stat().st_mtime_ns
    code, out, err = finish(start("tiny", "sheet", "--seeds", "1"))
    assert (code, "0 pages changed" in out) == (0, True), err
    assert (run / "summary.json").stat().st_mtime_ns == before, "nothing was computed again"
    code, out, err = finish(start("--list", "tiny", "sheet", "--seeds", "1", "--out", "elsewhere"))
    counts = {line.split()[0]: line.split()[1:4] for line in out.splitlines()}
    assert counts["tiny"] == ["2", "2", "0"], "collected results count as done"
    assert counts["sheet"] == ["1", "0", "1"], "but images need the run directory"


def test_what_cannot_be_read_is_reported_and_the_rest_is_done(root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good, damaged, wrong, old = (
        f"digits-{name}-paper-seed0" for name in ("nn", "ewc", "ppr", "dgr")
    )
    for place, name in (("runs", good), ("runs", damaged), ("runs", wrong), ("results", old)):
        shutil.copytree(root / "results" / name, tmp_path / place / name)
    (tmp_path / "runs" / damaged / "config.json").write_text("{")
    matrix = tmp_path / "runs" / wrong / "accuracy.csv"
    matrix.write_text(matrix.read_text().replace(",1.0", ",1.2"))
    (tmp_path / "results" / old / "summary.json").write_text('{"done": tr')
    assert main(["table-acc", "--draw-only"]) == 1
    out, err = capsys.readouterr()
    assert "1 run collected" in out
    assert [name in err for name in (damaged, wrong, old, good)] == [True, True, True, False]
    assert good in (tmp_path / "results/runs.md").read_text()
    drawn = {path.stem for path in (tmp_path / "results/figures").iterdir()}
    assert {"figure-forgetting", "figure-digits"} <= drawn, "every figure that shows a new run"
    assert "figure-permnist" not in drawn


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["figure-digit"], r"no target 'figure-digit' \(did you mean figure-digits\?\)"),
        ([], "no target given"),
        (["table-acc", "--sedes", "3"], r"unknown argument --sedes \(did you mean --seeds\?\)"),
        (["table-acc", "--seeds", "-1"], "--seeds is -1; it must be a whole number of at least 0"),
    ],
)
def test_mistakes_are_one_line(words, complaint):
    with pytest.raises(UsageError, match=complaint) as error:
        main(words)
    assert "\n" not in str(error.value)
