"""`dgdmn report MEMORY`: gathers what a memory on disk knows as plain values, and writes a page about it."""

import math
from argparse import Namespace
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.cli.answers import measure, predict_rows
from dgdmn.cli.dreams import image_shape_of, name_columns, to_gray
from dgdmn.cli.facts import FEW_ROWS, format_value, gather_facts
from dgdmn.cli.notes import Notes
from dgdmn.cli.output import show
from dgdmn.cli.store import components_of, load_memory, plain_errors, read_labeled
from dgdmn.config.registry import algorithm_info
from dgdmn.core.errors import UsageError
from dgdmn.core.files import write_atomic
from dgdmn.core.text import count_noun, join_names
from dgdmn.features import FrontEnd
from dgdmn.report.memory_page import render_memory

DREAMS, SHOWN = 1024, 8  # dreams that are drawn, and images of each class on the page
COLUMNS = 8  # columns of a table with typical values: those in which the classes differ most
BINS = 10  # of the reliability chart


def report_memory(args: Namespace) -> None:
    """Write the page of a memory."""
    args.memory, args.samples = args.run[0], 0
    model, notes = load_memory(args)
    facts = _gather(args, model, notes)
    facts["test"] = _test(args, model, notes) if args.data is not None else None
    write_atomic(args.out, render_memory(facts).encode())
    show(f"{args.out}: {args.memory}, {count_noun(len(facts['classes']), 'class', 'classes')}")


def _gather(args: Namespace, model: ContinualClassifier, notes: Notes) -> dict[str, Any]:
    found, info = gather_facts(args, model, notes), model.info()
    classes: dict[str, float] = {str(label): math.nan for label in model.classes_.tolist()}
    if components := components_of(model):
        classes = dict.fromkeys(classes, 0)
        for one in components:
            classes[str(model.fitted_.labels[one.label])] += float(one.n)
    tasks = [
        {"name": name, "learned": notes["learned"].get(name, ""), **task}
        for name, task in found["tasks"].items()
    ]
    settings = {"algorithm": algorithm_info(info.algorithm).title, "input": found["shape"]}
    shown = ("front end", "chosen", "kappa", "n_stm", "n_max")
    settings |= {key: found[key] for key in shown if key in found}
    few = [label for label, rows in classes.items() if rows < FEW_ROWS]
    return {
        "name": args.memory.resolve().name,
        "classes": classes,
        "tasks": tasks,
        "parts": found.get("parts", {}),
        "bytes": found["bytes"]["memory"],
        "rows_kept": found["bytes"]["exemplars"],
        "budget": found.get("memory_budget", 0),
        "settings": {key: format_value(value) for key, value in settings.items()},
        "slept": notes["slept"],
        "evaluations": notes.get("evaluations", []),
        "dreams": _dreams(model, few),
    }


def _dreams(model: ContinualClassifier, few: list[str]) -> dict[str, Any]:
    """Images of each class, or typical values of a table, and why there are none.

    A class of few rows is left out: its dreams would be close to these rows.
    """
    info, inputs = model.info(), model.fitted_.inputs
    if not info.generative:
        return {"why": f"{info.algorithm} has no generative memory, so it does not dream."}
    try:
        x, y = model.sample(DREAMS, random_state=0)
    except UsageError as error:
        return {"why": f"There are no dreams: {error}."}
    why = []
    if few:
        why.append(f"Left out, because they have fewer than {FEW_ROWS} rows: {join_names(few)}.")
    held = [str(info.labels[n]) for task in info.awake.values() for n in task.classes]
    if waiting := [label for label in held if label not in few and label not in set(map(str, y))]:
        why.append(f"Not dreamed of before the next sleep: {join_names(waiting)}.")
    labels = [label for label in map(str, model.classes_.tolist()) if label not in few]
    dreams_by_label = {label: x[np.asarray(y, dtype=str) == label] for label in labels}
    dreams_by_label = {label: rows for label, rows in dreams_by_label.items() if len(rows)}
    if not dreams_by_label:
        return {"why": " ".join(why) or "It generates no class."}
    shape = (inputs.image_shape if isinstance(inputs, FrontEnd) else None) or info.shape
    if len(shape) > 1:
        with suppress(UsageError):  # no images
            shape = image_shape_of(shape)
            first = np.concatenate([rows[:SHOWN] for rows in dreams_by_label.values()])
            gray = to_gray(model, first, tail=0.02)  # a few values are far out
            ends = np.cumsum([len(rows[:SHOWN]) for rows in dreams_by_label.values()])[:-1]
            sheets = np.split(gray.reshape(-1, *shape), ends)
            return {"why": " ".join(why), "images": dict(zip(dreams_by_label, sheets, strict=True))}
    return {"why": " ".join(why), "typical": _typical(model, dreams_by_label)}


def _typical(model: ContinualClassifier, of: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Mean and standard deviation of the dreams of each class, in the columns where classes differ most."""
    numbers = [name_columns(model, rows)[:2] for rows in of.values()]  # without coded columns
    names = numbers[0][0]
    means = np.array([rows.mean(axis=0) for _, rows in numbers])
    spreads = np.array([rows.std(axis=0) for _, rows in numbers])
    contrast = means.std(axis=0) / (spreads.mean(axis=0) + 1e-12)
    chosen = np.sort(np.argsort(-contrast, kind="stable")[:COLUMNS])
    pairs = np.stack([means, spreads], axis=2)[:, chosen].tolist()
    named = getattr(model, "columns_", None) is not None
    rows, columns = list(zip(of, pairs, strict=True)), [names[n] for n in chosen]
    return {"columns": columns, "rows": rows, "of": len(names), "named": named}


def _test(args: Namespace, model: ContinualClassifier, notes: Notes) -> dict[str, Any]:
    """Counts of right and wrong answers, calibration and unknown rows, on rows with labels."""
    found = read_labeled(args, (model, notes))
    with plain_errors():
        answers = predict_rows(model, found.inputs, None, None)
    entry = measure(args, model, answers, found)
    labels = [str(label) for label in model.classes_.tolist()]
    never_learned = sorted(entry["by_class"].keys() - set(labels))
    names = [*labels, *never_learned]
    true = np.array([names.index(str(label)) for label in np.asarray(found.y).tolist()])
    answer, sure = answers.p.argmax(axis=1), answers.p.max(axis=1)
    confusion = np.zeros((len(names), len(labels)), int)
    np.add.at(confusion, (true, answer), 1)
    place = np.clip(np.ceil(sure * BINS).astype(int) - 1, 0, BINS - 1)
    chosen = [place == n for n in sorted(set(place.tolist()))]
    right = true == answer
    return {
        **entry,
        "why": answers.why,
        "answers": labels,
        "confusion": {name: confusion[names.index(name)].tolist() for name in entry["by_class"]},
        "bins": [(float(sure[b].mean()), float(right[b].mean()), int(b.sum())) for b in chosen],
    }
