"""A memory on disk: `learn`, `predict`, `inspect`, `sleep`, `dream` and `export`."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgdmn.algorithms import algorithm
from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.persistence import algorithm_name, load, read_notes, save
from dgdmn.cli.options import check_applicable, flag, split_algorithm
from dgdmn.config import override, resolve, to_dict
from dgdmn.config.registry import algorithm_info
from dgdmn.core.errors import DgdmnError, Interrupted, UsageError, suggestion
from dgdmn.core.events import Event, Replayed, SleepEnded
from dgdmn.core.files import directory_lock, npz_bytes, write_atomic
from dgdmn.core.text import count_noun, format_bytes, format_duration, format_option, join_names
from dgdmn.report.images import tile
from dgdmn.runs.environment import default_threads
from dgdmn.runs.plan import plan_next
from dgdmn.storage import check_place, discard, holds_memory
from dgdmn.streams.readers import Arrays, read_arrays

Notes = dict[str, Any]
"""Saved beside a memory: `tasks` {name: [times learned, rows in all]} and `slept`, a UTC time or None."""


def learn(args: Namespace) -> int:
    """Teach a memory the task or the tasks of a file, and save after each."""
    name, preset = split_algorithm(args.algorithm, args.preset)
    args.algorithm = args.algorithm and name
    check_applicable(name, args.changes)
    found, done, tasks = _read(args), 0, list[tuple[str | None, Arrays]]()
    try:
        with _lock(args.memory):
            model, notes = _load_or_create(args, name, preset)
            tasks = _split(args, _match_columns(args, model, found))
            for task, rows in tasks:
                line = _learn_task(model, notes, task, rows)
                save(model, args.memory, notes)
                done += 1
                _print(f"{args.memory}: {line}")
    except KeyboardInterrupt as stop:
        state = f"has learned {done} of {len(tasks)} tasks" if done else "is unchanged"
        raise Interrupted(f"interrupted; {args.memory} {state}") from stop
    return 0


def predict(args: Namespace) -> int:
    """Write the label of each row as csv."""
    model, notes = load_memory(args)
    info = model.info()
    known = [*info.consolidated, *info.awake] or list(notes["tasks"])
    if args.task and known and args.task not in known:
        hint, names = suggestion(args.task, known), join_names(known)
        raise UsageError(f"{args.memory} has no task {args.task!r}{hint}; it has {names}")
    found = _match_columns(args, model, _read(args))
    n = len(found.X)
    memory = args.task if args.task in info.awake else "long-term memory"
    memories, recognized = [memory if info.generative else "network"] * n, [""] * n
    with _plain_errors():
        answers = model.predict_proba(found.X, args.task)
        if info.short_term and not (args.task and info.by_task_name):
            recognition = model.recognize(found.X)
            memories, recognized = recognition.answered_by.tolist(), recognition.known.tolist()
    labels = model.classes_[answers.argmax(axis=1)].tolist()
    columns = zip(labels, answers.tolist(), memories, recognized, strict=True)
    content = _csv(
        ("row", "label", *(f"p({label})" for label in model.classes_.tolist()), "memory", "known"),
        (
            (row, label, *(f"{p:.6g}" for p in answer), memory, str(known).lower())
            for row, (label, answer, memory, known) in enumerate(columns)
        ),
    )
    if args.out is None:
        sys.stdout.write(content.decode())
    else:
        write_atomic(args.out, content)
    if found.y is not None:
        right = sum(map(lambda ours, theirs: ours == theirs, labels, found.y.tolist()))
        sys.stderr.write(f"accuracy {right / n:.4f} ({right} of {count_noun(n, 'row')})\n")
    return 0


def sleep(args: Namespace) -> int:
    """Consolidate the short-term memory, and save."""
    with _lock(args.memory):
        model, notes = load_memory(args)
        info, events, began = _generative_info(args, model), list[Event](), time.monotonic()
        if not info.awake:
            _print(f"{args.memory}: the short-term memory is empty; nothing to consolidate")
            return 0
        model.callback = events.append
        try:
            model.sleep()
        except KeyboardInterrupt as stop:
            raise Interrupted(f"interrupted; {args.memory} is unchanged") from stop
        notes["slept"] = _now()
        save(model, args.memory, notes)
    dreams = count_noun(sum(e.n_tasks for e in events if isinstance(e, Replayed)), "dream")
    took = format_duration(time.monotonic() - began)
    _print(f"{args.memory}: slept {took} and consolidated {join_names(info.awake)} from {dreams}")
    return 0


def dream(args: Namespace) -> int:
    """Write samples of the long-term memory."""
    kind = args.out.suffix.lower()
    if kind not in (".png", ".csv", ".npz"):
        raise UsageError(f"--out {args.out} has an unknown ending; use .png, .csv or .npz")
    model, _ = load_memory(args)
    info = _generative_info(args, model, slept=True)
    shape = _image_shape(info.shape) if kind == ".png" else (math.prod(info.shape),)
    x, y = model.sample(args.n, random_state=args.seed)
    flat = (model.fitted_.scaling.apply(x) if kind == ".png" else x).reshape(len(x), *shape)
    if kind == ".png":
        content = _sheet(flat)
    elif kind == ".npz":
        content = npz_bytes({"x": x, "y": y})
    else:
        rows = ((*(f"{v:.7g}" for v in row), label) for row, label in zip(flat, y, strict=True))
        content = _csv((*(f"x{column}" for column in range(*shape)), "label"), rows)
    write_atomic(args.out, content)
    _print(f"{args.out}: {count_noun(len(x), 'dream')} of {args.memory}")
    return 0


def export(args: Namespace) -> int:
    """Write a memory as an ONNX model."""
    from dgdmn.export.onnx import onnx_bytes

    model, _ = load_memory(args)
    info = model.info()
    if info.generative:
        _generative_info(args, model, slept=True)
    content = onnx_bytes(model)
    write_atomic(args.onnx, content)
    if info.awake:
        awake, advice = join_names(info.awake), f"`dgdmn sleep {args.memory}` consolidates them"
        sys.stderr.write(f"dgdmn: {args.onnx} lacks the tasks still awake: {awake}; {advice}\n")
    shape, classes = ", ".join(("n", *map(str, info.shape))), join_names(model.classes_.tolist())
    _print(f"{args.onnx}: {format_bytes(len(content))}; X ({shape}) to probabilities of {classes}")
    return 0


def inspect(args: Namespace) -> int:
    """Show what a memory knows."""
    model, notes = load_memory(args)
    facts = _facts(args, model, notes)
    if args.json:
        _print(json.dumps(facts, indent=1, ensure_ascii=False))
        return 0
    facts |= {f"task {name}": task for name, task in facts.pop("tasks").items()}
    _print("\n".join(f"{key}: {_text(value)}" for key, value in facts.items()))
    if not facts["next"]["rows"]:
        _print("Row counts are not recorded in this memory. Pass --samples N for the next task.")
    return 0


def load_memory(args: Namespace) -> tuple[ContinualClassifier, Notes]:
    """The memory on disk and the notes beside it."""
    if not holds_memory(args.memory):
        advice = f"`dgdmn learn {args.memory} data.npz` creates one"
        raise UsageError(f"{args.memory} is not a memory; {advice}")
    own: dict[str, Any] = {"threads": getattr(args, "threads", 0) or default_threads()}
    if ":" in (name := split_algorithm(args.algorithm, None)[0]):
        own["algorithm"] = algorithm(name)
    saved, notes = read_notes(args.memory), Notes(tasks={}, slept=None)
    with suppress(TypeError, KeyError, ValueError, AttributeError):  # saved from Python, or edited
        tasks = {str(task): [int(times), int(n)] for task, (times, n) in saved["tasks"].items()}
        notes = Notes(tasks=tasks, slept=saved["slept"] and str(saved["slept"]))
    return load(args.memory, **own), notes


def plan_next_tasks(
    model: ContinualClassifier, notes: Notes, rows: int = 0, tasks: int = 0
) -> tuple[int, list[Any]]:
    """The rows of a task, by default the mean so far, and the stages of that many tasks and a sleep.

    By default as many tasks as the short-term memory can take. Rows are 0 if they are unknown.
    """
    info = model.info()
    times, seen = (sum(pair[n] for pair in notes["tasks"].values()) for n in (0, 1))
    if not times:  # saved from Python
        times = sum(task.times for task in (*info.consolidated.values(), *info.awake.values()))
        seen = info.age + sum(info.awake_rows.values())
    rows = rows or (round(seen / times) if times else 0)
    free = max(1, info.config.n_stm - len(info.awake)) if info.short_term else 1
    return rows, plan_next(model, [rows] * (tasks or free)) if rows else []


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a memory for writing; if none was created, leave nothing behind."""
    check_place(path)
    new = not path.exists()
    with directory_lock(path):
        try:
            yield
        finally:
            if new and not holds_memory(path):
                discard(path)


