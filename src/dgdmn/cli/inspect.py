"""`dgdmn inspect`: what a memory on disk knows, how full it is, and what its next task will cost."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from dgdmn.cli.memories import MemoryPath, Met, Notes, mean_rows, opened
from dgdmn.cli.run import parse
from dgdmn.errors import UsageError
from dgdmn.wording import counted, duration, listed, size

if TYPE_CHECKING:  # torch and numpy wait until the arguments are parsed, so that --help is quick
    from dgdmn.algorithms.base import ContinualClassifier


@dataclass(frozen=True)
class Inspect:
    """Tell what a memory knows: tasks, classes, ages, bytes, the last sleep, and what comes next will cost."""

    memory: MemoryPath
    """The memory, a directory."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """As JSON."""
    samples: int = 0
    """Rows of the next task; 0: as many as the tasks so far had on average."""
    threads: int = 0
    """torch threads to time a few steps with; 0: as many as torch likes."""


def main(arguments: list[str], debug: bool = False) -> int:  # noqa: ARG001
    """Parse, look, tell."""
    args = parse(Inspect, arguments, "dgdmn inspect")
    if args.samples < 0:
        raise UsageError(f"samples is {args.samples}; it must be at least 0")
    model, notes = opened(args.memory, args.threads)
    facts = {"memory": str(args.memory), **_facts(model, notes)}
    files = [path for path in args.memory.iterdir() if path.is_file()]
    facts["bytes"]["disk"] = sum(path.stat().st_size for path in files)
    facts["next"] = _next(model, args.samples or mean_rows(model, notes), args.threads)
    text = json.dumps(facts, indent=1, ensure_ascii=False) if args.as_json else "\n".join(_lines(facts))
    sys.stdout.write(text + "\n")
    return 0


def _facts(model: ContinualClassifier, notes: Notes) -> dict[str, Any]:
    from dgdmn.algorithms.dual import DualClassifier
    from dgdmn.algorithms.generative import GenerativeClassifier
    from dgdmn.algorithms.saving import name_of

    learnt = model.learnt_
    options = learnt.options  # what it learnt with; parameters may have been set for the next `fit` since
    facts: dict[str, Any] = {
        "algorithm": name_of(type(model)),
        "preset": model.preset if isinstance(model.preset, str) else "of its own",
        "shape": list(learnt.shape),
        "classes": model.classes_.tolist(),
        "tasks": [_task(name, met.times, "network", notes) for name, met in notes.tasks.items()],
        "slept": notes.slept,
        "bytes": {"memory": model.memory_bytes(), "exemplars": model.exemplar_bytes()},
    }
    if isinstance(model, GenerativeClassifier):
        ltm = model._long_term(learnt)
        facts |= {"age": ltm.age, "n_max": options.n_max, "kappa": options.kappa}
        places = {"long-term memory": dict(ltm.tasks)}
        if isinstance(model, DualClassifier):
            stm = model._dual(learnt).stm
            places["short-term memory"] = stm.tasks()
            facts |= {"n_stm": options.n_stm, "awake": {held.task: held.seen for held in stm.awake}}
            facts["codes"] = sum(len(held.index) for held in stm.awake if held.index is not None)
        facts["tasks"] = [
            _task(name, entry.times, where, notes)
            | {"classes": [learnt.labels[index] for index in sorted(entry.classes)]}
            for where, tasks in places.items()
            for name, entry in tasks.items()
        ]
    return facts


def _task(name: str, times: int, where: str, notes: Notes) -> dict[str, Any]:
    met = notes.tasks.get(name, Met())
    return {"task": name, "where": where, "times": times, "rows": met.rows or None}


def _next(model: ContinualClassifier, rows: int, threads: int) -> dict[str, Any] | None:
    """What the next task of so many rows, and the next sleep, will cost."""
    import torch

    from dgdmn.algorithms.dual import DualClassifier
    from dgdmn.algorithms.saving import name_of
    from dgdmn.experiments.plan import next_stages
    from dgdmn.experiments.timing import costs

    if not rows:
        return None
    learnt = model.learnt_
    options = learnt.options
    free = options.n_stm - len(model.awake_tasks()) if isinstance(model, DualClassifier) else 1
    stages = next_stages(model, [rows] * max(1, free))
    asleep = [stage for stage in stages if stage.what == "sleep"][:1]
    found = costs(
        name_of(type(model)), options, learnt.shape, learnt.outputs, [stages[0], *asleep], threads or None
    )
    names = ("task", "sleep")[: len(found)]
    told = [{"samples": cost.samples, "steps": cost.steps, "seconds": cost.seconds} for cost in found]
    return {
        "rows": rows,
        "threads": threads or torch.get_num_threads(),
        **dict(zip(names, told, strict=True)),
    }


def _lines(facts: dict[str, Any]) -> list[str]:
    kept, coming = facts["bytes"], facts["next"]
    lines = [
        f"{facts['memory']}: {facts['algorithm']}, preset {facts['preset']}, samples of shape {tuple(facts['shape'])}",
        f"classes: {listed(facts['classes'])}",
        *(
            f"task {task['task']!r}: {task['where']}, met {counted(task['times'], 'time')}"
            + (f", {counted(task['rows'], 'row')}" if task["rows"] else "")
            + (f", classes {listed(task['classes'])}" if "classes" in task else "")
            for task in facts["tasks"]
        ),
    ]
    if "n_stm" in facts:
        codes = (
            f", with {counted(facts['codes'], 'code')} of samples until it sleeps" if facts["codes"] else ""
        )
        lines.append(
            f"short-term memory: {len(facts['awake'])} of {facts['n_stm']} task memories awake{codes}"
        )
        lines.append(f"last slept: {facts['slept'] or 'never, as far as is noted'}")
    if "age" in facts:
        share = facts["age"] / facts["n_max"]
        fades = "; old tasks share it and begin to fade" if share > 1 else ""
        lines.append(f"budget: age {facts['age']:,} of N_max {facts['n_max']:,} ({share:.1%}){fades}")
    full = " with all task memories awake" if "n_stm" in facts else ""
    rows = f" ({size(kept['exemplars'])} of training rows)" if kept["exemplars"] else ""
    lines.append(f"bytes: {size(kept['memory'])}{full}{rows}, {size(kept['disk'])} on disk")
    if coming is None:
        return [*lines, "next task: --samples N tells what it will cost"]
    for name in ("task", "sleep"):
        if name in coming:
            cost = coming[name]
            lines.append(
                f"next {name}: {counted(cost['samples'], 'sample')}, {counted(cost['steps'], 'step')}, "
                f"about {duration(cost['seconds'])}"
            )
    rows, threads = counted(coming["rows"], "row"), counted(coming["threads"], "thread")
    return [*lines, f"estimated for tasks of {rows} by timing a few steps on {threads}"]
