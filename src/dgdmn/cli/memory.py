"""A memory on disk: `learn`, `inspect`, `sleep`, `dream`, `forget`, `rename`, `merge` and `export`.

Nothing here imports torch unless the memory needs it.
"""

import io
import itertools
import json
import math
import time
import warnings
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgdmn.algorithms import algorithm
from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.fitted import check_new_names
from dgdmn.algorithms.persistence import algorithm_name, load_with_notes, save
from dgdmn.cli.notes import Notes, read_notes
from dgdmn.cli.options import check_applicable
from dgdmn.cli.output import check_target, csv_text, show
from dgdmn.config import override, resolve, to_dict
from dgdmn.config.entries import flag, split_algorithm
from dgdmn.config.registry import algorithm_info
from dgdmn.core.errors import DgdmnError, Interrupted, UsageError, suggestion
from dgdmn.core.events import Event, Replayed, SleepEnded
from dgdmn.core.files import directory_lock, npz_bytes, write_atomic
from dgdmn.core.text import count_noun, format_bytes, format_duration, format_option, join_names
from dgdmn.features import FrontEnd
from dgdmn.memory.code import triangle_bytes
from dgdmn.memory.components import Component
from dgdmn.memory.mixture import MixtureMemory
from dgdmn.report.images import tile
from dgdmn.runs.environment import default_threads
from dgdmn.storage import bytes_in, check_place, discard, holds_memory
from dgdmn.streams.readers import FILE_TYPES, MAX_BYTES, Arrays, read_arrays, rows_by_value

Memory = tuple[ContinualClassifier, Notes]
MAX_SHOWN = 100
"""Tasks and components that `inspect` prints, the latest ones."""
ARGUMENTS = ("value_range", "image_shape", "text")
"""Arguments of an estimator that are no hyper-parameters."""
UNUSED_ARGUMENT = {True: "value_range", False: "image_shape"}
"""The argument that has no effect with, and without, the mixture memory."""
FEW_ROWS = 20
"""A component of fewer rows is close to them, so `inspect` names it."""


def learn(args: Namespace) -> None:
    """Teach a memory the task or the tasks of a file, and save after each."""
    name, preset = split_algorithm(args.algorithm, args.preset)
    args.algorithm = args.algorithm and name
    check_applicable(name, args.changes)
    _check_data(args)
    with _lock(args.memory) as states:
        memory = _load_or_create(args, name, preset)
        tasks = _split(args, found := _read(args, memory, args.task))
        with _plain_errors():  # before the first of several tasks is learned
            memory[0].check_rows(found.inputs, np.asarray(found.y))
        memory[1]["label"] = found.label or memory[1]["label"]
        memory[1]["task"] = found.task_column or memory[1]["task"]
        memory[1]["ignore"] = [*dict.fromkeys([*memory[1]["ignore"], *args.ignore])]
        for n, (task, rows) in enumerate(tasks, start=1):
            line = _learn_task(args, memory, task, rows)
            states.append(f"has learned {n} of {len(tasks)} tasks")
            show(f"{args.memory}: {line}")


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
    replays = [event for event in events if isinstance(event, Replayed)]  # none of a mixture
    source = f" from {count_noun(sum(e.n_tasks for e in replays), 'dream')}" if replays else ""
    took = format_duration(time.monotonic() - began)
    show(f"{args.memory}: slept {took} and consolidated {join_names(info.awake)}{source}")


