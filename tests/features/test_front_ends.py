"""Front ends: what they compute, that batches do not matter, and what they refuse."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.decomposition import PCA

from dgdmn import NCM, SLDA, Ridge, load
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.features import FrontEnd, choose
from dgdmn.features.images import ImageFeatures, averaging_matrix, convolve, gabor_filters, pool
from dgdmn.features.tables import BEND, RELU_FEATURES, Scale


def test_convolve_is_a_sum_over_windows():
    rng = np.random.default_rng(0)
    maps = rng.standard_normal((2, 6, 3, 7), dtype=np.float32)
    filters = rng.standard_normal((4, 5 * 5 * 3), dtype=np.float32)
    padded = np.pad(maps, ((0, 0), (2, 2), (0, 0), (2, 2)))
    expected = np.zeros((2, 6, 4, 7))
    for row in range(6):
        for column in range(7):
            window = padded[:, row : row + 5, :, column : column + 5].transpose(0, 1, 3, 2)
            expected[:, row, :, column] = window.reshape(2, -1) @ filters.T
    np.testing.assert_allclose(convolve(maps, filters, 5), expected, atol=1e-4)


def test_pool_averages_equal_parts():
    maps = np.arange(16, dtype=np.float32).reshape(1, 4, 1, 4)
    pooled = pool(maps, averaging_matrix(4, 2), averaging_matrix(4, 2).T)
    assert pooled.reshape(2, 2).tolist() == [[2.5, 4.5], [10.5, 12.5]]
    np.testing.assert_allclose(
        averaging_matrix(5, 2), [[0.4, 0.4, 0.2, 0, 0], [0, 0, 0.2, 0.4, 0.4]]
    )


def test_gabor_filters_have_zero_mean_and_unit_norm():
    filters = gabor_filters(10, 9, np.random.default_rng(0))
    np.testing.assert_allclose(filters.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(filters, axis=1), 1)


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(1, 39), max_size=4), side=st.sampled_from([12, 17, 28, 45]))
def test_an_image_has_the_same_bits_in_any_batch(cuts, side):
    images = np.random.default_rng(side).uniform(size=(40, side, side)).astype(np.float32)
    features = ImageFeatures((side, side), 0)
    parts = [features(part) for part in np.split(images, sorted(cuts))]
    assert np.array_equal(np.concatenate(parts), features(images))


@pytest.mark.parametrize("shape", [(12, 12), (28, 28), (20, 31, 3), (64, 48, 3), (100, 14)])
def test_images_of_any_size_and_color_have_1024_features(shape):
    images = np.random.default_rng(0).integers(0, 256, (3, *shape), dtype=np.uint8)
    front_end = FrontEnd.fit(images, "auto", seed=0)
    found = front_end.apply(images)
    assert (front_end.kind, found.shape) == ("gabor", (3, 1024))
    assert np.isfinite(found).all()
    assert np.array_equal(found, front_end.apply(images / 255)), "bytes are value / 255"
    assert not np.allclose(found, FrontEnd.fit(images, "auto", seed=1).apply(images))


def test_flat_rows_are_a_table_unless_an_image_shape_is_given():
    rows = np.random.default_rng(0).uniform(size=(5, 784))
    assert FrontEnd.fit(rows, "auto", seed=0).kind == "none"
    images = FrontEnd.fit(rows, "auto", seed=0, image_shape=(28, 28))
    same = FrontEnd.fit(rows.reshape(5, 28, 28), "auto", seed=0)
    assert np.array_equal(images.apply(rows), same.apply(rows.reshape(5, 28, 28)))


def test_the_scale_of_small_images_is_that_of_their_values():
    images = np.random.default_rng(0).integers(0, 256, (9, 6, 6), dtype=np.uint8)
    first, second = (FrontEnd.fit(x, "relu", seed=0) for x in (images, images / 255))
    assert np.array_equal(first.apply(images), second.apply(images / 255))
    assert np.abs(first.apply(images)[:, :36]).max() < 5, "deviations"


def test_bytes_of_a_table_are_numbers():
    rows = np.arange(20, dtype=np.uint8).reshape(4, 5)
    table = FrontEnd.fit(rows.astype(float), "relu", seed=0)
    assert np.array_equal(table.apply(rows), table.apply(rows.astype(float)))


def test_relu_features_are_columns_and_units_on_a_frozen_scale():
    rows = np.random.default_rng(0).normal([5, -1000], [1, 50], size=(60, 2))
    front_end = FrontEnd.fit(rows, "auto", seed=0)
    found = front_end.apply(rows)
    assert found.shape == (60, RELU_FEATURES)
    np.testing.assert_allclose(found[:, :2].std(axis=0), 1, rtol=0.15)
    np.testing.assert_allclose(np.median(found[:, :2], axis=0), 0, atol=0.1)
    assert (found[:, 2:] >= 0).all()
    assert 0.2 < (found[:, 2:] > 0).mean() < 0.8
    scaled = rows * [1e6, 1e-3] + [7, -9]
    moved = FrontEnd.fit(scaled, "auto", seed=0)
    np.testing.assert_allclose(moved.apply(scaled), found, atol=1e-6)
    np.testing.assert_allclose(front_end.apply(rows[:1]), found[:1], atol=1e-12)


def test_the_scale_is_never_a_training_row():
    rows = np.array([[-1.0, 2.0], [0.0, 3.0], [1.0, 4.0]])  # the mean is the second row
    for scale in (Scale.fit(rows, 0), Scale.fit_sides(rows, 0)):
        assert not (scale.center == rows).all(axis=1).any()


def test_units_see_most_rows_of_a_heavy_tailed_column():
    """A few huge values change neither side of the scale, so they leave the features of other rows alone."""
    rows = np.exp(1.5 * np.random.default_rng(0).standard_normal((400, 3)))
    reach = np.median(rows, axis=0) * [[1 - np.exp(-1.5)] * 3, [np.exp(1.5) - 1] * 3]
    np.testing.assert_allclose(Scale.fit_sides(rows, 0).spread, reach, rtol=0.3)
    broken = rows.copy()
    broken[::50] *= 1e6
    clean, other = (FrontEnd.fit(x, "relu", seed=0).apply(rows) for x in (rows, broken))
    assert np.ptp(clean[:, :3], axis=0).min() > 5
    np.testing.assert_allclose(np.ptp(clean, axis=0)[:3], np.ptp(other, axis=0)[:3], rtol=0.1)


def test_columns_of_a_small_table_can_be_inverted():
    rows = np.exp(2 * np.random.default_rng(0).standard_normal((40, 3)))
    front_end = FrontEnd.fit(rows, "relu", seed=0)
    np.testing.assert_allclose(front_end.inverse(front_end.apply(rows)), rows, rtol=1e-9)
    rows[3, 1] = np.nan
    assert np.isnan(front_end.to_columns(rows)).sum() == 1
    np.testing.assert_allclose(front_end.from_columns(front_end.to_columns(rows)), rows, rtol=1e-9)


def test_a_row_of_weight_two_counts_twice_in_the_scale():
    rows = np.random.default_rng(0).normal(size=(9, 2))
    weight = np.arange(1.0, 10)
    weighted, repeated = (
        Scale.fit_sides(*x) for x in ((rows, 0, weight), (rows.repeat(weight.astype(int), 0), 0))
    )
    for name, found in weighted.state().items():
        np.testing.assert_allclose(found, repeated.state()[name], rtol=1e-12)


def test_a_column_that_did_not_vary_at_first_stays_usable():
    rows = np.random.default_rng(0).normal(size=(50, 3))
    rows[:, 1] = 7
    front_end = FrontEnd.fit(rows, "relu", seed=0)
    later = rows.copy()
    later[:, 1] = 8
    found, other = front_end.apply(rows), front_end.apply(later)
    np.testing.assert_allclose(other[:, 1] - found[:, 1], 1, rtol=0.01)
    assert not np.allclose(found[:, 3:], other[:, 3:]), "units see it in its own units"


@pytest.mark.parametrize("rows", [np.ones((1, 3)), np.ones((9, 3))])
def test_a_first_call_without_a_scale_is_refused(rows):
    with pytest.raises(UsageError, match="no scale; begin"):
        SLDA().partial_fit(rows, np.zeros(len(rows)))
    model = SLDA(scale=([0, 0, 0], 2)).partial_fit(rows, np.zeros(len(rows)))
    assert model.predict(rows).tolist() == [0] * len(rows)


def test_wide_tables_are_projected():
    rows = np.random.default_rng(0).normal(size=(4, 3000))
    front_end = FrontEnd.fit(rows, "auto", seed=0)
    assert front_end.apply(rows).shape == (4, 1024)
    np.testing.assert_allclose(front_end.apply(2 * rows), 2 * front_end.apply(rows))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": "gabor"}, "must be an image"),
        ({"features": "sift"}, "must be auto, gabor, relu, none or a function"),
        ({"features": "auto", "image_shape": (2, 2)}, "image_shape is"),
        ({"features": "auto", "image_shape": "28"}, "image_shape is"),
        ({"features": "none", "scale": (0, 1)}, "scale is for"),
        ({"features": "relu", "scale": (0, -1)}, "spreads above 0"),
        ({"features": "relu", "scale": 3}, "must be \\(center, spread\\)"),
        (
            {"features": "relu", "scale": (np.zeros(99), 1)},
            "^scale is .{,60}; .* numbers or 5 entries",
        ),
        ({"features": 3}, "or a function"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    rows = np.random.default_rng(0).normal(size=(9, 5))
    with pytest.raises(UsageError, match=message):
        FrontEnd.fit(rows, seed=0, **arguments)


def test_relu_is_refused_for_tables_that_are_too_wide():
    with pytest.raises(UsageError, match="fewer than 1,000"):
        choose("relu", (1000,))


def double(X):
    return 2 * X.reshape(len(X), -1)


class Failing:
    """A front end of a user's that begins to misbehave after its first calls."""

    def __init__(self, result):
        self.result, self.calls = result, 0

    def __call__(self, X):
        self.calls += 1
        if self.calls <= 2:
            return double(X)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.full((6, 4), np.nan), "NaN or infinity"),
        (np.zeros((6, 5)), "5 numbers for each input; they were 4 before"),
        (np.zeros((5, 4)), r"must return numbers of shape \(6, d\)"),
        (np.zeros(6), r"must return numbers of shape \(6, d\)"),
        (np.full((6, 4), "a"), "must return numbers"),
        (RuntimeError("no weights\nline two"), r"features failed \(RuntimeError: no weights\)"),
    ],
)
def test_a_front_end_that_misbehaves_changes_nothing(result, message):
    rng = np.random.default_rng(0)
    model = SLDA(features=Failing(result)).partial_fit(rng.normal(size=(6, 4)), np.arange(6) % 2)
    before = model.fitted_
    with pytest.raises(UsageError, match=message):
        model.partial_fit(rng.normal(size=(6, 4)), np.arange(6) % 2)
    assert model.fitted_ is before
    with pytest.raises(UsageError, match=message):
        model.predict(rng.normal(size=(6, 4)))


