"""Verbs that change a memory on disk: `learn`, `sleep`, `forget`, `rename` and `merge`.

Nothing here imports torch unless the memory needs it.
"""

import itertools
import math
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from dgdmn.algorithms import algorithm
from dgdmn.algorithms.checks import check_new_names
from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.persistence import algorithm_name, save
from dgdmn.cli import store
from dgdmn.cli.notes import read_notes
from dgdmn.cli.options import check_applicable
from dgdmn.cli.output import show
from dgdmn.config import default_threads, override, resolve, to_dict
from dgdmn.config.entries import flag, split_algorithm
from dgdmn.config.registry import algorithm_info
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Replayed, SleepEnded
from dgdmn.core.text import count_noun, format_duration, format_option, join_names
from dgdmn.records import utc_now
from dgdmn.storage import holds_memory
from dgdmn.streams.readers import Arrays, rows_by_value

ARGUMENTS = ("value_range", "image_shape", "text")
"""Arguments of an estimator that are not hyperparameters."""
UNUSED_ARGUMENT = {True: "value_range", False: "image_shape"}
"""{has_mixture: the argument without effect}."""


def learn(args: Namespace) -> None:
    """Teach a memory the task or the tasks of a file, and save after each."""
    name, preset = split_algorithm(args.algorithm, args.preset)
    args.algorithm = args.algorithm and name
    check_applicable(name, args.changes)
    store.check_data(args)
    with store.hold_memory(args.memory) as states:
        memory = _load_or_create(args, name, preset)
        model, notes = memory
        tasks = _split(args, found := store.read_rows(args, memory, args.task))
        with store.plain_errors():  # before the first of several tasks is learned
            model.check_rows(found.inputs, np.asarray(found.y))
        notes["label"] = found.label or notes["label"]
        notes["task"] = found.task_column or notes["task"]
        ignored = (*notes["ignore"], *args.ignore, *found.dates)  # dates are mentioned once
        notes["ignore"] = [*dict.fromkeys(ignored)]
        for n, (task, rows) in enumerate(tasks, start=1):
            line = _learn_task(args, memory, task, rows)
            states.append(f"has learned {n} of {len(tasks)} tasks")
            show(f"{args.memory}: {line}")


def sleep(args: Namespace) -> None:
    """Consolidate the short-term memory, and save."""
    with store.hold_memory(args.memory):
        memory = store.load_memory(args)
        model = memory[0]
        info, began = store.generative_info(args.memory, model), time.monotonic()
        if not info.awake:
            show(f"{args.memory}: the short-term memory is empty; nothing to consolidate")
            return
        with store.save_change(args.memory, memory) as events:
            model.sleep()
    replays = [event for event in events if isinstance(event, Replayed)]  # none of a mixture
    source = f" from {count_noun(sum(e.n_tasks for e in replays), 'dream')}" if replays else ""
    took = format_duration(time.monotonic() - began)
    show(f"{args.memory}: slept {took} and consolidated {join_names(info.awake)}{source}")


def forget(args: Namespace) -> None:
    """Remove what was learned of labels or tasks, and save."""
    if not args.labels and not args.tasks:
        raise UsageError("nothing to forget; give --labels, --tasks or both")
    with store.hold_memory(args.memory):
        memory = store.load_memory(args)
        model, notes = memory
        store.generative_info(args.memory, model, can="forget")
        known, held = model.classes_.tolist(), store.known_tasks(memory)
        labels = [store.find_name(args, "label", text, known) for text in args.labels]
        tasks = [store.find_name(args, "task", text, held) for text in args.tasks]
        before = sum(one.n for one in store.components_of(model))
        with store.save_change(args.memory, memory), store.plain_errors():
            model.forget(labels=labels or None, tasks=tasks or None)
            left = store.count_tasks(model)
            notes["tasks"] = {t: [*left[t]] for t in notes["tasks"] if t in left and left[t][0]}
    gone = count_noun(round(before - sum(one.n for one in store.components_of(model))), "row")
    kept = count_noun(len(model.classes_), "class", "classes")
    show(f"{args.memory}: forgot what it learned from {gone}; {kept} left")


def rename(args: Namespace) -> None:
    """Give labels or tasks other names, and save."""
    if not args.label and not args.task:
        raise UsageError("nothing to rename; give --label OLD NEW, --task OLD NEW or both")
    with store.hold_memory(args.memory):
        memory = store.load_memory(args)
        model, notes = memory
        known, held = model.classes_.tolist(), store.known_tasks(memory)
        labels = {
            store.find_name(args, "label", old, known): _parse_label(args, new, known)
            for old, new in args.label or ()
        }
        tasks = {store.find_name(args, "task", old, held): new for old, new in args.task or ()}
        with store.save_change(args.memory, memory), store.plain_errors():
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
    problem = f"{text!r} is not a number, but the labels of {args.memory} are"
    raise UsageError(f"{problem}; give a number")


