"""A memory on disk: `learn`, `predict`, `inspect`, `sleep`, `dream` and `export`."""

import io
import itertools
import json
import math
import time
import warnings
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgdmn.algorithms import algorithm
from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.persistence import algorithm_name, load_with_notes, save
from dgdmn.cli.options import check_applicable, flag, split_algorithm
from dgdmn.cli.output import check_target, csv_text, show
from dgdmn.config import override, resolve, to_dict
from dgdmn.config.registry import algorithm_info
from dgdmn.core.errors import DgdmnError, Interrupted, UsageError, suggestion
from dgdmn.core.events import Event, Replayed, SleepEnded
from dgdmn.core.files import directory_lock, npz_bytes, write_atomic
from dgdmn.core.text import count_noun, format_bytes, format_duration, format_option, join_names
from dgdmn.report.images import tile
from dgdmn.runs.environment import default_threads
from dgdmn.storage import check_place, discard, holds_memory, whole
from dgdmn.streams.readers import MAX_BYTES, Arrays, read_arrays, rows_by_value

Notes = dict[str, Any]
"""Saved beside a memory: `tasks` {name: [times learned, rows in all]} and `slept`, a UTC time or None."""
Memory = tuple[ContinualClassifier, Notes]
MAX_SHOWN = 100
"""Tasks that `inspect` prints, the latest ones."""


def learn(args: Namespace) -> None:
    """Teach a memory the task or the tasks of a file, and save after each."""
    name, preset = split_algorithm(args.algorithm, args.preset)
    args.algorithm = args.algorithm and name
    check_applicable(name, args.changes)
    found = _read(args)
    with _lock(args.memory) as states:
        memory = _load_or_create(args, name, preset)
        tasks = _split(args, found := _match_columns(args, memory[0], found))
        with _plain_errors():  # before the first of several tasks is learned
            memory[0].check_rows(found.X, np.asarray(found.y))
        for n, (task, rows) in enumerate(tasks, start=1):
            line = _learn_task(args, memory, task, rows)
            states.append(f"has learned {n} of {len(tasks)} tasks")
            show(f"{args.memory}: {line}")


def predict(args: Namespace) -> None:
    """Write the label of each row as csv."""
    if args.out is not None:
        check_target(args.out)
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
            memories = recognition.answered_by.tolist()
            recognized = [str(is_known).lower() for is_known in recognition.known.tolist()]
    labels = model.classes_[answers.argmax(axis=1)].tolist()
    shares = ([f"{p:.6g}" for p in answer] for answer in answers.tolist())
    columns = zip(range(n), labels, shares, memories, recognized, strict=True)
    header = ["row", "label", *(f"p({label})" for label in model.classes_.tolist())]
    rows = ((row, label, *share, *rest) for row, label, share, *rest in columns)
    content = csv_text([*header, "memory", "known"], rows)
    if args.out is None:
        show(*content.removesuffix("\n").split("\n"))
    else:
        write_atomic(args.out, content.encode(errors="backslashreplace"))
    if found.y is not None:
        right = sum(ours == y for ours, y in zip(labels, found.y.tolist(), strict=True))
        show(f"accuracy {right / n:.4f} ({right} of {count_noun(n, 'row')})", error=True)


def sleep(args: Namespace) -> None:
    """Consolidate the short-term memory, and save."""
    with _lock(args.memory):
        memory = load_memory(args)
        info, began = _generative_info(args, memory[0]), time.monotonic()
        if not info.awake:
            show(f"{args.memory}: the short-term memory is empty; nothing to consolidate")
            return
        with _save_change(args.memory, memory) as events:
            memory[0].sleep()
    dreams = count_noun(sum(e.n_tasks for e in events if isinstance(e, Replayed)), "dream")
    took = format_duration(time.monotonic() - began)
    show(f"{args.memory}: slept {took} and consolidated {join_names(info.awake)} from {dreams}")


