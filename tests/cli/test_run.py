"""`dgdmn run`, `resume` and `report`: what they run, record and print."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from dgdmn import streams
from dgdmn.cli import run as cli
from dgdmn.cli.options import VERBS, parse
from dgdmn.config import resolve, to_dict
from dgdmn.records import RunRecord, RunWriter

SMALL = ["--preset", "quick", "--samples-per-task", "20", "--min-steps", "10"]
FOUR = ["--algorithm", "nn", "dgdmn", "dgdmn:best", "joint", "--preset", "paper"]
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")


def specs(*words):
    return cli.make_specs(parse("dgdmn run", VERBS["run"], words))


def the_run(directory):
    (config,) = Path(directory).glob("*/config.json")
    return config.parent


def test_a_preset_after_a_colon_is_that_algorithms_own():
    made = specs("digits", *FOUR)
    names = [("nn", "paper"), ("dgdmn", "paper"), ("dgdmn", "best"), ("joint", "paper")]
    assert [(spec.algorithm, spec.preset) for spec in made] == names
    assert [spec.options for spec in made] == [resolve(spec.preset, "digits") for spec in made]
    assert specs("digits")[0].preset == "best"
    (custom,) = specs("digits", "--algorithm", "dgdmn.algorithms.nn:NN:paper")
    assert (custom.algorithm, custom.preset) == ("dgdmn.algorithms.nn:NN", "paper")


def test_the_same_run_twice_is_one_run():
    words = ("digits", "--preset", "paper", "--algorithm", "nn", "nn:paper", "nn:deep", "nn:best")
    assert [spec.preset for spec in specs(*words)] == ["paper", "deep"], (
        "best has the options of deep"
    )


def test_an_option_changes_every_run_and_nothing_else():
    for spec in specs("digits", *FOUR, "--kappa", "0.02", "--learner-layers=8", "--no-code-buffer"):
        expected = {"kappa": 0.02, "learner_layers": [8], "code_buffer": False}
        base = to_dict(resolve(spec.preset, "digits"))
        assert spec.changes() == {
            key: value for key, value in expected.items() if value != base[key]
        }
    _, paper, best, _ = specs("digits", *FOUR, "--beta", "1")
    assert (paper.changes(), best.changes()) == ({}, {"beta": 1}), (
        "also if one preset has that value"
    )


def test_threads_follow_the_option_or_the_environment(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert specs("digits")[0].threads == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert specs("digits")[0].threads == 2
    assert specs("digits", "--threads", "3")[0].threads == 3


def test_show_config_is_toml_and_runs_nothing(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = tomllib.loads(call("run", "tdigits", "--n-stm", "4", "--show-config")[0])
    assert (shown["stream"], shown["preset"], shown["options"]["n_stm"]) == ("tdigits", "best", 4)
    out, _ = call("run", "digits", *FOUR, "--kappa", "0.02", "--show-config")
    shown = tomllib.loads(out)
    assert shown["algorithm"] == ["nn:paper", "dgdmn:paper", "dgdmn:best", "joint:paper"]
    for name in ("paper", "best"):
        assert shown["options"][name] == to_dict(resolve(name, "digits")) | {"kappa": 0.02}
    assert "kappa = 0.02  # changed; κ: minimum share" in out
    assert specs("digits", "--algorithm", *shown["algorithm"]) == specs("digits", *FOUR)
    assert list(tmp_path.iterdir()) == []


def test_run_resume_and_report(tmp_path, monkeypatch, call, in_process):
    monkeypatch.chdir(tmp_path)
    pages = []
    monkeypatch.setattr("dgdmn.cli.run.write_report", lambda *written: pages.append(written))
    words = ("run", "embedded", "--algorithm", "dgdmn", *SMALL)
    first, err = call(*words)
    (dual,) = Path("runs").glob("embedded-dgdmn-quick-*seed0")
    assert f"  {dual}\n" in first
    assert "report: runs/report.html\n" in first
    assert pages == [([Path("runs")], Path("runs/report.html"))], "with all runs of --out"
    assert re.search(r"│ dgdmn +│ quick +│ +\.\d{3} │", first)
    assert f"{dual.name}: task 10/10 (9), done, accuracy on tasks seen ." in err
    record = RunRecord.read(dual)
    assert record.complete
    assert record.accuracy.shape == (10, 10)
    assert (record.accuracy_ltm[1] == record.accuracy[1]).all(), (
        "after a sleep the LTM answers alone"
    )
    kinds = [event["kind"] for event in record.events]
    assert (kinds.count("task_learned"), kinds.count("sleep_ended")) == (10, 5)
    epochs = [event for event in record.events if event["kind"] == "epoch_done"]
    assert epochs[-1]["done"] == pytest.approx(1), "the plan and the work done agree"
    accuracy, before = (
        (dual / "accuracy.csv").read_bytes(),
        (dual / "summary.json").stat().st_mtime_ns,
    )
    again, err = call(*words)
    assert (again, err) == (first, "")
    assert (dual / "summary.json").stat().st_mtime_ns == before, "nothing was computed again"
    renamed = dual.rename("runs/renamed")  # a run is found by its key
    (renamed / "summary.json").unlink()
    (renamed / "accuracy.csv").write_bytes(accuracy[: len(accuracy) // 2])
    assert str(renamed) in call("resume", renamed)[0]
    assert (renamed / "accuracy.csv").read_bytes() == accuracy, "the same seed, the same bits"
    out, _ = call("report", "runs", "--out", "page.html", "--no-figures")
    assert out == "page.html: 1 run\n"
    assert "renamed" in Path("page.html").read_text()


@pytest.fixture
def bare(monkeypatch, in_process):
    """Runs without artifacts and report, which take most of the time of a small run."""
    monkeypatch.setattr("dgdmn.cli.run.write_report", lambda *_: None)
    for name in ("write_dreams", "write_final"):
        monkeypatch.setattr(f"dgdmn.runs.artifacts.Artifacts.{name}", lambda *_: None)


def test_results_are_printed_as_they_arrive_in_the_order_given(tmp_path, call, bare):
    few = ("--samples-per-task", "12", "--min-steps", "2", "--jobs", "1", "--out", tmp_path)
    words = ("run", "embedded", "--algorithm", "nn:quick", "dgdmn:best", "nn:quick", *few)
    out, err = call(*words)
    line = r"embedded, (\S+?)\+\S*, seed 0: ACC [.\d]+, [\d.]+ \w+, [\d.]+ s"
    table = out.index("┏")
    assert [m[1] for m in re.finditer(line, out[:table])] == ["nn:quick", "dgdmn:best"]
    assert "done, accuracy" in err
    again, _ = call(*words)
    assert len(re.findall(line, again)) == 2, "also of runs that were complete before"


def test_a_run_without_epochs_shows_progress_by_tasks(tmp_path, call, bare, monkeypatch):
    shares = []
    write = RunWriter.status

    def note(self, phase, **fields):
        shares.append((phase, fields["step"], fields["share"]))
        write(self, phase, **fields)

    monkeypatch.setattr(RunWriter, "status", note)
    call("run", "embedded", "--samples-per-task", "12", "--out", tmp_path)
    learning = {step: share for phase, step, share in shares if phase == "learning"}
    assert learning == {step: pytest.approx((step - 1) / 10) for step in range(1, 11)}
    assert shares[-1] == ("done", 10, 1.0)


def test_changed_options_are_part_of_the_name(tmp_path, call, in_process):
    words = (*SMALL, "--learner-layers", "8", "--evaluate-on", "validation", "--out", tmp_path)
    call("run", "embedded", "--algorithm", "joint", *words)
    run = the_run(tmp_path)
    assert "learner_layers-8" in run.name
    assert "on-validation" in run.name
    assert json.loads((run / "config.json").read_text())["changes"]["learner_layers"] == [8]
    sizes = [len(task.validation) for task in streams.load("embedded", validation=0.1)]
    right = RunRecord.read(run).accuracy * sizes
    assert right == pytest.approx(right.round()), "shares of the validation rows"


@pytest.mark.slow
def test_an_algorithm_of_another_module(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("from dgdmn import NN\n\n\nclass Net(NN):\n    pass\n")
    call("run", "embedded", "--algorithm", "mine:Net", *SMALL)
    run = the_run("runs")
    assert "mine.Net-quick" in run.name
    assert json.loads((run / "config.json").read_text())["algorithm"] == "mine:Net"


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("--device", "abacus"), 2, "device 'abacus' cannot be used here"),
        (("--learner-convolutions", "4", "4", "4", "4", "4"), 2, "too small"),
        (("--out", "/proc/here"), 1, "/proc/here"),
    ],
)
def test_a_run_that_fails_is_one_line(tmp_path, call, in_process, words, code, expected):
    out = ("--out", tmp_path) if "--out" not in words else ()
    _, err = call("run", "embedded", "--algorithm", "nn", *SMALL, *out, *words, code=code)
    assert expected in err.splitlines()[-1]
    assert sum(line.startswith("dgdmn: ") for line in err.splitlines()) == 1


def test_an_out_that_is_a_file(tmp_path, refuse):
    (tmp_path / "taken").write_text("a file")
    line = refuse("run", "embedded", "--out", tmp_path / "taken")
    assert line == f"dgdmn: --out {tmp_path}/taken is a file; name a directory"


@pytest.mark.slow
def test_a_full_disk_is_named(tmp_path):
    """A file size limit makes every large write fail, as a full disk would."""
    script = "import resource, signal, dgdmn.cli\nresource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
    script += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    script += f"dgdmn.cli.main(['run', 'embedded', '--algorithm', 'nn', *{SMALL}])"
    done = subprocess.run(
        [sys.executable, "-c", f"if __name__ == '__main__':\n  exec({script!r})"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_data_and_the_fallback(tmp_path, monkeypatch, refuse, offline, capsys):
    for name, value in offline.items():
        monkeypatch.setenv(name, value)
    line = refuse("run", "hindi", "--out", tmp_path / "runs", code=1)
    assert "dgdmn: " in line
    assert not (tmp_path / "runs").exists()
    rows = resolve("paper", "digits").n_max
    words = ["digits", *FOUR, "--fallback", "embedded", "--n-max", str(rows)]
    args = parse("dgdmn run", VERBS["run"], words)
    args.stream = cli.stream_with_data(args.stream, args.fallback)
    assert "running on Embedded digits instead" in capsys.readouterr().err
    for spec in cli.make_specs(args):
        assert (spec.stream, spec.changes()) == ("embedded", {"n_max": rows}), "as it was typed"


def test_a_damaged_data_file_is_named(tmp_path, monkeypatch, refuse, offline):
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (folder / f"{part}-ubyte.gz").write_bytes(b"not gzip")
    for name, value in {**offline, "DGDMN_DATA": str(tmp_path / "data")}.items():
        monkeypatch.setenv(name, value)
    assert "idx" in refuse("run", "digits", "--out", tmp_path / "runs", code=1)


def begin(tmp_path, *seeds, **settings):
    """Start a run and wait until it has learned a task."""
    command = [
        sys.executable,
        "-m",
        "dgdmn.cli",
        "run",
        "embedded",
        "--preset",
        "quick",
        "--seed",
        *seeds,
    ]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # pytest may ignore Ctrl-C
        **settings,
    )
    events = tmp_path / "runs" / f"embedded-dgdmn-quick-seed{seeds[0]}" / "events.jsonl"
    for _ in range(600):
        if events.exists() and "task_learned" in events.read_text():
            return process, events
        time.sleep(0.1)
    raise AssertionError("the run never began")


def children_of(process):
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(process.pid)], capture_output=True, text=True
    )
    return [
        int(line.split()[0])
        for line in listed.stdout.splitlines()
        if "multiprocessing.spawn" in line
    ]


def alive(pid):
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


@linux
@pytest.mark.slow
def test_ctrl_c_is_one_line_and_resume_gives_the_same_bits(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    process, events = begin(tmp_path, "4")
    children = children_of(process)
    assert children
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.splitlines()[-1].startswith("dgdmn: interrupted; finished work is saved")
    assert "Traceback" not in err
    assert not any(alive(pid) for pid in children)
    run = events.parent
    assert list((run / "checkpoints").iterdir()), "it saved before it ended"
    call("resume", run)
    resumed = [line for line in events.read_text().splitlines() if '"kind": "resumed"' in line]
    assert len(resumed) == 1
    assert '"steps": 0' not in resumed[0], "a task that was learned is not learned again"
    call("run", "embedded", "--preset", "quick", "--seed", "4", "--out", "whole")
    for matrix in ("accuracy.csv", "accuracy_ltm.csv"):
        assert (run / matrix).read_bytes() == (tmp_path / "whole" / run.name / matrix).read_bytes()
    assert run.name in call("resume", run)[0], "what is complete is shown at once"


@linux
@pytest.mark.slow
def test_a_killed_run_is_one_line_and_the_others_finish(tmp_path):
    process, events = begin(tmp_path, "6", "7")
    locks = Path("/proc/locks").read_text()
    victim = next(pid for pid in children_of(process) if f" {pid} " in locks and holds(pid, events))
    os.kill(victim, signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "seed6 failed: its process ended with code -9" in err
    assert "Traceback" not in err
    assert "seed7" in out


def holds(pid, events):
    status = json.loads((events.parent / "status.json").read_text())
    return status["pid"] == pid


@linux
@pytest.mark.slow
def test_a_killed_command_ends_its_runs_and_can_be_repeated(tmp_path, spawn):
    process, events = begin(tmp_path, "5")
    os.killpg(
        process.pid, signal.SIGSTOP
    )  # it holds the lock and cannot end before the other looks
    second = spawn("run", "embedded", "--preset", "quick", "--seed", "5", code=1)
    assert "is in use by another process" in second.stderr
    os.killpg(process.pid, signal.SIGCONT)
    children = children_of(process)
    process.kill()
    process.communicate()
    for _ in range(100):
        if not any(alive(pid) for pid in children):
            break
        time.sleep(0.1)
    assert children
    assert not any(alive(pid) for pid in children), "a run ends with its parent"
    with events.open("a") as file:
        file.write('{"kind": "epoch_do')  # torn, as a kill may leave it
    spawn("run", "embedded", "--preset", "quick", "--seed", "5")
    record = RunRecord.read(events.parent)
    assert record.complete
    assert "resumed" in [event["kind"] for event in record.events]
