"""Attacks on memories on disk, for every algorithm and preset: kills, links and pipes, many writers.

DGDMN_KILLS is the number of commands that are killed, over all kinds of memories.
"""

import itertools
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dgdmn
from dgdmn import cli
from dgdmn.algorithms import algorithm
from dgdmn.config import DEFAULT_PRESET, PRESETS, resolve
from dgdmn.config.entries import DEFAULT_ALGORITHM, applicable_fields, flag
from dgdmn.config.registry import ALGORITHMS

linux = pytest.mark.skipif(sys.platform != "linux", reason="forks, and sees locks in /proc")
pytestmark = [linux, pytest.mark.slow]

FAST = {"min_steps": 20, "generator_epochs": 2, "learner_epochs": 2, "joint_epochs": 2}
KINDS = [(name, DEFAULT_PRESET) for name in ALGORITHMS]
KINDS += [(DEFAULT_ALGORITHM, name) for name in PRESETS if name != DEFAULT_PRESET]
KILLS = int(os.environ.get("DGDMN_KILLS", "16"))
RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(center, 1, (20, 4)) for center in (-5, 0, 5)])
Y = np.repeat(["ash", "beech", "cedar"], 20)


def in_child(function, *args):
    """Start a process that writes all its output to the returned file."""

    def child():
        with Path(log).open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.stdout, sys.stderr = (os.fdopen(n, "w", buffering=1) for n in (1, 2))
        function(*args)

    log = Path(f"log-{time.monotonic_ns()}.txt").absolute()
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    return process, log


def finish(process, log, seconds=100):
    """The exit code and the output of a child, which must end and not show a traceback."""
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        raise AssertionError(f"it hangs: {log.read_text()}")
    text = log.read_text(errors="replace") if log.exists() else ""
    log.unlink(missing_ok=True)
    assert "Traceback" not in text, text
    assert "bug" not in text, text
    return process.exitcode, text


def command(*words):
    return in_child(cli.main, [str(word) for word in words])


def die_at(at, number, *words):
    """Call a command in this process, and send it a signal before it touches a file of the memory."""
    touched = itertools.count(1)

    def watch(event, args):
        is_touch = event in ("open", "os.rename", "os.remove", "os.mkdir")
        if is_touch and str(words[1]) in str(args[0]) and next(touched) == at:
            os.kill(os.getpid(), number)

    sys.addaudithook(watch)
    cli.main([str(word) for word in words])


def call(*words):
    return finish(*command(*words))


def answers(path):
    """What identifies a memory: its answers and its tasks."""
    model = dgdmn.load(path)
    info = model.info()
    return model.predict_proba(X).tobytes(), tuple(info.awake), tuple(info.consolidated)


class Kind:
    """A memory before and after it learns a second file, and the words that create it."""

    def __init__(self, name, preset):
        Path("tasks").mkdir()
        np.savez("tasks/1.npz", X=X[:20], y=Y[:20])
        np.savez("tasks/2.npz", X=X[20:], y=Y[20:], task=Y[20:])  # two tasks: dgdmn sleeps
        mixture = ALGORITHMS[name].generative and resolve(preset).generator == "mixture"
        fields = () if mixture else applicable_fields(name)  # it has no epochs and no range
        fast = {key: value for key, value in FAST.items() if key in fields}
        options = [word for key, value in fast.items() for word in (flag(key), value)]
        if "value_range" in algorithm(name)._get_param_names() and not mixture:
            options += ["--value-range", -9, 9]
        self.create = ["--algorithm", name, "--preset", preset, *options]
        self.generative = ALGORITHMS[name].generative
        assert call("learn", "before", "tasks/1.npz", "--task", "ash", *self.create)[0] == 0
        shutil.copytree("before", "between")
        began = time.monotonic()
        assert call("learn", "between", "tasks/2.npz")[0] == 0
        self.seconds = time.monotonic() - began
        shutil.move("between", "after")
        self.before, self.after = answers("before"), answers("after")
        np.savez("tasks/half.npz", X=X[20:40], y=Y[20:40], task=Y[20:40])
        shutil.copytree("before", "half")
        assert call("learn", "half", "tasks/half.npz")[0] == 0
        self.states = (self.before, answers("half"), self.after)  # each task is saved