def dream(args: Namespace) -> None:
    """Write samples of the long-term memory."""
    check_target(args.out)
    kind = args.out.suffix.lower()
    if kind not in (".png", ".csv", ".npz"):
        raise UsageError(f"--out {args.out} has an unknown ending; use .png, .csv or .npz")
    model, _ = load_memory(args)
    info = _generative_info(args, model, slept=True)
    shape = _image_shape(info.shape) if kind == ".png" else ()
    if args.n > (most := MAX_BYTES // (8 * math.prod(info.shape))):
        raise UsageError(f"--n is {args.n:,}; at most {most:,} dreams of this shape can be written")
    with _plain_errors():
        x, y = model.sample(args.n, random_state=args.seed)
    if kind == ".png":
        content = _sheet(model.fitted_.inputs.apply(x).reshape(len(x), *shape))
    elif kind == ".npz":
        content = npz_bytes({"x": x, "y": y})
    else:
        flat = x.reshape(len(x), -1)
        rows = ((*(f"{v:.7g}" for v in row), label) for row, label in zip(flat, y, strict=True))
        header = [*(f"x{column}" for column in range(flat.shape[1])), "label"]
        content = csv_text(header, rows).encode(errors="backslashreplace")
    write_atomic(args.out, content)
    show(f"{args.out}: {count_noun(len(x), 'dream')} of {args.memory}")


def export(args: Namespace) -> None:
    """Write a memory as an ONNX model."""
    from dgdmn.export.onnx import onnx_bytes

    check_target(args.onnx)
    model, _ = load_memory(args)
    info = model.info()
    if info.generative:
        _generative_info(args, model, slept=True)
    content = onnx_bytes(model)
    write_atomic(args.onnx, content)
    if info.awake:
        awake, advice = join_names(info.awake), f"`dgdmn sleep {args.memory}` consolidates them"
        show(f"dgdmn: {args.onnx} lacks the tasks still awake: {awake}; {advice}", error=True)
    shape, classes = ", ".join(("n", *map(str, info.shape))), join_names(model.classes_.tolist())
    show(f"{args.onnx}: {format_bytes(len(content))}; X ({shape}) to probabilities of {classes}")


def inspect(args: Namespace) -> None:
    """Show what a memory knows."""
    facts = _facts(args, *load_memory(args))
    if args.json:
        show(*json.dumps(facts, indent=1).split("\n"))
        return
    tasks = list(facts.pop("tasks").items())
    facts |= {f"task {name}": task for name, task in tasks[-MAX_SHOWN:]}
    show(*(f"{key}: {_text(value)}" for key, value in facts.items()))
    if len(tasks) > MAX_SHOWN:
        show(f"These are {MAX_SHOWN} of {len(tasks):,} tasks; --json shows all.")
    if facts["next"] == {"rows": 0}:
        show("Row counts are not recorded in this memory. Pass --samples N for the next task.")


def load_memory(args: Namespace) -> Memory:
    """The memory on disk and the notes beside it."""
    if not holds_memory(args.memory):
        advice = f"`dgdmn learn {args.memory} data.npz` creates one"
        raise UsageError(f"{args.memory} is not a memory; {advice}")
    own: dict[str, Any] = {"threads": getattr(args, "threads", 0) or default_threads()}
    if ":" in (name := split_algorithm(args.algorithm, None)[0]):
        own["algorithm"] = algorithm(name)
    (model, saved), notes = load_with_notes(args.memory, **own), Notes(tasks={}, slept=None)
    with suppress(TypeError, KeyError, ValueError, AttributeError):  # saved from Python, or edited
        tasks = {t: [whole({"n": n}, "n") for n in (a, b)] for t, (a, b) in saved["tasks"].items()}
        notes = Notes(tasks=tasks, slept=saved["slept"] and str(saved["slept"]))
    return model, notes


def plan_next_tasks(memory: Memory, rows: int, tasks: int = 0) -> tuple[int, list[Any]]:
    """The rows of a task, by default the mean so far, and the stages of that many tasks and a sleep."""
    from dgdmn.runs.plan import MAX_TASKS, plan_next  # it imports torch

    model, notes = memory
    info = model.info()
    times, seen = (sum(pair[n] for pair in notes["tasks"].values()) for n in (0, 1))
    if not times:  # saved from Python
        times = sum(task.times for task in (*info.consolidated.values(), *info.awake.values()))
        seen = info.age + sum(info.awake_rows.values())
    if tasks > MAX_TASKS:
        raise UsageError(f"--tasks is {tasks:,}; at most {MAX_TASKS:,} can be planned")
    rows = rows or (round(seen / times) if times else 0)
    # by default as many tasks as the short-term memory can take
    free = max(1, info.config.n_stm - len(info.awake)) if info.short_term else 1
    return rows, plan_next(model, [rows] * (tasks or free)) if rows else []


@contextmanager
def _lock(path: Path) -> Iterator[list[str]]:
    """Hold a memory for writing. Yields a list of its states; an interrupt shows the last one."""
    check_place(path)
    missing = [place for place in (path, *path.parents) if not place.exists()]
    states = ["is unchanged"]
    with directory_lock(path):
        try:
            yield states
        except KeyboardInterrupt as stop:
            raise Interrupted(f"interrupted; {path} {states[-1]}") from stop
        finally:
            if missing and not holds_memory(path):  # none was created
                discard(*missing)


@contextmanager
def _save_change(path: Path, memory: Memory) -> Iterator[list[Event]]:
    """Collect the events of a change to a memory, and save it afterwards."""
    (model, notes), events = memory, list[Event]()
    model.callback = events.append
    yield events
    if any(isinstance(event, SleepEnded) for event in events):
        notes["slept"] = datetime.now(UTC).isoformat(timespec="seconds")
    save(model, path, notes)


def _load_or_create(args: Namespace, name: str, preset: str) -> Memory:
    config = override(resolve(preset), args.changes)
    if holds_memory(args.memory):
        memory = load_memory(args)
        _check_same(args, to_dict(config), memory[0])
        return memory
    kind, value_range = algorithm(name), args.value_range and tuple(args.value_range)
    own: dict[str, Any] = {"random_state": args.seed or 0, "value_range": value_range}
    own["threads"] = args.threads or default_threads()
    if "value_range" not in kind._get_param_names() and own.pop("value_range"):
        raise UsageError(f"--value-range has no effect on {name}; leave it out")
    return kind(config if args.changes else preset, **own), Notes(tasks={}, slept=None)


def _check_same(args: Namespace, wanted: dict[str, Any], model: ContinualClassifier) -> None:
    parameters, info = model.get_params(deep=False), model.info()
    typed = {key: getattr(args, key) for key in ("algorithm", "seed", "value_range")}
    typed |= {key: wanted[key] for key in (wanted if args.preset else args.changes)}
    made = to_dict(info.config) | {"algorithm": info.algorithm, "seed": parameters["random_state"]}
    made["value_range"] = list(parameters.get("value_range") or ()) or None
    for key, value in typed.items():
        if value is not None and value != made[key]:
            was, now = (f"{flag(key)} {format_option(one)}" for one in (made[key], value))
            cause = flag(key if key in args.changes or key not in wanted else "preset")
            advice = f"leave {cause} out, or create a new memory"
            raise UsageError(f"{args.memory} was created with {was}, not {now}; {advice}")


def _learn_task(args: Namespace, memory: Memory, task: str | None, rows: Arrays) -> str:
    """Learn one task, save the memory, and return a line about it."""
    (model, notes), y, began = memory, np.asarray(rows.y), time.monotonic()
    new, tasks = not model.__sklearn_is_fitted__(), notes["tasks"]
    if task is None and not algorithm_info(algorithm_name(type(model))).generative:
        task = next(name for n in itertools.count(1) if (name := f"task {n}") not in tasks)
    with _save_change(args.memory, memory) as events, _plain_errors():
        model.partial_fit(rows.X, y, task=task)
        if new and rows.names:  # as scikit-learn does for a data frame
            model.feature_names_in_ = np.array(rows.names, dtype=object)
        name = next((event.tasks[0] for event in events if isinstance(event, Replayed)), task or "")
        times, before = tasks.pop(name, (0, 0))  # the latest task comes last
        tasks[name] = [times + 1, before + len(rows.X)]
        took = format_duration(time.monotonic() - began)
    sizes = f"{count_noun(len(rows.X), 'row')}, {count_noun(len(np.unique(y)), 'class', 'classes')}"
    parts = [f"learned {name!r} ({sizes}) in {took}"]
    slept = [event for event in events if isinstance(event, SleepEnded)]
    parts += [f"slept and consolidated {join_names(event.tasks)}" for event in slept]
    if (info := model.info()).short_term:
        parts.append(f"short-term memory {len(info.awake)} of {info.config.n_stm}")
    return "; ".join(parts)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Turn ValueErrors into UsageErrors and print warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # checked here
        try:
            yield
        except ValueError as error:
            raise error if isinstance(error, DgdmnError) else UsageError(str(error)) from error
        finally:
            for warning in caught:
                show(*f"dgdmn: {warning.message}".splitlines(), error=True)


def _read(args: Namespace) -> Arrays:
    if args.task == "":
        raise UsageError("--task is empty; give a name, or leave it out")
    if not args.data.exists():
        raise UsageError(f"{args.data} does not exist; give .npz, .npy, .csv or a folder of images")
    return read_arrays(args.data, label=args.label)


def _split(args: Namespace, found: Arrays) -> list[tuple[str | None, Arrays]]:
    if found.y is None:
        raise UsageError(f"{args.data} has no labels; name them with --label, or use class folders")
    if found.task is None:
        return [(args.task, found)]
    if args.task:
        raise UsageError(f"{args.data} names the task of each row; leave --task out")
    groups = rows_by_value(found.task)
    return [(str(name), found._replace(X=found.X[n], y=found.y[n])) for name, n in groups.items()]


def _match_columns(args: Namespace, model: ContinualClassifier, found: Arrays) -> Arrays:
    names = tuple(getattr(model, "feature_names_in_", ()))
    if not names or not found.names or found.names == names:
        return found
    if missing := join_names(name for name in names if name not in found.names):
        have = f"it has {join_names(found.names)}"
        raise UsageError(f"{args.data} lacks column {missing} of {args.memory}; {have}")
    return found._replace(X=found.X[:, [found.names.index(name) for name in names]], names=names)


def _facts(args: Namespace, model: ContinualClassifier, notes: Notes) -> dict[str, Any]:
    info = model.info()
    tasks: dict[str, dict[str, Any]] = {
        name: {"in": place, "times": task.times, "classes": [info.labels[n] for n in task.classes]}
        for place, held in (("long-term", info.consolidated), ("short-term", info.awake))
        for name, task in held.items()
    }
    for name, (times, rows) in notes["tasks"].items():
        tasks.setdefault(name, {"in": "network", "times": times})["rows"] = rows
    needs: dict[str, Any] = {}
    try:
        needs["rows"], stages = plan_next_tasks((model, notes), args.samples)
        for stage in stages:
            needs.setdefault(stage.kind, {"samples": stage.samples, "steps": stage.steps})
    except UsageError as error:  # another kind of memory, or numbers beyond reason
        needs["unknown"] = str(error)
    disk = 0
    for path in args.memory.iterdir():
        with suppress(FileNotFoundError):  # a saver has removed it
            disk += path.stat().st_size if path.is_file() else 0
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
    if isinstance(value, dict):
        texts = {key: _text(v) for key, v in value.items()}
        texts |= {key: f"({texts[key]})" for key, v in value.items() if isinstance(v, dict)}
        return ", ".join(f"{key} {text}" for key, text in texts.items()) or "none"
    if isinstance(value, list):
        return join_names(value) or "none"
    return f"{value:,}" if isinstance(value, int) else format_option(value)


def _generative_info(args: Namespace, model: ContinualClassifier, slept: bool = False) -> Any:
    info = model.info()
    if not info.generative:
        raise UsageError(f"{args.memory} uses {info.algorithm}, which neither sleeps nor dreams")
    if slept and not info.consolidated:
        raise UsageError(f"{args.memory} has not slept yet; run `dgdmn sleep {args.memory}` first")
    return info


def _image_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    side = math.isqrt(shape[0])
    if len(shape) == 1 and side * side == shape[0] and side > 1:
        return side, side
    if len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3)):
        return shape[:2] if shape[2:] == (1,) else shape
    raise UsageError(f"samples of shape {shape} are not images; use .csv or .npz for --out")


def _sheet(images: NDArray[Any]) -> bytes:
    columns, content = math.ceil(math.sqrt(len(images))), io.BytesIO()
    pixels = np.round(images * 255).astype(np.uint8)
    canvas, empty = tile(np.split(pixels, range(columns, len(pixels), columns)), columns)
    canvas[empty] = 255
    Image.fromarray(canvas).save(content, "PNG")
    return content.getvalue()