def test_a_saved_memory_needs_the_same_front_end(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 6)), np.arange(40) % 2
    model = SLDA(features=double).fit(X, y)
    model.save(tmp_path / "own")
    with pytest.raises(UsageError, match=r"its own features, .*use load"):
        load(tmp_path / "own")
    for other in (lambda X: 3 * X + 1, lambda X: 2.1 * X, lambda X: 0 * X):
        with pytest.raises(DgdmnError, match="features 'own' differ"):
            load(tmp_path / "own", features=other)
    again = load(tmp_path / "own", features=double)
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_built_in_front_end_that_changed_is_refused_at_load(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    model = SLDA().fit(rng.uniform(size=(40, 12, 12)), np.arange(40) % 2)
    model.save(tmp_path / "memory")
    monkeypatch.setattr("dgdmn.features.images.WAVELENGTHS", (2.0, 4.0))
    with pytest.raises(DgdmnError, match="features 'gabor' differ"):
        load(tmp_path / "memory")


def test_a_built_in_front_end_saves_its_seed_and_sizes_and_the_scale_of_relu():
    rows = np.random.default_rng(0).normal(size=(9, 16))
    common = {"kind", "seed", "n_features", "image_shape", "fingerprint"}
    plain = FrontEnd.fit(rows, "none", seed=3).state()["features"]
    assert {*plain} == common
    assert (plain["kind"], plain["seed"], plain["image_shape"]) == ("none", 3, [16])
    scaled = FrontEnd.fit(rows, "relu", seed=3).state()["features"]
    assert {*scaled} == common | {"center", "spread"}
    images = FrontEnd.fit(np.zeros((1, 144)), "auto", seed=0, image_shape=(12, 12))
    assert images.state()["features"]["image_shape"] == [12, 12]


@pytest.mark.parametrize("make", [NCM, SLDA, Ridge])
def test_features_depend_on_code_seed_and_never_on_random_state(make):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), np.arange(40) % 2
    options = {"ridge_units": 30} if make is Ridge else {}
    one, other, seeded = (
        make(**options, **seeds).fit(X, y).predict_proba(X)
        for seeds in ({"random_state": 0}, {"random_state": 1}, {"code_seed": 1})
    )
    assert np.array_equal(one, other)
    assert not np.array_equal(one, seeded)