def merge(args: Namespace) -> None:
    """Save a memory that has learned what two memories have."""
    from dgdmn.algorithms.generative import merge as merge_models

    out, parts = args.out, (args.memory, args.other)
    if out is None:
        raise UsageError("--out is missing; name the directory of the merged memory")
    if holds_memory(out) and not any(path.exists() and out.samefile(path) for path in parts):
        raise UsageError(f"{out} is another memory; name a new directory, or one of the two")
    with store.hold_memory(out):
        memories = [store.load_memory(Namespace(**vars(args) | {"memory": path})) for path in parts]
        for path, (model, _) in zip(parts, memories, strict=True):
            store.generative_info(path, model, can="merge")
        (ours, notes), (theirs, more) = memories
        with store.plain_errors():
            model = merge_models(ours, theirs)
        for task, counts in more["tasks"].items():
            old = notes["tasks"].pop(task, [0, 0])
            notes["tasks"][task] = [a + b for a, b in zip(old, counts, strict=True)]
        notes |= {"slept": utc_now("seconds"), "learned": more["learned"] | notes["learned"]}
        save(model, out, notes)
    classes = count_noun(len(model.classes_), "class", "classes")
    tasks = count_noun(len(model.info().consolidated), "task")
    show(f"{out}: merged {join_names(map(str, parts))}; {tasks}, {classes}")


def _load_or_create(args: Namespace, name: str, preset: str) -> store.Memory:
    config = override(resolve(preset), args.changes)
    if holds_memory(args.memory):
        memory = store.load_memory(args)
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


def _learn_task(args: Namespace, memory: store.Memory, task: str | None, rows: Arrays) -> str:
    """Learn one task, save the memory, and return a line about it."""
    (model, notes), y, began = memory, np.asarray(rows.y), time.monotonic()
    new, tasks = not model.__sklearn_is_fitted__(), notes["tasks"]
    counts = {} if new else store.count_tasks(model)
    known = {*counts, *tasks}
    if not getattr(model, "uses_task_names", True):
        task = None  # it is ignored
    if task is None and not algorithm_info(algorithm_name(type(model))).generative:
        task = next(name for n in itertools.count(1) if (name := f"task {n}") not in tasks)
    with store.save_change(args.memory, memory) as events, store.plain_errors():
        model.partial_fit(rows.inputs, y, task=task)
        found = [event.tasks[0] for event in events if isinstance(event, Replayed)]
        learned = {found[0] if found else task or "": len(rows.X)}
        unnamed = task is None or not model.info().by_task_name
        # Without a name, each row has joined a task of its class.
        if unnamed and (after := store.count_tasks(model)):
            earlier = {name: counts.get(name, (0, 0)) for name in after}
            earlier = {name: old for name, old in earlier.items() if after[name][0] > old[0]}
            learned = {name: max(0, after[name][1] - old[1]) for name, old in earlier.items()}
        for name, more in learned.items():
            times, before = tasks.pop(name, (0, 0))  # the latest task comes last
            tasks[name] = [times + 1, before + more]
            notes["learned"][name] = utc_now("seconds")
        took = format_duration(time.monotonic() - began)
    sizes = f"{count_noun(len(rows.X), 'row')}, {count_noun(len(np.unique(y)), 'class', 'classes')}"
    joined = known.issuperset(learned)
    verb = "learned more of" if joined else "learned"
    parts = [f"{verb} {join_names(map(repr, learned))} ({sizes}) in {took}"]
    if joined and unnamed and task is None and getattr(model, "uses_task_names", True):
        parts.append("without --task, rows join the task that has their class")
    slept = [event for event in events if isinstance(event, SleepEnded)]
    parts += [f"slept and consolidated {join_names(event.tasks)}" for event in slept]
    if (info := model.info()).short_term:
        parts.append(f"short-term memory {len(info.awake)} of {info.config.n_stm}")
    return "; ".join(parts)


def _split(args: Namespace, found: Arrays) -> list[tuple[str | None, Arrays]]:
    if found.y is None:
        has = f"; its columns are {join_names(found.names)}" if found.names else ""
        advice = f"name them with --label, or use class folders{has}"
        raise UsageError(f"{args.data} has no labels; {advice}")
    if found.task is None:
        return [(args.task, found)]
    if args.task and args.task != found.task_column:
        raise UsageError(f"{args.data} names the task of each row; leave --task out")
    groups = rows_by_value(found.task)
    return [(str(name), found.take(n)) for name, n in groups.items()]
