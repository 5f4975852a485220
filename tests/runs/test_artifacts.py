"""Artifacts against oracles: doubles that know every answer, the model itself, and counting by hand."""

import itertools
import os
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dgdmn import DGDMN, DGR, NN
from dgdmn.config import resolve
from dgdmn.core.errors import Interrupted
from dgdmn.records import RunRecord, RunWriter
from dgdmn.runs.artifacts import (
    DREAMS,
    NEIGHBORS,
    NOISE,
    OCCLUSION,
    Artifacts,
    LabeledRows,
    NearestRows,
    add_noise,
    draw_balanced,
    majority,
    occlude,
    stack_tasks,
)
from dgdmn.runs.runner import execute
from dgdmn.runs.spec import RunSpec
from dgdmn.streams import Rows
from dgdmn.streams.base import seeded_rng

TASKS = {"a": (0, 1), "b": (2, 3)}


def stripes(y, seed=0):
    """8 × 8 pictures: each label has ink in another quarter, so that the nearest rows are clear."""
    ink = np.arange(8)[None, :, None] // 2 == y[:, None, None]
    soil = np.random.default_rng(seed).random((len(y), 8, 8), dtype=np.float32)
    return np.where(ink, np.float32(0.9), np.float32(0)) + soil / 20


def rows_of(shape=(8, 8), n=20):
    labels = {name: np.repeat(both, n) for name, both in TASKS.items()}
    return {
        name: Rows(stripes(y, int(y[0]) + 1).reshape(-1, *shape), y) for name, y in labels.items()
    }


class CountsRows:
    """Counts the rows that it predicts."""

    def __init__(self):
        self.rows, self.fitted_ = 0, SimpleNamespace(inputs=None)

    def prepare_unclipped(self, x):
        return x

    def predict(self, x):
        self.rows += len(x)
        return np.zeros(len(x))


@pytest.mark.parametrize("shape", [(8, 8), (64,)])
def test_the_time_of_the_final_phase_follows_from_the_rows_it_predicts(tmp_path, shape):
    tests, model = rows_of(shape), CountsRows()
    artifacts = Artifacts(RunWriter(tmp_path, {"key": "k", "tasks": list(TASKS)}), tests, seed=3)
    artifacts.write_final(model)
    assert artifacts.final_tests(model) == model.rows / sum(map(len, tests.values()))


def written(tmp_path, ask, tests=None):
    """The record of a run with these artifacts."""
    writer = RunWriter(tmp_path / "run", {"key": "k", "tasks": list(TASKS)})
    ask(Artifacts(writer, tests or rows_of(), seed=3))
    return RunRecord.read(tmp_path / "run")


def dreamer(doubles, y):
    """A memory that dreams of what it learned, in that order, with the labels it was given."""
    made, given = doubles(), y["given"]
    return DGR("paper", generator=made.generator, learner=made.learner, n_max=999).partial_fit(
        stripes(y["true"]), given, classes=range(4)
    )


