"""What a run keeps to be shown, against oracles: doubles that know every answer, and what the memory says itself."""

import itertools
import os
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from dgdmn import DGR, NN, paper
from dgdmn.errors import Interrupted
from dgdmn.experiments.artefacts import DREAMS, Artefacts
from dgdmn.experiments.corruption import noisy, occluded
from dgdmn.experiments.run import execute
from dgdmn.experiments.spec import RunSpec
from dgdmn.presets import preset
from dgdmn.records import RunRecord, RunWriter
from dgdmn.streams import Rows
from dgdmn.streams.task import generator

TASKS = {"a": (0, 1), "b": (2, 3)}


def stripes(y, seed=0):
    """8 × 8 pictures: each label has ink in another quarter, so that no neighbour is in doubt."""
    ink = np.arange(8)[None, :, None] // 2 == y[:, None, None]
    soil = np.random.default_rng(seed).random((len(y), 8, 8), dtype=np.float32)
    return np.where(ink, np.float32(0.9), np.float32(0)) + soil / 20


def rows_of(shape=(8, 8), n=20):
    labels = {name: np.repeat(both, n) for name, both in TASKS.items()}
    return {name: Rows(stripes(y, int(y[0]) + 1).reshape(-1, *shape), y) for name, y in labels.items()}


def kept(tmp_path, ask, tests=None):
    """What artefacts are written when they are asked so."""
    writer = RunWriter(tmp_path / "run", {"tasks": list(TASKS)})
    ask(Artefacts(writer, tests or rows_of(), seed=3))
    return RunRecord.read(tmp_path / "run")


def dreamer(doubles, y):
    """A memory that dreams of what it learnt, in that order, with the labels it was given."""
    made, given = doubles(), y["given"]
    return DGR("paper", generator=made.generator, learner=made.learner, n_max=999).partial_fit(
        stripes(y["true"]), given, classes=range(4)
    )


