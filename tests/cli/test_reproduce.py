"""`dgdmn reproduce`: a small target through the real command, killed once; and the page that is committed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dgdmn.cli import left, reproduce
from dgdmn.cli.reproduce import main, page_of, readme_of
from dgdmn.errors import UsageError
from dgdmn.experiments.catalogue import TARGETS
from dgdmn.records import RunRecord
from dgdmn.report.reproducibility.readme import BEGIN, END

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from dgdmn.experiments import catalogue
from dgdmn.experiments.spec import RunSpec
from dgdmn.presets import overridden, preset

FEW = {"samples_per_task": 20, "min_steps": 30, "generator_epochs": 3}

def small(name, **options):
    return RunSpec("embedded", name, "quick", overridden(preset("quick", "embedded"), FEW), **options)

catalogue.TARGETS.clear()
for target in (
    catalogue.Target("ablation-tiny", "two small runs", (small("dgdmn"), small("nn"))),
    catalogue.Target("broken", "one that cannot be", (small("nn", revise=(99,)),)),
    catalogue.Target("figure-dreams", "what it dreams", (small("dgdmn"),), artefacts=("dreams",)),
):
    catalogue.TARGETS[target.name] = target

if __name__ == "__main__":
    from dgdmn import cli
    cli.VERBS["reproduce"] = ""
    cli.main(["reproduce", *sys.argv[1:]])
"""


@pytest.fixture
def command(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def start(*words):
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
        return subprocess.Popen(
            [sys.executable, program, *words], cwd=tmp_path, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables,
        )  # fmt: skip

    return start


def ended(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def wait_for(what, process):
    since = time.monotonic()
    while not what():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - since < 100
        time.sleep(0.02)


def test_a_target_is_run_killed_run_again_collected_and_drawn(command, tmp_path):
    """Also: a failure does not stop the others, what is done is not done again, and --list counts it."""
    name = "embedded-dgdmn-quick-generator_epochs-3-min_steps-30-samples_per_task-20-seed0"
    run = tmp_path / "runs" / name
    first = command("ablation-tiny", "--jobs", "2")
    wait_for(lambda: (run / "accuracy.csv").exists(), first)
    os.killpg(first.pid, signal.SIGKILL)
    ended(first)
    assert not (run / "summary.json").exists()

    code, out, err = ended(command("ablation-tiny", "broken", "figure-dreams"))
    assert code == 2, err
    assert "revise names task 99" in err.splitlines()[-1], "the failure comes last"
    record = RunRecord.read(run)
    assert record.complete
    kept = tmp_path / "results" / name
    assert (RunRecord.read(kept).accuracy == record.accuracy).all()
    assert not list((tmp_path / "results").rglob("*.npz"))
    assert (tmp_path / "results/figures/ablation-tiny.svg").exists()
    assert (tmp_path / "results/figures/figure-dreams-in-sequence.svg").exists()
    page = (tmp_path / "REPRODUCIBILITY.md").read_text()
    assert "## ablation-tiny\n\nTwo small runs. `dgdmn reproduce ablation-tiny`: 2 runs done" in page
    assert "1 run still to be done" in page, "the broken one"
    assert "2 runs collected" in out

    before = (run / "summary.json").stat().st_mtime_ns
    code, out, _ = ended(command("ablation-tiny", "figure-dreams"))
    assert code == 0
    assert (run / "summary.json").stat().st_mtime_ns == before, "nothing was computed again"
    assert (tmp_path / "REPRODUCIBILITY.md").read_text() == page

    code, out, err = ended(command("--list", "ablation-tiny", "--out", "elsewhere"))
    assert code == 0, err
    row = next(line for line in out.splitlines() if "ablation-tiny" in line)
    assert row.split("│")[3:6] == ["    2 ", "    2 ", "         – "], "collected results count as done"


def test_results_alone_are_enough_to_draw_but_not_for_pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["--draw-only"]) == 0
    text = (tmp_path / "REPRODUCIBILITY.md").read_text()
    assert "No run has been collected yet." in text
    assert all(f"# {name}\n" in text for name in TARGETS)
    assert "needs latents from the run directories themselves" in text
    runs = [path for path in (ROOT / "results").iterdir() if path.name != "figures"]
    for path in runs:
        shutil.copytree(path, tmp_path / "results" / path.name)
    assert main(["figure-forgetting", "--draw-only"]) == 0
    assert [path.name for path in (tmp_path / "results/figures").iterdir()] == ["figure-forgetting.svg"]
    text = (tmp_path / "REPRODUCIBILITY.md").read_text()
    assert f"{len(runs)} runs, " in text, "every collected run belongs to a target, as it was run"
    assert "results/figures/figure-forgetting.svg" in text


def test_what_cannot_be_read_is_told_at_the_end_and_the_rest_is_done(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good, damaged = (f"digits-{name}-paper-seed0" for name in ("nn", "ewc"))
    for name in (good, damaged):
        shutil.copytree(ROOT / "results" / name, tmp_path / "runs" / name)
    (tmp_path / "runs" / damaged / "config.json").write_text("{")
    (tmp_path / "runs/not-a-run").mkdir()
    (tmp_path / "runs/not-a-run/summary.json").write_text("{}")
    assert main(["table-acc", "--draw-only"]) == 1
    out, err = capsys.readouterr()
    assert "1 run collected" in out
    assert [path.name for path in (tmp_path / "results").glob("digits-*")] == [good]
    assert good in (tmp_path / "REPRODUCIBILITY.md").read_text()
    told = err.splitlines()
    assert [any(name in line for line in told) for name in (damaged, "not-a-run", good)] == [
        True,
        True,
        False,
    ]


def test_a_damaged_result_or_run_is_told_at_the_end_and_the_page_is_made_of_the_rest(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    good, damaged, wrong = (f"digits-{name}-paper-seed0" for name in ("nn", "ewc", "ppr"))
    for place, name in (("results", good), ("results", damaged), ("runs", wrong)):
        shutil.copytree(ROOT / "results" / name, tmp_path / place / name)
    (tmp_path / "results" / damaged / "summary.json").write_text('{"done": tr')
    matrix = tmp_path / "runs" / wrong / "accuracy.csv"
    matrix.write_text(matrix.read_text().replace(",1.0", ",1.2"))
    assert main(["table-acc", "--draw-only"]) == 1
    out, err = capsys.readouterr()
    assert "0 runs collected" in out
    assert [name for name in (good, damaged, wrong) if name in err] == [damaged, wrong]
    page = (tmp_path / "REPRODUCIBILITY.md").read_text()
    assert good in page
    assert damaged not in page


def test_every_figure_that_shows_a_new_run_is_drawn_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("digits-nn-paper-seed0", "digits-dgdmn-paper-seed0"):
        shutil.copytree(ROOT / "results" / name, tmp_path / "runs" / name)
    assert main(["table-acc", "--draw-only"]) == 0
    drawn = {path.stem for path in (tmp_path / "results/figures").iterdir()}
    assert {"figure-forgetting", "figure-digits", "figure-digits-ltm"} <= drawn
    assert "figure-permnist" not in drawn


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["figure-digit"], r"no target 'figure-digit' \(did you mean figure-digits\?\)"),
        ([], "name a target"),
        (["table-acc", "--seeds", "-1"], "seeds is -1; it must be at least 0"),
        (["table-acc", "--sedes", "3"], "--sedes"),
    ],
)
def test_mistakes_are_a_line(words, complaint):
    with pytest.raises(UsageError, match=complaint) as error:
        main(words)
    assert "\n" not in str(error.value)


