"""Streams from your own data: arrays, a data frame, a list of tasks, a file or a folder."""

import datetime
import os
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import UsageError
from dgdmn.core.table import Columns, Table, warn_about_names
from dgdmn.core.text import join_names
from dgdmn.streams.base import (
    Rows,
    Task,
    TaskStream,
    check_fraction,
    check_seed,
    concat_rows,
    seeded_rng,
)
from dgdmn.streams.readers import Arrays, check_arrays, read_arrays, rows_by_value, to_float

Parts = tuple[Rows, Rows]
Groups = dict[str, Rows]  # the rows of each task
Bounds = NDArray[Any] | None  # values of the order at which tasks were cut, and the last one


class _TaskOptions(NamedTuple):
    """Column roles, and how rows are divided into tasks."""

    label: str | None = None
    task: Any = None
    order_by: Any = None
    tasks: int = 0
    ignore: Collection[str] = ()
    text: Collection[str] = ()

    @property
    def task_name(self) -> str | None:
        return self.task if isinstance(self.task, str) else None

    @property
    def order_name(self) -> str | None:
        return self.order_by if isinstance(self.order_by, str) else None

    @property
    def roles(self) -> dict[str, str | None]:
        """The names of columns by what they are."""
        return {"label": self.label, "task": self.task_name, "order_by": self.order_name}

    def check_roles(self) -> None:
        """Refuse a column with two roles."""
        found: dict[str, str] = {}
        for role, name in self.roles.items():
            if name in found:
                raise UsageError(f"{name!r} is {found[name]} and {role}: give each its own column")
            if name is not None:
                found[name] = role


def from_arrays(
    data: Any,
    y: Any = None,
    *,
    task: Any = None,
    order_by: Any = None,
    tasks: int = 0,
    test: Any = None,
    test_size: float = 0.2,
    label: str | None = None,
    ignore: Collection[str] = (),
    text: Collection[str] = (),
    shuffle: bool = False,
    seed: int = 0,
    validation: float = 0.0,
    name: str = "arrays",
) -> TaskStream:
    """Return a stream of your own data. Values are not scaled: the estimator does that.

    `data` is an array X with labels `y`, a path (see `read_arrays`), a list of (name, X, y), or a
    list of Task. `task` gives the task of each row, as an array or as the name of a column or
    npz array; tasks keep their order of first appearance. `order_by`, an array or the name of a
    column, sorts the rows first. If rows have no task, `tasks=n` cuts them into n tasks of equal size;
    without it every class is a task, in sorted order, or with `shuffle` in an order that the seed
    draws. `ignore` and `text` name columns of a file: those to leave out and those that are sentences.
    `test` has the same form as the data ((X, y) or (X, y, task) for arrays). If it has no tasks, or no
    task of the data, all its rows are the test rows of every task. Without it, a seeded `test_size` of
    each class of each task is held out.

    >>> import numpy as np
    >>> stream = from_arrays(np.zeros((10, 4)), np.repeat(["cat", "dog"], 5))
    >>> stream.task_names, len(stream[0].train), len(stream[0].test)
    (('cat', 'dog'), 4, 1)
    """
    check_seed(seed)
    check_fraction("test_size", test_size)
    if test is None and test_size == 0:
        raise UsageError("test_size is 0 and test is missing: give test= or a fraction above 0")
    form = _TaskOptions(label, task, order_by, tasks, ignore, text)
    form.check_roles()
    if _is_list_of(data, lambda item: isinstance(item, Task)):
        _refuse_extra("a list of Task", y=y, test=test, **_task_options(form))
        if any(item.validation is not None for item in data):
            raise UsageError("a task has validation rows: give (name, X, y) and validation=")
        test = [(item.name, item.test.x, item.test.y) for item in data]
        data = [(item.name, item.train.x, item.train.y) for item in data]
        form = _TaskOptions()
    if _is_list_of(data, _is_named_task):
        _refuse_extra("a list of (name, X, y)", y=y, label=label, **_task_options(form))
        train, by_class = _group_named(data), False
        test_groups = None if test is None else _group_test(test, form, None, None)
    else:
        arrays = _read(data, y, form, "data", None)
        train, bounds = _group_by_task(arrays, form, _name(data, "data"), None)
        test_groups = None if test is None else _group_test(test, form, arrays, bounds)
        by_class = arrays.task is None and not tasks
        if shuffle and by_class:
            order = seeded_rng(seed, "order of classes").permutation(len(train))
            train = {list(train)[i]: list(train.values())[i] for i in order}
    common = False
    if test_groups is None:
        split = partial(_split, test_size=test_size, seed=seed)
        parts = {key: split(key, train[key], number) for number, key in enumerate(train)}
    else:
        parts, common = _pair_with_test(train, test_groups, by_class)
    labels = [
        (key, tuple(np.unique(np.concatenate([rows.y for rows in pair[: 2 - common]])).tolist()))
        for key, pair in parts.items()
    ]
    loaded = list(parts.values())
    xs = [rows.x for pair in loaded for rows in pair]
    gaps = any(x.dtype.kind == "f" and np.isnan(x).any() for x in xs)
    options: dict[str, Any] = {"seed": seed, "validation": validation, "has_missing": gaps}
    if common:  # each task has its own validation rows
        options |= {"note": "all tasks have the same test rows", "common_test": not validation}
    return TaskStream(name, labels, xs[0].shape[1:], loaded.__getitem__, **options)


