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

from dgdmn.streams import fetch
from dgdmn.streams.base import (
    Rows,
    TaskStream,
    check_fraction,
    concat_rows,
    seeded_rng,
    select_labels,
    split,
)
from dgdmn.streams.images import parse_characters
from dgdmn.streams.mnist import parse_idx

Parts = tuple[Rows, Rows]
Read = Callable[[], Parts]
Names = Sequence[str]
Shape = tuple[int, ...]
Tasks = list[tuple[str, tuple[int, ...]]]

CLOTHES = fetch.CLASSES["fashion"]
INTENTS = 15
"""Intents of each domain of CLINC150."""
CATEGORIES = (3, 67, 11)
"""Values of protocol_type, service and flag in both files of KDD Cup 99."""
USERS = range(1, 31)
TEST_USERS = range(1, 31, 4)


def fashion(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return ten tasks of one kind of clothes each (Fashion-MNIST)."""
    return _stream("fashion", CLOTHES, (28, 28), _read_fashion, seed, validation)


def split_fashion(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return five tasks of two kinds of clothes each (Fashion-MNIST)."""
    return _stream("split-fashion", CLOTHES, (28, 28), _read_fashion, seed, validation, size=2)


def devanagari(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return 46 tasks, one Devanagari character or digit each, 32 x 32."""
    folders = fetch.CLASSES["devanagari"]  # such as character_1_ka and digit_0
    names = [folder.replace("digit_", "digit ").rpartition("_")[2] for folder in folders]
    read = partial(fetch.read, "devanagari", _parse_devanagari)
    return _stream("devanagari", names, (32, 32), read, seed, validation)


def cifar100_features(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return ten tasks of ten CIFAR-100 classes each, as features of a frozen network."""
    classes, read = fetch.CLASSES["cifar100_features"], partial(_read_cifar100, seed)
    return _stream("cifar100-features", classes, (256,), read, seed, validation, size=10)


def kdd99(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return five tasks: normal connections and four families of attacks.

    A row has 38 numbers and 81 columns for the values of three categories. Numbers without an
    upper bound (`is_unbounded`) are log(1 + value).
    """
    names, shape = fetch.CLASSES["kdd99"], (38 + sum(CATEGORIES),)
    read = partial(fetch.read, "kdd99", _parse_kdd99)
    return _stream("kdd99", names, shape, read, seed, validation)


def wine(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return three tasks of one cultivar each, without a download."""
    names, read = ("cultivar 0", "cultivar 1", "cultivar 2"), partial(_read_sklearn, "wine")
    return _stream("wine", names, (13,), read, seed, validation)


def breast_cancer(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return two tasks, malignant and benign tumors, without a download."""
    names, read = ("malignant", "benign"), partial(_read_sklearn, "breast_cancer")
    return _stream("breast-cancer", names, (30,), read, seed, validation)


def clinc150(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return ten tasks, the 15 intents of one domain each, as sentence vectors.

    Domain d has the labels 15 d to 15 d + 14. Questions outside of all domains are the unknown rows.
    """
    tasks = [
        (name, tuple(range(INTENTS * domain, INTENTS * (domain + 1))))
        for name, (domain,) in _draw_tasks("clinc150", fetch.CLASSES["clinc150"], seed)
    ]
    options: dict[str, Any] = {"seed": seed, "validation": validation}
    options |= {"note": fetch.NOTES["clinc150"], "unknown": _read_unknown_questions}
    return TaskStream("clinc150", tasks, (256,), partial(_load, _read_clinc150, tasks), **options)


def hapt(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return six tasks of one activity each; no user is in two of training, validation and test."""
    tasks = _draw_tasks("hapt", fetch.CLASSES["hapt"], seed)
    users = _split_users(validation)
    load = partial(_load_hapt, [(*users, labels) for _, labels in tasks])
    options: dict[str, Any] = {"seed": seed, "validation": validation, "note": fetch.NOTES["hapt"]}
    return TaskStream("hapt", tasks, (141,), load, **options)


def hapt_users(*, seed: int = 0, validation: float = 0.0) -> TaskStream:
    """Return a task with all six activities for each training user, in the order of their numbers.

    All tasks have the same test rows, those of the test users. Users held out for validation are
    not tasks.
    """
    users, held_out, test_users = _split_users(validation)
    activities = tuple(range(len(fetch.CLASSES["hapt"])))
    tasks = [(f"user {user}", activities) for user in users]
    load = partial(_load_hapt, [([user], held_out, test_users, activities) for user in users])
    options: dict[str, Any] = {"seed": seed, "validation": validation, "note": fetch.NOTES["hapt"]}
    return TaskStream("hapt-users", tasks, (141,), load, common_test=True, **options)


def _draw_tasks(name: str, names: Names, seed: int, size: int = 1) -> Tasks:
    """Return tasks of `size` classes in the seed's order; a large one is named after its first."""
    order = seeded_rng(seed, f"{name} order").permutation(len(names)).tolist()
    groups = [tuple(order[first : first + size]) for first in range(0, len(order), size)]
    if size > 2:
        return [(f"{names[group[0]]} and {size - 1} more", group) for group in groups]
    return [(" + ".join(names[label] for label in group), group) for group in groups]


def _stream(
    name: str, classes: Names, shape: Shape, read: Read, seed: int, validation: float, size: int = 1
) -> TaskStream:
    """Return a stream with `size` classes per task, made from the rows that `read` returns."""
    tasks, note = _draw_tasks(name, classes, seed, size), fetch.NOTES.get(name, "")
    load = partial(_load, read, tasks)
    return TaskStream(name, tasks, shape, load, seed=seed, validation=validation, note=note)


def _load(read: Read, tasks: Tasks, number: int) -> Parts:
    train, test = (select_labels(part, tasks[number][1]) for part in read())
    return train, test


def _drop_test_rows(train: Rows, test: Rows) -> Parts:
    """Return both parts, without the training rows that are identical to a test row."""
    seen = {row.tobytes() for row in test.x}
    return train.take(np.array([row.tobytes() not in seen for row in train.x])), test


def _parse_fashion(*paths: Path) -> Parts:
    return _drop_test_rows(*parse_idx(*paths))


_read_fashion: Read = partial(fetch.read, "fashion", _parse_fashion)


def _parse_devanagari(path: Path) -> Parts:
    images = parse_characters(path, fetch.CLASSES["devanagari"]).values()
    parts = []
    # First the training images of each class, then the test images.
    for groups in zip(*images, strict=True):
        labels = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        parts.append(Rows(np.concatenate(groups), labels))
    return _drop_test_rows(*parts)


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
        pairs = ((file[f"X_{part}"], file[f"y_{part}"]) for part in ("train", "test"))
        train, test = (Rows(x, label[y]) for x, y in pairs)
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
    parts = (rows.take(np.isin(user, part)) for part in users)
    train, held_out, test = (select_labels(part, activities) for part in parts)
    return train, held_out if len(held_out) else None, test


def _parse_hapt(path: Path) -> tuple[Rows, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as file:
        return Rows(file["X"], file["y"]), file["user"]


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
        parts.append(split(rows.take(y == label), 0.2, rng, str(label)))
    train, test = map(concat_rows, zip(*parts, strict=True))
    return train, test
