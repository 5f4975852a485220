"""`dgdmn plan`: what it says beforehand is what happens then."""

import itertools
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dgdmn import cli
from dgdmn.algorithms import ALGORITHMS, algorithm
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.events import EpochDone
from dgdmn.experiments.plan import next_stages, planned_epochs, planned_stages
from dgdmn.experiments.timing import costs
from dgdmn.presets import preset

TINY = replace(
    preset("arrays"), min_steps=7, generator_epochs=2, learner_epochs=3, joint_epochs=2, batch_size=16,
    n_max=70, n_stm=3, learner_layers=(4,), generator_layers=(4,), recog_trainings=1,
)  # fmt: skip
CONVOLUTIONAL = replace(
    TINY, generator_convolutions=(2,), learner_convolutions=(2,), sttm_generator_convolutions=(2,),
    sttm_learner_convolutions=(2,),
)  # fmt: skip

BEYOND = replace(
    TINY, index="codes", prior_components=4, dreams="anew", latent_noise=1.0, recognition="density", sttm_steps=9,
)  # fmt: skip


def told(epoch):
    return epoch.memory, epoch.network, epoch.epoch, epoch.epochs, epoch.samples


def images(n):
    return np.random.default_rng(n).random((n, 8, 8))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *itertools.product(ALGORITHMS, [TINY, CONVOLUTIONAL]),
        *itertools.product(["dgdmn", "dgr", "dgdmn-recog"], [BEYOND]),
    ],
)
def test_a_memory_goes_on_as_planned(name, options):
    epochs = []
    model = algorithm(name)(options, random_state=0)
    for label in range(4):
        model.partial_fit(images(20 + label), np.full(20 + label, f"kind {label}"), task=str(label))
    before = model.learnt_
    plan = next_stages(model, [33, 30])
    assert model.learnt_ is before, "planning leaves no trace"
    model.listen = lambda event: epochs.append(event) if isinstance(event, EpochDone) else None
    for size in (33, 30):
        model.partial_fit(images(size), np.full(size, f"new {size}"), task=f"new {size}")
    if isinstance(model, GenerativeClassifier):
        model.sleep()
    assert [told(epoch) for stage in plan for epoch in stage.epochs] == [told(epoch) for epoch in epochs]


