"""`dgdmn inspect`: what a memory on disk knows, as plain values and as text."""

import json
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.cli.notes import Notes
from dgdmn.cli.output import show
from dgdmn.cli.store import Memory, components_of, load_memory, mixtures_of
from dgdmn.core.errors import UsageError
from dgdmn.core.text import format_option, join_names
from dgdmn.features import FrontEnd
from dgdmn.memory.code import triangle_bytes
from dgdmn.memory.mixture import MixtureMemory
from dgdmn.runs.plan import MAX_TASKS, plan_next
from dgdmn.storage import bytes_in

MAX_SHOWN = 100
"""Tasks and components that `inspect` prints, the latest ones."""
FEW_ROWS = 20
"""A component of fewer rows is close to them, so `inspect` names it."""


def inspect(args: Namespace) -> None:
    """Show what a memory knows."""
    facts = gather_facts(args, *load_memory(args))
    if args.json:
        show(*json.dumps(facts, indent=1).split("\n"))
        return
    tasks, components = list(facts.pop("tasks").items()), facts.pop("components", [])
    facts |= {f"task {name}": task for name, task in tasks[-MAX_SHOWN:]}
    show(*(f"{key}: {format_value(value)}" for key, value in facts.items()))
    for one in components[-MAX_SHOWN:]:
        rest = {key: value for key, value in one.items() if key not in ("task", "label")}
        show(f"component {one['label']} of {one['task']}: {format_value(rest)}")
    for found, what in ((tasks, "tasks"), (components, "components")):
        if len(found) > MAX_SHOWN:
            show(f"These are {MAX_SHOWN} of {len(found):,} {what}; --json shows all.")
    if facts["next"] == {"rows": 0}:
        show("Row counts are not recorded in this memory. Pass --samples N for the next task.")


def plan_next_tasks(memory: Memory, rows: int, tasks: int = 0) -> tuple[int, list[Any]]:
    """The rows of a task, by default the mean so far, and the stages of that many tasks and a sleep."""
    model, notes = memory
    info = model.info()
    times, n_rows = (sum(pair[n] for pair in notes["tasks"].values()) for n in (0, 1))
    if not times:  # saved from Python
        times = sum(task.times for task in (*info.consolidated.values(), *info.awake.values()))
        n_rows = info.age + sum(info.awake_rows.values())
    if tasks > MAX_TASKS:
        raise UsageError(f"--tasks is {tasks:,}; at most {MAX_TASKS:,} can be planned")
    rows = rows or (round(n_rows / times) if times else 0)
    # by default as many tasks as the short-term memory can take
    free = max(1, info.config.n_stm - len(info.awake)) if info.short_term else 1
    return rows, plan_next(model, [rows] * (tasks or free)) if rows else []


def gather_facts(args: Namespace, model: ContinualClassifier, notes: Notes) -> dict[str, Any]:
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
    mixtures = mixtures_of(model)
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
    spec, chosen, components = ltm.spec, ltm.chosen_settings(awake), components_of(model)
    means = sum(int(one.mean.nbytes) for one in components)
    scatters = sum(triangle_bytes(len(one.scatter), one.scatter.itemsize) for one in components)
    pooled, tied = triangle_bytes(spec.d, 8), triangle_bytes(spec.q, 8)
    parts = {
        "means": means,
        "scatters": scatters,
        "score histograms": sum(one.nbytes for one in components) - means - scatters,
        "pooled scatter": pooled,
        "tied code covariance": tied,
        "decoder, variances, counts": spec.pool_bytes - pooled - tied,
        "front end": bytes_in(inputs.state()),
    }
    described = [
        {"task": one.task, "label": labels[one.label], "rows": one.n, "code": len(one.scatter)}
        | {"in": "long-term" if memory is ltm else "short-term"}
        for memory in mixtures
        for one in memory.components
    ]
    small = [f"{one['label']} in {one['task']}" for one in described if one["rows"] < FEW_ROWS]
    return {
        "parts": parts,
        "front end": {"features": inputs.kind, "numbers": spec.d, "code": spec.q},
        "chosen": {
            "shrinkage (λ)": chosen["shrinkage"],
            "own covariance (g)": chosen["own_covariance"],
            "temperature": chosen["temperature"],
        },
        "components": described,
        f"components with fewer than {FEW_ROWS} rows": small,
    }


def format_value(value: Any) -> str:
    if isinstance(value, dict):
        texts = {key: format_value(v) for key, v in value.items()}
        texts |= {key: f"({texts[key]})" for key, v in value.items() if isinstance(v, dict)}
        return ", ".join(f"{key} {text}" for key, text in texts.items()) or "none"
    if isinstance(value, list):
        return join_names(value) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else format_option(value)