@pytest.mark.parametrize("planted", [0, 37])
def test_dreams_are_judged_by_real_rows_and_a_wrong_label_shows(planted, doubles, tmp_path):
    true = np.random.default_rng(1).integers(0, 4, 600)
    given = np.where(np.arange(600) < planted, (true + 1) % 4, true)
    model = dreamer(doubles, {"true": true, "given": given})
    dreams = written(tmp_path, lambda artifacts: artifacts.write_dreams(model, 7)).artifact(
        "dreams-007"
    )
    assert dreams.keys() == {"labels", "judged", "x", "y"}
    assert (dreams["labels"] == given[:DREAMS]).all()
    assert (dreams["judged"] == true[:DREAMS]).all()
    assert (dreams["labels"] == dreams["judged"]).mean() == 1 - planted / DREAMS, "purity"
    first = [np.flatnonzero(true // 2 == task)[:8] for task in (0, 1)]
    assert (dreams["y"] == given[np.concatenate(first)]).all()
    assert dreams["x"].dtype == np.uint8
    assert (dreams["x"] == np.round(stripes(true)[np.concatenate(first)] * 255)).all()


@pytest.fixture(scope="module")
def learned():
    """A real memory that knows the stripes fairly well."""
    y = np.arange(200) % 4
    options = {
        "generator_layers": (32,),
        "learner_layers": (16,),
        "latent_dim": 4,
        "learning_rate": 0.005,
    }
    return DGR("paper", random_state=0, min_steps=200, n_max=999, **options).partial_fit(
        stripes(y), y
    )


def test_reconstructions_are_of_the_first_test_rows_of_each_task(learned, tmp_path):
    arrays = written(tmp_path, lambda artifacts: artifacts.write_final(learned)).artifact(
        "reconstructions"
    )
    rows = np.concatenate([rows.x[:4] for rows in rows_of().values()])
    assert (arrays["x"] == np.round(rows * 255)).all()
    assert (arrays["reconstructed"] == np.round(learned.reconstruct(rows) * 255)).all()


def test_latents_are_the_means_of_test_rows_in_equal_parts(learned, tmp_path):
    arrays = written(
        tmp_path, lambda artifacts: artifacts.write_final(learned), rows_of(n=300)
    ).artifact("latents")
    assert (arrays["z"].dtype, arrays["z"].shape) == (np.float32, (1000, 4))
    assert np.bincount(arrays["y"]).tolist() == [250] * 4
    all_rows = np.concatenate([rows.x for rows in rows_of(n=300).values()])
    every = learned.latents(all_rows)
    nearest = np.abs(arrays["z"][:, None] - every).max(axis=2).argmin(axis=1)
    assert np.abs(every[nearest] - arrays["z"]).max() < 1e-5
    labels = np.concatenate([rows.y for rows in rows_of(n=300).values()])
    assert (labels[nearest] == arrays["y"]).all()


def test_a_mixture_dreams_reconstructs_and_has_a_code(tmp_path):
    """Dreams stay within the values seen; of a code of 192 numbers, 64 are kept."""
    rng = np.random.default_rng(0)
    tests = {
        name: Rows(np.kron(stripes(y, 1), np.ones((2, 2))).clip(0.1, 0.95).astype(np.float32), y)
        for name, y in (
            (name, rng.permutation(np.repeat(both, 30))) for name, both in TASKS.items()
        )
    }
    model = DGDMN(random_state=0)
    for name, rows in tests.items():
        model.partial_fit(rows.x, rows.y, task=name)

    def ask(artifacts):
        artifacts.write_dreams(model, 2)
        artifacts.write_final(model)

    record = written(tmp_path, ask, tests)
    dreams, latents = record.artifact("dreams-002"), record.artifact("latents")
    assert np.mean(dreams["labels"] == dreams["judged"]) > 0.9
    low, high = round(0.1 * 255), round(0.95 * 255)
    assert low <= dreams["x"].min() <= dreams["x"].max() <= high
    assert latents["z"].shape == (120, 64)
    codes = np.concatenate([model.latents(rows.x)[:, :64] for rows in tests.values()])
    assert np.abs(codes - latents["z"][0]).max(axis=1).min() < 1e-5, "the code of a test row"
    shown = record.artifact("reconstructions")
    apart = np.abs(shown["x"].astype(float) - shown["reconstructed"])
    assert apart.mean() < 20
    assert "restored" in record.artifact("resilience")


def test_inputs_too_large_to_generate_leave_only_dreams_out(tmp_path):
    y = np.repeat([0, 1], 10)
    x = np.random.default_rng(0).random((20, 72, 72), np.float32) / 2 + y[:, None, None] / 2
    model = DGDMN(n_stm=1).partial_fit(x, y, task="only")
    assert not model.has_dreams()

    def ask(artifacts):
        artifacts.write_dreams(model, 1)
        artifacts.write_final(model)

    record = written(tmp_path, ask, {"only": Rows(x, y)})
    assert record.artifacts == ("latents", "resilience")


def test_a_custom_generator_may_have_no_latents(doubles, tmp_path):
    true = np.arange(600) % 4
    model = dreamer(doubles, {"true": true, "given": true})
    record = written(tmp_path, lambda artifacts: artifacts.write_final(model))
    assert record.artifacts == ("reconstructions", "resilience")
    assert (record.artifact("resilience")["occlusion_accuracy"] == 1).all(), (
        "the ink outside says enough"
    )


def accuracies(answers, corrupted, tests):
    """Mean over the tasks of the share that is right."""
    pairs = [list(zip(parts, tests.values(), strict=True)) for parts in corrupted]
    return [np.mean([np.mean(answers(x) == rows.y) for x, rows in pair]) for pair in pairs]


def test_resilience_is_the_accuracy_on_corrupted_rows(learned, tmp_path):
    """All rows are tested, each in its place: the order in which they are drawn decides the noise."""
    tests = rows_of(n=1)
    arrays = written(tmp_path, lambda artifacts: artifacts.write_final(learned), tests).artifact(
        "resilience"
    )
    assert tuple(arrays["noise"]) == NOISE
    assert tuple(arrays["occlusion"]) == OCCLUSION
    rows = np.concatenate([rows.x for rows in tests.values()])
    corrupted = [
        add_noise(rows, sd, seeded_rng(3, "noise")).reshape(2, 2, 8, 8) for sd in arrays["noise"]
    ]
    clipped = [np.clip(x, 0, 1) for x in corrupted]
    assert arrays["noise_accuracy"].tolist() == accuracies(
        learned.predict_long_term, clipped, tests
    )
    squares = [occlude(rows, factor).reshape(2, 2, 8, 8) for factor in arrays["occlusion"]]
    assert arrays["occlusion_accuracy"].tolist() == accuracies(
        learned.predict_long_term, squares, tests
    )


def test_noise_that_is_not_clipped_reaches_the_network(tmp_path):
    """A network that answers 1 where a row's mean is above 0.05, on rows of 0 and rows of 0.1."""
    model = NN(random_state=0, learner_layers=(), min_steps=1).fit(
        np.array([[0.0] * 400, [1.0] * 400]), [0, 1]
    )
    with torch.no_grad():
        layer = next(
            part
            for part in model.fitted_.memory.learner.modules()
            if isinstance(part, torch.nn.Linear)
        )
        layer.weight[:] = torch.tensor([[0.0], [1.0]]).expand(2, 400)
        layer.bias[:] = torch.tensor([400 * 0.05, 0.0])
    tests = {
        "a": Rows(np.zeros((60, 400), np.float32), np.zeros(60, int)),
        "b": Rows(np.full((60, 400), 0.1, np.float32), np.ones(60, int)),
    }
    arrays = written(tmp_path, lambda artifacts: artifacts.write_final(model), tests).artifact(
        "resilience"
    )
    assert arrays.keys() == {"noise", "noise_accuracy", "noise_accuracy_unclipped", "x"}, (
        "flat rows are not occluded"
    )
    assert (arrays["noise_accuracy_unclipped"] > 0.95).all(), "an sd of 0.3 moves the mean by 0.015"
    assert arrays["noise_accuracy"][0] == 1
    assert arrays["noise_accuracy"][-1] == 0.5, (
        "what is cut off below 0 lifts every mean above 0.05"
    )


def test_corrupted_rows_have_the_range_that_the_network_learned(tmp_path):
    """Without noise the accuracy is that of `predict`, whatever the range."""
    rng = np.random.default_rng(0)
    X, y = rng.random((200, 30)).astype(np.float32), np.arange(200) % 2
    X[:, 0] = np.where(y, 0.9, 0.1)
    model = NN(random_state=0, value_range=(-3, 1), min_steps=100).fit(X, y)
    arrays = written(
        tmp_path, lambda artifacts: artifacts.write_final(model), {"a": Rows(X, y)}
    ).artifact("resilience")
    assert arrays["noise_accuracy_unclipped"][0] == model.score(X, y) > 0.9


def test_half_of_what_is_shown_is_noisy_and_half_occlude(learned, tmp_path):
    arrays = written(tmp_path, lambda artifacts: artifacts.write_final(learned)).artifact(
        "resilience"
    )
    x, corrupted = arrays["x"], arrays["corrupted"]
    assert x.shape == corrupted.shape == arrays["restored"].shape == (16, 8, 8)
    assert (x[:8] == x[8:]).all()
    assert (occlude(x[8:], 0.28) == corrupted[8:]).all()
    change = corrupted[:8].astype(float) - x[:8]
    assert change[(corrupted[:8] > 0) & (corrupted[:8] < 255)].std() == pytest.approx(
        0.2 * 255, rel=0.5
    )
    restored = learned.reconstruct(corrupted) * 255
    apart = np.abs(restored - arrays["restored"])
    assert apart[8:].max() < 3
    assert apart[:8].max() > 3, (
        "the memory was given the noise as it is, and only a picture of it is clipped"
    )
    assert len(np.unique(x[:8], axis=0)) == 8


TINY = {"samples_per_task": 16, "generator_epochs": 2, "learner_epochs": 2, "joint_epochs": 2}
TINY |= {"min_steps": 4, "n_stm": 3, "generator_layers": (16,), "sttm_generator_layers": (8,)}


def spec(algorithm, **changes):
    return RunSpec(
        "embedded", algorithm, "quick", replace(resolve("quick", "embedded"), **TINY), **changes
    )


@pytest.mark.parametrize(
    "what",
    [
        spec("nn"),
        pytest.param(spec("dgdmn"), marks=pytest.mark.slow),
        pytest.param(spec("dgdmn-recog"), marks=pytest.mark.slow),
        spec("dgr", together=True),
    ],
    ids=["nn", "dgdmn", "dgdmn-recog", "dgr, together"],
)
def test_an_interrupted_run_keeps_the_same_bits(what, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    whole, looks = execute(what, tmp_path / "whole"), itertools.count(1)
    record, times = None, 0
    while record is None:
        try:
            record = execute(
                what, tmp_path / "cut", every=0.0, stop=lambda: next(looks) in {2, 4, 40}
            )
        except Interrupted:
            times += 1
    assert times >= 2
    assert record.artifacts == whole.artifacts
    assert "resilience" in whole.artifacts
    for name in whole.artifacts:
        arrays = record.artifact(name)
        assert arrays.keys() == whole.artifact(name).keys()
        for key, expected in whole.artifact(name).items():
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
    monkeypatch.setattr(Artifacts, "write_dreams", slow(Artifacts.write_dreams, 1))
    monkeypatch.setattr(Artifacts, "write_final", slow(Artifacts.write_final, 100))
    summary = execute(spec("dgdmn"), tmp_path).summary
    assert summary["train_seconds"] == 0
    assert summary["evaluate_seconds"] == summary["seconds"] == 11 + 100, (
        "ten tasks, the last sleep, the end"
    )


def numbered_rows(sizes):
    """A task for each list, a class for each size in it; every row has a value of its own."""
    parts, start = {}, 0
    for number, counts in enumerate(sizes):
        y = np.repeat(np.arange(len(counts)), counts)
        parts[f"task {number}"] = Rows(np.arange(start, start + len(y))[:, None], y)
        start += len(y)
    return parts


def test_tasks_are_stacked_one_after_the_other():
    rows = stack_tasks(numbered_rows([[2, 1], [2]]))
    assert rows.x.ravel().tolist() == [0, 1, 2, 3, 4]
    assert rows.y.tolist() == [0, 0, 1, 0, 0]
    assert rows.task.tolist() == [0, 0, 0, 1, 1]


@given(
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(1, 9),
    st.integers(16, 60),
)
def test_every_class_of_every_task_gives_as_many_rows_as_it_can(sizes, each, most):
    parts = numbered_rows(sizes)
    rows = draw_balanced(parts, each, most, np.random.default_rng(0))
    share = min(each, most // sum(map(len, sizes)))
    expected = {
        (t, y): min(n, share) for t, counts in enumerate(sizes) for y, n in enumerate(counts)
    }
    assert Counter(zip(rows.task.tolist(), rows.y.tolist(), strict=True)) == expected
    assert len(rows.x) <= most
    whole = stack_tasks(parts)
    chosen = rows.x.ravel()
    assert len(set(chosen.tolist())) == len(chosen), "no row twice"
    assert (whole.y[chosen] == rows.y).all()
    assert (whole.task[chosen] == rows.task).all()


def test_more_classes_of_tasks_than_rows_give_one_row_each():
    rows = draw_balanced(numbered_rows([[3, 4]] * 5), 9, 7, np.random.default_rng(0))
    assert len(rows) == 10


def test_the_generator_chooses():
    parts = numbered_rows([[50]])
    chosen = [
        draw_balanced(parts, 9, 9, np.random.default_rng(seed)).x.ravel().tolist()
        for seed in (0, 0, 1)
    ]
    assert chosen[0] == chosen[1]
    assert sorted(chosen[0]) != sorted(chosen[2])


def test_noise_is_what_is_drawn_times_its_sd_and_is_not_clipped():
    x = np.full((3, 4, 4), 0.9, np.float32)
    drawn = np.random.default_rng(5).standard_normal(x.shape, dtype=np.float32)
    corrupted = add_noise(x, 0.5, np.random.default_rng(5))
    assert corrupted.dtype == np.float32
    np.testing.assert_allclose(corrupted, 0.9 + 0.5 * drawn, rtol=1e-6)
    assert corrupted.max() > 1
    assert (x == np.float32(0.9)).all(), "the rows themselves stay"


def test_the_noise_of_many_pixels_has_its_sd():
    spread = add_noise(np.zeros((100, 28, 28), np.float32), 0.25, np.random.default_rng(0)).std()
    assert spread == pytest.approx(0.25, rel=0.02)


def test_the_squares_of_the_paper_have_three_sizes():
    """Its plateaus: half-widths of int(14 · factor) = 1, 1, 2, 2, 3, 3, 3 pixels, around pixel 14."""
    x = np.ones((2, 28, 28), np.float32)
    for factor, half in zip(OCCLUSION, [1, 1, 2, 2, 3, 3, 3], strict=True):
        expected = np.ones((28, 28))
        expected[14 - half : 15 + half, 14 - half : 15 + half] = 0
        assert (occlude(x, factor) == expected).all()
    assert (x == 1).all(), "the rows themselves stay"


@given(st.integers(1, 40), st.integers(1, 40), st.floats(0, 0.9), st.booleans())
def test_any_picture_loses_a_square_in_its_middle_and_nothing_else(height, width, factor, colored):
    shape = (1, height, width, 3) if colored else (1, height, width)
    black = occlude(np.ones(shape, np.float32), factor) == 0
    rows, columns = np.nonzero(black.reshape(height, width, -1)[:, :, 0])
    tall, wide = int(factor * height / 2), int(factor * width / 2)
    assert black.sum() == (2 * tall + 1) * (2 * wide + 1) * (tall > 0 < wide) * (
        3 if colored else 1
    )
    if len(rows):
        assert (rows.min(), rows.max()) == (height // 2 - tall, height // 2 + tall)
        assert (columns.min(), columns.max()) == (width // 2 - wide, width // 2 + wide)


def by_hand(votes):
    """Values in the order of their first vote, and a sort that keeps it."""
    return max(Counter(votes).items(), key=lambda item: (item[1], -votes.index(item[0])))[0]


@given(st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=1, max_size=9))
def test_the_majority_wins_and_a_tie_goes_to_the_nearest(votes):
    assert majority(np.array(votes)).tolist() == [by_hand(row) for row in votes]


def test_labels_may_be_text():
    assert majority(np.array([["b", "a", "a"], ["b", "a", "c"]])).tolist() == ["a", "b"]


def test_votes_are_those_of_a_search_in_double_precision():
    rng = np.random.default_rng(0)
    x = rng.random((300, 6, 5), dtype=np.float32)
    y, task = rng.integers(0, 4, 300), rng.integers(0, 3, 300)
    asked = rng.random((600, 6, 5), dtype=np.float32)  # more than one batch
    distances = ((asked[:, None].astype(float) - x[None]) ** 2).sum(axis=(2, 3))
    nearest = distances.argsort(axis=1)[:, :NEIGHBORS]
    labels, tasks = NearestRows(LabeledRows(x, y, task)).vote(asked)
    assert labels.tolist() == [by_hand(row) for row in y[nearest].tolist()]
    assert tasks.tolist() == [by_hand(row) for row in task[nearest].tolist()]


def test_fewer_rows_than_neighbors_all_vote():
    rows = LabeledRows(
        np.array([[0.0], [1.0], [0.9]], np.float32), np.array([7, 8, 8]), np.array([0, 1, 2])
    )
    labels, tasks = NearestRows(rows).vote(np.array([[0.1]], np.float32))
    assert (labels.tolist(), tasks.tolist()) == ([8], [0])
