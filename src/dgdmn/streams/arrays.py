"""Anyone's own data as a stream: arrays in memory, a list of tasks, or a file or folder."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.errors import UsageError
from dgdmn.streams.arguments import array, check_fraction, check_seed
from dgdmn.streams.reading import Arrays, check_arrays, plain, read_arrays
from dgdmn.streams.task import Rows, Task, TaskStream, generator

Parts = tuple[Rows, Rows]


def from_arrays(
    data: Any,
    y: Any = None,
    *,
    task: Any = None,
    test: Any = None,
    test_size: float = 0.2,
    label: str | None = None,
    seed: int = 0,
    validation: float = 0.0,
    name: str = "arrays",
) -> TaskStream:
    """A stream of your own data; values stay as they are (the estimator owns scaling).

    `data` is an array X with labels `y`, a path (see `read_arrays`), a list of (name, X, y), or a
    list of Task. `task` gives each row its task, as an array or as the name of a csv column or npz
    array; tasks come in the order in which they first appear. Without any task information every
    class is a task of its own, in sorted order (class-incremental). `test` has the same form as the
    data ((X, y) or (X, y, task) for arrays); without it, a seeded `test_size` of each class of each
    task is held out.

    >>> import numpy as np
    >>> stream = from_arrays(np.zeros((10, 4)), np.repeat(["cat", "dog"], 5))
    >>> stream.task_names, len(stream[0].train), len(stream[0].test)
    (('cat', 'dog'), 4, 1)
    """
    check_seed(seed)
    check_fraction("test_size", test_size)
    if test is None and test_size == 0:
        raise UsageError("test_size is 0 and there is no test part: give test= or a fraction above 0")
    if _is_listing(data) and data and all(isinstance(item, Task) for item in data):
        _refuse_beside("a list of Task", y=y, task=task, test=test)
        return _from_tasks(data, seed=seed, validation=validation, name=name)
    train = _grouped(data, y, task, label, "data")
    if test is None:
        parts = {key: _split(key, rows, test_size, seed, i) for i, (key, rows) in enumerate(train.items())}
    else:
        parts = _paired(train, _test_groups(test, task, label))
    return _stream(parts, seed=seed, validation=validation, name=name)


def _is_listing(data: Any) -> bool:
    return isinstance(data, Sequence) and not isinstance(data, (str, os.PathLike))


def _is_named_tasks(data: Any) -> bool:
    return (
        _is_listing(data)
        and bool(data)
        and all(
            isinstance(item, (tuple, list)) and len(item) == 3 and isinstance(item[0], str) for item in data
        )
    )


def _grouped(data: Any, y: Any, task: Any, label: str | None, what: str) -> dict[str, Rows]:
    """The rows of each task by its name, in the tasks' order."""
    if isinstance(data, (str, os.PathLike)):
        return _from_path(Path(data), y, task, label)
    if label is not None:
        raise UsageError(f"label={label!r} names a column of a file: give y as an array with arrays")
    if _is_named_tasks(data):
        _refuse_beside("a list of (name, X, y)", y=y, task=task)
        return _from_named(data)
    if _is_listing(data) and not data:
        raise UsageError(f"{what} is an empty list: give at least one task")
    if y is None:
        raise UsageError(f"{what} has no labels: give y, a path, or a list of (name, X, y)")
    if isinstance(task, str):
        raise UsageError(f"task={task!r} names a column of a file: give one task for each row with arrays")
    tasks = None if task is None else array("task", task)
    return _by_task(Arrays(array(what, data), array("y", y), tasks), what)


def _from_path(path: Path, y: Any, task: Any, label: str | None) -> dict[str, Rows]:
    if y is not None:
        raise UsageError(f"y is given beside {path}: name the label column with label= instead")
    column = task if isinstance(task, str) else None
    arrays = read_arrays(path, label=label, task=column)
    if task is not None and column is None:
        arrays = arrays._replace(task=np.asarray(task))
    return _by_task(arrays, str(path))


