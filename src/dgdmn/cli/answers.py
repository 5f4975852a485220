"""`dgdmn predict` and `evaluate`: what a memory on disk answers, and how often it is right."""

import itertools
import json
from argparse import Namespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dgdmn import metrics
from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.persistence import save
from dgdmn.cli import store
from dgdmn.cli.facts import MAX_SHOWN
from dgdmn.cli.notes import add_evaluation
from dgdmn.cli.output import check_target, csv_text, show
from dgdmn.core.errors import UsageError
from dgdmn.core.files import write_atomic
from dgdmn.core.text import count_noun, format_ratio, join_names, sort_by_accuracy
from dgdmn.memory.recognition import UNKNOWN_RATE
from dgdmn.records import utc_now
from dgdmn.streams.readers import Arrays


class Predictions(NamedTuple):
    """A model's predictions for rows."""

    p: NDArray[np.float64]
    """Probabilities of the sorted classes, shape (n, k)."""
    tasks: list[str]
    """The given task, or the task of the winning component; empty if the memory keeps no tasks apart."""
    memories: list[str]
    unknown: NDArray[np.bool_] | None
    """Whether a row is unlike everything learned; None if the memory cannot say."""
    why: str
    """The reason if the memory cannot say which rows are unknown, else empty."""


def predict(args: Namespace) -> None:
    """Write the best labels of each row as csv."""
    if args.out is not None:
        check_target(args.out)
    model, notes = store.load_memory(args)
    known = store.known_tasks((model, notes))
    if args.task and known:
        store.find_name(args, "task", args.task, known)
    store.check_data(args)
    found = store.read_rows(args, (model, notes), needs_labels=False)
    with store.plain_errors():
        answers = predict_rows(model, found.inputs, args.task, args.unknown_rate)
    n, names = len(found.X), found.files or range(len(found.X))
    best = np.argsort(-answers.p, axis=1, kind="stable")[:, : args.top]
    labels, p = model.classes_[best].tolist(), np.take_along_axis(answers.p, best, axis=1).tolist()
    marks = [""] * n if answers.unknown is None else [str(u).lower() for u in answers.unknown]
    header = ["row", "label", "p"]
    header += [f"{name}_{place}" for place in range(2, len(best[0]) + 1) for name in ("label", "p")]
    texts = ([f"{share:.6g}" for share in row] for row in p)
    pairs = (itertools.chain(*zip(*row, strict=True)) for row in zip(labels, texts, strict=True))
    columns = zip(names, pairs, answers.tasks, answers.memories, marks, strict=True)
    lines = ((name, *ranked, *rest) for name, ranked, *rest in columns)
    content = csv_text([*header, "task", "memory", "unknown"], lines)
    if args.out is None:
        show(*content.removesuffix("\n").split("\n"))
    else:
        write_atomic(args.out, content.encode(errors="backslashreplace"))
    given = [] if found.y is None else found.y.tolist()
    if labeled := sum(y is not None for y in given):
        right = sum(ours[0] == y for ours, y in zip(labels, given, strict=True))
        share, rows = format_ratio(right / labeled), count_noun(labeled, "row")
        show(f"accuracy {share} ({right:,} of {rows}{' with a label' * (labeled < n)})", error=True)
    if answers.unknown is not None and answers.unknown.any():
        marked = count_noun(int(answers.unknown.sum()), "row")
        show(f"{marked} of {n:,} marked as unknown", error=True)
    if answers.why:
        show(f"dgdmn: {answers.why}", error=True)


def predict_rows(
    model: ContinualClassifier, X: Any, task: str | None, rate: float | None
) -> Predictions:
    """What a model says about rows; `rate` is the share of false alarms among known rows, 0: no marks."""
    info, rows, n = model.info(), model.prepare(X), len(X)
    p = model.predict_proba(rows, task)
    memory = task if task in info.awake else "long-term memory"
    tasks, memories = [task or ""] * n, [memory if info.generative else "network"] * n
    unknown, why = None, ""
    if info.short_term and not (task and info.by_task_name):
        recognition = model.recognize(rows)
        memories, unknown = recognition.answered_by.tolist(), ~recognition.known
    if not store.mixtures_of(model):
        if rate:
            raise UsageError("--unknown-rate needs the mixture memory (preset best); leave it out")
        tasks = tasks if task else [one if one in info.awake else "" for one in memories]
        return Predictions(p, tasks, memories, unknown if rate is None else None, why)
    tasks, unknown = tasks if task else model.answering_tasks(rows).tolist(), None
    try:
        rate = UNKNOWN_RATE if rate is None else rate
        unknown = model.unknown(rows, rate) if rate else None
    except UsageError as error:  # too few rows were tested to tell
        why = str(error)
    return Predictions(p, tasks, memories, unknown, why)