def from_frame(
    frame: Any,
    label: str,
    *,
    task: str | None = None,
    order_by: str | None = None,
    tasks: int = 0,
    test: Any = None,
    ignore: Collection[str] = (),
    text: Collection[str] = (),
    name: str = "frame",
    **options: Any,
) -> TaskStream:
    """Return a stream of a data frame: `label`, `task`, `order_by`, `ignore` and `text` name its columns.

    Text columns become categories, missing values stay NaN, and columns of dates are left out unless
    they are the order. `test` is a frame with the same columns, except that it may lack `task`; `options`
    are those of `from_arrays`.
    """
    form = _TaskOptions(label, task, order_by, tasks, ignore, text)
    form.check_roles()
    source = _read_frame(frame, form, "frame", None)
    test_frame = None if test is None else _read_frame(test, form, "test", source)
    return from_arrays(source, tasks=tasks, test=test_frame, name=name, **options)


def _read(data: Any, y: Any, form: _TaskOptions, what: str, like: Arrays | None) -> Arrays:
    """Samples, labels, tasks and order from a path, a frame that was read, or arrays."""
    if isinstance(data, Arrays):
        return data
    if isinstance(data, (str, os.PathLike)):
        if y is not None:
            raise UsageError(f"y is given beside {data}: name the label column with label= instead")
        shape = like.X.shape[1:] if like is not None and like.X.ndim > 2 else ()
        columns: dict[str, Any] = {"label": form.label, "task": form.task_name}
        columns |= {"order_by": form.order_name, "ignore": form.ignore, "text": form.text}
        arrays = read_arrays(data, shape=shape, needs_task=like is None, **columns)
        if arrays.table is not None and like is None:
            warn_about_names(arrays.table, Columns.fit(arrays.table, form.text))
        elif arrays.table is not None and like is not None and like.table is not None:
            encoded = Columns.fit(like.table, form.text).encode(arrays.table)
            arrays = arrays._replace(X=encoded)
    else:
        _refuse_names(form)
        if isinstance(data, (list, tuple)) and not data:
            raise UsageError(f"{what} is an empty list: give at least one task")
        if y is None:
            raise UsageError(f"{what} has no labels: give y, a path, or a list of (name, X, y)")
        arrays = Arrays(_to_array(what, data), _to_array("y", y), None)
    if like is None:  # the arrays of a test part come with it
        if form.task is not None and form.task_name is None:
            arrays = arrays._replace(task=_to_array("task", form.task))
        if form.order_by is not None and form.order_name is None:
            arrays = arrays._replace(order=_to_array("order_by", form.order_by))
    return arrays


def _read_frame(frame: Any, form: _TaskOptions, what: str, like: Arrays | None) -> Arrays:
    """The same from a data frame; the kinds of its columns are those of `like`."""
    column = {str(one): one for one in frame.columns}
    for one, times in Counter(map(str, frame.columns)).items():
        if times > 1:
            raise UsageError(f"{what} has {times} columns named {one!r}: rename one")
    if like is not None and form.task not in column:
        form = form._replace(task=None)
    taken = [*(one for one in form.roles.values() if one is not None), *form.ignore]
    for one in taken:
        if one not in column:
            raise UsageError(f"{what} has no column {one!r}: it has {join_names(column)}")
    used = [one for one in frame.columns if str(one) not in taken]
    if form.label != "label" and "label" in map(str, used):
        both = f"two label columns, {form.label!r} and 'label'"
        raise UsageError(f"{what} has {both}: leave one out (ignore), or rename it")
    table = Table.from_frame(frame[used], what)
    columns = Columns.fit(table if like is None or like.table is None else like.table, form.text)
    if like is None:
        warn_about_names(table, columns)
    parts = form.roles.values()
    y, task, order = (None if one is None else frame[column[one]] for one in parts)
    return Arrays(
        columns.encode(table),
        _to_values(what, form.label, y),
        None if task is None else _to_values(what, form.task, task),
        table.names,
        table,
        None if order is None else _to_order(what, form.order_by, order),
    )


