"""The real command line in a subprocess: answers, files, errors in one line, exit codes."""

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
from dgdmn.records import RunRecord

SMALL = [
    "--threads",
    "1",
    "--preset",
    "quick",
    "--samples-per-task",
    "40",
    "--min-steps",
    "20",
    "--generator-epochs",
    "2",
]


def dgdmn(*words, cwd, timeout=120, **environment):
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(
        [sys.executable, "-m", "dgdmn.cli", *map(str, words)],
        cwd=cwd, capture_output=True, text=True, timeout=timeout, env=variables,
    )  # fmt: skip


def test_help_is_quick_and_names_every_verb(tmp_path):
    result = dgdmn("--help", cwd=tmp_path)
    assert result.returncode == 0
    assert all(verb in result.stdout for verb in ("run", "data", "algorithms", "doctor"))
    heavy = "import sys, dgdmn.cli\ntry: dgdmn.cli.main(['run', '--help'])\nexcept SystemExit: pass\n"
    heavy += "assert not {'torch', 'sklearn', 'scipy', 'numpy', 'pooch', 'matplotlib'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", heavy], capture_output=True).returncode == 0


def test_run_writes_the_run_directory_and_says_where(tmp_path):
    result = dgdmn("run", "embedded", "--algorithm", "dgdmn", "nn", *SMALL, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (dual,) = (tmp_path / "runs").glob("embedded-dgdmn-quick-*seed0")
    assert f"runs/{dual.name}" in result.stdout
    assert "to look at: runs/report.html" in result.stdout
    assert dual.name in (tmp_path / "runs/report.html").read_text()
    assert "ACC" in result.stdout
    assert "BWT" in result.stdout
    assert len(re.findall(r"task \d+/10", result.stderr)) == 20, "a plain line for each task of each run"
    record = RunRecord.read(dual)
    assert record.complete
    assert record.accuracy.shape == (10, 10)
    assert (record.accuracy_ltm[1] == record.accuracy[1]).all(), "after a sleep the LTM answers alone"
    assert record.config["options"]["samples_per_task"] == 40
    kinds = [event["kind"] for event in record.events]
    assert kinds.count("task_learned") == 10
    assert kinds.count("sleep_ended") == 5
    assert record.summary["sleeps"] == 5
    epochs = [event for event in record.events if event["kind"] == "epoch_done"]
    assert record.summary["samples_trained"] == sum(event["samples"] for event in epochs)
    assert epochs[-1]["done"] == pytest.approx(1), "the plan and the work done agree"
    assert {f"dreams-{step:03d}" for step in (2, 4, 6, 8, 10)} <= set(record.artefacts)


def test_a_second_run_reports_at_once_and_a_torn_one_is_done_again(tmp_path):
    words = ("run", "embedded", "--algorithm", "nn", *SMALL)
    first = dgdmn(*words, cwd=tmp_path)
    (run,) = (tmp_path / "runs").glob("embedded-*")
    accuracy = (run / "accuracy.csv").read_bytes()
    before = (run / "summary.json").stat().st_mtime_ns
    again = dgdmn(*words, cwd=tmp_path)
    assert again.returncode == 0
    assert again.stdout == first.stdout
    assert (run / "summary.json").stat().st_mtime_ns == before, "nothing was computed again"
    (run / "summary.json").unlink()
    (run / "accuracy.csv").write_bytes(accuracy[: len(accuracy) // 2])
    assert dgdmn(*words, cwd=tmp_path).returncode == 0
    assert (run / "accuracy.csv").read_bytes() == accuracy, "the same seed gives the same bits"


def test_a_killed_run_is_done_again(tmp_path):
    process, events = begin(tmp_path, 3)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    with events.open("a") as file:
        file.write('{"kind": "epoch_do')  # torn, as a kill may leave it
    result = dgdmn("run", "embedded", "--preset", "quick", "--threads", "1", "--seed", "3", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    record = RunRecord.read(events.parent)
    assert record.complete
    assert "resumed" in [event["kind"] for event in record.events]


def test_show_config_is_toml_and_runs_nothing(tmp_path):
    result = dgdmn("run", "tdigits", "--n-stm", "4", "--show-config", cwd=tmp_path)
    assert result.returncode == 0
    shown = tomllib.loads(result.stdout)
    assert shown["options"]["n_stm"] == 4
    assert shown["options"]["kappa"] == 0.05, "TDigits' own value, section 4.2"
    assert list(tmp_path.iterdir()) == []


def test_overrides_are_part_of_the_name(tmp_path):
    result = dgdmn("run", "embedded", "--algorithm", "nn", *SMALL, "--learner-layers", "8", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (run,) = (tmp_path / "runs").glob("embedded-*")
    assert "learner_layers-8" in run.name
    assert json.loads((run / "config.json").read_text())["changes"]["learner_layers"] == [8]


def test_evaluating_on_validation_leaves_the_test_set_alone(tmp_path):
    words = ("run", "embedded", "--algorithm", "joint", *SMALL, "--evaluate-on", "validation")
    result = dgdmn(*words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (run,) = (tmp_path / "runs").glob("embedded-*")
    assert "on-validation" in run.name
    record = RunRecord.read(run)
    assert record.config["evaluate_on"] == "validation"
    sizes = [len(task.validation) for task in streams.load("embedded", validation=0.1)]
    assert max(sizes) < 20 < min(len(task.test) for task in streams.load("embedded"))
    right = record.accuracy * sizes
    assert right == pytest.approx(right.round()), "shares of the validation rows"
    assert ((record.accuracy > 0) & (record.accuracy < 1)).any(), "and not only none or all of them"


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("run", "digts"), 2, "did you mean digits"),
        (("run", "embedded", "--algorithm", "dgdm"), 2, "did you mean dgdmn"),
        (("run", "embedded", "--kappa", "1.5"), 2, r"kappa \(κ\) is 1.5; it must be in \[0, 1\]"),
        (("run", "embedded", "--n-max", "0"), 2, r"n_max \(N_max\) is 0; it must be at least 1"),
        (("run", "embedded", "--preset", "papr"), 2, "did you mean paper"),
        (("run", "embedded", "--seed", "-1"), 2, "seed is -1"),
        (("run", "embedded", "--jobs", "-2"), 2, "jobs is -2"),
        (("run", "embedded", "--seed"), 2, "seed needs at least one value"),
        (("run", "embedded", "--kapa", "0.1"), 2, r"--kapa.*did you mean --kappa"),
        (("run", "embedded", "--kappa", "much"), 2, r"'much' \(expected --kappa FLOAT\);"),
        (("run", "embedded", "--n-stm", "two"), 2, r"'two' \(expected --n-stm INT\);"),
        (("run", "embedded", "--seed", "1.5"), 2, r"'1.5'\] \(expected --seed \[INT \[INT ...\]\]\);"),
        (("run", "embedded", "--recognition", "dens"), 2, r"'dens'.*\('reconstruction', 'density'\);"),
        (("run", "embedded", "--index", "code"), 2, r"'code'.*\('none', 'codes'\);"),
        (("run", "embedded", "--evaluate-on", "tset"), 2, r"'tset'.*\('test', 'validation'\);"),
        (("run", "embedded", "--fallback", "any"), 2, r"'any'.*\('embedded', 'none'\);"),
        (("learn", "m", "d.npz", "--dreams", "twice"), 2, r"'twice'.*\('once', 'anew'\);"),
        (("run",), 2, "split-digits or embedded.*dgdmn run --help"),
        (("run", "embedded", "--device", "abacus"), 2, "device 'abacus' cannot be used here"),
        (("run", "embedded", "--learner-convolutions", "4", "4", "4", "4", "4"), 2, "too small"),
        (("rn", "embedded"), 2, "did you mean run"),
        (("data", "fetsch"), 2, "did you mean fetch"),
        (("data", "where", "mnits"), 2, "did you mean mnist"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(tmp_path, words, code, expected):
    result = dgdmn(*words, cwd=tmp_path)
    assert result.returncode == code
    assert re.search(expected, result.stderr)
    assert len(result.stderr.strip().splitlines()) == 1
    assert "learner_convolutions" in str(list(tmp_path.glob("runs/*"))) or list(tmp_path.iterdir()) == []


def test_an_unwritable_out_is_named(tmp_path):
    (tmp_path / "taken").write_text("a file")
    result = dgdmn("run", "embedded", "--out", "taken", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == "dgdmn: --out taken is a file; name a directory\n"
    result = dgdmn("run", "embedded", "--algorithm", "nn", *SMALL, "--out", "/proc/here", cwd=tmp_path)
    assert result.returncode == 1
    assert "/proc/here" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_full_disk_is_named(tmp_path):
    """A file size limit makes every large write fail, as a full disk would."""
    script = "import resource, dgdmn.cli\nresource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
    script += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    script += f"dgdmn.cli.main(['run', 'embedded', '--algorithm', 'nn', *{SMALL}])"
    result = subprocess.run(
        [sys.executable, "-c", f"if __name__ == '__main__':\n  exec({script!r})"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 1
    assert "File too large" in result.stderr
    assert "Traceback" not in result.stderr


def test_missing_data_says_what_was_tried_and_what_to_do(tmp_path, nowhere):
    result = dgdmn("run", "hindi", cwd=tmp_path, **nowhere)
    assert result.returncode == 1
    assert "place by hand" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_the_fallback_says_so_in_one_line(tmp_path, nowhere):
    result = dgdmn(
        "run", "digits", "--algorithm", "nn", *SMALL, "--fallback", "embedded", cwd=tmp_path, **nowhere
    )
    assert result.returncode == 0, result.stderr
    assert "running on the embedded digits instead" in result.stderr.splitlines()[0]
    assert [run.name.split("-")[0] for run in (tmp_path / "runs").glob("*-*")] == ["embedded"]


def test_a_corrupt_data_file_is_named(tmp_path, nowhere):
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (folder / f"{part}-ubyte.gz").write_bytes(b"not gzip")
    result = dgdmn("run", "digits", cwd=tmp_path, **{**nowhere, "DGDMN_DATA": str(tmp_path / "data")})
    assert result.returncode == 1
    assert "idx" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("words", [("run", "digts"), ("run", "embedded", "--device", "abacus")])
def test_debug_shows_the_traceback(tmp_path, words):
    assert "Traceback" not in dgdmn(*words, cwd=tmp_path).stderr
    assert "Traceback" in dgdmn(*words, "--debug", cwd=tmp_path).stderr


def begin(tmp_path, seed):
    """Start a run and wait until it has learnt a task."""
    words = [sys.executable, "-m", "dgdmn.cli", "run", "embedded", "--preset", "quick", "--threads", "1"]
    process = subprocess.Popen(
        [*words, "--seed", str(seed)],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a test runner may ignore Ctrl-C
    )  # fmt: skip
    events = tmp_path / "runs" / f"embedded-dgdmn-quick-seed{seed}" / "events.jsonl"
    for _ in range(600):
        if events.exists() and "task_learned" in events.read_text():
            return process, events
        time.sleep(0.1)
    raise AssertionError("the run never began")


def children_of(process):
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(process.pid)], capture_output=True, text=True
    )
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if "multiprocessing.spawn" in line]


def alive(pid):
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")


@linux
def test_ctrl_c_says_one_line_and_leaves_nothing_running(tmp_path):
    process, _ = begin(tmp_path, 4)
    children = children_of(process)
    assert children
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 1
    assert said.splitlines()[-1].startswith("dgdmn: interrupted")
    assert "Traceback" not in said
    assert not any(alive(pid) for pid in children)


@linux
def test_after_ctrl_c_resume_goes_on_to_the_same_bits(tmp_path):
    process, events = begin(tmp_path, 4)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    run = events.parent
    assert list((run / "checkpoints").iterdir()), "it saved before it went"
    again = dgdmn("resume", str(run), cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    resumed = [line for line in events.read_text().splitlines() if '"kind": "resumed"' in line]
    assert len(resumed) == 1
    assert '"steps": 0' not in resumed[0], "a task was learnt before: it is not learnt again"
    words = ["run", "embedded", "--preset", "quick", "--threads", "1", "--seed", "4", "--out", "whole"]
    assert dgdmn(*words, cwd=tmp_path).returncode == 0
    for matrix in ("accuracy.csv", "accuracy_ltm.csv"):
        assert (run / matrix).read_bytes() == (tmp_path / "whole" / run.name / matrix).read_bytes()
    done = dgdmn("resume", str(run), cwd=tmp_path)
    assert done.returncode == 0
    assert run.name in done.stdout, "what is complete is shown at once"


def test_an_import_that_is_interrupted_ends_with_our_code(tmp_path):
    code = "import dgdmn.cli as cli\ncli._dispatch = lambda *_: exec('raise KeyboardInterrupt')\ncli.main(['run'])\n"
    (tmp_path / "stopped.py").write_text(code)
    result = subprocess.run(
        [sys.executable, "-m", "stopped"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 1, "not by the signal"
    assert result.stderr.startswith("dgdmn: interrupted")


@linux
def test_a_run_ends_with_its_parent(tmp_path):
    process, _ = begin(tmp_path, 5)
    children = children_of(process)
    process.kill()
    process.communicate()
    for _ in range(100):
        if not any(alive(pid) for pid in children):
            break
        time.sleep(0.1)
    assert children
    assert not any(alive(pid) for pid in children)


@linux
def test_a_killed_child_is_one_line_and_the_others_finish(tmp_path):
    words = [sys.executable, "-m", "dgdmn.cli", "run", "embedded", "--preset", "quick", "--seed", "6", "7"]
    words += ["--samples-per-task", "40", "--jobs", "2", "--threads", "1"]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(600):
        if len(children := children_of(process)) == 2:
            break
        time.sleep(0.1)
    os.kill(children[0], signal.SIGKILL)
    out, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "seed6 failed: its process ended with code -9" in said
    assert "Traceback" not in said
    assert "seed7" in out


def test_doctor_and_algorithms(tmp_path, nowhere):
    doctor = dgdmn("doctor", cwd=tmp_path, **nowhere)
    assert doctor.returncode == 0
    assert all(word in doctor.stdout for word in ("torch", "cores", "memory", "data mnist: 0 of 4 files"))
    listed = dgdmn("algorithms", cwd=tmp_path)
    assert listed.returncode == 0
    assert all(name in listed.stdout for name in ("nn", "joint", "dgr", "dgdmn"))


def test_data_where_and_verify(tmp_path, nowhere):
    where = dgdmn("data", "where", "digits", cwd=tmp_path, **nowhere)
    assert where.returncode == 0
    assert where.stdout.count("missing") >= 4
    verify = dgdmn("data", "verify", "mnist", cwd=tmp_path, **nowhere)
    assert verify.returncode == 1
    assert "BAD" in verify.stdout


def test_two_writers_never_share_a_run(tmp_path):
    process, _events = begin(tmp_path, 8)
    os.killpg(process.pid, signal.SIGSTOP)  # it has the lock, and cannot be done before the other looks
    second = dgdmn("run", "embedded", "--preset", "quick", "--threads", "1", "--seed", "8", cwd=tmp_path)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert second.returncode == 1
    assert "is being written by another process" in second.stderr
    assert len(second.stderr.strip().splitlines()) == 1
