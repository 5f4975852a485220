"""Runs on own data: files and frames become streams, and a run recognizes its data."""

from dataclasses import replace

import numpy as np
import pytest

import dgdmn
from dgdmn import DGDMN, NCM, SLDA, run_stream
from dgdmn.config.entries import parse_entry
from dgdmn.core.errors import DataError, DgdmnError, Interrupted, UsageError
from dgdmn.records import RunRecord
from dgdmn.runs import protocol
from dgdmn.runs.runner import execute
from dgdmn.runs.spec import RunSpec, make_spec
from dgdmn.streams import DataFile, from_arrays, from_frame, load

RNG = np.random.default_rng(0)
N = 180
MONTH = np.repeat([1, 2, 3], N // 3)
STATE = np.array(["ok", "worn", "broken"])[np.arange(N) % 3]
X = RNG.normal(size=(N, 3)) + 6 * (np.arange(N) % 3)[:, None]


def write(path, *, x=X, month=MONTH, separator=","):
    """A table with a date, a month, three numbers and a state."""
    lines = [separator.join(("day", "month", "a", "b", "c", "state"))]
    for number, (row, one, state) in enumerate(zip(x, month, STATE, strict=True)):
        cells = ["" if np.isnan(value) else f"{value:.4f}" for value in row]
        day = f"2024-{one:02d}-{number % 28 + 1:02d}"
        lines.append(separator.join((day, str(one), *cells, state)))
    path.write_text("\n".join(lines) + "\n")
    return path


pytestmark = pytest.mark.filterwarnings("ignore:values outside")


@pytest.fixture
def bare(monkeypatch):
    """Runs without artifacts, which take most of the time of a small run."""
    for name in ("write_dreams", "write_final"):
        monkeypatch.setattr(f"dgdmn.runs.artifacts.Artifacts.{name}", lambda *_: None)


def spec_of(path, algorithm="ncm", seed=0, **options):
    data = DataFile.find(path, **{"label": "state", "task": "month", **options})
    return make_spec(data.name, parse_entry(algorithm, None), seed, data=data)


# streams


def test_rows_are_sorted_and_cut_into_tasks_of_equal_size(tmp_path):
    path = write(tmp_path / "t.csv", month=MONTH[::-1])
    stream = from_arrays(path, label="state", order_by="day", tasks=4, ignore=["month"])
    assert stream.task_names == ("part 1", "part 2", "part 3", "part 4")
    assert [len(task.train) + len(task.test) for task in stream] == [45] * 4
    assert stream.shape == (3,), "neither the order nor what is ignored is a feature"
    halves = from_arrays(X, STATE, tasks=2)
    assert {*halves[0].train.x[:, 0]} < {*X[: N // 2, 0]}, "without an order, as they come"
    same = from_arrays(X, STATE, order_by=-MONTH, tasks=3)
    by_month = from_arrays(X, STATE, task=MONTH, order_by=-MONTH)
    assert by_month.task_names == ("3", "2", "1"), "an order sorts tasks that have names"
    for one, other in zip(same, by_month, strict=True):
        assert np.array_equal(one.train.x, other.train.x)


def test_test_rows_are_cut_where_the_training_rows_were():
    late = MONTH >= 2
    order = np.arange(N)
    with pytest.raises(UsageError, match="tasks 'part 1' are in only one of data and test"):
        from_frame(frame(order), "state", order_by="day", tasks=3, test=frame(order)[late])
    stream = from_frame(frame(order), "state", order_by="day", tasks=3, test=frame(order)[::2])
    assert [len(task.test) for task in stream] == [30, 30, 30]


def frame(day=None, **columns):
    pandas = pytest.importorskip("pandas")
    data = {"day": MONTH if day is None else day, "a": X[:, 0], "b": X[:, 1], "state": STATE}
    return pandas.DataFrame({**data, **columns})


def test_a_frame_is_the_same_stream_as_its_file(tmp_path):
    pandas = pytest.importorskip("pandas")
    path = write(tmp_path / "t.csv", separator=";")
    table = pandas.read_csv(path, sep=";")
    options = {"task": "month", "ignore": ["day"], "seed": 3}
    one = from_frame(table, "state", **options)
    other = from_arrays(path, label="state", **options)
    assert DataFile.from_stream(one) == DataFile.from_stream(other)
    assert DataFile.from_stream(one) != DataFile.from_stream(
        from_frame(table, "state", **options | {"seed": 4})
    )


@pytest.mark.parametrize("kind", ["date", "text", "zoned"])
def test_dates_order_a_frame(kind):
    pandas = pytest.importorskip("pandas")
    days = pandas.to_datetime([f"2024-01-{28 - number % 28:02d}" for number in range(N)])
    if kind == "text":
        days = days.strftime("%Y-%m-%d")
    if kind == "zoned":
        days = days.tz_localize("Europe/Berlin")
    stream = from_frame(frame(days), "state", order_by="day", tasks=2)
    other = from_frame(frame(-(np.arange(N) % 28)), "state", order_by="day", tasks=2)
    assert DataFile.from_stream(stream) == DataFile.from_stream(other)


def test_the_seed_draws_the_order_of_classes_only_if_asked():
    assert from_arrays(X, STATE, seed=1).task_names == ("broken", "ok", "worn")
    drawn = {from_arrays(X, STATE, seed=s, shuffle=True).task_names for s in range(40)}
    assert len(drawn) == 6
    named = from_arrays(X, STATE, task=MONTH, seed=1, shuffle=True)
    assert named.task_names == ("1", "2", "3"), "tasks that have an order keep it"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": 2, "task": MONTH}, "tasks is 2, but data has tasks already: leave one out"),
        ({"tasks": N + 1}, "tasks is 181: data has 180 rows, give 1 to 180"),
        ({"order_by": MONTH}, "data is ordered but has no tasks: give their number"),
        ({"order_by": STATE, "tasks": 2}, "order_by must have a number or a date for each row"),
        ({"order_by": "day", "tasks": 2}, "order_by='day' names a column of a file"),
        ({"ignore": ["a"]}, r"ignore=\['a'\] names a column of a file"),
        (
            {"order_by": np.where(MONTH == 2, np.nan, 1), "tasks": 2},
            "data has no value to order by in row 60",
        ),
    ],
)
def test_wrong_ways_to_cut_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        from_arrays(X, STATE, **options)


def test_wrong_frames_are_refused():
    with pytest.raises(UsageError, match="frame has no column 'stat': it has"):
        from_frame(frame(), "stat")
    with pytest.raises(UsageError, match="frame has no value in row 1, column 'state'"):
        from_frame(frame(state=["a", None, *STATE[2:]]), "state")
    with pytest.raises(UsageError, match="frame has no value in row 0, column 'day'"):
        from_frame(frame(np.where(np.arange(N) == 0, np.nan, 1)), "state", task="day")
    with pytest.raises(UsageError, match="order rows by numbers or dates"):
        from_frame(frame(), "day", order_by="state", tasks=2)
    with pytest.raises(UsageError, match="test lacks column 'b'"):
        from_frame(frame(), "state", test=frame().drop(columns="b"))


# runs


def test_a_run_stores_its_data_and_is_found_again(tmp_path, bare):
    path = write(tmp_path / "t.csv")
    record = execute(spec_of(path), tmp_path / "runs")
    assert record.task_names == ("1", "2", "3")
    assert record.name == "t.csv-ncm-best-label-state-task-month-seed0"
    assert record.config["data"]["path"] == str(path)
    assert record.summary["acc"] > 0.9
    assert record.config["note"].startswith("t.csv: dates in 'day' are left out")
    again = RunSpec.from_record(record)
    assert (again, again.key) == (spec_of(path), record.key)
    moved = tmp_path / "else" / "t.csv"
    moved.parent.mkdir()
    path.rename(moved)
    assert spec_of(moved).key == record.key, "the same data elsewhere is the same run"


def test_changed_or_moved_data_is_refused_in_one_sentence(tmp_path, bare):
    path, out = write(tmp_path / "t.csv"), tmp_path / "runs"
    begun = execute(spec_of(path), out)
    (begun.directory / "summary.json").unlink()
    resumed = RunSpec.from_record(RunRecord.read(begun.directory))
    hidden = path.rename(tmp_path / "u.csv")
    with pytest.raises(DataError, match=r"t\.csv does not exist; put it back, or repeat") as error:
        execute(resumed, out)
    assert "\n" not in str(error.value)
    hidden.rename(path)
    write(path, x=X + 1)
    with pytest.raises(DataError, match=r"^t\.csv has changed since this run began; restore it"):
        execute(resumed, out)
    with pytest.raises(UsageError, match=r"holds a run on different rows of t\.csv; remove it"):
        execute(spec_of(path), out)
    write(path)
    assert execute(resumed, out).complete


def test_another_label_or_task_is_another_run(tmp_path, bare):
    path = write(tmp_path / "t.csv")
    one = execute(spec_of(path), tmp_path / "runs")
    other = execute(spec_of(path, task=None, order_by="day", tasks=2), tmp_path / "runs")
    assert one.directory != other.directory
    assert other.task_names == ("part 1", "part 2")


def test_a_test_file_has_the_columns_of_the_training_file(tmp_path, bare):
    path, other = write(tmp_path / "t.csv"), write(tmp_path / "other.csv", x=X + 0.1)
    spec = spec_of(path, test=other)
    stream = spec.data.load()
    assert len(stream[0].test) == N // 3
    write(other, x=X + 0.2)
    with pytest.raises(DataError, match=r"^t\.csv or other\.csv has changed"):
        spec.data.load()


@pytest.mark.parametrize("value", [3, None, ["a"], {"path": 3}, {"path": "x", "tasks": -1}])
def test_a_config_with_odd_data_is_refused(tmp_path, value, bare):
    record = execute(spec_of(write(tmp_path / "t.csv")), tmp_path / "runs")
    odd = replace(record, config={**record.config, "data": value})
    if value is None:
        assert RunSpec.from_record(odd).data is None
    else:
        with pytest.raises(UsageError):
            RunSpec.from_record(odd)


def test_an_interrupted_run_on_a_file_continues_to_the_same_bits(tmp_path, bare):
    spec = spec_of(write(tmp_path / "t.csv"), "nn:quick+min_steps=2+learner_epochs=3")
    stops = iter([False] * 5)
    with pytest.raises(Interrupted):
        execute(spec, tmp_path / "runs", every=0.0, stop=lambda: next(stops, True))
    half = RunRecord.read(tmp_path / "runs" / spec.name)
    assert not half.complete
    assert list(half.directory.glob("checkpoints/*"))
    continued = execute(RunSpec.from_record(half), tmp_path / "runs")
    whole = execute(spec, tmp_path / "again")
    assert np.array_equal(continued.accuracy, whole.accuracy)


# missing values


def squares(rows):
    return np.hstack([rows, rows**2])


def test_missing_values_are_filled_for_methods_that_cannot_handle_them(bare, monkeypatch):
    holes = X.copy()
    holes[::7, 1] = np.nan
    stream = from_arrays(holes, STATE, task=MONTH, name="holes")
    assert stream.has_missing
    seen = []
    learn = protocol.learn_stream

    def spy(model, tasks, *rest, **more):
        seen.append(tasks)
        return learn(model, tasks, *rest, **more)

    monkeypatch.setattr("dgdmn.runs.protocol.learn_stream", spy)
    (record,) = run_stream(SLDA(features=squares), stream)
    assert record.config["note"] == record.summary["note"] == protocol.FILLED
    assert record.summary["acc"] > 0.9
    first = stream[0]
    means = np.nanmean(first.train.x, axis=0)
    tests = seen[0].tests["1"].x
    assert np.array_equal(tests, np.where(np.isnan(first.test.x), means, first.test.x))
    (full,) = run_stream(SLDA(features=squares), from_arrays(X, STATE, task=MONTH))
    assert full.config["note"] == ""
    records = run_stream(["dgdmn", "nn:quick+min_steps=2"], stream)
    assert [record.config["note"] for record in records] == ["", ""], "they handle them"
    assert np.isnan(seen[-1].tests["1"].x).any()


def test_rows_that_lack_values_are_translated_by_what_is_known_then(bare, monkeypatch):
    calls, prepare = [], NCM.prepare
    monkeypatch.setattr(NCM, "prepare", lambda self, x: calls.append(len(x)) or prepare(self, x))
    run_stream("ncm", from_arrays(X, STATE, task=MONTH))
    assert len(calls) == 3, "once for each task"
    holes = np.where(np.arange(N)[:, None] == [[0, 1, 2]], np.nan, X)
    stream = from_arrays(holes, STATE, task=MONTH, test=(holes, STATE, MONTH))
    calls.clear()
    run_stream("ncm", stream)
    assert len(calls) == 3 + 2, "again for the first task after each step"


def test_a_column_that_the_first_task_lacks_is_filled_with_zero(bare):
    holes = X.copy()
    holes[MONTH == 1, 2] = np.nan
    (record,) = run_stream(SLDA(features=squares), from_arrays(holes, STATE, task=MONTH))
    assert record.complete


# Python


def test_estimators_and_words_run_on_a_stream(tmp_path, bare):
    stream = from_arrays(X, STATE, task=MONTH)
    words = run_stream(["dgdmn", "slda+features=none"], stream, out=tmp_path)
    objects = run_stream([DGDMN(), SLDA(features="none")], stream, out=tmp_path)
    assert [one.directory for one in words] == [one.directory for one in objects], "the same runs"
    assert [one.key for one in words] == [one.key for one in objects]
    (loose,) = run_stream("dgdmn", stream)
    assert np.array_equal(loose.accuracy, words[0].accuracy)
    assert not loose.directory.exists()


def test_other_rows_under_one_name_are_another_run(tmp_path, bare):
    run_stream("ncm", from_arrays(X, STATE), out=tmp_path)
    with pytest.raises(UsageError, match="holds a run on different rows of arrays"):
        run_stream("ncm", from_arrays(X + 1, STATE), out=tmp_path)


def test_a_run_from_python_is_continued_in_python(tmp_path, bare):
    stream = from_arrays(X, STATE)
    (record,) = run_stream("ncm", stream, out=tmp_path)
    (record.directory / "summary.json").unlink()
    with pytest.raises(UsageError, match=r"came from Python; call dgdmn\.run_stream with it again"):
        execute(RunSpec.from_record(record), tmp_path)
    assert run_stream("ncm", stream, out=tmp_path)[0].complete


def test_a_stream_with_a_name_is_the_run_of_the_command_line(bare, tmp_path):
    (record,) = run_stream("ncm", load("wine"), out=tmp_path)
    assert "data" not in record.config
    assert record.name == "wine-ncm-best-seed0"
    (part,) = run_stream(NCM(random_state=1), load("wine")[:2], out=tmp_path)
    assert part.config["data"]["digest"]
    assert (part.config["seed"], part.task_names) == (1, load("wine").task_names[:2])


def test_an_estimator_keeps_its_code_and_its_state(bare, tmp_path):
    stream, own = from_arrays(X, STATE, task=MONTH), SLDA(features=squares)
    (record,) = run_stream(own, stream, out=tmp_path)
    assert record.config["arguments"]["features"].endswith("squares")
    assert not hasattr(own, "fitted_"), "it is copied"
    assert record.summary["acc"] > 0.9


def test_wrong_estimators_and_streams_are_refused():
    with pytest.raises(UsageError, match="make a stream with from_arrays, from_frame or load"):
        run_stream("ncm", X)
    with pytest.raises(UsageError, match="is not a dgdmn estimator"):
        run_stream([object()], from_arrays(X, STATE))
    with pytest.raises(DgdmnError, match="did you mean dgdmn"):
        run_stream("dgdm", from_arrays(X, STATE))
    with pytest.raises(UsageError, match="seed is RandomState"):
        run_stream(NCM(random_state=np.random.RandomState(0)), from_arrays(X, STATE))
    assert dgdmn.run_stream is run_stream