def _load_or_create(args: Namespace, name: str, preset: str) -> tuple[ContinualClassifier, Notes]:
    config = override(resolve(preset), args.changes)
    if holds_memory(args.memory):
        model, notes = load_memory(args)
        _check_same(args, to_dict(config), model)
        return model, notes
    own: dict[str, Any] = {"value_range": args.value_range and tuple(args.value_range)}
    own |= {"random_state": args.seed or 0, "threads": args.threads or default_threads()}
    return algorithm(name)(config if args.changes else preset, **own), Notes(tasks={}, slept=None)


def _check_same(args: Namespace, wanted: dict[str, Any], model: ContinualClassifier) -> None:
    """Refuse options that differ from those that the memory was created with."""
    parameters, info = model.get_params(deep=False), model.info()
    typed = {key: getattr(args, key) for key in ("algorithm", "seed", "value_range")}
    typed |= {key: wanted[key] for key in (wanted if args.preset else args.changes)}
    made = to_dict(info.config) | {"algorithm": info.algorithm, "seed": parameters["random_state"]}
    made["value_range"] = parameters["value_range"] and list(parameters["value_range"])
    for key, value in typed.items():
        if value is not None and value != made[key]:
            was, now = (f"{flag(key)} {format_option(one)}" for one in (made[key], value))
            cause = flag(key if key in args.changes or key not in wanted else "preset")
            advice = f"leave {cause} out, or create a new memory"
            raise UsageError(f"{args.memory} was created with {was}, not {now}; {advice}")


