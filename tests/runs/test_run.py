"""A run on every stream: rows, columns, events, status, and the end of a stream."""

import itertools
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from dgdmn import streams
from dgdmn.algorithms.estimator import ContinualClassifier, Prepared
from dgdmn.config import PAPER, override, resolve
from dgdmn.config.registry import ALGORITHMS, STREAMS, algorithm_info
from dgdmn.core.errors import DgdmnError, Interrupted, UsageError
from dgdmn.core.files import directory_lock
from dgdmn.records import RunWriter, read_status
from dgdmn.report import write_report
from dgdmn.runs import protocol, runner
from dgdmn.runs.artifacts import Artifacts
from dgdmn.runs.runner import execute
from dgdmn.runs.spec import RunSpec
from dgdmn.streams import Rows, Task, TaskStream, from_arrays

TINY = {"samples_per_task": 16, "generator_epochs": 1, "learner_epochs": 1, "min_steps": 4}
TINY |= {"joint_epochs": 1, "ridge_units": 50}


def spec(stream="embedded", algorithm="dgdmn", preset="quick", together=False, **changes):
    options = override(resolve(preset, stream), TINY | changes)
    return RunSpec(stream, algorithm, preset, options, together=together)


def needs_data(stream):
    if STREAMS[stream].dataset and not os.environ.get("DGDMN_DATA"):
        pytest.skip("DGDMN_DATA names no directory with the real datasets")