def _to_order(what: str, name: Any, column: Any) -> NDArray[Any]:
    """A column of numbers or dates; text is read as dates."""
    order = np.asarray(column)
    if order.dtype.kind in "buifM":
        return order
    try:
        return np.asarray(column, dtype="datetime64[ns]")
    except (TypeError, ValueError) as error:
        problem = f"{what} has other values than numbers and dates in column {name!r}"
        raise UsageError(f"{problem}: order rows by numbers or dates") from error


def _to_values(what: str, name: Any, column: Any) -> NDArray[Any]:
    """Labels or tasks of a frame; each row has one."""
    cells = column.tolist() if hasattr(column, "tolist") else list(column)
    is_date = [isinstance(one, datetime.date) or hasattr(one, "to_timestamp") for one in cells]
    if any(is_date):  # also months, as pandas has them
        dates = zip(cells, is_date, strict=True)
        cells = [str(one).removesuffix(" 00:00:00") if date else one for one, date in dates]
    for row, cell in enumerate(cells):
        if cell is None or cell != cell:
            where = f"row {row}, column {name!r}"
            raise UsageError(f"{what} has no value in {where}: fill or remove it")
    return _to_array(f"column {name!r}", cells)


def _is_list_of(data: Any, fits: Callable[[Any], bool]) -> bool:
    is_list = isinstance(data, Sequence) and not isinstance(data, str)
    return is_list and len(data) > 0 and all(map(fits, data))


def _is_named_task(item: Any) -> bool:
    return isinstance(item, (tuple, list)) and len(item) == 3 and isinstance(item[0], str)


def _group_named(data: Iterable[tuple[str, Any, Any]]) -> Groups:
    groups: Groups = {}
    for name, x, y in data:
        if name in groups:
            raise UsageError(f"two tasks are named {name!r}: give each task its own name")
        x, y = _to_array(f"X of task {name!r}", x), _to_array(f"y of task {name!r}", y)
        if x.size == 0:
            raise UsageError(f"task {name!r} is empty: give it rows or leave it out")
        groups[name] = _to_rows(Arrays(x, y, None), f"task {name!r}")
    _check_shapes("tasks", groups.values())
    return groups


def _group_by_task(
    arrays: Arrays, form: _TaskOptions, what: str, bounds: Bounds
) -> tuple[Groups, Bounds]:
    """The rows of each task by its name, in the order of the tasks; and the values between cut tasks."""
    rows, task, order = _to_rows(arrays, what), arrays.task, arrays.order
    if order is not None:
        if order.shape != (len(rows),) or order.dtype.kind not in "buifM":
            raise UsageError(f"{what}: order_by must have a number or a date for each row")
        if (order != order).any():
            row = int(np.argmax(order != order))
            raise UsageError(
                f"{what} has no value to order by in row {row} (from 0): fill or remove it"
            )
        by_order = np.argsort(order, kind="stable")
        rows, order = rows.take(by_order), order[by_order]
        task = None if task is None else task[by_order]
    if form.tasks:
        if task is not None:
            raise UsageError(f"tasks is {form.tasks}, but {what} has tasks already: leave one out")
        task, bounds = _cut(len(rows), order, form.tasks, what, bounds)
    elif order is not None and task is None:
        raise UsageError(f"{what} is ordered but has no tasks: give their number, or a task column")
    groups = rows_by_value(rows.y if task is None else task)
    keys = sorted(groups) if task is None else groups
    return {str(key): rows.take(np.array(groups[key])) for key in keys}, bounds