def _learn_task(model: ContinualClassifier, notes: Notes, task: str | None, rows: Arrays) -> str:
    """Learn one task and return a line about it."""
    new, y, began = not model.__sklearn_is_fitted__(), np.asarray(rows.y), time.monotonic()
    events: list[Event] = []
    if task is None and not algorithm_info(algorithm_name(type(model))).generative:
        task = next(name for n in itertools.count(1) if (name := f"task {n}") not in notes["tasks"])
    model.callback = events.append
    with _plain_errors():
        model.partial_fit(rows.X, y, task=task)
    if new and rows.names:  # as scikit-learn does for a data frame
        model.feature_names_in_ = np.array(rows.names, dtype=object)
    name = next((event.tasks[0] for event in events if isinstance(event, Replayed)), task or "")
    times, before = notes["tasks"].pop(name, (0, 0))  # the latest task comes last
    notes["tasks"][name] = [times + 1, before + len(rows.X)]
    sizes = f"{count_noun(len(rows.X), 'row')}, {count_noun(len(np.unique(y)), 'class', 'classes')}"
    parts = [f"learned {name!r} ({sizes}) in {format_duration(time.monotonic() - began)}"]
    for event in events:
        if isinstance(event, SleepEnded):
            notes["slept"] = _now()
            parts.append(f"slept and consolidated {join_names(event.tasks)}")
    if (info := model.info()).short_term:
        parts.append(f"short-term memory {len(info.awake)} of {info.config.n_stm}")
    return "; ".join(parts)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Turn what scikit-learn refuses into UsageError, and warnings into lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # checked here
        try:
            yield
        except ValueError as error:
            raise error if isinstance(error, DgdmnError) else UsageError(str(error)) from error
        finally:
            sys.stderr.writelines(f"dgdmn: {warning.message}\n" for warning in caught)


def _read(args: Namespace) -> Arrays:
    if not args.data.exists():
        raise UsageError(f"{args.data} does not exist; give .npz, .npy, .csv or a folder of images")
    return read_arrays(args.data, label=args.label)


def _split(args: Namespace, found: Arrays) -> list[tuple[str | None, Arrays]]:
    """The rows of each task, in order of appearance."""
    if found.y is None:
        raise UsageError(f"{args.data} has no labels; name them with --label, or use class folders")
    if found.task is None:
        return [(args.task, found)]
    if args.task:
        raise UsageError(f"{args.data} names the task of each row; leave --task out")
    masks = {str(name): found.task == name for name in dict.fromkeys(found.task.tolist())}
    return [(name, found._replace(X=found.X[m], y=found.y[m])) for name, m in masks.items()]


