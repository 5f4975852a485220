"""TaskStream: lazy loading, slices, seeds, the validation split; load and its options."""

import doctest
import pickle
import subprocess
import sys

import numpy as np
import pytest

from dgdmn import streams
from dgdmn.config import override, resolve
from dgdmn.config.registry import STREAMS
from dgdmn.core.errors import UsageError
from dgdmn.streams import Rows, TaskStream, arrays, base, load, stream_options
from dgdmn.streams.base import scale_to_unit, seeded_rng


def toy_stream(loads, **options):
    """Three tasks of ten rows that hold task and row number; `loads` records what is loaded."""

    def rows(number):
        loads.append(number)
        x = np.stack([np.full(10, number), np.arange(10)], axis=1).astype(np.float32)
        return Rows(x, np.full(10, number)), Rows(x + 100, np.full(10, number))

    return TaskStream("toy", [(f"t{n}", (n,)) for n in range(3)], (2,), rows, **options)


def test_only_the_indexed_task_is_loaded():
    loads = []
    stream = toy_stream(loads)
    assert (len(stream), stream.task_names, stream.classes, stream.shape) == (
        3,
        ("t0", "t1", "t2"),
        (0, 1, 2),
        (2,),
    )
    assert loads == []
    assert stream[1].name == "t1"
    assert stream[-1].name == "t2"
    assert loads == [1, 2]


def test_iteration_ends_and_an_index_past_the_end_is_an_error():
    assert [t.name for t in toy_stream([])] == ["t0", "t1", "t2"]
    with pytest.raises(IndexError):
        toy_stream([])[3]


def test_without_validation_there_is_none():
    assert toy_stream([])[0].validation is None


def test_validation_and_training_share_no_row_and_lose_none():
    learned = toy_stream([], validation=0.3)[0]
    assert (len(learned.train), len(learned.validation), len(learned.test)) == (7, 3, 10)
    rows = np.concatenate([learned.train.x[:, 1], learned.validation.x[:, 1]])
    assert sorted(rows.tolist()) == list(range(10))


def test_seed_and_task_decide_the_validation_split():
    def cut(seed, number):
        return toy_stream([], validation=0.5, seed=seed)[number].validation.x[:, 1].tolist()

    assert cut(0, 0) == cut(0, 0)
    assert len({tuple(cut(seed, number)) for seed in range(3) for number in range(3)}) > 3


def test_a_slice_is_a_stream_of_the_same_tasks():
    whole = toy_stream([], validation=0.5, seed=4)
    part = whole[1:]
    assert isinstance(part, TaskStream)
    assert (part.task_names, part.classes, part.validation, part.name) == (
        ("t1", "t2"),
        (1, 2),
        0.5,
        "toy",
    )
    np.testing.assert_array_equal(part[0].train.x, whole[1].train.x)
    assert part[1:][0].name == "t2"
    assert whole[::-1].task_names == ("t2", "t1", "t0")


@pytest.mark.parametrize("value", [-0.1, 1, 1.5, "half", float("nan")])
def test_a_fraction_out_of_range_is_refused(value):
    with pytest.raises(UsageError, match="validation is"):
        toy_stream([], validation=value)


@pytest.mark.parametrize("value", [-1, 1.5, "0", True])
def test_an_invalid_seed_is_refused(value):
    with pytest.raises(UsageError, match="seed is"):
        toy_stream([], seed=value)


def test_one_row_cannot_be_split():
    single = Rows(np.zeros((1, 2)), np.zeros(1))
    stream = TaskStream("one", [("only", (0,))], (2,), lambda _: (single, single), validation=0.5)
    with pytest.raises(UsageError, match="task 'only' has 1 training rows"):
        stream[0]


def test_each_row_needs_a_label():
    with pytest.raises(UsageError, match="x has 2 rows and y has 3"):
        Rows(np.zeros((2, 2)), np.zeros(3))


def test_augment_gets_only_rows_left_after_the_validation_split():
    seen = []
    stream = TaskStream(
        "toy",
        [("only", (0,))],
        (1,),
        lambda _: (Rows(np.arange(10)[:, None], np.zeros(10)),) * 2,
        validation=0.2,
        augment=lambda number, rows: seen.append((number, rows)) or rows,
    )
    held_out = stream[0].validation
    assert seen[0][0] == 0
    assert not set(seen[0][1].x.ravel()) & set(held_out.x.ravel())


def test_a_note_is_computed_when_it_is_read():
    stream = TaskStream("toy", [], (1,), lambda _: pytest.fail("loaded"), note=lambda: "read")
    assert stream.note == "read"
    assert toy_stream([]).note == ""


def test_each_use_of_a_seed_gets_other_numbers():
    draws = {
        seeded_rng(*key).integers(1 << 60) for key in [(0, "a"), (0, "b"), (1, "a"), (0, "a", 1)]
    }
    assert len(draws) == 4


def test_to_unit():
    values = scale_to_unit(np.array([0, 51, 255], dtype=np.uint8))
    assert values.dtype == np.float32
    assert values.tolist() == [0.0, np.float32(0.2), 1.0]


def test_every_registered_stream_can_be_loaded():
    assert {load(name).name for name in STREAMS} == set(STREAMS)


def test_a_typo_gets_a_suggestion():
    with pytest.raises(UsageError, match=r"no stream 'digit' .did you mean digits"):
        load("digit")
    with pytest.raises(UsageError, match=r"no option 'clases' .did you mean classes"):
        load("tdigits", clases=10)
    with pytest.raises(UsageError, match=r"'digits' has no option 'classes': it has none"):
        load("digits", classes=10)


def test_the_configuration_decides_the_classes_of_tdigits():
    ten = override(resolve("paper", "tdigits"), {"tdigits_classes": 10})
    assert stream_options("tdigits", ten) == {"classes": 10}
    assert stream_options("digits", ten) == {}
    assert stream_options("tdigits", resolve("paper", "tdigits")) == {}


def test_a_stream_can_be_pickled():
    assert pickle.loads(pickle.dumps(load("embedded", seed=3)))[2:4].task_names == ("2", "3")
    own = arrays.from_arrays(np.arange(8.0)[:, None], np.repeat([0, 1], 4))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(own))[1].train.x, own[1].train.x)


@pytest.mark.parametrize("with_tasks", [True, False])
def test_chunks_are_the_training_rows_in_order(with_tasks):
    stream = load("embedded")[:2]
    chunks = list(stream.chunks(100, with_tasks=with_tasks))
    assert max(map(len, chunks)) == 100
    rows = np.concatenate([task.train.x for task in stream])
    np.testing.assert_array_equal(np.concatenate([chunk.x for chunk in chunks]), rows)
    assert {chunk.task for chunk in chunks} == ({"0", "1"} if with_tasks else {None})
    assert all(len({*chunk.y.tolist()}) == 1 for chunk in chunks), "no chunk spans two tasks"
    with pytest.raises(UsageError, match="size is 0: give a whole number of at least 1"):
        next(stream.chunks(0))


def test_importing_is_cheap():
    modules = "dgdmn.streams, dgdmn.streams.fetch, dgdmn.streams.mnist, dgdmn.streams.images"
    code = f"import sys, {modules}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert "numpy" in loaded
    assert not loaded & {"torch", "sklearn", "scipy", "pooch", "PIL", "requests"}


@pytest.mark.parametrize("module", [streams, base, arrays])
def test_the_examples_in_docstrings(module):
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)
