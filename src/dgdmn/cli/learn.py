"""`dgdmn learn`: teach a memory on disk one more task; make it if it is new."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from dgdmn.algorithms import check_name
from dgdmn.cli.memories import MemoryPath, Notes, held, kept, opened
from dgdmn.cli.rows import DataPath, arranged, plainly, rows_of
from dgdmn.cli.run import parse
from dgdmn.errors import Interrupted, UsageError
from dgdmn.presets import Preset, preset
from dgdmn.wording import counted, duration, listed

if TYPE_CHECKING:  # torch and numpy wait until the arguments are parsed, so that --help is quick
    from dgdmn.algorithms.base import ContinualClassifier
    from dgdmn.events import Event
    from dgdmn.streams.reading import Arrays


@dataclass(frozen=True)
class Learn:
    """Teach a memory one more task. The memory on disk is the old one or the new one, whatever happens.

    Rows with a `task` column are learnt task by task, and saved after each. The options of a preset count
    when the memory is made.
    """

    memory: MemoryPath
    """The memory, a directory; made if it is new."""
    data: DataPath
    """.npz, .npy or .csv, or a folder of images."""
    options: Annotated[Preset, tyro.conf.arg(name="")]
    task: str = ""
    """The task's name; left out, DGDMN recognises a task it knows and takes any other as new."""
    label: str = ""
    """The csv column or npz array with the labels; left out, `label`, in an npz also `y` or `labels`."""
    algorithm: str = ""
    """Of a new memory; left out, dgdmn. `dgdmn algorithms` lists them."""
    preset: str = ""
    """Of a new memory: `best`, `arrays`, `paper`, `paper/hindi` and so on; left out, best."""
    seed: int | None = None
    """Of a new memory; left out, 0."""
    value_range: tuple[float, float] | None = None
    """Of a new memory: lowest and highest of all values to come; left out, those of the first task."""
    threads: int = 0
    """torch threads; 0: as many as torch likes."""


def main(arguments: list[str], debug: bool = False) -> int:  # noqa: ARG001
    """Parse, learn, save, say so."""
    args = _parse(arguments)
    if args.algorithm:
        check_name(args.algorithm)
    found = rows_of(args.data, args.label or None)
    tasks = _tasks(args, found)
    done = 0
    try:
        with held(args.memory):
            model, notes = _memory(args)
            if model.__sklearn_is_fitted__():
                tasks = _tasks(args, arranged(model, found, args.data))
            for task, rows in tasks:
                said = _learn(model, notes, task, rows)
                kept(model, args.memory, notes)
                done += 1
                sys.stdout.write(f"{args.memory}: {said}\n")
                sys.stdout.flush()
    except KeyboardInterrupt as stop:
        state = f"has learnt {done} of {len(tasks)} tasks" if done else "is as it was"
        raise Interrupted(f"interrupted; {args.memory} {state}") from stop
    return 0


def _parse(arguments: list[str]) -> Learn:
    """The preset decides the defaults of its options, so it is looked for first."""
    finder = ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--preset", nargs="?")
    name = finder.parse_known_args(arguments)[0].preset or "best"
    return parse(Learn, arguments, "dgdmn learn", default=Learn(tyro.MISSING, tyro.MISSING, _preset(name)))


def _preset(name: str) -> Preset:
    return preset(*name.split("/", 1))


def _tasks(args: Learn, found: Arrays) -> list[tuple[str | None, Arrays]]:
    """The rows of each task, in the order in which the tasks first come."""
    if found.y is None:
        raise UsageError(f"{args.data} has no labels; name them with --label, or put images in class folders")
    if found.task is None:
        return [(args.task or None, found)]
    if args.task:
        raise UsageError(f"{args.data} says itself which task each row is of; leave --task out")
    names = dict.fromkeys(found.task.tolist())
    return [
        (str(name), found._replace(X=found.X[found.task == name], y=found.y[found.task == name]))
        for name in names
    ]


def _memory(args: Learn) -> tuple[ContinualClassifier, Notes]:
    """The memory there is, or a new one."""
    from dgdmn.algorithms import algorithm
    from dgdmn.storage import holds_memory

    name = args.preset or "best"
    base = _preset(name)
    for option in ("samples_per_task", "tdigits"):
        if getattr(args.options, option) != getattr(base, option):
            raise UsageError(f"{_typed(option)} is for `dgdmn run`; give a file with the rows to learn")
    if not holds_memory(args.memory):
        chosen = name if args.options == base else args.options
        kind, threads = algorithm(args.algorithm or "dgdmn"), args.threads or None
        new = kind(chosen, value_range=args.value_range, random_state=args.seed or 0, threads=threads)
        return new, Notes()
    model, notes = opened(args.memory, args.threads)
    _check_same(args, base, model)
    return model, notes


def _check_same(args: Learn, base: Preset, model: ContinualClassifier) -> None:
    """Refuse what is given and is not what the memory was made with."""
    from dgdmn.algorithms.saving import name_of

    parameters = model.get_params(deep=False)
    made = {**parameters, **vars(model.learnt_.options)}
    made |= {"algorithm": name_of(type(model)), "seed": parameters["random_state"]}
    given = {key: getattr(args, key) for key in ("algorithm", "preset", "seed", "value_range")}
    given |= {key: value for key, value in vars(args.options).items() if value != getattr(base, key)}
    wanted = given
    if args.preset and isinstance(made["preset"], Preset):  # nameless: its values are compared
        wanted = {**given, **vars(args.options), "preset": ""}
    for key, value in wanted.items():
        if value not in (None, "") and value != made[key]:
            raise UsageError(
                f"{args.memory} was made with {_typed(key, made[key])}, not {_typed(key, value)}; "
                f"leave {_typed(key if key in given else 'preset')} out, or make a new memory"
            )


def _typed(option: str, value: Any = ()) -> str:
    """An option as it is typed."""
    words = value if isinstance(value, tuple) else (value,)
    return " ".join([f"--{option.replace('_', '-')}", *map(str, words)])


def _learn(model: ContinualClassifier, notes: Notes, task: str | None, rows: Arrays) -> str:
    """Learn one task, and what there is to say of it."""
    import numpy as np

    from dgdmn.algorithms.dual import DualClassifier
    from dgdmn.algorithms.generative import GenerativeClassifier
    from dgdmn.events import Replayed, SleepEnded
    from dgdmn.memory.dictionary import unused_name

    if task is None and not isinstance(model, GenerativeClassifier):
        task = unused_name(notes.tasks.keys())
    assert rows.y is not None  # refused before
    heard: list[Event] = []
    first = not model.__sklearn_is_fitted__()
    began, model.listen = time.monotonic(), heard.append
    with plainly():
        model.partial_fit(rows.X, rows.y, task=task)
    if first and rows.names:  # as scikit-learn notes those of a data frame
        model.feature_names_in_ = np.array(rows.names, dtype=object)
    name = next((event.tasks[0] for event in heard if isinstance(event, Replayed)), task or "")
    notes.learnt(name, len(rows.X))
    classes = len(set(rows.y.tolist()))
    parts = [
        f"learnt {name!r} ({counted(len(rows.X), 'row')}, {counted(classes, 'class', 'classes')}) "
        f"in {duration(time.monotonic() - began)}"
    ]
    for event in heard:
        if isinstance(event, SleepEnded):
            notes.sleeps()
            parts.append(f"slept, and consolidated {listed(event.tasks)}")
    if isinstance(model, DualClassifier):
        parts.append(f"short-term memory {len(model.awake_tasks())} of {model.learnt_.options.n_stm}")
    return "; ".join(parts)
