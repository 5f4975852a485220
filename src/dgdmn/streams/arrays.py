"""Streams from your own data: arrays, a list of tasks, a file or a folder."""

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import UsageError
from dgdmn.streams.base import Rows, Task, TaskStream, check_fraction, check_seed, seeded_rng
from dgdmn.streams.readers import Arrays, check_arrays, read_arrays, rows_by_value, to_float

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
    """Return a stream of your own data. Values are not scaled: the estimator does that.

    `data` is an array X with labels `y`, a path (see `read_arrays`), a list of (name, X, y), or a
    list of Task. `task` gives the task of each row, as an array or as the name of a csv column or
    npz array; tasks keep their order of first appearance. Without tasks, every class is a task, in
    sorted order. `test` has the same form as the data ((X, y) or (X, y, task) for arrays). Without
    it, a seeded `test_size` of each class of each task is held out.

    >>> import numpy as np
    >>> stream = from_arrays(np.zeros((10, 4)), np.repeat(["cat", "dog"], 5))
    >>> stream.task_names, len(stream[0].train), len(stream[0].test)
    (('cat', 'dog'), 4, 1)
    """
    check_seed(seed)
    check_fraction("test_size", test_size)
    if test is None and test_size == 0:
        raise UsageError("test_size is 0 and test is missing: give test= or a fraction above 0")
    if _is_list_of(data, lambda item: isinstance(item, Task)):
        _refuse_extra("a list of Task", y=y, task=task, test=test)
        if any(item.validation is not None for item in data):
            raise UsageError("a task has validation rows: give (name, X, y) and validation=")
        test = [(item.name, item.test.x, item.test.y) for item in data]
        data = [(item.name, item.train.x, item.train.y) for item in data]
    train = _group(data, y, task, label, "data")
    if test is None:
        split = partial(_split, test_size=test_size, seed=seed)
        parts = {key: split(key, train[key], number) for number, key in enumerate(train)}
    else:
        parts = _pair(train, _group_test(test, task, label))
    tasks = [
        (key, tuple(np.unique(np.concatenate([train.y, test.y])).tolist()))
        for key, (train, test) in parts.items()
    ]
    loaded = list(parts.values())
    shape = loaded[0][0].x.shape[1:]
    return TaskStream(name, tasks, shape, loaded.__getitem__, seed=seed, validation=validation)


def _is_list_of(data: Any, fits: Callable[[Any], bool]) -> bool:
    is_list = isinstance(data, Sequence) and not isinstance(data, str)
    return is_list and len(data) > 0 and all(map(fits, data))


def _is_named_task(item: Any) -> bool:
    return isinstance(item, (tuple, list)) and len(item) == 3 and isinstance(item[0], str)


def _group(data: Any, y: Any, task: Any, label: str | None, what: str) -> dict[str, Rows]:
    """Return the rows of each task by its name, in the order of the tasks."""
    if isinstance(data, (str, os.PathLike)):
        if y is not None:
            raise UsageError(f"y is given beside {data}: name the label column with label= instead")
        arrays = read_arrays(data, label=label, task=task if isinstance(task, str) else None)
        if task is not None and not isinstance(task, str):
            arrays = arrays._replace(task=_to_array("task", task))
        return _group_by_task(arrays, str(data))
    if label is not None:
        raise UsageError(f"label={label!r} names a column of a file: give y as an array instead")
    if _is_list_of(data, _is_named_task):
        _refuse_extra("a list of (name, X, y)", y=y, task=task)
        return _group_named(data)
    if isinstance(data, (list, tuple)) and not data:
        raise UsageError(f"{what} is an empty list: give at least one task")
    if y is None:
        raise UsageError(f"{what} has no labels: give y, a path, or a list of (name, X, y)")
    if isinstance(task, str):
        raise UsageError(f"task={task!r} names a column of a file: give an array instead")
    tasks = None if task is None else _to_array("task", task)
    return _group_by_task(Arrays(_to_array(what, data), _to_array("y", y), tasks), what)


def _group_named(data: Iterable[tuple[str, Any, Any]]) -> dict[str, Rows]:
    groups: dict[str, Rows] = {}
    for name, x, y in data:
        if name in groups:
            raise UsageError(f"two tasks are named {name!r}: give each task its own name")
        x, y = _to_array(f"X of task {name!r}", x), _to_array(f"y of task {name!r}", y)
        if x.size == 0:
            raise UsageError(f"task {name!r} is empty: give it rows or leave it out")
        groups[name] = _to_rows(Arrays(x, y, None), f"task {name!r}")
    _check_shapes("tasks", groups.values())
    return groups


def _group_by_task(arrays: Arrays, what: str) -> dict[str, Rows]:
    rows = _to_rows(arrays, what)
    groups = rows_by_value(rows.y if arrays.task is None else arrays.task)
    keys = sorted(groups) if arrays.task is None else groups
    return {str(key): rows.take(np.array(groups[key])) for key in keys}


def _group_test(test: Any, task: Any, label: str | None) -> dict[str, Rows]:
    if not isinstance(test, tuple) or _is_list_of(test, _is_named_task):
        return _group(test, None, task if isinstance(task, str) else None, label, "test")
    if len(test) not in (2, 3):
        raise UsageError(f"test has {len(test)} parts: give (X, y) or (X, y, task)")
    return _group(test[0], test[1], test[2] if len(test) == 3 else None, None, "test")


def _pair(train: dict[str, Rows], test: dict[str, Rows]) -> dict[str, Parts]:
    if odd := sorted(train.keys() ^ test.keys()):
        listed = ", ".join(map(repr, odd))
        raise UsageError(f"tasks {listed} are in only one of data and test: give both all tasks")
    _check_shapes("data and test", (*train.values(), *test.values()))
    return {key: (rows, test[key]) for key, rows in train.items()}


def _split(name: str, rows: Rows, number: int, test_size: float, seed: int) -> Parts:
    """Hold out `test_size` of each class: at least one row, but none of a class with one row."""
    rng = seeded_rng(seed, "arrays split", number)
    held_out: list[NDArray[np.intp]] = []
    for value in np.unique(rows.y):
        members = rng.permutation(np.flatnonzero(rows.y == value))
        n_test = min(max(1, round(test_size * len(members))), len(members) - 1)
        held_out.append(members[:n_test])
    test = np.sort(np.concatenate(held_out))
    if len(test) == 0:
        raise UsageError(f"task {name!r} has one row per class: add rows or give test=")
    return rows.take(np.setdiff1d(np.arange(len(rows)), test)), rows.take(test)


def _to_array(name: str, value: Any) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} is not an array: give rows of one shape") from error
    pairs = zip(value, array.tolist(), strict=True) if isinstance(value, (list, tuple)) else ()
    # an array changes "a\0" to "a", and 2**53 + 1 beside 0.5 to 2**53; NaN is refused later
    if array.ndim == 1 and any(one != other and one == one for one, other in pairs):
        raise UsageError(f"{name} has values that an array changes: give values of one type")
    return array


def _to_rows(arrays: Arrays, what: str) -> Rows:
    if arrays.y is None:
        raise UsageError(f"{what} has no labels: give y, label= or class folders of images")
    check_arrays(arrays, what, UsageError)
    return Rows(to_float(arrays.X), arrays.y)


def _check_shapes(what: str, groups: Iterable[Rows]) -> None:
    shapes = {rows.x.shape[1:] for rows in groups}
    if len(shapes) > 1:
        raise UsageError(f"{what} have samples of shapes {sorted(shapes)}: bring all to one shape")


def _refuse_extra(form: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} is given beside {form}, which has its own: leave it out")
