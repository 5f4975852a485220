"""Run directories without training: `make_run` writes one with RunWriter, random accuracies and arrays."""

import json

import numpy as np
import pytest

from dgdmn.records import RunRecord, RunWriter
from dgdmn.report.reproducibility import collect, read_result

NASTY = "<script>alert(1)</script>"


def write_run(
    directory, *, algorithm="dgdmn", tasks=4, steps=None, seed=0, artefacts="new", side=8, **changed
):
    """A run directory; `artefacts` are `new`, `old` or `none`, the rest changes config.json."""
    rng = np.random.default_rng(seed)
    names = changed.pop("task_names", None) or [str(i) for i in range(tasks)]
    config = {
        "dataset": "digits",
        "algorithm": algorithm,
        "preset": "paper",
        "seed": seed,
        "evaluate_on": "test",
        "revise": [],
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
    order = [*range(len(names)), *(number - 1 for number in config["revise"])]
    order = order if steps is None else order[:steps]
    dual = algorithm.startswith("dgdmn")
    for step, task in enumerate(order, start=1):
        row = np.where(np.arange(len(names)) <= max(order[:step]), 0.9 - 0.3 * rng.random(len(names)), 0.0)
        writer.row("accuracy", names[task], row)
        if dual:
            writer.row("accuracy_ltm", names[task], row * (step % 2 == 0) if step > 1 else row * np.nan)
    write_events(directory, names, order, dual)
    if artefacts != "none" and (dual or algorithm == "dgr"):
        write_artefacts(writer, rng, names, len(order), side, new=artefacts == "new")
    if steps is None:
        numbers = {
            "train_seconds": 20.0,
            "memory_bytes": 3_000_000,
            "exemplar_bytes": 0,
            "samples_trained": 5_000,
            "steps_trained": 50,
        }
        writer.summary({"acc": 0.5, "bwt": -0.1, "seconds": 30.0, "peak_rss_mb": 500.0, **numbers})
    return directory


def write_events(directory, names, order, dual):
    """Ten seconds a task: 4 of learning, 3 of sleep at every second one, the rest of testing."""
    lines, now = [], 0.0

    def tell(kind, after, **fields):
        nonlocal now
        now += after
        lines.append(
            json.dumps({"kind": kind, "time": "2026-01-01T00:00:00+00:00", "seconds": now, **fields})
        )

    for step, task in enumerate(order, start=1):
        tell("task_began", 1, step=step, task=names[task], samples=100)
        tell(
            "epoch_done",
            4,
            network="learner",
            epoch=1,
            epochs=1,
            samples=100,
            loss=0.1,
            memory="stm",
            done=step / len(order),
        )
        if dual and step % 2 == 0:
            tell("sleep_began", 0, tasks=[names[task]], dreams=200)
            counts = [50 + 10 * i for i in range(step)]
            tell(
                "replayed",
                3,
                tasks=[names[task]],
                n_tasks=200,
                n_gen=100 * step,
                age=0,
                dreamt=counts,
                memory="ltm",
            )
            tell("sleep_ended", 0, tasks=[names[task]])
        tell("task_learned", 0, step=step, task=names[task])
        tell("evaluated", 2, step=step, task=names[task], accuracy=[], accuracy_ltm=None)
        if dual:
            losses = {name: [1.0 + i] for i, name in enumerate(names)}
            tell(
                "recognised",
                0,
                step=step,
                memories=["long-term memory"],
                losses=losses,
                answered_by={},
                known={},
            )
        tell("step_ended", 0, step=step)
    (directory / "events.jsonl").write_text("".join(line + "\n" for line in lines))


def write_artefacts(writer, rng, names, steps, side, *, new):
    """Pictures of noise, latents in islands, resilience that falls."""
    n = len(names)
    for step in range(2, steps + 1, 2):
        task = np.repeat(np.arange(min(step, n)), 8)
        x = rng.integers(0, 256, (len(task), side, side), dtype=np.uint8)
        y = np.array(names)[task]
        judged = {"labels": y, "judged": np.roll(y, 1), "tasks": task, "task": task} if new else {}
        writer.artefact(f"dreams-{step:03d}", x=x, y=y, **judged)
    x = rng.integers(0, 256, (4 * n, side, side), dtype=np.uint8)
    writer.artefact(
        "reconstructions", x=x, reconstructed=255 - x, **({"task": np.repeat(np.arange(n), 4)} if new else {})
    )
    if new:
        place = rng.integers(0, n, 60)
        z = rng.normal(size=(60, 4)) + 8 * np.eye(n, 4)[place]
        writer.artefact("latents", z=z, y=np.array(names)[place], task=place)
        level = np.array([0.0, 0.1, 0.2])
        spoilt = {"x": x[:8], "corrupted": x[:8], "restored": x[:8]}
        writer.artefact("resilience", noise=level, noise_accuracy=0.7 - level, occlusion=level + 0.1,
                        noise_accuracy_unclipped=0.9 - level, occlusion_accuracy=0.8 - level, **spoilt)  # fmt: skip


@pytest.fixture
def make_run(tmp_path):
    """`make_run(name, …)` writes tmp_path/runs/<name> and returns it."""
    return lambda name, **options: write_run(tmp_path / "runs" / name, **options)


@pytest.fixture
def nasty():
    """A name that a page must show and not obey."""
    return NASTY


@pytest.fixture
def run_with(tmp_path):
    """`run_with(dataset, algorithm, seed, matrix, …)`: a result with this accuracy matrix."""

    def make(
        dataset, algorithm, seed, matrix, seconds=100.0, resilience=None, kept=1_000_000, cpu=None, **config
    ):
        matrix = np.asarray(matrix, dtype=float)
        tasks = [f"t{i}" for i in range(matrix.shape[1])]
        name = f"{dataset}-{algorithm}-{len(list(tmp_path.glob('runs/*')))}-seed{seed}"
        known = {
            "dataset": dataset, "algorithm": algorithm, "preset": "paper", "seed": seed, "evaluate_on": "test",
            "tasks": tasks, "classes": tasks, "shape": [4, 4], "changes": {}, "note": "a part", **config,
        }  # fmt: skip
        writer = RunWriter(tmp_path / "runs" / name, known)
        for row, values in enumerate(matrix):
            writer.row("accuracy", tasks[min(row, len(tasks) - 1)], values)
        if resilience:
            writer.artefact("resilience", **{key: np.array(value) for key, value in resilience.items()})
        numbers = {"train_seconds": seconds, "memory_bytes": kept, "steps_trained": 50}
        numbers |= {"train_cpu_seconds": cpu} if cpu else {}
        writer.summary({"seconds": seconds, **numbers})
        return read_result(collect(RunRecord.read(tmp_path / "runs" / name), tmp_path / "results"))

    return make
