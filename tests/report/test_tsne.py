"""t-SNE: the same map again, islands stay islands, any number of points."""

import numpy as np
import pytest

from dgdmn.report.tsne import MOST_POINTS, _placed, embed


def islands(n):
    place = np.arange(n) % 3
    z = np.random.default_rng(0).normal(size=(n, 5)) + 30 * np.eye(3, 5)[place]
    return z, tuple(map(str, place))


def test_islands_stay_islands_and_the_map_is_the_same_again():
    z, y = islands(90)
    places, labels = embed(z, y)
    assert labels == y
    middles = {label: places[[one == label for one in y]].mean(axis=0) for label in "012"}
    nearest = [min(middles, key=lambda label: np.linalg.norm(place - middles[label])) for place in places]
    assert nearest == list(y)
    _placed.cache_clear()
    assert (embed(z, y)[0] == places).all()


@pytest.mark.parametrize("n", [1, 2, 4, 5, 7])
def test_few_points(n):
    places, labels = embed(*islands(n))
    assert places.shape == (n, 2)
    assert np.isfinite(places).all()
    assert len(labels) == n


def test_points_that_are_all_alike():
    places, _ = embed(np.ones((8, 3)), ("a",) * 8)
    assert (places == places[0]).all()


def test_one_dimension():
    places, _ = embed(np.arange(8.0)[:, None], ("a",) * 8)
    assert np.isfinite(places).all()


def test_many_points_are_thinned(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "dgdmn.report.tsne._placed",
        lambda content, shape: seen.append(shape) or np.zeros((shape[0], 2)).tobytes(),
    )
    z, y = islands(2000)
    places, labels = embed(z, y)
    assert seen == [(MOST_POINTS, 5)]
    assert len(places) == len(labels) == MOST_POINTS