def _match_columns(args: Namespace, model: ContinualClassifier, found: Arrays) -> Arrays:
    """The rows with their columns in the order that the memory learned."""
    names = tuple(getattr(model, "feature_names_in_", ()))
    if not names or not found.names or found.names == names:
        return found
    if missing := join_names(name for name in names if name not in found.names):
        have = f"it has {join_names(found.names)}"
        raise UsageError(f"{args.data} lacks column {missing} of {args.memory}; {have}")
    return found._replace(X=found.X[:, [found.names.index(name) for name in names]], names=names)


def _facts(args: Namespace, model: ContinualClassifier, notes: Notes) -> dict[str, Any]:
    """What `inspect` shows."""
    info = model.info()
    tasks: dict[str, dict[str, Any]] = {
        name: {"in": place, "times": task.times, "classes": [info.labels[n] for n in task.classes]}
        for place, held in (("long-term", info.consolidated), ("short-term", info.awake))
        for name, task in held.items()
    }
    for name, (times, rows) in notes["tasks"].items():
        tasks.setdefault(name, {"in": "network", "times": times})["rows"] = rows
    rows, stages = plan_next_tasks(model, notes, args.samples)
    needs: dict[str, Any] = {"rows": rows}
    for stage in stages:
        needs.setdefault(stage.kind, {"samples": stage.samples, "steps": stage.steps})
    disk = sum(path.stat().st_size for path in args.memory.iterdir() if path.is_file())
    facts = {
        "memory": str(args.memory),
        "algorithm": info.algorithm,
        "shape": list(info.shape),
        "classes": model.classes_.tolist(),
        "tasks": tasks,
        "bytes": {"memory": info.memory_bytes, "exemplars": info.exemplar_bytes, "disk": disk},
    }
    if info.generative:
        facts |= {"age": info.age, "n_max": info.config.n_max, "kappa": info.config.kappa}
    if info.short_term:
        facts |= {"n_stm": info.config.n_stm, "awake": info.awake_rows, "codes": info.awake_codes}
        facts["slept"] = notes["slept"]
    return {**facts, "next": needs}


def _text(value: Any) -> str:
    """A fact for people."""
    if isinstance(value, dict):
        nested = {key: f"({_text(v)})" for key, v in value.items() if isinstance(v, dict)}
        return (
            ", ".join(f"{key} {nested.get(key) or _text(v)}" for key, v in value.items()) or "none"
        )
    if isinstance(value, list):
        return join_names(value) or "none"
    return f"{value:,}" if isinstance(value, int) else format_option(value)


def _generative_info(args: Namespace, model: ContinualClassifier, slept: bool = False) -> Any:
    """The info of a memory that can sleep and dream; refuses others."""
    info = model.info()
    if not info.generative:
        raise UsageError(f"{args.memory} uses {info.algorithm}, which neither sleeps nor dreams")
    if slept and not info.consolidated:
        raise UsageError(f"{args.memory} has not slept yet; run `dgdmn sleep {args.memory}` first")
    return info


def _image_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Height, width and, for color, 3 channels of a sample."""
    side = math.isqrt(shape[0])
    if len(shape) == 1 and side * side == shape[0] and side > 1:
        return side, side
    if len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3)):
        return shape[:2] if shape[2:] == (1,) else shape
    raise UsageError(f"samples of shape {shape} are not images; let --out end with .csv or .npz")


def _sheet(images: NDArray[Any]) -> bytes:
    """Images with values in [0, 1] side by side, about as many columns as rows, as PNG."""
    columns, content = math.ceil(math.sqrt(len(images))), io.BytesIO()
    pixels = np.round(images * 255).astype(np.uint8)
    rows = [pixels[n : n + columns] for n in range(0, len(pixels), columns)]
    canvas, empty = tile(rows, columns)
    canvas[empty] = 255
    Image.fromarray(canvas).save(content, "PNG")
    return content.getvalue()


def _csv(header: Iterable[Any], rows: Iterable[Iterable[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((header, *rows))
    return text.getvalue().encode()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