def _cut(
    n: int, order: NDArray[Any] | None, tasks: int, what: str, bounds: Bounds
) -> tuple[NDArray[Any], Bounds]:
    """Tasks of equal size for n sorted rows; test rows are cut where the training rows were."""
    if bounds is not None and order is not None:
        number = np.searchsorted(bounds[:-1], order, side="right")
        number = number + (order[0] > bounds[-1])  # later than all training rows
    else:
        if isinstance(tasks, bool) or not isinstance(tasks, int) or not 1 <= tasks <= n:
            raise UsageError(f"tasks is {tasks!r}: {what} has {n} rows, give 1 to {n}")
        number = np.arange(n) * tasks // n
        cuts = np.flatnonzero(np.diff(number)) + 1
        bounds = None if order is None else order[[*cuts, -1]]
    return np.array([f"part {one + 1}" for one in number.tolist()]), bounds


def _group_test(test: Any, form: _TaskOptions, train: Arrays | None, bounds: Bounds) -> Groups:
    if _is_list_of(test, _is_named_task):
        return _group_named(test)
    if isinstance(test, Arrays) or not isinstance(test, tuple):
        with warnings.catch_warnings():
            if train is not None:  # the same warning was shown for the training data
                warnings.filterwarnings("ignore", ".*: dates in .* are left out")
            arrays = _read(test, None, form, "test", train)
    elif len(test) not in (2, 3):
        raise UsageError(f"test has {len(test)} parts: give (X, y) or (X, y, task)")
    else:
        x, y, *task = map(_to_array, ("test", "y", "task"), test)
        arrays = Arrays(x, y, task[0] if task else None)
    if arrays.task is None and not form.tasks and (train is None or train.task is not None):
        return {"": _to_rows(arrays, _name(test, "test"))}  # of no task
    return _group_by_task(arrays, form, _name(test, "test"), bounds)[0]


def _name(data: Any, what: str) -> str:
    return str(data) if isinstance(data, (str, os.PathLike)) else what


def _task_options(form: _TaskOptions) -> dict[str, Any]:
    named = {"ignore": form.ignore or None, "text": form.text or None}
    return {"task": form.task, "order_by": form.order_by, "tasks": form.tasks or None, **named}


def _refuse_names(form: _TaskOptions) -> None:
    """Refuse names of columns beside arrays, which have none."""
    named = {**form.roles, "ignore": form.ignore or None, "text": form.text or None}
    for option, value in named.items():
        if value is not None:
            kind = "y as an array" if option == "label" else "an array"
            raise UsageError(f"{option}={value!r} names a column of a file: give {kind} instead")


def _pair_with_test(train: Groups, test: Groups, by_class: bool) -> tuple[dict[str, Parts], bool]:
    """Training and test rows of each task; and whether all rows of the test are tested after every task."""
    _check_shapes("data and test", (*train.values(), *test.values()))
    ours, theirs = (
        {y: 0 for one in part.values() for y in one.y.tolist()} for part in (train, test)
    )
    if not ours.keys() & theirs.keys():
        has = f"it has {join_names(map(repr, theirs))}, not {join_names(map(repr, ours))}"
        raise UsageError(f"test has no label of the data: {has}")
    if not train.keys() & test.keys():
        whole = concat_rows([*test.values()])
        return {key: (rows, whole) for key, rows in train.items()}, True
    if unmatched := sorted(train.keys() ^ test.keys()):
        advice = "give test none of the data's tasks to test all its rows after every task"
        advice = f"give both all tasks, or {advice}"
        if by_class:
            advice = "give both all classes, or give the data tasks"
        listed = f"{'classes' if by_class else 'tasks'} {join_names(map(repr, unmatched))}"
        raise UsageError(f"{listed} are in only one of data and test: {advice}")
    return {key: (rows, test[key]) for key, rows in train.items()}, False


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
        raise UsageError(f"{name} mixes types that numpy would convert; use values of one type")
    return array


def _to_rows(arrays: Arrays, what: str) -> Rows:
    if arrays.y is None:
        advice = "name their column (label, --label), give y, or use class folders"
        if arrays.names:
            advice = f"name their column (label, --label); it has {join_names(arrays.names)}"
        advice = "save X and y in an .npz file" if what.endswith(".npy") else advice
        raise UsageError(f"{what} has no labels: {advice}")
    check_arrays(arrays, what, UsageError)
    return Rows(to_float(arrays.X), arrays.y)


def _check_shapes(what: str, groups: Iterable[Rows]) -> None:
    shapes = {rows.x.shape[1:] for rows in groups}
    if len(shapes) > 1:
        raise UsageError(f"{what} have samples of shapes {sorted(shapes)}: bring all to one shape")


def _refuse_extra(form: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} cannot be combined with {form}; remove {name}")
