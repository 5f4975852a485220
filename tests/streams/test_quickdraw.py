"""Shapes on partial and official data, and the warps that replace missing drawings."""

import hashlib
import io

import numpy as np
import pytest

from dgdmn.streams import fetch, images, load
from dgdmn.streams.images import add_warped, random_affine, warp

IDENTITY = np.eye(2)[None]
STILL = np.zeros((1, 2))


@pytest.fixture
def image():
    return np.random.default_rng(0).random((1, 7, 7), dtype=np.float32)


def test_the_identity_changes_nothing(image):
    np.testing.assert_allclose(warp(image, IDENTITY, STILL), image, atol=1e-6)


def test_a_whole_shift_moves_pixels_and_leaves_black(image):
    moved = warp(image, IDENTITY, np.array([[1.0, -2.0]]))[0]
    expected = np.zeros((7, 7), dtype=np.float32)
    expected[:6, 2:] = image[0, 1:, :5]
    np.testing.assert_allclose(moved, expected, atol=1e-6)


def test_a_shift_far_outside_is_black(image):
    assert (warp(image, IDENTITY, np.array([[50.0, -50.0]])) == 0).all()


def test_half_a_shift_is_the_mean_of_neighbors(image):
    moved = warp(image, IDENTITY, np.array([[0.0, 0.5]]))[0]
    np.testing.assert_allclose(moved[:, :6], (image[0, :, :6] + image[0, :, 1:]) / 2, atol=1e-6)
    np.testing.assert_allclose(moved[:, 6], image[0, :, 6] / 2, atol=1e-6)


def test_a_quarter_turn(image):
    turned = warp(image, np.array([[[0.0, -1.0], [1.0, 0.0]]]), STILL)[0]
    np.testing.assert_allclose(turned, np.rot90(image[0], -1), atol=1e-6)


def test_each_image_has_its_own_warp(image):
    both = np.concatenate([image, image])
    shifts = np.array([[0.0, 0.0], [1.0, 0.0]])
    result = warp(both, np.repeat(IDENTITY, 2, axis=0), shifts)
    np.testing.assert_allclose(result[0], image[0], atol=1e-6)
    np.testing.assert_allclose(result[1, :6], image[0, 1:], atol=1e-6)


def test_random_maps_are_small():
    matrix, shift = random_affine(500, np.random.default_rng(0))
    assert matrix.shape == (500, 2, 2)
    assert np.abs(shift).max() <= 2
    assert np.abs(matrix - np.eye(2)).max() < 0.4
    assert np.abs(matrix - np.eye(2)).max() > 0.1
    assert abs((matrix - np.eye(2)).mean()) < 0.02


def test_warped_copies_follow_the_originals_and_are_balanced():
    # Images differ in brightness only, which identifies the original of a copy.
    images = (
        np.ones((5, 28, 28), dtype=np.float32) * np.array([0.2, 0.4, 0.6, 0.8, 1])[:, None, None]
    )
    images = images.astype(np.float32)
    grown = add_warped(images, 20, np.random.default_rng(0))
    assert len(grown) == 20
    np.testing.assert_array_equal(grown[:5], images)
    centers = grown[5:, 14, 14].round(1)
    assert sorted(centers.tolist()) == sorted(np.repeat(images[:, 0, 0], 3).round(1).tolist())
    assert add_warped(images, 3, np.random.default_rng(0)) is images


def drawings(monkeypatch, place, counts):
    """Drawings whose brightness identifies the row: row r has (r % 250) + 1 in its middle."""
    files = {}
    for shape, n in zip(fetch.SHAPES, counts, strict=True):
        x = np.zeros((n, 28, 28), dtype=np.uint8)
        x[:, 8:20, 8:20] = (np.arange(n) % 250 + 1)[:, None, None]
        file = io.BytesIO()
        np.save(file, x.reshape(n, 784))
        files[f"{shape}.npy"] = file.getvalue()
        sha256 = hashlib.sha256(file.getvalue()).hexdigest()
        monkeypatch.setitem(fetch.HASHES, f"{shape}.npy", sha256)
    place("quickdraw", files)


def brightness(rows):
    return set((rows.x[:, 14, 14] * 255).round().astype(int).tolist())


def test_partial_drawings_are_split_first_then_augmented(monkeypatch, place):
    drawings(monkeypatch, place, [100, 60, 60, 100, 60, 60])
    monkeypatch.setattr(images, "TRAIN", 400)
    stream = load("shapes", validation=0.25)
    learned = stream[0]
    assert (len(learned.train), len(learned.validation), len(learned.test)) == (300, 20, 20)
    parts = [brightness(part) for part in (learned.train, learned.validation, learned.test)]
    assert [len(part) for part in parts] == [60, 20, 20]
    assert set.union(*parts) == set(range(1, 101))
    assert set(learned.train.y) == {0}
    assert stream.note.startswith("partial Quick, Draw! data (circle 100, hexagon 60")


def test_the_seed_decides_the_split(monkeypatch, place):
    drawings(monkeypatch, place, [100, 60, 60, 100, 60, 60])
    monkeypatch.setattr(images, "TRAIN", 90)
    one, again, other = (load("shapes", seed=seed)[1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.train.x, again.train.x)
    assert brightness(one.test) == brightness(again.test) != brightness(other.test)
    assert len(one.train) == 90


def test_enough_drawings_are_not_augmented(monkeypatch, place):
    drawings(monkeypatch, place, [125] * 6)
    monkeypatch.setattr(images, "TRAIN", 100)
    monkeypatch.setattr(images, "TEST", 25)
    stream = load("shapes")
    learned = stream[5]
    assert (learned.name, len(learned.train), len(learned.test)) == ("zigzag", 100, 25)
    assert brightness(learned.train) | brightness(learned.test) == set(range(1, 126))
    assert "as in the paper" in stream.note
    assert len(load("shapes", validation=0.1)[5].train) == 90


@pytest.mark.slow
@pytest.mark.usefixtures("real")
def test_real_shapes():
    stream = load("shapes")
    tasks = list(stream)
    assert {len(t.train) for t in tasks} == {4500}
    if "partial" in stream.note:
        assert [len(t.test) for t in tasks] == [500, 85, 85, 500, 483, 79]
    assert all(t.train.x.min() >= 0 and t.train.x.max() <= 1 for t in tasks)
    # A warped copy keeps about the ink of what it was made of.
    hexagons = tasks[1].train.x
    assert hexagons[340:].mean() == pytest.approx(hexagons[:340].mean(), rel=0.1)