def forget(args: Namespace) -> None:
    """Remove what was learned of labels or tasks, and save."""
    if not args.labels and not args.tasks:
        raise UsageError("nothing to forget; give --labels, --tasks or both")
    with _lock(args.memory):
        memory = load_memory(args)
        model, notes = memory
        info = _generative_info(args, model, can="forget")
        labels = [_find(args, "label", text, model.classes_.tolist()) for text in args.labels]
        known = [*info.consolidated, *info.awake]
        tasks = [_find(args, "task", text, known) for text in args.tasks]
        before = sum(one.n for one in _components(model))
        with _save_change(args.memory, memory), _plain_errors():
            model.forget(labels=labels or None, tasks=tasks or None)
            left = _task_counts(model)
            for task in [*notes["tasks"]]:
                times, rows = left.get(task, (0, 0))
                notes["tasks"][task] = [times, rows]
                if not times:
                    del notes["tasks"][task]
    gone = count_noun(round(before - sum(one.n for one in _components(model))), "row")
    kept = count_noun(len(model.classes_), "class", "classes")
    show(f"{args.memory}: forgot what it learned from {gone}; {kept} left")


def rename(args: Namespace) -> None:
    """Give labels or tasks other names, and save."""
    if not args.label and not args.task:
        raise UsageError("nothing to rename; give --label OLD NEW, --task OLD NEW or both")
    with _lock(args.memory):
        memory = load_memory(args)
        model, notes = memory
        info, known = model.info(), model.classes_.tolist()
        labels = {
            _find(args, "label", old, known): _parse_label(args, new, known)
            for old, new in args.label or ()
        }
        held = [*info.consolidated, *info.awake] or list(notes["tasks"])
        tasks = {_find(args, "task", old, held): new for old, new in args.task or ()}
        with _save_change(args.memory, memory), _plain_errors():
            names = check_new_names("task", held, tasks)
            keeps_tasks = hasattr(model.fitted_.memory, "rename_tasks")
            model.rename(labels=labels, tasks=names if keeps_tasks else None)
            for key in ("tasks", "learned"):
                notes[key] = {names.get(task, task): value for task, value in notes[key].items()}
    pairs = [f"{old} to {new}" for old, new in {**labels, **tasks}.items()]
    show(f"{args.memory}: renamed {join_names(pairs)}")


def _parse_label(args: Namespace, text: str, known: Sequence[Any]) -> Any:
    """A label of the kind that a memory has."""
    if isinstance(known[0], str):
        return text
    for number in (int, float):
        with suppress(ValueError):
            if math.isfinite(value := number(text)):
                return value
    raise UsageError(f"the labels of {args.memory} are numbers; {text!r} is none")


def merge(args: Namespace) -> None:
    """Save a memory that has learned what two memories have."""
    from dgdmn.algorithms.generative import merge as merge_models

    out, parts = args.out, (args.memory, args.other)
    if out is None:
        raise UsageError("--out is missing; name the directory of the merged memory")
    if holds_memory(out) and not any(path.exists() and out.samefile(path) for path in parts):
        raise UsageError(f"{out} is another memory; name a new directory, or one of the two")
    with _lock(out):
        memories = [load_memory(Namespace(**{**vars(args), "memory": path})) for path in parts]
        for path, (model, _) in zip(parts, memories, strict=True):
            _generative_info(Namespace(memory=path), model, can="merge")
        (ours, notes), (theirs, more) = memories
        with _plain_errors():
            model = merge_models(ours, theirs)
        for task, counts in more["tasks"].items():
            old = notes["tasks"].pop(task, [0, 0])
            notes["tasks"][task] = [a + b for a, b in zip(old, counts, strict=True)]
        notes |= {"slept": _now(), "learned": more["learned"] | notes["learned"]}
        save(model, out, notes)
    classes = count_noun(len(model.classes_), "class", "classes")
    tasks = count_noun(len(model.info().consolidated), "task")
    show(f"{out}: merged {join_names(map(str, parts))}; {tasks}, {classes}")


