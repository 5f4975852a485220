"""scikit-learn's classifiers as references: what they learn, refuse and do after a kill."""

import csv
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB

from dgdmn.algorithms import algorithm
from dgdmn.cli.options import VERBS, parse
from dgdmn.cli.run import make_specs
from dgdmn.config import resolve
from dgdmn.config.registry import ALGORITHMS, REFERENCES
from dgdmn.core.errors import Interrupted, UsageError
from dgdmn.records import RunRecord
from dgdmn.runs.runner import execute
from dgdmn.runs.spec import RunSpec

SEQUENTIAL = [name for name, info in REFERENCES.items() if not info.together]
CEILINGS = [name for name, info in REFERENCES.items() if info.together]


def blobs(n=40):
    """Three classes with 70 columns, far apart."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(3, 70)) * 3
    return [(mean + rng.normal(size=(n, 70)), np.full(n, k)) for k, mean in enumerate(means)]


def joined(tasks):
    return tuple(np.concatenate(parts) for parts in zip(*tasks, strict=True))


def learn_in_sequence(name, tasks, **options):
    model = algorithm(name)(random_state=0, **options)
    for x, y in tasks:
        model.partial_fit(x, y, classes=[0, 1, 2])
    return model


def test_the_references_are_apart_from_the_algorithms():
    assert (SEQUENTIAL, CEILINGS) == (["sgd", "gnb"], ["logistic", "forest"])
    assert not {*REFERENCES} & {*ALGORITHMS}
    assert not any(info.saved for info in REFERENCES.values())


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_it_learns_in_sequence_if_the_classes_are_given(name):
    tasks = blobs()
    model = learn_in_sequence(name, tasks)
    X, y = joined(tasks)
    answers = model.predict_proba(X)
    assert answers.shape == (120, 3)
    np.testing.assert_allclose(answers.sum(axis=1), 1)
    assert model.score(*tasks[2]) == 1
    if name == "gnb":  # its means and variances forget nothing
        assert model.score(X, y) == 1
    assert model.memory_bytes() > 0


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_it_is_the_classifier_of_scikit_learn(name):
    tasks = blobs()
    model = learn_in_sequence(name, tasks, features="none")
    scale = model.fitted_.memory.scale
    seed = model.fitted_.memory.model.get_params().get("random_state")
    plain = GaussianNB() if name == "gnb" else SGDClassifier(loss="log_loss", random_state=seed)
    for x, y in tasks:
        plain.partial_fit(scale.apply(x).astype(np.float32), y, classes=[0, 1, 2])
    X, _ = joined(tasks)
    expected = plain.predict_proba(scale.apply(X).astype(np.float32))
    np.testing.assert_allclose(model.predict_proba(X), expected)


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_a_label_that_was_not_named_is_refused_and_changes_nothing(name):
    zero, one, two = blobs()
    model = algorithm(name)(random_state=0).partial_fit(*joined([zero, one]))
    before = model.fitted_
    with pytest.raises(UsageError, match="name every label in classes= of the first call"):
        model.partial_fit(*two)
    assert model.fitted_ is before


@pytest.mark.parametrize("name", CEILINGS)
def test_a_ceiling_learns_all_rows_at_once_and_refuses_a_second_task(name):
    tasks = blobs()
    X, y = joined(tasks)
    model = algorithm(name)(random_state=0).fit(X, y)
    assert model.score(X, y) == 1
    assert model.memory_bytes() > 0
    before = model.predict_proba(X)
    with pytest.raises(UsageError, match=r"^this method learns all rows at once; use fit, or run"):
        model.partial_fit(*tasks[0])
    assert np.array_equal(model.predict_proba(X), before)


@pytest.mark.parametrize("name", list(REFERENCES))
def test_it_cannot_be_saved(name, tmp_path):
    model = algorithm(name)(random_state=0).fit(*joined(blobs()))
    with pytest.raises(UsageError, match=r"^\w+ cannot be saved; it is only for `dgdmn compare`"):
        model.save(tmp_path / "memory")
    assert list(tmp_path.iterdir()) == []


def specs(*words):
    return make_specs(parse("dgdmn run", VERBS["run"], ["embedded", *words]))


def test_a_run_gives_a_ceiling_all_tasks_without_being_asked():
    words = ("--algorithm", *REFERENCES)
    assert [spec.together for spec in specs(*words)] == [False, False, True, True]
    assert all(spec.together for spec in specs(*words, "--together"))


def spec(name, **protocol):
    options = replace(resolve("quick", "embedded"), samples_per_task=12, features="none")
    return RunSpec("embedded", name, "quick", options, **protocol)


@pytest.mark.parametrize("name", list(REFERENCES))
def test_a_run_with_all_tasks_together_completes(name, tmp_path):
    record = execute(spec(name, together=True), tmp_path)
    assert record.complete
    assert record.summary["acc"] > (0.2 if name == "sgd" else 0.6), "SGD sees each row once"
    assert record.summary["memory_bytes"] > 0


def test_a_run_of_a_ceiling_in_sequence_is_refused(tmp_path):
    with pytest.raises(UsageError, match="run with --together"):
        execute(spec("forest"), tmp_path)


def accuracies(directory):
    return (directory / "accuracy.csv").read_bytes()


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_a_stopped_run_starts_again_and_completes(name, tmp_path):
    asked = iter(range(100))
    with pytest.raises(Interrupted, match="cannot be saved, so the run starts again"):
        execute(spec(name), tmp_path / "a", every=0.0, stop=lambda: next(asked) >= 3)
    directory = tmp_path / "a" / spec(name).name
    assert len(accuracies(directory).splitlines()) > 3, "some tasks were learned"
    assert not list(directory.glob("checkpoints/*"))
    again, whole = execute(spec(name), tmp_path / "a"), execute(spec(name), tmp_path / "b")
    assert again.complete
    assert accuracies(directory) == accuracies(whole.directory)
    starts = [event["step"] for event in again.events if event["kind"] == "task_began"]
    assert starts == list(range(1, 11)), "nothing of the stopped run is left"


KILLED = """
import os, signal, sys
from pathlib import Path
from dgdmn.records import RunWriter
from test_reference import execute, spec

def row(self, *given, write=RunWriter.row, **named):
    write(self, *given, **named)
    if named["step"] == 4:
        os.kill(os.getpid(), signal.SIGKILL)

RunWriter.row = row
execute(spec("gnb"), Path(sys.argv[1]), every=0.0)
"""


@pytest.mark.slow
def test_a_killed_run_starts_again_and_completes(tmp_path):
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "a"],
        env={**os.environ, "PYTHONPATH": paths},
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL
    directory = tmp_path / "a" / spec("gnb").name
    assert not RunRecord.read(directory).complete
    assert execute(spec("gnb"), tmp_path / "a").complete
    assert accuracies(directory) == accuracies(execute(spec("gnb"), tmp_path / "b").directory)


@pytest.mark.slow
def test_the_real_command_line_compares_references_with_slda(tmp_path):
    words = ["compare", "embedded", "--algorithms", "gnb", "logistic", "slda", "--seeds", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "dgdmn.cli", *words, "--jobs", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    with (tmp_path / "runs" / "compare.csv").open(newline="") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert [name.partition(" (")[0] for name in rows] == [
        "GaussianNB",
        "Logistic regression",
        "SLDA",
    ]
    assert [row["ceiling"] for row in rows.values()] == ["0", "1", "0"]
    for row in rows.values():
        assert float(row["acc"]) > 0.9
        assert float(row["memory_bytes"]) > 0
    assert "Logistic regression (all tasks together)‡" in done.stdout