def pairs():
    """Every algorithm on every stream with a preset; in the quick suite a few."""
    for stream, algorithm in itertools.product(PAPER, ALGORITHMS):
        quick = stream == "embedded" or (stream == "hindi" and algorithm == "er")
        yield pytest.param(stream, algorithm, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(("stream", "algorithm"), list(pairs()))
def test_every_algorithm_runs_on_every_stream(tmp_path, stream, algorithm):
    needs_data(stream)
    record = execute(spec(stream, algorithm), tmp_path)
    tasks, generative = len(streams.load(stream)), algorithm_info(algorithm).generative
    assert record.complete
    assert record.accuracy.shape == (tasks, tasks)
    assert np.isfinite(record.accuracy).all(), "also on tasks to come"
    assert (record.accuracy_ltm is not None) == generative
    assert record.summary["memory_bytes"] > record.summary["exemplar_bytes"] >= 0
    assert record.summary["peak_rss_mb"] > 0
    intact = record.artifact("resilience")["noise_accuracy_unclipped"][0]
    assert intact == pytest.approx(record.summary["acc"]), "so few rows that all are tested"
    assert ({"latents", "reconstructions"} <= set(record.artifacts)) == generative
    done = [event["done"] for event in record.events if event["kind"] == "epoch_done"]
    if algorithm_info(algorithm).closed_form:
        assert not done
    elif algorithm != "dgdmn-recog":
        assert done[-1] == pytest.approx(1), "the plan and the work done agree"


@pytest.mark.parametrize(
    "algorithm", ["dgdmn", pytest.param("dgdmn-recog", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "stream",
    [name if name == "embedded" else pytest.param(name, marks=pytest.mark.slow) for name in PAPER],
)
def test_deep_runs_on_every_stream_with_its_own_sizes(tmp_path, stream, algorithm):
    needs_data(stream)
    brief = {"batch_size": 16, "sttm_min_steps": 4, "n_max": 400}
    record = execute(spec(stream, algorithm, "deep", **brief), tmp_path)
    assert record.complete
    assert np.isfinite(record.accuracy).all()
    assert np.isfinite(record.accuracy_ltm[-1]).all()
    assert record.config["options"]["predict_with"] == "learner+prior"


@pytest.mark.parametrize(
    "algorithm",
    ["dgdmn", *(pytest.param(n, marks=pytest.mark.slow) for n in ("dgr", "dgdmn-recog"))],
)
def test_a_mixture_memory_has_tasks_and_sleeps_but_no_epochs(tmp_path, monkeypatch, algorithm):
    written = statuses(monkeypatch)
    record = execute(spec(algorithm=algorithm, preset="best", n_stm=5), tmp_path)
    assert not {event["kind"] for event in record.events} & {"epoch_done", "replayed"}
    assert record.summary["acc"] > 0.9
    assert record.summary["samples_trained"] == record.summary["steps_trained"] == 0
    assert record.summary["sleeps"] == (2 if algorithm_info(algorithm).short_term else 0)
    shares = [status["share"] for status in written if status["phase"] == "learning"]
    assert shares == pytest.approx([step / 10 for step in range(10)]), "by tasks"
    assert {"dreams-010", "reconstructions", "resilience"} <= set(record.artifacts)
    latents = record.artifact("latents")
    assert latents["z"].shape == (160, 64), "the first numbers of the code"
    assert np.isfinite(latents["z"]).all()
    report = write_report([tmp_path], tmp_path / "page.html", None)
    assert (report.runs, report.problems) == (1, 0)


@pytest.mark.slow
def test_deep_remembers_the_embedded_digits(tmp_path):
    """.952 with this seed; `paper` has .825 and joint training .955."""
    one = RunSpec("embedded", "dgdmn", "deep", resolve("deep", "embedded"))
    summary = execute(one, tmp_path).summary
    assert summary["acc"] > 0.92
    assert summary["bwt"] > -0.08


@pytest.mark.slow
def test_tdigits_may_have_ten_classes_digit_by_digit(tmp_path):
    needs_data("tdigits")
    record = execute(spec("tdigits", "nn", tdigits_classes=10, n_classes=10), tmp_path)
    assert record.config["tasks"][:5] == ["0", "0 mirrored", "0 upside down", "0 transposed", "1"]
    assert record.config["classes"] == list(range(10))


def test_the_last_row_is_recorded_before_and_after_the_final_sleep(tmp_path):
    record = execute(spec(n_stm=4), tmp_path)  # ten tasks: sleeps after 4, 8 and the end
    assert np.isnan(record.accuracy_ltm[:3]).all(), "before the first sleep"
    assert np.isfinite(record.accuracy_ltm[3:]).all()
    lines = (record.directory / "accuracy.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[-2:]] == ["10", "10"]
    assert record.summary["sleeps"] == 3
    assert (record.accuracy[-1] == record.accuracy_ltm[-1]).all()
    assert "dreams-010" in record.artifacts


def test_the_same_seed_gives_the_same_bits(tmp_path):
    first, second = (execute(spec(), tmp_path / name) for name in "ab")
    other = execute(replace(spec(), seed=1), tmp_path / "c")
    content = [(record.directory / "accuracy.csv").read_bytes() for record in (first, second)]
    assert content[0] == content[1]
    dreams = [record.artifact("dreams-010")["x"] for record in (first, second, other)]
    assert np.array_equal(dreams[0], dreams[1])
    assert not np.array_equal(dreams[0], dreams[2])


def test_a_task_is_cut_to_the_rows_asked_for(tmp_path):
    record = execute(spec(algorithm="nn"), tmp_path)
    began = [event for event in record.events if event["kind"] == "task_began"]
    assert [event["samples"] for event in began] == [16] * 10


def loads(monkeypatch):
    """The numbers of the tasks that are loaded from now on."""
    numbers, load = [], TaskStream._load_task

    def note(self, number):
        numbers.append(number)
        return load(self, number)

    monkeypatch.setattr(TaskStream, "_load_task", note)
    return numbers


def given_rows(monkeypatch):
    """The images that models learn from now on; the plan learns flat rows."""
    given, learn = [], ContinualClassifier._learn

    def note(self, X, y, *arguments, **named):
        given.extend([(X, y)] * (X.ndim == 3))
        return learn(self, X, y, *arguments, **named)

    monkeypatch.setattr(ContinualClassifier, "_learn", note)
    return given


@pytest.mark.parametrize("cache", [None, 0])
@pytest.mark.parametrize("stream", ["embedded", pytest.param("digits", marks=pytest.mark.slow)])
def test_each_task_is_loaded_once_and_learned_as_it_is(tmp_path, monkeypatch, stream, cache):
    needs_data(stream)
    numbers, given = loads(monkeypatch), given_rows(monkeypatch)
    if cache is not None:
        monkeypatch.setattr(protocol, "CACHE_BYTES", cache)
    one = replace(spec(stream, "nn", samples_per_task=0, batch_size=9999, min_steps=1), revise=(2,))
    execute(one, tmp_path)
    again = [] if cache is None else [*range(10), 1]
    assert numbers == [*range(10), *again]
    assert len(given) == 11
    for (x, y), number in zip(given, [*range(10), 1], strict=True):
        rows = streams.load(stream)[number].train
        assert (x.dtype, y.dtype) == (rows.x.dtype, rows.y.dtype)
        assert np.array_equal(x, rows.x)
        assert np.array_equal(y, rows.y)


def test_a_custom_stream_can_be_run(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 40)
    X = ((rng.random((120, 5)) + (y == "b")[:, None]) / 2).astype(np.float32)
    stream = from_arrays([(name, X[y == name], y[y == name]) for name in "abc"])
    options = override(resolve("best"), {"min_steps": 10})
    one = RunSpec(stream.name, "dgdmn", "best", options)
    record = execute(one, tmp_path, stream=stream)
    assert record.task_names == ("a", "b", "c")
    assert record.config["classes"] == ["a", "b", "c"]
    assert record.config["shared_classes"] is False
    assert record.complete
    with pytest.raises(
        UsageError, match="evaluate_on is 'validation', but the stream's validation"
    ):
        execute(replace(one, evaluate_on="validation"), tmp_path, stream=stream)


@pytest.mark.parametrize("algorithm", ["nn", "dgdmn"])
def test_a_common_test_set_is_tested_once_without_a_task_name(tmp_path, monkeypatch, algorithm):
    rng = np.random.default_rng(0)
    x, y = rng.random((60, 5)).astype(np.float32), np.arange(60) % 2
    parts = [Rows(x[i::4], y[i::4]) for i in range(4)]
    tasks = [(name, (0, 1)) for name in "abc"]
    stream = TaskStream("users", tasks, (5,), lambda i: (parts[i], parts[3]), common_test=True)
    asked, predict = [], ContinualClassifier.predict

    def note(self, X, task=None):
        asked.append(task)
        return predict(self, X, task)

    monkeypatch.setattr(ContinualClassifier, "predict", note)
    shown, write_final = [], Artifacts.write_final

    def look(self, model):
        shown.append(len(self._tests))
        asked_before = len(asked)
        write_final(self, model)
        del asked[asked_before:]

    monkeypatch.setattr(Artifacts, "write_final", look)
    options = override(resolve("quick"), TINY | {"samples_per_task": 8})
    record = execute(RunSpec("users", algorithm, "quick", options), tmp_path, stream=stream)
    assert (record.accuracy == record.accuracy[:, :1]).all()
    assert record.accuracy.shape == (3, 3)
    assert asked == [None] * (4 if algorithm == "dgdmn" else 3), "three steps and the last sleep"
    assert shown == [1], "artifacts show the common rows once"
    if algorithm == "dgdmn":
        assert np.isnan(record.accuracy_ltm[0]).all(), "before the first sleep"
        assert (record.accuracy_ltm[1:] == record.accuracy_ltm[1:, :1]).all()


def test_a_wrong_request_leaves_no_directory(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="revise names task 11; embedded has tasks 1 to 10"):
        execute(replace(spec(), revise=(11,)), tmp_path)
    with pytest.raises(UsageError, match="device 'nowhere' "):
        execute(replace(spec(), device="nowhere"), tmp_path)

    def missing(self, number):
        raise DgdmnError("no data")

    monkeypatch.setattr(TaskStream, "_load_task", missing)
    with pytest.raises(DgdmnError, match="no data"):
        execute(spec(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def in_a_thread(call):
    """The result of a call in another thread: a lock counts for its thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def test_a_run_in_use_is_refused_and_a_complete_one_is_returned(tmp_path):
    with (
        directory_lock(tmp_path / spec().name),
        pytest.raises(DgdmnError, match="is in use by another"),
    ):
        in_a_thread(lambda: execute(spec(), tmp_path))
    record = execute(spec(algorithm="nn"), tmp_path)
    before = (record.directory / "events.jsonl").read_bytes()
    with directory_lock(record.directory):
        assert in_a_thread(lambda: execute(spec(algorithm="nn"), tmp_path)).complete
    assert (record.directory / "events.jsonl").read_bytes() == before


def test_a_run_that_another_process_completes_meanwhile_is_not_repeated(tmp_path, monkeypatch):
    """It was incomplete when this process looked; the other one ended before this one took the lock."""
    what, load = spec(algorithm="nn"), runner._load_stream
    with pytest.raises(Interrupted):
        execute(what, tmp_path, stop=lambda: True)
    written = []

    def load_slowly(given):
        monkeypatch.undo()
        code = "import pickle, sys; from dgdmn.runs.runner import execute; "
        code += "execute(*pickle.load(sys.stdin.buffer))"
        pickled = pickle.dumps((given, tmp_path))
        subprocess.run([sys.executable, "-c", code], input=pickled, check=True)
        written.append((tmp_path / what.name / "events.jsonl").read_bytes())
        return load(given)

    monkeypatch.setattr(runner, "_load_stream", load_slowly)
    record = execute(what, tmp_path)
    assert record.complete
    assert [(record.directory / "events.jsonl").read_bytes()] == written


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("name", ["checkpoints", "artifacts"])
def test_a_linked_directory_is_refused_and_left_alone(tmp_path, name, complete):
    what, outside = spec(algorithm="nn"), tmp_path / "outside"
    (outside / "000001").mkdir(parents=True)
    (outside / "000001" / "mine").touch()
    (outside / f".mine.{'0' * 16}.tmp").touch()
    out = tmp_path / "runs"
    if not complete:
        with pytest.raises(Interrupted):
            execute(what, out, stop=lambda: True)
    else:
        execute(what, out)
    shutil.rmtree(out / what.name / name, ignore_errors=True)
    (out / what.name / name).symlink_to(outside)
    if complete:
        assert execute(what, out).complete
    else:
        with pytest.raises(DgdmnError, match=rf"{name} is a link or a file, not a directory"):
            execute(what, out)
    assert len(list(outside.rglob("*"))) == 3


def test_a_linked_checkpoint_is_neither_read_nor_written_nor_removed(tmp_path):
    what = spec(algorithm="nn")
    for _ in range(2):
        with pytest.raises(Interrupted):
            execute(what, tmp_path, stop=lambda: True)
    places = tmp_path / what.name / "checkpoints"
    newest, outside = max(places.iterdir()), tmp_path / "outside"
    newest.rename(outside)
    newest.symlink_to(outside)
    (places / "000009").symlink_to(tmp_path / "absent")
    before = {path: path.read_bytes() for path in outside.iterdir()}
    with pytest.raises(Interrupted):
        execute(what, tmp_path, stop=lambda: True)
    assert execute(what, tmp_path).complete
    assert {path: path.read_bytes() for path in outside.iterdir()} == before
    assert not (tmp_path / "absent").exists()


def test_what_a_killed_process_left_is_removed(tmp_path):
    what = spec(algorithm="nn")
    with pytest.raises(Interrupted):
        execute(what, tmp_path, stop=lambda: True)
    (place,) = (tmp_path / what.name / "checkpoints").iterdir()
    left = [place / f".a.{'0' * 16}.tmp", tmp_path / what.name / f".a.{'0' * 16}.tmp"]
    for path in left:
        path.touch()
    with pytest.raises(Interrupted):
        execute(what, tmp_path, stop=lambda: True)
    assert place.exists()
    assert not any(path.exists() for path in left)


def statuses(monkeypatch):
    """Every status that is written from now on."""
    written, write = [], RunWriter.status

    def note(self, phase, **fields):
        written.append({"phase": phase, **fields})
        write(self, phase, **fields)

    monkeypatch.setattr(RunWriter, "status", note)
    return written


def test_the_status_says_what_a_run_does(tmp_path, monkeypatch):
    written = statuses(monkeypatch)
    record = execute(spec(n_stm=5), tmp_path)
    phases = [key for key, _ in itertools.groupby(status["phase"] for status in written)]
    task = ["learning", "testing"]
    sleeping = ["learning", "sleeping", "testing"]
    assert phases == ["loading", *task * 4, *sleeping, *task * 4, *sleeping, "finishing", "done"]
    shares = [status["share"] for status in written]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    status = read_status(record.directory)
    assert datetime.fromisoformat(status.pop("heartbeat"))
    assert status.pop("seconds") > 0
    expected = {"phase": "done", "task": "9", "step": 10, "steps": 10, "share": 1.0, "message": ""}
    expected |= {
        "seconds_left": 0,
        "pid": os.getpid(),
        "acc": pytest.approx(record.accuracy[-1].mean()),
    }
    assert status == expected
    first = next(
        status for status in written if status["phase"] == "learning" and status["step"] == 3
    )
    assert first["acc"] == record.accuracy[1, :2].mean(), "the mean of the tasks seen"
    assert first["seconds_left"] > 0


def test_the_status_says_how_a_run_ended(tmp_path, monkeypatch):
    with pytest.raises(Interrupted):
        execute(spec(), tmp_path, stop=lambda: True)
    assert read_status(tmp_path / spec().name)["phase"] == "stopped"

    def fail(*_):
        raise DgdmnError("no luck")

    monkeypatch.setattr(protocol, "evaluate", fail)
    with pytest.raises(DgdmnError, match="no luck"):
        execute(spec(), tmp_path)
    status = read_status(tmp_path / spec().name)
    assert (status["phase"], status["message"]) == ("failed", "no luck")


def epochs(record):
    names = ("memory", "network", "epoch", "samples")
    events = [event for event in record.events if event["kind"] == "epoch_done"]
    return [tuple(event[name] for name in names) for event in events]


QUICK = [(name, "quick") for name in ("nn", "joint", "dgr", "dgdmn", "dgdmn-recog", "er")]


@pytest.mark.parametrize(("algorithm", "preset"), [*QUICK, ("dgdmn", "best")])
def test_together_has_one_row_with_a_column_for_each_task(algorithm, preset, tmp_path):
    record = execute(spec(algorithm=algorithm, preset=preset, together=True), tmp_path)
    lines = (record.directory / "accuracy.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in lines] == [["step", "after"], ["1", "9"]]
    assert record.accuracy.shape == (1, 10)
    assert record.summary["acc"] == record.accuracy.mean()
    assert record.summary["bwt"] is None
    began = [event["samples"] for event in record.events if event["kind"] == "task_began"]
    assert began == [160]
    assert record.summary["sleeps"] == algorithm_info(algorithm).short_term
    if algorithm_info(algorithm).generative:
        assert (record.accuracy_ltm == record.accuracy).all(), "it has slept"
        assert "dreams-001" in record.artifacts


def test_together_learns_the_rows_of_the_stream_in_its_order(tmp_path, monkeypatch):
    given = given_rows(monkeypatch)
    execute(spec(algorithm="nn", together=True, samples_per_task=0), tmp_path)
    ((x, y),) = given
    tasks = list(streams.load("embedded"))
    assert np.array_equal(x, np.concatenate([task.train.x for task in tasks]))
    assert np.array_equal(y, np.concatenate([task.train.y for task in tasks]))


def test_together_classifiers_train_as_long_as_joint_and_generators_as_ever(tmp_path):
    def run(algorithm):
        sizes = {"joint_epochs": 3, "min_steps": 0, "n_max": 9999}
        return epochs(execute(spec(algorithm=algorithm, together=True, **sizes), tmp_path))

    network = [("", "learner", epoch, 160) for epoch in (1, 2, 3)]
    assert run("nn") == run("joint") == network
    memory = [("ltm", "generator", 1, 160)] + [
        ("ltm", "learner", epoch, 160) for epoch in (1, 2, 3)
    ]
    assert run("dgr") == memory
    assert run("dgdmn") == [("stm", *what[1:]) for what in memory] + memory


class FeatureModel:
    """Predicts class 0, from rows or from what it prepared; counts how often it prepares."""

    def __init__(self):
        self.learned, self.prepared, self.predicted = 0, [], []

    def partial_fit(self, X, y, classes, task):
        self.learned += 1

    def prepare(self, X):
        assert self.learned, "before it learned anything, it does not know how to prepare"
        self.prepared.append(len(X))
        return Prepared(X)

    def predict(self, X, task=None):
        self.predicted.append(task)
        return np.zeros(len(X.inputs), dtype=int)


def unbalanced_stream():
    """Two tasks of one class each, with 8 and 2 test rows."""
    sizes = {"0": 8, "1": 2}
    tasks = [
        Task(name, *(Rows(np.zeros((n, 3), np.float32), np.full(n, int(name))),) * 3)
        for name, n in sizes.items()
    ]
    tasks = [replace(task, validation=None) for task in tasks]
    return from_arrays(tasks)


def test_test_rows_are_prepared_once():
    stream, model = unbalanced_stream(), FeatureModel()
    tasks = protocol.RunTasks(stream, RunSpec("arrays", "nn", "quick", resolve("quick")))
    for number in range(2):
        tasks.read(number)
    events = list(protocol.learn_stream(model, tasks, stream.classes))
    rows = [event.accuracy for event in events if isinstance(event, protocol.Evaluated)]
    assert rows == [(1.0, 0.0)] * 2
    assert model.prepared == [8, 2], "once for each task"
    assert model.predicted == ["0", "1"] * 2


def test_accuracy_is_recorded_over_tasks_and_over_rows(tmp_path):
    options = override(resolve("quick"), {"min_steps": 50})
    record = execute(
        RunSpec("arrays", "nn", "quick", options), tmp_path, stream=unbalanced_stream()
    )
    assert record.accuracy[-1].tolist() == [0, 1], "equal inputs: the last class is predicted"
    assert record.summary["acc"] == 0.5
    assert record.summary["row_accuracy"] == 0.2
    assert record.summary["macro_accuracy"] == 0.5
    assert record.summary["by_class"] == {"0": [0, 8], "1": [2, 2]}
    assert record.summary["evaluate_cpu_seconds"] > 0


def test_an_argument_that_the_class_does_not_have_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match="dgdmn has no argument 'kind'"):
        execute(replace(spec(), arguments={"kind": 3}), tmp_path)


def test_an_argument_of_the_class_reaches_the_estimator_and_survives_a_stop(tmp_path, monkeypatch):
    used, looks = [], itertools.count()
    learn = ContinualClassifier._learn

    def note(self, X, *arguments):
        used.extend([self.generator] * (X.ndim == 3))  # the plan learns flat rows
        return learn(self, X, *arguments)

    monkeypatch.setattr(ContinualClassifier, "_learn", note)
    one = replace(spec(algorithm="dgr"), arguments={"generator": "vae"})
    with pytest.raises(Interrupted):
        execute(one, tmp_path, stop=lambda: next(looks) > 12)
    record = execute(one, tmp_path)
    assert record.complete
    assert record.config["arguments"] == {"generator": "vae"}
    assert RunSpec.from_record(record) == one
    assert set(used) == {"vae"}