@pytest.fixture
def kind(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Kind(*request.param)


every_kind = pytest.mark.parametrize("kind", KINDS, indirect=True, ids=":".join)


def fresh_copy(name="the memory"):
    shutil.rmtree(name, ignore_errors=True)
    shutil.copytree("before", name)
    return Path(name)


def check_files(memory):
    """Nothing but the saved memory and its lock is there."""
    allowed = {".lock", "manifest.json", *(p.name for p in memory.glob("*.safetensors"))}
    assert {path.name for path in memory.iterdir()} <= allowed


@every_kind
def test_a_killed_learn_leaves_a_complete_memory(kind, request):
    """Killed, terminated, hung up or interrupted at any moment; the same command then does the rest."""
    number = KINDS.index(request.node.callspec.params["kind"])
    rng, kills = random.Random(number), len(range(number, KILLS, len(KINDS)))
    for n in range(kills):
        is_new = n % 4 > 1
        memory, words = fresh_copy(), ("tasks/2.npz",)
        if is_new:
            shutil.rmtree(memory)
            words = ("tasks/1.npz", "--task", "ash", *kind.create)
        number = rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT))
        if n % 2:
            finish(
                *in_child(
                    die_at, rng.randrange(1, 20 if is_new else 40), number, "learn", memory, *words
                )
            )
        else:
            process, log = command("learn", memory, *words)
            time.sleep(rng.uniform(0, kind.seconds))
            os.kill(process.pid, number)
            finish(process, log)
        exists = (memory / "manifest.json").exists()
        found = answers(memory) if exists else None
        assert found in ((None, kind.before) if is_new else kind.states)
        if found in (None, kind.before) and found != (kind.before if is_new else None):
            assert call("learn", memory, *words)[0] == 0
            assert answers(memory) == (kind.before if is_new else kind.after)
            check_files(memory)


def plant(path, what, outside):
    """Put a link, a pipe or a directory where a command writes."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    if what == "pipe":
        os.mkfifo(path)
    elif what == "directory":
        path.mkdir()
    else:
        path.symlink_to({"link": outside, "broken link": outside / "no"}.get(what, outside.parent))


PLANTS = ("link", "broken link", "link to directory", "pipe", "directory")
PLANTED = [  # all for the default, one in turn for each other kind
    (kind, what)
    for n, kind in enumerate(KINDS)
    for m, what in enumerate(PLANTS)
    if kind == (DEFAULT_ALGORITHM, DEFAULT_PRESET) or n % len(PLANTS) == m
]


@pytest.mark.parametrize(("kind", "what"), PLANTED, indirect=["kind"])
def test_nothing_outside_is_written(kind, what):
    outside = Path("outside/secret.txt").absolute()
    outside.parent.mkdir()
    outside.write_text("keep this")
    names = {path.name for path in Path("after").iterdir()} - {"manifest.json"}
    names |= {".manifest.json.tmp", ".lock", "manifest.json"}
    for name in sorted(names):
        memory = fresh_copy()
        plant(memory / name, what, outside)
        code, text = call("learn", memory, "tasks/2.npz")
        if code == 0:
            assert answers(memory) == kind.after
        else:
            (line,) = text.splitlines()[-1:]
            assert line.startswith("dgdmn: ")
    targets = [("predict", "after", "tasks/1.npz", "--out", "y.csv")]
    if kind.generative:
        assert call("sleep", "after")[0] == 0
        targets += [
            ("dream", "after", "--n", 4, "--out", f"d.{end}") for end in ("csv", "npz", "png")
        ]
    for words in targets:
        path = Path(words[-1])
        plant(path, what, outside)
        code, _ = call(*words)
        assert code == 2 if what in ("pipe", "directory", "link to directory") else code == 0
        assert path.is_symlink() == (what == "link to directory")
    assert [path.name for path in outside.parent.iterdir()] == ["secret.txt"]
    assert outside.read_text() == "keep this"


def save_often(source, path, times):
    model = dgdmn.load(source)
    for _ in range(times):
        model.save(path)


@pytest.mark.parametrize("writers", [2, 8])
@every_kind
def test_many_writers_leave_one_complete_save(kind, writers):
    """Savers wait for each other, learners are refused; a load beside them gives a complete save."""
    sources = ["before", "after"]
    running = [in_child(save_often, sources[n % 2], "m", 10) for n in range(writers)]
    loads = 0
    while any(process.is_alive() for process, _ in running):
        if Path("m/manifest.json").exists():
            assert answers("m") in (kind.before, kind.after)
            loads += 1
    assert [finish(*one)[0] for one in running] == [0] * writers
    assert loads
    assert answers("m") in (kind.before, kind.after)
    check_files(Path("m"))

    memory = fresh_copy()
    running = [
        command("learn", memory, "tasks/1.npz", "--task", f"again {n}") for n in range(writers)
    ]
    ended = [finish(*one) for one in running]
    assert all(code == 0 or "in use by another process" in text for code, text in ended)
    learned = sum(code == 0 for code, _ in ended)
    assert learned
    code, text = call("inspect", memory, "--json")
    assert code == 0
    assert sum(task["times"] for task in json.loads(text)["tasks"].values()) == 1 + learned