def test_ridge_has_units_of_its_own_instead_of_relu():
    rows = np.random.default_rng(0).normal(size=(20, 5))
    model = Ridge(ridge_units=30).fit(rows, np.arange(20) % 2)
    assert model.fitted_.inputs.kind == "none"
    images = np.random.default_rng(0).uniform(size=(20, 144))
    model = Ridge(ridge_units=30, image_shape=(12, 12)).fit(images, np.arange(20) % 2)
    assert model.fitted_.inputs.kind == "gabor"


def test_a_first_call_of_one_class_leaves_features_for_classes_that_are_far_away():
    rng = np.random.default_rng(0)
    front_end = FrontEnd.fit(rng.normal(size=(50, 4)), "relu", seed=0)
    for distance in (1, 3, 10, 30):
        near, far = (front_end.apply(at * distance + rng.normal(size=(60, 4))) for at in (1.0, 1.5))
        assert (near[:, 4:].std(axis=0) > 0).mean() > 0.2, "units that still vary"
        assert np.abs(near.mean(axis=0) - far.mean(axis=0)).max() > 0.35 * min(distance, BEND)
    model = SLDA()
    tasks = [rng.normal([0, 0], 1, (80, 2)), rng.normal([40, 0], 1, (80, 2))]
    tasks += [rng.normal([0, -9], 0.2, (80, 2))]
    for label, X in enumerate(tasks):
        model.partial_fit(X, np.full(80, label))
    assert min(model.score(X, np.full(80, k)) for k, X in enumerate(tasks)) > 0.95