@pytest.mark.parametrize("planted", [0, 37])
def test_dreams_are_judged_by_real_rows_and_a_wrong_label_shows(planted, doubles, tmp_path):
    true = np.random.default_rng(1).integers(0, 4, 600)
    given = np.where(np.arange(600) < planted, (true + 1) % 4, true)
    model = dreamer(doubles, {"true": true, "given": given})
    dreams = kept(tmp_path, lambda artefacts: artefacts.dreams(model, 7)).artefact("dreams-007")
    assert dreams.keys() == {"labels", "judged", "tasks", "x", "y", "task"}
    assert (dreams["labels"] == given[:DREAMS]).all()
    assert (dreams["judged"] == true[:DREAMS]).all()
    assert (dreams["tasks"] == true[:DREAMS] // 2).all()
    assert (dreams["labels"] == dreams["judged"]).mean() == 1 - planted / DREAMS, "purity"
    first = [np.flatnonzero(true // 2 == task)[:8] for task in (0, 1)]
    assert (dreams["task"] == np.repeat([0, 1], 8)).all()
    assert (dreams["y"] == given[np.concatenate(first)]).all()
    assert dreams["x"].dtype == np.uint8
    assert (dreams["x"] == np.round(stripes(true)[np.concatenate(first)] * 255)).all()


@pytest.fixture(scope="module")
def learnt():
    """A real memory that knows the stripes fairly well."""
    y = np.arange(200) % 4
    options = {"generator_layers": (32,), "learner_layers": (16,), "latent": 4, "learning_rate": 0.005}
    return DGR("paper", random_state=0, min_steps=200, n_max=999, **options).partial_fit(stripes(y), y)


def test_reconstructions_are_of_the_first_test_rows_of_each_task(learnt, tmp_path):
    arrays = kept(tmp_path, lambda artefacts: artefacts.at_end(learnt)).artefact("reconstructions")
    rows = np.concatenate([rows.x[:4] for rows in rows_of().values()])
    assert (arrays["x"] == np.round(rows * 255)).all()
    assert (arrays["reconstructed"] == np.round(learnt.reconstruct(rows) * 255)).all()
    assert arrays["task"].tolist() == [0] * 4 + [1] * 4


def test_latents_are_the_means_of_test_rows_in_equal_parts(learnt, tmp_path):
    arrays = kept(tmp_path, lambda artefacts: artefacts.at_end(learnt), rows_of(n=300)).artefact("latents")
    assert (arrays["z"].dtype, arrays["z"].shape) == (np.float32, (1000, 4))
    assert np.bincount(arrays["y"]).tolist() == [250] * 4
    assert (arrays["task"] == arrays["y"] // 2).all()
    again = learnt.latents(arrays["x"])  # bytes are close enough to find each row's own place
    assert np.abs(again - arrays["z"]).max() < 0.1
    assert np.abs(again[::-1] - arrays["z"]).max() > 1


def test_a_generator_of_ones_own_may_have_no_latents(doubles, tmp_path):
    true = np.arange(600) % 4
    model = dreamer(doubles, {"true": true, "given": true})
    record = kept(tmp_path, lambda artefacts: artefacts.at_end(model))
    assert record.artefacts == ("reconstructions", "resilience")
    assert (record.artefact("resilience")["occlusion_accuracy"] == 1).all(), "the ink outside says enough"


def accuracies(answers, spoilt, tests):
    """Mean over the tasks of the share that is right."""
    return [np.mean([np.mean(answers(x) == rows.y) for x, rows in zip(parts, tests.values(), strict=True)])
            for parts in spoilt]  # fmt: skip


def test_resilience_is_the_accuracy_of_what_the_memory_answers_to_spoilt_rows(learnt, tmp_path):
    """All rows are tested, each in its place: the order in which they are drawn decides the noise."""
    tests = rows_of(n=1)
    arrays = kept(tmp_path, lambda artefacts: artefacts.at_end(learnt), tests).artefact("resilience")
    assert tuple(arrays["noise"]) == paper.curve("noise").x
    assert tuple(arrays["occlusion"]) == paper.curve("occlusion").x
    rows = np.concatenate([rows.x for rows in tests.values()])
    spoilt = [noisy(rows, sd, generator(3, "noise")).reshape(2, 2, 8, 8) for sd in arrays["noise"]]
    clipped = [np.clip(x, 0, 1) for x in spoilt]
    assert arrays["noise_accuracy"].tolist() == accuracies(learnt.predict_long_term, clipped, tests)
    squares = [occluded(rows, factor).reshape(2, 2, 8, 8) for factor in arrays["occlusion"]]
    assert arrays["occlusion_accuracy"].tolist() == accuracies(learnt.predict_long_term, squares, tests)


def test_noise_that_is_not_clipped_reaches_the_network(tmp_path):
    """A network that answers 1 where a row's mean is above 0.05, on rows of 0 and rows of 0.1."""
    model = NN(random_state=0, learner_layers=(), min_steps=1).fit(
        np.array([[0.0] * 400, [1.0] * 400]), [0, 1]
    )
    with torch.no_grad():
        layer = next(
            part for part in model.learnt_.memory.learner.modules() if isinstance(part, torch.nn.Linear)
        )
        layer.weight[:] = torch.tensor([[0.0], [1.0]]).expand(2, 400)
        layer.bias[:] = torch.tensor([400 * 0.05, 0.0])
    tests = {"a": Rows(np.zeros((60, 400), np.float32), np.zeros(60, int)),
             "b": Rows(np.full((60, 400), 0.1, np.float32), np.ones(60, int))}  # fmt: skip
    arrays = kept(tmp_path, lambda artefacts: artefacts.at_end(model), tests).artefact("resilience")
    assert arrays.keys() == {"noise", "noise_accuracy", "noise_accuracy_unclipped", "x"}, (
        "rows have no middle"
    )
    assert (arrays["noise_accuracy_unclipped"] > 0.95).all(), "an sd of 0.3 moves the mean by 0.015"
    assert arrays["noise_accuracy"][0] == 1
    assert arrays["noise_accuracy"][-1] == 0.5, "what is cut off below 0 lifts every mean above 0.05"


def test_half_of_what_is_shown_is_noisy_and_half_occluded(learnt, tmp_path):
    arrays = kept(tmp_path, lambda artefacts: artefacts.at_end(learnt)).artefact("resilience")
    x, corrupted = arrays["x"], arrays["corrupted"]
    assert x.shape == corrupted.shape == arrays["restored"].shape == (16, 8, 8)
    assert (x[:8] == x[8:]).all()
    assert (occluded(x[8:], 0.28) == corrupted[8:]).all()
    change = corrupted[:8].astype(float) - x[:8]
    assert change[(corrupted[:8] > 0) & (corrupted[:8] < 255)].std() == pytest.approx(0.2 * 255, rel=0.5)
    restored = learnt.reconstruct(corrupted) * 255
    apart = np.abs(restored - arrays["restored"])
    assert apart[8:].max() < 3
    assert apart[:8].max() > 3, "the memory was given the noise as it is, and only a picture of it is clipped"
    assert len(np.unique(x[:8], axis=0)) == 8


TINY = {"samples_per_task": 16, "generator_epochs": 2, "learner_epochs": 2, "joint_epochs": 2, "min_steps": 4,
        "n_stm": 3, "generator_layers": (16,), "sttm_generator_layers": (8,)}  # fmt: skip


def spec(algorithm, **changes):
    return RunSpec("embedded", algorithm, "quick", replace(preset("quick", "embedded"), **TINY), **changes)


@pytest.mark.parametrize(
    "what",
    [spec("nn"), spec("dgdmn"), spec("dgdmn-recog"), spec("dgr", together=True)],
    ids=["nn", "dgdmn", "dgdmn-recog", "dgr, together"],
)
def test_an_interrupted_run_keeps_the_same_bits(what, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    whole, looks = execute(what, tmp_path / "whole"), itertools.count(1)
    record, times = None, 0
    while record is None:
        try:
            record = execute(what, tmp_path / "cut", every=0.0, stop=lambda: next(looks) in {2, 4, 40})
        except Interrupted:
            times += 1
    assert times >= 2
    assert record.artefacts == whole.artefacts
    assert "resilience" in whole.artefacts
    for name in whole.artefacts:
        arrays = record.artefact(name)
        assert arrays.keys() == whole.artefact(name).keys()
        for key, expected in whole.artefact(name).items():
            assert arrays[key].dtype == expected.dtype
            assert np.array_equal(arrays[key], expected), (name, key)


def test_what_is_kept_costs_no_training_time(tmp_path, monkeypatch):
    now = [0.0]

    def slow(method, seconds):
        def slowed(*given):
            now[0] += seconds
            return method(*given)

        return slowed

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Artefacts, "dreams", slow(Artefacts.dreams, 1))
    monkeypatch.setattr(Artefacts, "at_end", slow(Artefacts.at_end, 100))
    summary = execute(spec("dgdmn"), tmp_path).summary
    assert summary["train_seconds"] == 0
    assert summary["evaluate_seconds"] == summary["seconds"] == 11 + 100, "ten tasks, the last sleep, the end"
