"""Streams of real data beyond the paper: images, sentence vectors, sensor windows and tables.

docs/streams.md lists them. The seed draws the order of the classes; the test rows are the same for
every seed. A training row that is identical to a test row is left out of training.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import DataError
from dgdmn.streams import fetch
from dgdmn.streams.base import (
    Rows,
    TaskStream,
    check_fraction,
    check_seed,
    seeded_rng,
    split,
    to_unit,
)
from dgdmn.streams.images import parse_zip
from dgdmn.streams.readers import read_idx

Parts = tuple[Rows, Rows]
Tasks = list[tuple[str, tuple[int, ...]]]

INTENTS = 15
"""Intents of each domain of CLINC150."""
CATEGORIES = (3, 67, 11)
"""Values of protocol_type, service and flag in both files of KDD Cup 99."""
USERS = range(1, 31)
TEST_USERS = range(1, 31, 4)

CLINC150_NOTE = "CLINC150 as 256-d WordLlama sentence vectors, not text"
HAPT_NOTE = (
    "141 features of our own, not the published 561; tested on users 1, 5, ..., 29, "
    "not on the official test users"
)
KDD99_NOTE = (
    "KDD Cup 99, unique rows of the 10 percent file; a task is a family of attacks, "
    "so the mean accuracy over tasks is macro recall"
)
CIFAR100_NOTE = (
    "CIFAR-100 as 256 numbers from a network trained on ImageNet, 200 of 500 training images "
    "of each class: not comparable with learning from pixels"
)


def fashion(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return ten tasks of one kind of clothes each (Fashion-MNIST)."""
    tasks = _draw_tasks("fashion", fetch.CLASSES["fashion"], seed)
    return _stream("fashion", tasks, (28, 28), _read_fashion, seed=seed, validation=validation)