@pytest.mark.parametrize("name", ["dgdmn", "dgr", "ewc", "er", "icarl", "joint"])
def test_steps_bytes_and_seconds(name):
    tasks = [(str(label), np.full(40, label)) for label in range(5)]
    stages = planned_stages(name, TINY, tasks, (8, 8))
    found = costs(name, TINY, (8, 8), 5, stages, threads=1)
    model = algorithm(name)(TINY, random_state=0)
    for task, y in tasks:
        model.partial_fit(images(len(y)), y, classes=range(5), task=task)
    assert max(cost.bytes for cost in found) == model.memory_bytes()
    assert all(0 < cost.seconds < 10 for cost in found)
    first = sum(-(-epoch.samples // 16) for epoch in stages[0].epochs)
    assert found[0].steps == first > 0
    if name == "dgdmn":
        kinds = ["learn", "learn", "learn", "sleep", "learn", "learn", "sleep"]
        assert [stage.what for stage in stages] == kinds
        assert [cost.samples for cost in found] == [40, 40, 40, 70, 40, 40, 70], "N_max binds in each sleep"


def test_bytes_with_codes_and_priors():
    """By hand: codes go with the sleep, the long-term memory's prior comes with the first."""
    tasks = [(str(label), np.full(40, label)) for label in range(6)]
    stages = planned_stages("dgdmn", BEYOND, tasks, (8, 8))
    assert [stage.what for stage in stages] == [*["learn"] * 3, "sleep"] * 2
    kept = [cost.bytes for cost in costs("dgdmn", BEYOND, (8, 8), 6, stages, threads=1)]
    model = algorithm("dgdmn")(BEYOND, random_state=0)
    for task, y in tasks:
        model.partial_fit(images(len(y)), y, classes=range(6), task=task)
    assert kept[6] == max(kept) == model.memory_bytes(), "three awake beside a prior"
    latent, codes = BEYOND.latent, BEYOND.n_max // BEYOND.n_stm
    assert kept[6] - kept[2] == 6 * (8 + 4 * (1 + latent + latent**2)), (
        "one a class: they outnumber the budget"
    )
    assert kept[3] == kept[7] == kept[6] - 3 * (kept[1] - kept[0]), "the sleep frees three task memories"
    without = planned_stages("dgdmn", replace(BEYOND, index="none"), tasks, (8, 8))
    bare = [cost.bytes for cost in costs("dgdmn", BEYOND, (8, 8), 6, without, threads=1)]
    assert kept[2] - bare[2] == 3 * codes * (8 + 2 * BEYOND.sttm_latent)


def test_what_codes_and_priors_do_to_the_samples_of_a_sleep_is_planned():
    """A task has at most its share of N_max in codes; with `class`, a past of few classes is short."""
    for options, sizes in (
        (BEYOND, (60, 10, 10)),
        (replace(BEYOND, allocation="class", n_max=400), (60, 60, 60, 15)),
    ):
        tasks = [(str(label), np.full(n, label)) for label, n in enumerate(sizes)]
        epochs = []
        model = algorithm("dgdmn")(options, random_state=0, listen=epochs.append)
        for task, y in tasks:
            model.partial_fit(images(len(y)), y, classes=range(len(sizes)), task=task)
        model.sleep()
        plan = planned_epochs("dgdmn", options, tasks, (8, 8))
        assert [told(one) for one in plan] == [told(one) for one in epochs if isinstance(one, EpochDone)]


def test_the_command_line(tmp_path):
    words = ["plan", "embedded", "--preset", "quick", "--n-stm", "4", "--last", "5", "--threads", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "dgdmn.cli", *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, env={**os.environ, "COLUMNS": "100"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "N_max 1,437, κ 0, n_STM 4" in done.stdout
    stages = re.findall(r"(learn|sleep)[^│]*│ +([\d,]+) │ +([\d,]+) │", done.stdout)
    assert [what for what, *_ in stages] == [*["learn"] * 4, "sleep"] * 2 + ["learn", "learn", "sleep"]
    total = re.search(r"all \(or most\) +│ +([\d,]+) │ +([\d,]+) │", done.stdout)
    assert int(total[2].replace(",", "")) == sum(int(steps.replace(",", "")) for *_, steps in stages)
    assert "on 1 thread;" in done.stdout
    assert "appendix B takes --kappa 0.1 --n-stm 2" in " ".join(done.stdout.split())
    assert list(tmp_path.iterdir()) == []


def test_of_a_memory_and_of_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = algorithm("dgdmn")(TINY, random_state=0)
    model.partial_fit(images(30), np.zeros(30, int), task="a").save("memory")
    with pytest.raises(SystemExit) as end:
        cli.main(["plan", "memory", "--tasks", "3", "--threads", "1"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    samples = re.findall(r"(learn|sleep)[^│]*│ +(\d+) │", out)
    assert samples == [("learn", "30"), ("learn", "30"), ("sleep", "70"), ("learn", "30"), ("sleep", "70")]
    for words, expected in (
        (["plan", "digts"], r"digts is neither a dataset \(did you mean digits\?\) nor a memory"),
        (["plan", "memory", "--n-stm", "4"], "a memory has its options"),
        (["plan", "embedded", "--algorithm", "dgdm"], "did you mean dgdmn"),
        (["plan", "embedded", "--last", "0"], "last is 0"),
    ):
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        assert end.value.code == 2
        assert re.search(expected, capsys.readouterr().err)
    assert {path.name for path in Path().iterdir()} == {"memory"}