def test_a_function_gets_the_shape_and_the_values_of_an_image():
    seen = []

    def watch(X):
        seen.append((X.shape[1:], float(X.max())))
        return X.reshape(len(X), -1)[:, :70]

    rows = np.random.default_rng(0).integers(0, 256, (30, 144), dtype=np.uint8)
    SLDA(features=watch, image_shape=(12, 12)).fit(rows, np.arange(30) % 2)
    assert {shape for shape, _ in seen} == {(12, 12)}
    assert seen[-1][1] <= 1, "bytes are value / 255"


def test_the_recipes_of_the_docs_work_in_any_batch_and_after_loading(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    import own_features as recipes

    rng = np.random.default_rng(0)
    images, y = rng.uniform(size=(30, 12, 12)), np.arange(30) % 3
    module = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Dropout(), torch.nn.Flatten()
    )
    recipes.write_onnx(tmp_path / "units.onnx", 144, 20)
    pca = PCA(5).fit(images.reshape(30, -1))
    for features in (
        recipes.torch_features(module, batch_size=7),
        recipes.onnx_features(tmp_path / "units.onnx"),
        recipes.transformer_features(pca),
    ):
        one_by_one = np.concatenate([features(image[None]) for image in images])
        np.testing.assert_allclose(features(images), one_by_one, atol=1e-5)
        model = clone(NCM(features=features)).fit(images, y)
        assert model.features is features
        model.save(tmp_path / "memory")
        again = load(tmp_path / "memory", features=features)
        assert np.array_equal(again.predict_proba(images), model.predict_proba(images))
    sys.modules.pop("own_features")


@pytest.mark.slow
def test_the_real_command_line_runs_with_another_front_end(tmp_path):
    words = ["run", "embedded", "--algorithm", "slda+features=none", "--jobs", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "dgdmn.cli", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    directory = tmp_path / "runs" / "embedded-slda-best-features-none-seed0"
    assert json.loads((directory / "config.json").read_text())["options"]["features"] == "none"
    summary = json.loads((directory / "summary.json").read_text())
    d, k = 784, 10
    sums = 8 * (d * (d + 1) // 2 + k * d + k) + 8 * 5  # triangle, means, counts, right answers
    assert summary["memory_bytes"] - sums == 8 * 2 * 8, "the fingerprint; no filters"
    assert summary["acc"] > 0.9