def test_the_committed_page_follows_from_the_committed_results():
    """Nobody edits a number by hand: `dgdmn reproduce --draw-only` writes the page."""
    assert page_of(ROOT / "results") == (ROOT / "REPRODUCIBILITY.md").read_text(encoding="utf-8")


def test_the_table_in_the_readme_follows_from_the_committed_results():
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    assert BEGIN in text
    assert readme_of(readme, ROOT / "results") == text


def test_a_readme_without_a_place_for_results_stays_as_it_is(tmp_path):
    path = tmp_path / "README.md"
    path.write_text("mine")
    assert readme_of(path, tmp_path / "results") == "mine"
    path.write_text(f"mine\n{BEGIN}\nold\n{END}\nthe rest")
    text = readme_of(path, tmp_path / "results")
    assert text.startswith(f"mine\n{BEGIN}\n|")
    assert text.endswith(f"|\n{END}\nthe rest")
    assert "old" not in text


def test_committed_results_are_small_and_name_no_path():
    files = [path for path in (ROOT / "results").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".json", ".csv", ".svg"}
    assert sum(path.stat().st_size for path in files) < 20_000_000
    for path in files:
        if path.suffix == ".json":
            text = path.read_text()
            assert not any(place in text for place in ("/tmp", "/home", "/root", "/work")), path


def test_time_left_is_told_by_runs_of_this_machine(tmp_path, monkeypatch):
    name = "digits-nn-paper-seed0"
    copied = shutil.copytree(ROOT / "results" / name, tmp_path / "results" / name)
    args = reproduce.Reproduce(out=tmp_path / "runs", results=tmp_path / "results")
    recorded = json.loads((copied / "config.json").read_text())["machine"]
    monkeypatch.setattr("dgdmn.experiments.machine.machine", lambda: recorded | {"processor": "another"})
    assert left.before(args) == {}
    monkeypatch.setattr("dgdmn.experiments.machine.machine", lambda: recorded)
    ((spec, taken),) = left.before(args).items()
    assert spec.name == name
    assert taken == json.loads((copied / "summary.json").read_text())["seconds"]