def _from_named(data: Iterable[tuple[str, Any, Any]]) -> dict[str, Rows]:
    groups: dict[str, Rows] = {}
    for name, x, y in data:
        if name in groups:
            raise UsageError(f"two tasks are named {name!r}: give each task its own name")
        arrays = Arrays(array(f"X of task {name!r}", x), array(f"y of task {name!r}", y), None)
        if arrays.X.size == 0:
            raise UsageError(f"task {name!r} is empty: give it rows or leave it out")
        groups[name] = _rows(arrays, f"task {name!r}")
    shapes = {rows.x.shape[1:] for rows in groups.values()}
    if len(shapes) > 1:
        raise UsageError(f"tasks have samples of shapes {sorted(shapes)}: bring all to one shape")
    return groups


def _by_task(arrays: Arrays, what: str) -> dict[str, Rows]:
    rows = _rows(arrays, what)
    if arrays.task is None:
        task, keys = rows.y, np.unique(rows.y).tolist()
    else:
        task = arrays.task
        keys = list(dict.fromkeys(task.tolist()))
    return {str(key): rows.take(np.flatnonzero(task == key)) for key in keys}


def _rows(arrays: Arrays, what: str) -> Rows:
    if arrays.y is None:
        raise UsageError(f"{what} has no labels: give y, label= for a file, or class folders of images")
    check_arrays(arrays, what, UsageError)
    return Rows(plain(arrays.X), arrays.y)


def _test_groups(test: Any, task: Any, label: str | None) -> dict[str, Rows]:
    if isinstance(test, tuple) and not _is_named_tasks(test):
        if len(test) not in (2, 3):
            raise UsageError(f"test has {len(test)} parts: give (X, y) or (X, y, task)")
        return _grouped(test[0], test[1], test[2] if len(test) == 3 else None, None, "test")
    return _grouped(test, None, task if isinstance(task, str) else None, label, "test")


def _paired(train: dict[str, Rows], test: dict[str, Rows]) -> dict[str, Parts]:
    if train.keys() != test.keys():
        odd = sorted(train.keys() ^ test.keys())
        listed = ", ".join(map(repr, odd))
        raise UsageError(f"tasks {listed} are in one of data and test only: give both the same tasks")
    shapes = {rows.x.shape[1:] for rows in (*train.values(), *test.values())}
    if len(shapes) > 1:
        raise UsageError(f"data and test have samples of shapes {sorted(shapes)}: bring all to one shape")
    return {key: (rows, test[key]) for key, rows in train.items()}


def _split(name: str, rows: Rows, test_size: float, seed: int, number: int) -> Parts:
    """Hold out `test_size` of each class: at least one row of a class with two, none of a class with one."""
    rng = generator(seed, "arrays split", number)
    held_out: list[NDArray[np.intp]] = []
    for value in np.unique(rows.y):
        members = rng.permutation(np.flatnonzero(rows.y == value))
        n_test = min(max(1, round(test_size * len(members))), len(members) - 1)
        held_out.append(members[:n_test])
    test = np.sort(np.concatenate(held_out))
    if len(test) == 0:
        raise UsageError(f"task {name!r} has no class with two rows to hold one out: add rows or give test=")
    return rows.take(np.setdiff1d(np.arange(len(rows)), test)), rows.take(test)


def _from_tasks(tasks: Sequence[Task], *, seed: int, validation: float, name: str) -> TaskStream:
    if any(task.validation is not None for task in tasks):
        raise UsageError("a task has its own validation part: give (name, X, y) and validation= instead")
    train = _from_named((task.name, task.train.x, task.train.y) for task in tasks)
    test = _from_named((task.name, task.test.x, task.test.y) for task in tasks)
    return _stream(_paired(train, test), seed=seed, validation=validation, name=name)


def _stream(parts: dict[str, Parts], *, seed: int, validation: float, name: str) -> TaskStream:
    tasks: list[tuple[str, tuple[Hashable, ...]]] = [
        (key, tuple(np.unique(np.concatenate([train.y, test.y])).tolist()))
        for key, (train, test) in parts.items()
    ]
    shape = next(iter(parts.values()))[0].x.shape[1:]
    load = partial(_nth, tuple(parts.values()))
    return TaskStream(name, tasks, shape, load, seed=seed, validation=validation)


def _nth(parts: tuple[Parts, ...], number: int) -> Parts:
    return parts[number]


def _refuse_beside(form: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} is given beside {form}, which has its own: leave it out")
