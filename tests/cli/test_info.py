"""`dgdmn plan`, `doctor`, `algorithms` and `data`."""

import re
from pathlib import Path

import numpy as np
import pytest

import dgdmn
from dgdmn.config import override, resolve
from dgdmn.config.registry import ALGORITHMS
from dgdmn.streams import fetch

STAGE = r"│ (learn|sleep) [^│]*│ +([\d,]+) │ +([\d,]+) │"


def test_plan_of_a_stream(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    out, err = call("plan", "embedded", "--preset", "quick", "--n-stm", "4", "--last", "5")
    assert err == ""
    assert "embedded, dgdmn: N_max 1,437, κ 0, n_STM 4" in out
    stages = re.findall(STAGE, out)
    assert [kind for kind, *_ in stages] == [*["learn"] * 4, "sleep"] * 2 + [
        "learn",
        "learn",
        "sleep",
    ]
    total = re.search(r"maximum \(steps: total\) +│ +([\d,]+) │ +([\d,]+) │", out)
    number = [int(steps.replace(",", "")) for *_, steps in stages]
    assert int(total[2].replace(",", "")) == sum(number)
    assert "appendix B uses --kappa 0.1 --n-stm 2; here N_max is" in out
    assert "appendix B" not in call("plan", "embedded", "--preset", "quick", "--algorithm", "nn")[0]
    assert list(tmp_path.iterdir()) == []


def test_plan_of_a_stream_with_a_mixture(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    out, _ = call("plan", "embedded", "--n-stm", "4")
    assert "embedded, dgdmn: budget 8.0 MB, κ 0, n_STM 4" in out
    kinds = [kind for kind, *_ in re.findall(STAGE, out)]
    assert kinds == [*["learn"] * 4, "sleep"] * 2 + ["learn", "learn", "sleep"]
    assert "each row is read once, without steps; the budget is not reached" in out
    out, _ = call("plan", "embedded", "--memory-budget", "5500000")
    assert "the budget is reached: components change to float32, then old ones shrink" in out


def test_plan_of_a_memory(call, refuse, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changes = {"min_steps": 7, "generator_epochs": 2, "learner_epochs": 3, "n_max": 70, "n_stm": 3}
    X = np.random.default_rng(0).random((30, 8))
    model = dgdmn.DGDMN(override(resolve("deep"), changes), random_state=0)
    model.partial_fit(X, np.zeros(30, int), task="a").save("memory")
    out, _ = call("plan", "memory", "--tasks", "3")
    assert [stage[:2] for stage in re.findall(STAGE, out)] == [
        ("learn", "30"), ("learn", "30"), ("sleep", "69"), ("learn", "30"), ("sleep", "70"),
    ]  # fmt: skip
    for words, expected in (
        ("digts", "no stream or file 'digts' (did you mean digits?); the streams are digits"),
        ("memory --n-stm 4", "memory is a memory, which has its options already; leave them out"),
        ("embedded --algorithm dgdm", "did you mean dgdmn"),
        ("embedded --last 0", "--last is 0"),
    ):
        assert expected in refuse("plan", *words.split(" "))
    assert {path.name for path in Path().iterdir()} == {"memory"}


@pytest.fixture
def without_data(offline, monkeypatch):
    for name, value in offline.items():
        monkeypatch.setenv(name, value)


def test_doctor_and_algorithms(call, without_data):
    out, _ = call("doctor")
    assert all(word in out for word in ("torch", "cores", "memory", "data mnist: 0 of 4 files"))
    out, _ = call("algorithms")
    assert all(name in out for name in ALGORITHMS)


def test_data_where_and_verify(call, without_data):
    assert call("data", "where", "digits")[0].count("not found; the cache is") == 4
    assert call("data", "where", "embedded")[0] == ""
    n_files = sum(map(len, fetch.DATASETS.values()))
    assert call("data", "where")[0].count("not found") == n_files, "all datasets"
    assert call("data", "verify", "mnist", code=1)[0].count("BAD ") == 4
    assert "mnist" in call("data", "fetch", "mnist", code=1)[1]