def split_fashion(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return five tasks of two kinds of clothes each (Fashion-MNIST)."""
    name = "split-fashion"
    tasks = _draw_tasks(name, fetch.CLASSES["fashion"], seed, size=2)
    return _stream(name, tasks, (28, 28), _read_fashion, seed=seed, validation=validation)


def devanagari(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return 46 tasks, one Devanagari character or digit each, 32 x 32."""
    folders = fetch.CLASSES["devanagari"]  # such as character_1_ka and digit_0
    names = [folder.replace("digit_", "digit ").rpartition("_")[2] for folder in folders]
    tasks = _draw_tasks("devanagari", names, seed)
    read = _read_devanagari
    return _stream("devanagari", tasks, (32, 32), read, seed=seed, validation=validation)


def cifar100_features(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return ten tasks of ten CIFAR-100 classes each, as features of a frozen network."""
    name, note = "cifar100-features", CIFAR100_NOTE
    tasks = _draw_tasks(name, fetch.CLASSES["cifar100_features"], seed, size=10)
    read = partial(_read_cifar100, seed)
    return _stream(name, tasks, (256,), read, seed=seed, validation=validation, note=note)


def kdd99(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return five tasks: normal connections and four families of attacks.

    A row has 38 numbers and 81 columns for the values of three categories. Numbers without an
    upper bound (`is_unbounded`) are log(1 + value).
    """
    tasks, shape = _draw_tasks("kdd99", fetch.CLASSES["kdd99"], seed), (38 + sum(CATEGORIES),)
    read, note = _read_kdd99, KDD99_NOTE
    return _stream("kdd99", tasks, shape, read, seed=seed, validation=validation, note=note)


def wine(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return three tasks of one cultivar each, without a download."""
    tasks = _draw_tasks("wine", ("cultivar 0", "cultivar 1", "cultivar 2"), seed)
    read = partial(_read_sklearn, "wine")
    return _stream("wine", tasks, (13,), read, seed=seed, validation=validation)


def breast_cancer(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return two tasks, malignant and benign tumors, without a download."""
    name, read = "breast-cancer", partial(_read_sklearn, "breast_cancer")
    tasks = _draw_tasks(name, ("malignant", "benign"), seed)
    return _stream(name, tasks, (30,), read, seed=seed, validation=validation)


def clinc150(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return ten tasks, the 15 intents of one domain each, as sentence vectors.

    Domain d has the labels 15 d to 15 d + 14. Questions outside of all domains are the unknown rows.
    """
    tasks = [
        (name, tuple(range(INTENTS * domain, INTENTS * (domain + 1))))
        for name, (domain,) in _draw_tasks("clinc150", fetch.CLASSES["clinc150"], seed)
    ]
    return _stream(
        "clinc150",
        tasks,
        (256,),
        _read_clinc150,
        seed=seed,
        validation=validation,
        note=CLINC150_NOTE,
        unknown=_read_unknown_questions,
    )


def hapt(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return six tasks of one activity each; no user is in two of training, validation and test."""
    tasks = _draw_tasks("hapt", fetch.CLASSES["hapt"], seed)
    users = _split_users(validation)
    load = partial(_load_hapt, [(*users, labels) for _, labels in tasks])
    return TaskStream("hapt", tasks, (141,), load, seed=seed, validation=validation, note=HAPT_NOTE)


def hapt_users(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return a task with all six activities for each training user, in the order of their numbers.

    All tasks have the same test rows, those of the test users. Users held out for validation are
    no tasks.
    """
    users, held_out, test_users = _split_users(validation)
    activities = tuple(range(len(fetch.CLASSES["hapt"])))
    return TaskStream(
        "hapt-users",
        [(f"user {user}", activities) for user in users],
        (141,),
        partial(_load_hapt, [([user], held_out, test_users, activities) for user in users]),
        seed=seed,
        validation=validation,
        note=HAPT_NOTE,
        common_test=True,
    )


def _draw_tasks(name: str, names: Sequence[str], seed: int, size: int = 1) -> Tasks:
    """Return tasks of `size` classes in the seed's order; a large one is named after its first."""
    check_seed(seed)
    order = seeded_rng(seed, f"{name} order").permutation(len(names)).tolist()
    groups = [tuple(order[first : first + size]) for first in range(0, len(order), size)]
    if size > 2:
        return [(f"{names[group[0]]} and {size - 1} more", group) for group in groups]
    return [(" + ".join(names[label] for label in group), group) for group in groups]


def _stream(
    name: str, tasks: Tasks, shape: tuple[int, ...], read: Callable[[], Parts], **more: Any
) -> TaskStream:
    """Return a stream whose tasks are the rows with their labels in what `read` returns."""
    return TaskStream(name, tasks, shape, partial(_load, read, tasks), **more)


def _load(read: Callable[[], Parts], tasks: Tasks, number: int) -> Parts:
    train, test = (_rows_of(part, tasks[number][1]) for part in read())
    return train, test


def _rows_of(rows: Rows, labels: tuple[int, ...]) -> Rows:
    """Return the rows with these labels, as float32; bytes are scaled to [0, 1]."""
    part = rows.take(np.flatnonzero(np.isin(rows.y, labels)))
    x = to_unit(part.x) if part.x.dtype == np.uint8 else part.x.astype(np.float32)
    return Rows(x, part.y.astype(np.int64))


def _drop_test_rows(train: Rows, test: Rows) -> Parts:
    """Return both parts, without the training rows that are identical to a test row."""
    seen = {row.tobytes() for row in test.x}
    keep = [row.tobytes() not in seen for row in train.x]
    return train.take(np.flatnonzero(keep)), test


def _read_fashion() -> Parts:
    parts: Parts = fetch.read("fashion", _parse_fashion)
    return parts


def _parse_fashion(*paths: Path) -> Parts:
    train_x, train_y, test_x, test_y = map(read_idx, paths)
    return _drop_test_rows(Rows(train_x, train_y), Rows(test_x, test_y))


def _read_devanagari() -> Parts:
    parts: Parts = fetch.read("devanagari", _parse_devanagari)
    return parts


def _parse_devanagari(path: Path) -> Parts:
    folders = fetch.CLASSES["devanagari"]
    if path.suffix == ".zip":
        try:
            images = parse_zip(path, folders)
        except KeyError as error:
            missing = "/".join(error.args[0])
            raise DataError(f"{path} has no images in {missing}: fetch it again") from error
        train, test = (_stack([images[name][part] for name in folders]) for part in (0, 1))
        return _drop_test_rows(train, test)
    with np.load(path, allow_pickle=False) as file:
        rows, is_test = Rows(file["images"], file["labels"]), file["split"] == 1
    train, test = (rows.take(np.flatnonzero(part)) for part in (~is_test, is_test))
    return _drop_test_rows(train, test)


def _stack(groups: Sequence[NDArray[np.uint8]]) -> Rows:
    sizes = [len(group) for group in groups]
    return Rows(np.concatenate(groups), np.repeat(np.arange(len(groups)), sizes))


def _read_cifar100(seed: int) -> Parts:
    train, test = fetch.read("cifar100_features", _parse_cifar100)
    # The file is sorted by class; a learner that does not shuffle would see one class at a time.
    order = seeded_rng(seed, "cifar100-features rows").permutation(len(train))
    return train.take(order), test


def _parse_cifar100(path: Path) -> Parts:
    with np.load(path, allow_pickle=False) as file:
        train, test = (Rows(file[f"X_{part}"], file[f"y_{part}"]) for part in ("train", "test"))
    return _drop_test_rows(train, test)


def _read_clinc150() -> Parts:
    train, test, _ = fetch.read("clinc150", _parse_clinc150)
    return train, test


def _read_unknown_questions(part: str) -> NDArray[np.float32]:
    rows: NDArray[np.float32] = fetch.read("clinc150", _parse_clinc150)[2][part].astype(np.float32)
    return rows


def _parse_clinc150(path: Path) -> tuple[Rows, Rows, dict[str, NDArray[Any]]]:
    with np.load(path, allow_pickle=False) as file:
        # Intents are numbered domain by domain; within a domain they keep the file's order.
        label = np.argsort(np.argsort(file["intent_domain"], kind="stable"))
        train, test = (
            Rows(file[f"X_{part}"], label[file[f"y_{part}"]]) for part in ("train", "test")
        )
        unknown = {"test": file["X_oos_test"], "validation": file["X_oos_val"]}
    return *_drop_test_rows(train, test), unknown


def _split_users(validation: float) -> tuple[list[int], list[int], list[int]]:
    """Return the users to train on, evenly spaced ones to validate on, and those to test on."""
    check_fraction("validation", validation)
    users = [user for user in USERS if user not in TEST_USERS]
    n = min(max(1, round(validation * len(users))), len(users) - 1) if validation else 0
    held_out = [users[int((place + 0.5) * len(users) / n)] for place in range(n)]
    return [user for user in users if user not in held_out], held_out, list(TEST_USERS)


def _load_hapt(
    tasks: Sequence[tuple[list[int], list[int], list[int], tuple[int, ...]]], number: int
) -> tuple[Rows, Rows | None, Rows]:
    """Return the rows of a task's training, validation and test users, of its activities."""
    *users, activities = tasks[number]
    rows, user = fetch.read("hapt", _parse_hapt)
    train, held_out, test = (
        _rows_of(rows.take(np.flatnonzero(np.isin(user, part))), activities) for part in users
    )
    return train, held_out if len(held_out) else None, test


def _parse_hapt(path: Path) -> tuple[Rows, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as file:
        return Rows(file["X"], file["y"]), file["user"]


def _read_kdd99() -> Parts:
    train, test = fetch.read("kdd99", _parse_kdd99)
    return train, test


def _parse_kdd99(path: Path) -> Parts:
    with np.load(path, allow_pickle=False) as file:
        is_log = np.array([is_unbounded(str(name)) for name in file["num_names"]])
        parts = []
        for part in ("train", "test"):
            first = file[f"first_{part}"]
            numbers = file[f"num_{part}"][first]
            numbers[:, is_log] = np.log1p(numbers[:, is_log])
            values = zip(CATEGORIES, file[f"cat_{part}"][first].T, strict=True)
            columns = [np.eye(n, dtype=np.float32)[code] for n, code in values]
            parts.append(Rows(np.hstack([numbers, *columns]), file[f"family_{part}"][first]))
    return _drop_test_rows(*parts)


def is_unbounded(name: str) -> bool:
    """Whether a KDD Cup 99 number has no upper bound: seconds, bytes and numbers of events.

    The other numbers are rates and flags up to 1, counts up to 511 within a window of connections,
    and three counts of at most 3.
    """
    return name in ("duration", "hot") or name.endswith("_bytes") or name.startswith("num_")


@cache
def _read_sklearn(name: str) -> Parts:
    from sklearn import datasets

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    rows = Rows(x.astype(np.float32), y)
    parts = []
    for label in np.unique(y):
        # Seed 0 instead of the stream's seed: runs with different seeds share the test rows.
        rng = seeded_rng(0, f"{name} test part", int(label))
        parts.append(split(rows.take(np.flatnonzero(y == label)), 0.2, rng, str(label)))
    train, test = (
        Rows(np.concatenate([r.x for r in group]), np.concatenate([r.y for r in group]))
        for group in zip(*parts, strict=True)
    )
    return train, test