def evaluate(args: Namespace) -> None:
    """Measure how often a memory is right about labeled rows, and add that to its history."""
    with store.hold_memory(args.memory):
        model, notes = store.load_memory(args)
        found = store.read_labeled(args, (model, notes))
        y, ours = np.asarray(found.y).tolist(), model.fitted_.labels[0]
        if isinstance(y[0], str) != isinstance(ours, str):
            kinds = f"labels like {y[0]!r}, but {args.memory} like {ours!r}"
            raise UsageError(f"{args.data} has {kinds}; use one kind")
        with store.plain_errors():
            answers = predict_rows(model, found.inputs, None, args.unknown_rate)
        entry = measure(args, model, answers, found)
        history = notes["evaluations"]
        last = next((one for one in reversed(history) if one["data"] == entry["data"]), None)
        add_evaluation(notes, entry)
        save(model, args.memory, notes)
    shares = ("accuracy", "macro")
    change = last and {"since": last["time"], **{k: entry[k] - last[k] for k in shares}}
    if answers.why:
        show(f"dgdmn: {answers.why}", error=True)
    if args.json:
        result = {"memory": str(args.memory), **entry, "change": change}
        show(*json.dumps(result, indent=1).split("\n"))
        return
    right = sum(right for right, _ in entry["by_class"].values())
    rows = f"{right:,} of {count_noun(entry['rows'], 'row')}"
    show(f"{args.memory}: accuracy {format_ratio(entry['accuracy'])} ({rows} of {entry['data']})")
    parts = [f"macro accuracy {format_ratio(entry['macro'])}"]
    parts += [f"calibration error {format_ratio(entry['ece'])}"]
    parts += [] if entry["unknown"] is None else [f"unknown {format_ratio(entry['unknown'])}"]
    show("; ".join(parts))
    if change:
        signs = {name: "" if change[name] < 0 else "+" for name in shares}
        texts = (f"{name} {sign}{format_ratio(change[name])}" for name, sign in signs.items())
        show(f"change since {change['since']}: {', '.join(texts)}")
    for what, by in (("class", entry["by_class"]), ("task", entry["by_task"])):
        if len(by) > 1:
            show(f"by {what}, the worst first:")
        for name, (hits, of) in sort_by_accuracy(by)[:MAX_SHOWN]:
            show(f"{what} {name}: {format_ratio(hits / of)} ({hits:,} of {count_noun(of, 'row')})")
        if len(by) > MAX_SHOWN:
            show(f"These are the {MAX_SHOWN} worst of {len(by):,}; --json shows all.")
    if new := sorted({*y} - {*model.fitted_.labels}):
        show(f"never learned: {join_names(new)}")


def measure(
    args: Namespace, model: ContinualClassifier, answers: Predictions, rows: Arrays
) -> dict[str, Any]:
    """Accuracies, calibration and the share of unknown rows; a label that was never learned counts as wrong."""
    place = {label: index for index, label in enumerate(model.classes_.tolist())}
    y, tasks = np.asarray(rows.y).tolist(), rows.task
    columns = np.array([place.get(label, -1) for label in y])
    right = answers.p.argmax(axis=1) == columns
    by_class = metrics.count_right(right, map(str, y))
    by_task = {} if tasks is None else metrics.count_right(right, map(str, tasks.tolist()))
    return {
        "time": utc_now("seconds"),
        "data": args.data.resolve().name,
        "rows": len(y),
        "accuracy": float(right.mean()),
        "macro": metrics.macro_accuracy(by_class),
        "by_class": by_class,
        "by_task": by_task,
        "ece": metrics.expected_calibration_error(np.clip(answers.p, 0, 1), columns),
        "unknown": None if answers.unknown is None else float(answers.unknown.mean()),
    }
