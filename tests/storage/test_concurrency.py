"""Savers beside savers, loads beside a saver, and savers that are killed: the memory is always complete."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dgdmn import NN, load, storage
from dgdmn.algorithms.persistence import load_with_notes, save
from dgdmn.core.errors import DgdmnError
from dgdmn.core.files import directory_lock

SAVER = """
import sys
from pathlib import Path
from dgdmn import load
from dgdmn.algorithms.persistence import save
home, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
models = [load(home / f"model{n}") for n in (int(name) % 2, 1 - int(name) % 2)]
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    save(models[number % 2], home / "shared", {"saver": name, "number": number})
"""
"""Saves two models in turn, so that every save replaces array files."""

SECRET = """
import sys
from pathlib import Path
import numpy as np
from dgdmn import storage
from dgdmn.core.errors import DgdmnError
from dgdmn.core.files import directory_lock
home = Path(sys.argv[1])
print("ready", flush=True)
for number in range(10**9):
    state = {"rows": np.full(200_000, number, np.int64), "codes": [np.frombuffer(b"secret" * 9999, np.uint8)]}
    with directory_lock(home, wait=60):
        storage.write(home, {"number": number}, state)
"""
"""Saves rows and codes until it is killed."""


def start(script, *words):
    command = [sys.executable, "-c", script, *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
    assert process.stdout.readline() == "ready\n"
    return process


def check_complete(place):
    """Only the files of the manifest and the lock are there."""
    manifest = json.loads((place / "manifest.json").read_text())
    assert {path.name for path in place.iterdir()} == {"manifest.json", ".lock", *manifest["files"]}


@pytest.fixture
def models(tmp_path):
    X = np.random.default_rng(0).uniform(0, 1, (20, 4))
    made = [
        NN("deep", learner_layers=(8,), min_steps=2, random_state=seed).partial_fit(X, [0, 1] * 10)
        for seed in (0, 1)
    ]
    for number, model in enumerate(made):
        model.save(tmp_path / f"model{number}")
    return made, X


@pytest.mark.slow
@pytest.mark.parametrize("savers", [1, 2, 8])
def test_savers_and_loads_do_not_disturb_each_other(savers, models, tmp_path):
    """No load fails beside 140 saves, and the last complete save wins (D2, D6)."""
    (first, second), X = models
    place, count = tmp_path / "shared", -(-140 // savers)
    answers = [model.predict_proba(X).tobytes() for model in (first, second)]
    first.save(place)
    processes = [start(SAVER, tmp_path, number, count) for number in range(savers)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    loads = 0
    while any(process.poll() is None for process in processes) or loads < 300:
        assert load(place, threads=1).predict_proba(X).tobytes() in answers
        loads += 1
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0] * savers
    model, notes = load_with_notes(place, threads=1)
    assert notes["number"] == count - 1, "the last save of some process"
    expected = answers[(int(notes["saver"]) + notes["number"]) % 2]
    assert model.predict_proba(X).tobytes() == expected
    check_complete(place)


def test_a_read_starts_again_when_a_saver_replaced_the_memory(tmp_path, monkeypatch):
    """The manifest is read, then a saver comes, then its files are gone (D6)."""
    storage.write(tmp_path / "memory", {}, {"a": np.zeros(3)})
    read, calls = storage.directory._read_array_file, []

    def late(directory, name, size):
        calls.append(name)
        if len(calls) < 4:
            storage.write(tmp_path / "memory", {}, {"a": np.full(3, len(calls))})
        return read(directory, name, size)

    monkeypatch.setattr(storage.directory, "_read_array_file", late)
    assert storage.read(tmp_path / "memory")[1]["a"].tolist() == [3, 3, 3]
    assert len(calls) == 4


@pytest.mark.slow
def test_a_killed_save_leaves_nothing_that_survives_the_next_save(tmp_path):
    """30 kills at random moments, each followed by a read of the memory or by a save (D5)."""
    home, rng, left = tmp_path / "memory", random.Random(0), 0
    for kill in range(30):
        process = start(SECRET, home)
        time.sleep(rng.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if storage.holds_memory(home):
            about, state = storage.read(home)
            assert set(state["rows"].tolist()) == {about["number"]}, "a complete save"
        left += any(path.suffix == ".tmp" for path in home.iterdir()) if home.exists() else 0
        if kill % 3 == 0:
            storage.check_place(home)
            with directory_lock(home):
                assert not [path for path in home.iterdir() if path.suffix == ".tmp"]
                storage.write(home, {"number": 7}, {"rows": np.full(3, 7)})
            check_complete(home)
            assert not any(b"secret" in path.read_bytes() for path in home.iterdir())
    assert left > 0, "some kills came while a file was written"


def test_what_killed_savers_leave_is_no_reason_to_refuse_and_is_removed(models, tmp_path):
    """Temporary files with today's names and those of earlier versions, and files of no manifest (D5)."""
    home = tmp_path / "first"
    home.mkdir()
    names = [f".{'a' * 64}.safetensors.{'0' * 16}.tmp", f".manifest.json.{'b' * 16}.tmp"]
    names += [f".{'c' * 64}.safetensors.tmp", ".manifest.json.tmp", f"{'d' * 64}.safetensors"]
    for _ in range(2):  # before the first save, and before a later one
        for name in names:
            (home / name).write_bytes(b"secret rows")
        save(models[0][0], home)
        check_complete(home)


def test_a_link_to_itself_is_refused_in_one_sentence(models, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(DgdmnError, match="loop is a link, not a directory; remove it"):
        load(tmp_path / "loop")
    with pytest.raises(DgdmnError, match=r"cannot write .*loop"):
        save(models[0][0], tmp_path / "loop")


def test_a_memory_directory_that_the_user_links_is_followed(models, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    save(models[0][0], Path(tmp_path / "link"), {"a": 1})
    check_complete(tmp_path / "real")
    assert (tmp_path / "link").is_symlink()
    model, notes = load_with_notes(tmp_path / "link")
    assert (model.classes_.tolist(), notes) == ([0, 1], {"a": 1})