def dream(args: Namespace) -> None:
    """Write samples of the long-term memory."""
    check_target(args.out)
    kind = args.out.suffix.lower()
    if kind not in (".png", ".csv", ".npz"):
        raise UsageError(f"--out {args.out} has an unknown ending; use .png, .csv or .npz")
    model, _ = load_memory(args)
    info = _generative_info(args, model, slept=True)
    inputs = model.fitted_.inputs
    seen = inputs.image_shape if isinstance(inputs, FrontEnd) else None
    shape = _image_shape(seen or info.shape) if kind == ".png" else ()
    if args.n > (most := MAX_BYTES // (8 * math.prod(info.shape))):
        raise UsageError(f"--n is {args.n:,}; at most {most:,} dreams of this shape can be written")
    with _plain_errors():
        x, y = model.sample(args.n, random_state=args.seed)
    if kind == ".png":
        gray = _to_unit_range(x) if isinstance(inputs, FrontEnd) else inputs.apply(x)
        content = _sheet(gray.reshape(len(x), *shape))
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
    tasks, components = list(facts.pop("tasks").items()), facts.pop("components", [])
    facts |= {f"task {name}": task for name, task in tasks[-MAX_SHOWN:]}
    show(*(f"{key}: {_text(value)}" for key, value in facts.items()))
    for one in components[-MAX_SHOWN:]:
        rest = {key: value for key, value in one.items() if key not in ("task", "label")}
        show(f"component {one['label']} of {one['task']}: {_text(rest)}")
    for found, what in ((tasks, "tasks"), (components, "components")):
        if len(found) > MAX_SHOWN:
            show(f"These are {MAX_SHOWN} of {len(found):,} {what}; --json shows all.")
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
    model, saved = load_with_notes(args.memory, **own)
    return model, read_notes(saved)


def plan_next_tasks(memory: Memory, rows: int, tasks: int = 0) -> tuple[int, list[Any]]:
    """The rows of a task, by default the mean so far, and the stages of that many tasks and a sleep."""
    from dgdmn.runs.plan import MAX_TASKS, plan_next  # imports torch

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
        notes["slept"] = _now()
    # A forgotten task leaves no trace.
    notes["learned"] = {t: when for t, when in notes["learned"].items() if t in notes["tasks"]}
    save(model, path, notes)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _load_or_create(args: Namespace, name: str, preset: str) -> Memory:
    config = override(resolve(preset), args.changes)
    if holds_memory(args.memory):
        memory = load_memory(args)
        _check_same(args, to_dict(config), memory[0])
        return memory
    kind, options, info = algorithm(name), to_dict(config), algorithm_info(name)
    has_mixture = info.generative and config.generator == "mixture"
    what = f"{name} with the mixture memory" if has_mixture else name
    advice = "leave it out, or use --preset deep" if has_mixture else "leave it out"
    typed = {key: getattr(args, key) and tuple(getattr(args, key)) for key in ARGUMENTS}
    own: dict[str, Any] = {key: value for key, value in typed.items() if value}
    unused = [key for key in args.changes if info.unused(key, options)]
    unused += [key for key in own if key not in kind._get_param_names()]
    unused += [UNUSED_ARGUMENT[has_mixture]] if info.generative else []
    for key in unused:
        if key in args.changes or key in own:
            raise UsageError(f"{flag(key)} has no effect on {what}; {advice}")
    own |= {"random_state": args.seed or 0, "threads": args.threads or default_threads()}
    return kind(config if args.changes else preset, **own), read_notes(None)


def _check_same(args: Namespace, wanted: dict[str, Any], model: ContinualClassifier) -> None:
    parameters, info = model.get_params(deep=False), model.info()
    typed = {key: getattr(args, key) or None for key in ("algorithm", *ARGUMENTS)}
    typed |= {"seed": args.seed}
    typed |= {key: wanted[key] for key in (wanted if args.preset else args.changes)}
    made = to_dict(info.config) | {"algorithm": info.algorithm, "seed": parameters["random_state"]}
    made |= {key: list(parameters.get(key) or ()) or None for key in ARGUMENTS}
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
    counts = {} if new else _task_counts(model)
    if not getattr(model, "uses_task_names", True):
        task = None  # it is ignored
    if task is None and not algorithm_info(algorithm_name(type(model))).generative:
        task = next(name for n in itertools.count(1) if (name := f"task {n}") not in tasks)
    with _save_change(args.memory, memory) as events, _plain_errors():
        model.partial_fit(rows.inputs, y, task=task)
        found = [event.tasks[0] for event in events if isinstance(event, Replayed)]
        learned = {found[0] if found else task or "": len(rows.X)}
        unnamed = task is None or not model.info().by_task_name
        if unnamed and (after := _task_counts(model)):  # each row has joined a task of its class
            met = {name: counts.get(name, (0, 0)) for name in after}
            met = {name: old for name, old in met.items() if after[name][0] > old[0]}
            learned = {name: max(0, after[name][1] - old[1]) for name, old in met.items()}
        for name, more in learned.items():
            times, before = tasks.pop(name, (0, 0))  # the latest task comes last
            tasks[name] = [times + 1, before + more]
            notes["learned"][name] = _now()
        took = format_duration(time.monotonic() - began)
    sizes = f"{count_noun(len(rows.X), 'row')}, {count_noun(len(np.unique(y)), 'class', 'classes')}"
    parts = [f"learned {join_names(map(repr, learned))} ({sizes}) in {took}"]
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


def _check_data(args: Namespace) -> None:
    if args.task == "":
        raise UsageError("--task is empty; give a name, or leave it out")
    if not args.data.exists():
        raise UsageError(f"{args.data} does not exist; give {FILE_TYPES}")


def _read(args: Namespace, memory: Memory, task: str | None = None) -> Arrays:
    """The rows of a file as this memory sees them: its label, task and text columns and image size."""
    model, notes = memory
    columns = getattr(model, "columns_", None)
    shape = model.fitted_.shape if model.__sklearn_is_fitted__() else ()
    with _plain_errors():
        return read_arrays(
            args.data,
            label=args.label,
            ignore=args.ignore,
            text=columns.text if columns else model.text or (),
            shape=shape,
            remembered=(notes["label"], notes["ignore"], (task or "", notes["task"])),
        )


def _split(args: Namespace, found: Arrays) -> list[tuple[str | None, Arrays]]:
    if found.y is None:
        has = f"; its columns are {join_names(found.names)}" if found.names else ""
        raise UsageError(
            f"{args.data} has no labels; name them with --label, or use class folders{has}"
        )
    if found.task is None:
        return [(args.task, found)]
    if args.task and args.task != found.task_column:
        raise UsageError(f"{args.data} names the task of each row; leave --task out")
    groups = rows_by_value(found.task)
    return [(str(name), found.take(n)) for name, n in groups.items()]


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
    if hasattr(model, "columns_"):
        facts |= {"columns": model.columns_.state(), "label column": notes["label"]}
    mixtures = _mixtures(model)
    if info.generative:
        facts |= {"age": info.age, "n_max": info.config.n_max, "kappa": info.config.kappa}
    if mixtures:
        del facts["n_max"]  # it has no effect
        facts |= {"memory_budget": info.config.memory_budget, **_mixture_facts(model, mixtures)}
    if info.short_term:
        facts |= {"n_stm": info.config.n_stm, "awake": info.awake_rows, "slept": notes["slept"]}
        facts |= {} if mixtures else {"codes": info.awake_codes}
    return {**facts, "next": needs}


def _mixture_facts(model: ContinualClassifier, mixtures: Sequence[MixtureMemory]) -> dict[str, Any]:
    """What a mixture memory keeps: bytes of each part, the settings chosen, and its components."""
    (ltm, *awake), inputs, labels = mixtures, model.fitted_.inputs, model.fitted_.labels
    assert isinstance(inputs, FrontEnd)
    spec, frozen, components = ltm.spec, ltm._frozen(awake), _components(model)
    means = sum(int(one.mean.nbytes) for one in components)
    scatters = sum(triangle_bytes(len(one.scatter), one.scatter.itemsize) for one in components)
    pooled, tied = triangle_bytes(spec.d, 8), triangle_bytes(spec.q, 8)
    parts = {
        "means": means,
        "scatters": scatters,
        "usual scores": sum(one.nbytes for one in components) - means - scatters,
        "pooled scatter": pooled,
        "tied code covariance": tied,
        "decoder, variances, counts": spec.pool_bytes - pooled - tied,
        "front end": bytes_in(inputs.state()),
    }
    described = [
        {
            "task": one.task,
            "label": labels[one.label],
            "rows": one.n,
            "code": len(one.scatter),
            "in": "long-term" if memory is ltm else "short-term",
        }
        for memory in mixtures
        for one in memory.components
    ]
    return {
        "parts": parts,
        "front end": {"features": inputs.kind, "numbers": spec.d, "code": spec.q},
        "chosen": {
            "shrinkage (λ)": frozen.setting[0],
            "own covariance (g)": frozen.setting[1],
            "temperature": frozen.temperature,
        },
        "components": described,
        "close to their rows": [
            f"{one['label']} in {one['task']}" for one in described if one["rows"] < FEW_ROWS
        ],
    }


def _mixtures(model: ContinualClassifier) -> list[MixtureMemory]:
    """The mixture memories of a model, the long-term memory first; none of another kind."""
    if not isinstance(model.fitted_.inputs, FrontEnd) or not model.info().generative:
        return []
    found: list[MixtureMemory] = model.fitted_.snapshot().memory.copy_memories()  # type: ignore[attr-defined]
    return found


def _components(model: ContinualClassifier) -> list[Component]:
    return [one for memory in _mixtures(model) for one in memory.components]


def _task_counts(model: ContinualClassifier) -> dict[str, tuple[int, int]]:
    """How often each task of a mixture memory was met, and its rows; empty for other memories."""
    times: Counter[str] = Counter()
    rows: dict[str, float] = {}
    for memory in _mixtures(model):
        times.update({task: info.times for task, info in memory.tasks.items()})
        for one in memory.components:
            rows[one.task] = rows.get(one.task, 0) + one.n
    return {task: (times[task], round(rows.get(task, 0))) for task in times}


def _find(args: Namespace, what: str, text: str, known: Sequence[Any]) -> Any:
    """The label or the task that a text names."""
    by_text = {str(one): one for one in known}
    if text not in by_text:
        hint, names = suggestion(text, by_text), join_names(by_text)
        raise UsageError(f"{args.memory} has no {what} {text!r}{hint}; it has {names}")
    return by_text[text]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        texts = {key: _text(v) for key, v in value.items()}
        texts |= {key: f"({texts[key]})" for key, v in value.items() if isinstance(v, dict)}
        return ", ".join(f"{key} {text}" for key, text in texts.items()) or "none"
    if isinstance(value, list):
        return join_names(value) or "none"
    return f"{value:,}" if isinstance(value, int) else format_option(value)


def _generative_info(
    args: Namespace, model: ContinualClassifier, slept: bool = False, can: str = ""
) -> Any:
    info = model.info()
    if not info.generative:
        lacks = f"cannot {can}" if can else "neither sleeps nor dreams"
        raise UsageError(f"{args.memory} uses {info.algorithm}, which {lacks}")
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


def _to_unit_range(x: NDArray[Any]) -> NDArray[Any]:
    """Dreams of a mixture as gray values: of data outside of [0, 1], from their lowest to their highest value."""
    low, high = (0.0, 1.0) if x.min() > -0.5 and x.max() < 1.5 else (x.min(), x.max())
    return np.clip((x - low) / (high - low), 0, 1)


def _sheet(images: NDArray[Any]) -> bytes:
    columns, content = math.ceil(math.sqrt(len(images))), io.BytesIO()
    pixels = np.round(images * 255).astype(np.uint8)
    canvas, empty = tile(np.split(pixels, range(columns, len(pixels), columns)), columns)
    canvas[empty] = 255
    Image.fromarray(canvas).save(content, "PNG")
    return content.getvalue()
