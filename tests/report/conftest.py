"""Run directories without training: `make_run` writes one with made-up accuracies, events and arrays."""

import json

import numpy as np
import pytest

from dgdmn.records import RunWriter
from dgdmn.report.load import load_runs

NASTY = "<script>alert(1)</script>"


def write_run(
    directory, *, algorithm="dgdmn", tasks=4, steps=None, seed=0, arrays=True, side=8, **changed
):
    """A run directory. `steps` leaves it unfinished; other keywords change config.json."""
    rng = np.random.default_rng(seed)
    names = changed.pop("task_names", None) or [str(i) for i in range(tasks)]
    config = {
        "key": directory.name,
        "stream": "digits",
        "algorithm": algorithm,
        "preset": "paper",
        "seed": seed,
        "evaluate_on": "test",
        "revise": [],
        "together": False,
        "options": {},
        "changes": {},
        "tasks": names,
        "classes": names,
        "shape": [side, side],
        "note": "",
        "device": "cpu",
        "threads": 1,
        "versions": {"dgdmn": "0.1.0", "numpy": "2"},
        "machine": {"cpu": "x86_64", "cores": 2},
        **changed,
    }
    directory.parent.mkdir(parents=True, exist_ok=True)
    writer = RunWriter(directory, config)
    order = [*range(len(names)), *(number - 1 for number in config["revise"])][:steps]
    dual = algorithm.startswith("dgdmn")
    for step, task in enumerate(order, start=1):
        known = np.arange(len(names)) <= max(order[:step])
        row = np.where(known, 0.9 - 0.3 * rng.random(len(names)), 0.0)
        writer.row("accuracy", names[task], row)
        if dual:
            writer.row(
                "accuracy_ltm", names[task], row * (step % 2 == 0) if step > 1 else row * np.nan
            )
    write_events(directory, names, order, dual)
    if arrays and (dual or algorithm == "dgr"):
        write_arrays(writer, rng, names, len(order), side)
    if steps is None:
        numbers = {"train_seconds": 20.0, "memory_bytes": 3_000_000, "exemplar_bytes": 0}
        numbers |= {
            "samples_trained": 5_000,
            "steps_trained": 50,
            "seconds": 30.0,
            "peak_rss_mb": 500.0,
        }
        writer.summary({"acc": 0.5, "bwt": -0.1, **numbers})
    return directory


def write_events(directory, names, order, dual):
    """Per task 1 s of loading, 4 s of learning, 3 s of sleep at every second one, 2 s of testing."""
    lines, now = [], 0.0

    def tell(kind, after, **fields):
        nonlocal now
        now += after
        time = "2026-01-01T00:00:00+00:00"
        lines.append(json.dumps({"kind": kind, "time": time, "seconds": now, **fields}) + "\n")

    for step, task in enumerate(order, start=1):
        name = names[task]
        tell("task_began", 1, step=step, task=name, samples=100)
        tell(
            "epoch_done",
            4,
            network="learner",
            epoch=1,
            epochs=1,
            memory="stm",
            done=step / len(order),
        )
        if dual and step % 2 == 0:
            tell("sleep_started", 0, tasks=[name])
            counts = [50 + 10 * i for i in range(step)]
            tell(
                "replayed",
                3,
                tasks=[name],
                n_tasks=200,
                n_gen=100 * step,
                dreamed=counts,
                memory="ltm",
            )
            tell("sleep_ended", 0, tasks=[name])
        tell("task_learned", 0, step=step, task=name)
        tell("evaluated", 2, step=step, task=name, accuracy=[], accuracy_ltm=None)
        if dual:
            tell(
                "recognized", 0, step=step, losses={name: [1.0 + i] for i, name in enumerate(names)}
            )
        tell("step_ended", 0, step=step)
    (directory / "events.jsonl").write_text("".join(lines))


def write_arrays(writer, rng, names, steps, side):
    """Images of noise, latents in islands, falling resilience."""
    n = len(names)
    for step in range(2, steps + 1, 2):
        task = np.repeat(np.arange(min(step, n)), 8)
        x = rng.integers(0, 256, (len(task), side, side), dtype=np.uint8)
        y = np.array(names)[task]
        writer.artifact(
            f"dreams-{step:03d}", x=x, y=y, labels=y, judged=np.roll(y, 1), tasks=task, task=task
        )
    x = rng.integers(0, 256, (4 * n, side, side), dtype=np.uint8)
    writer.artifact("reconstructions", x=x, reconstructed=255 - x, task=np.repeat(np.arange(n), 4))
    place = rng.integers(0, n, 60)
    z = rng.normal(size=(60, 4)) + 8 * np.eye(n, 4)[place]
    writer.artifact("latents", z=z, y=np.array(names)[place], task=place)
    level = np.array([0.0, 0.1, 0.2])
    curves = {
        "noise": level,
        "noise_accuracy": 0.7 - level,
        "noise_accuracy_unclipped": 0.9 - level,
    }
    curves |= {"occlusion": level + 0.1, "occlusion_accuracy": 0.8 - level}
    writer.artifact("resilience", x=x[:8], corrupted=x[:8], restored=x[:8], **curves)


@pytest.fixture
def make_run(tmp_path):
    """`make_run(name, …)` writes tmp_path/runs/<name> and returns it."""
    return lambda name, **options: write_run(tmp_path / "runs" / name, **options)


@pytest.fixture
def make(make_run):
    """`make(name, …)` writes a run and loads it."""

    def load(name, **options):
        (run,), problems = load_runs([make_run(name, **options)])
        assert not problems
        return run

    return load


@pytest.fixture
def matrix_run(tmp_path):
    """`matrix_run(algorithm, seed, matrix, …)`: a loaded run with this accuracy matrix."""

    def make(algorithm, seed, matrix, *, summary=(), **config):
        matrix = np.asarray(matrix, dtype=float)
        tasks = [f"t{i}" for i in range(matrix.shape[1])]
        path = tmp_path / "matrices" / f"run{len(list(tmp_path.glob('matrices/*')))}"
        known = {"key": path.name, "stream": "mine", "algorithm": algorithm, "preset": "paper"}
        writer = RunWriter(
            path, {**known, "seed": seed, "tasks": tasks, "classes": tasks, **config}
        )
        for row, values in enumerate(matrix):
            writer.row("accuracy", tasks[min(row, len(tasks) - 1)], values)
        writer.summary(
            {"train_seconds": 100.0, "memory_bytes": 1e6, "steps_trained": 5, **dict(summary)}
        )
        (run,), _ = load_runs([path])
        return run

    return make


@pytest.fixture
def nasty():
    """A name that a page must show and not execute."""
    return NASTY
