"""Unknown inputs: relative scores, sketches of tested rows, densities and calibrated probabilities."""

import copy

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import dgdmn
from dgdmn import DGDMN, DGR, load, merge
from dgdmn.core.errors import UsageError
from dgdmn.memory.code import MixtureSpec
from dgdmn.memory.components import Component
from dgdmn.memory.unknown import (
    BINS,
    SKETCH_BYTES,
    relative_scores,
    score_quantile,
    sketch,
)
from dgdmn.metrics import expected_calibration_error

COLUMNS, CLASSES, ROWS = 64, 5, 1_600


def draw(label, n, seed=0):
    """Rows of a Gaussian class with a center of its own."""
    center = 3 * np.random.default_rng([7, label]).standard_normal(COLUMNS)
    return center + np.random.default_rng([seed, label]).standard_normal((n, COLUMNS))


def learn(kind=DGDMN, labels=range(CLASSES), **options):
    model = kind(features="none", **options)
    for label in labels:
        model.partial_fit(draw(label, ROWS), np.full(ROWS, label), task=str(label))
    return model


@pytest.fixture(scope="module")
def model():
    return learn()


def ltm_of(model):
    return model._mixtures(model.fitted_.snapshot(), "test")[0]


def sketches(model):
    memories = model._mixtures(model.fitted_.snapshot(), "test")
    return {(c.task, c.label): c.sketch for memory in memories for c in memory.components}


def test_relative_scores_equal_two_gaussians():
    rng = np.random.default_rng(0)
    d, n = 4, np.array([30.0, 10.0, 60.0])
    root = rng.standard_normal((d, d))
    covariance, means = root @ root.T + np.eye(d), rng.standard_normal((3, d))
    x = 2 * rng.standard_normal((20, d))
    weights = np.linalg.solve(covariance, means.T)
    tied = x @ weights - 0.5 * np.einsum("kd,dk->k", means, weights)
    found = relative_scores(tied, tied, means, weights, n)

    middle = n @ means / n.sum()
    between = (means - middle).T @ np.diag(n / n.sum()) @ (means - middle)

    def distance(center, matrix):
        return np.einsum("nd,nd->n", x - center, np.linalg.solve(matrix, (x - center).T).T)

    nearest = np.min([distance(mean, covariance) for mean in means], axis=0)
    want = -0.5 * nearest + 0.5 * distance(middle, covariance + between)
    assert np.allclose(found, want)


def test_sketch_counts_every_score():
    scores = np.array([-1e9, -50.0, 0.0, 1e9])
    counts = sketch(scores)
    assert counts.shape == (BINS,)
    assert counts.dtype == np.uint32
    assert counts.nbytes == SKETCH_BYTES
    assert counts.sum() == len(scores)
    assert counts[0] == counts[-1] == 1, "scores beyond the ends count in the outer bins"


def test_usual_share_is_close_to_the_empirical_share():
    rng = np.random.default_rng(0)
    scores = 40 * rng.standard_t(4, 5_000)
    counts, near = [sketch(scores)], (np.array([False]), np.array([False]))
    for quantile in (0.01, 0.1, 0.5):
        found = score_quantile(np.array([np.quantile(scores, quantile)]), counts, *near)[0]
        assert found == pytest.approx(quantile, rel=0.15)
    high = np.array([20 * scores.max()])
    assert score_quantile(np.array([-1e9]), counts, *near)[0] == 0
    assert score_quantile(3 * high / 20, counts, *near)[0] > 0.9
    assert score_quantile(high, counts, *near)[0] == 1, "a learned row may have a high score"
    for far in ([True], [True]), ([False], [True]):
        assert score_quantile(high, counts, *map(np.array, far))[0] == 0


@pytest.mark.parametrize(("features", "d"), [("relu", 40), ("none", 80), ("none", 400)])
def test_learned_rows_are_known_however_few_they_are(features, d):
    """Held-out rows score far lower than learned ones if rows are fewer than features."""
    rng, y = np.random.default_rng(0), np.arange(240) % 4
    X = 0.8 * rng.standard_normal((4, d))[y] + rng.standard_normal((240, d))
    model = DGDMN(features=features).fit(X, y)
    assert model.unknown(X, rate=0.05).mean() < 0.05
    broken = X.copy()
    broken[:, 0] = 1e6
    assert model.unknown(broken).all()


def test_rows_far_from_everything_are_unknown_beside_a_wide_class():
    rng, n = np.random.default_rng(0), 800
    narrow, wide = rng.standard_normal((n, COLUMNS)), 4 * rng.standard_normal((n, COLUMNS)) + 3
    model = DGDMN(features="none")
    model.partial_fit(narrow, np.zeros(n, int), task="narrow")
    model.partial_fit(wide, np.ones(n, int), task="wide")
    far = np.concatenate([narrow[:50], wide[:50]])
    far[:, 0] = 1e6
    assert model.unknown(far).all()
    assert model.unknown(np.concatenate([narrow, wide])).mean() < 0.04


def test_recent_components_decide():
    old, new = sketch(np.full(100, -500.0)), sketch(np.full(100, 0.0))
    near, score = (np.array([False]), np.array([False])), np.array([-100.0])
    assert score_quantile(score, [old, new], *near)[0] < 0.2
    assert score_quantile(score, [new, old], *near)[0] > 0.8


def test_counts_of_a_component_that_grows_follow_its_later_rows():
    """Without task names a class is one component; its first rows were tested when little was known."""
    model = DGDMN()
    for seed in range(8):
        rows = [draw(label, 60, seed=seed) for label in range(CLASSES)]
        model.partial_fit(np.concatenate(rows), np.repeat(range(CLASSES), 60))
    assert model.unknown(draw(99, 200)).mean() > 0.9
    known = np.concatenate([draw(label, 500, seed=20) for label in range(CLASSES)])
    assert model.unknown(known, rate=0.05).mean() < 0.1


def test_merged_memories_find_unknown_rows():
    """Counts of the first components of either memory come first, where they weigh little."""
    labels = range(CLASSES)
    parts = [DGDMN(), DGDMN()]
    for label in labels:
        parts[label % 2].partial_fit(draw(label, 300), np.full(300, label), task=str(label))
    merged = merge(*parts)
    assert merged.unknown(draw(99, 200)).all()
    known = np.concatenate([draw(label, 500, seed=1) for label in labels])
    assert merged.unknown(known, rate=0.05).mean() < 0.1
    places = [component.task for component in ltm_of(merged).components]
    assert places == ["0", "1", "2", "4", "3"], "the last of either memory come last"


def test_far_rows_are_unknown(model):
    known = np.concatenate([draw(label, 200, seed=1) for label in range(CLASSES)])
    far = draw(99, 200)
    assert model.unknown(far).all()
    ltm = ltm_of(copy.deepcopy(model).sleep())
    assert ltm.relative_scores(far).max() < ltm.relative_scores(known).min()


def test_the_rate_is_honored(model):
    known = np.concatenate([draw(label, 2_000, seed=1) for label in range(CLASSES)])
    assert 0.005 <= model.unknown(known).mean() <= 0.02
    assert 0.07 <= model.unknown(known, rate=0.1).mean() <= 0.14


def test_recognition_knows_the_same_rows(model):
    rows = np.concatenate([draw(0, 500, seed=1), draw(99, 20)])
    assert np.array_equal(model.recognize(rows).known, ~model.unknown(rows))


def test_sleeping_or_not_dgr_or_dgdmn_agree(model):
    """All see the same tested rows; DGR tests against the same components."""
    rows = np.concatenate([draw(0, 300, seed=1), draw(99, 20)])
    asleep = copy.deepcopy(model).sleep()
    assert np.array_equal(asleep.unknown(rows), model.unknown(rows))
    assert np.array_equal(learn(DGR).unknown(rows), asleep.unknown(rows))


def test_the_density_is_that_of_the_mixture():
    model = learn(labels=(0, 1), own_covariance=1.0, shrinkage=0.03).sleep()
    ltm, x = ltm_of(model), draw(0, 5, seed=3)
    pooled = ltm.pool.covariance(0.03)
    logs = []
    for one in ltm.components:
        code = ltm.spec.code
        own = code @ (one.scatter / one.n) @ code.T
        trust = 0.6 * one.n / (one.n + len(own))
        covariance = trust * own + (1 - trust) * pooled
        logs.append(multivariate_normal(one.mean, covariance).logpdf(x))
    assert np.allclose(model.score_samples(x), logsumexp(logs, axis=0) - np.log(2))


def test_merge_adds_and_forget_removes(model):
    first, second = learn(labels=(0, 1, 2)).sleep(), learn(labels=(2, 3)).sleep()
    one, other = sketches(first), sketches(second)
    for merged in (dgdmn.merge(first, second), dgdmn.merge(second, first)):
        found = sketches(merged)
        by_task = {task: counts.sum() for (task, _), counts in found.items()}
        want = {
            task: sum(
                counts.sum() for s in (one, other) for (t, _), counts in s.items() if t == task
            )
            for task in by_task
        }
        assert by_task == want
    forgotten = copy.deepcopy(model).forget(labels=[4])
    assert len(sketches(forgotten)) == CLASSES - 1
    assert forgotten.unknown(draw(4, 100, seed=1)).mean() > 0.9


def test_saved_and_loaded_to_the_same_bits(model, tmp_path):
    model.save(tmp_path / "a.dgdmn")
    loaded = load(tmp_path / "a.dgdmn")
    rows = np.concatenate([draw(0, 100, seed=1), draw(99, 20)])
    assert np.array_equal(loaded.unknown(rows), model.unknown(rows))
    assert np.array_equal(loaded.score_samples(rows), model.score_samples(rows))
    want = sketches(model)
    assert all(np.array_equal(counts, want[key]) for key, counts in sketches(loaded).items())


@pytest.mark.parametrize(
    "forged",
    [
        np.zeros(BINS + 1, np.uint32),
        np.zeros(BINS, np.float64),
        np.full(BINS, -1, np.int64),
        np.zeros((1, BINS), np.uint32),
    ],
)
def test_forged_sketches_are_refused(model, forged):
    one = ltm_of(model).components[0]
    spec = MixtureSpec(model.fitted_.config, COLUMNS)
    assert Component.load(one.state(), spec, CLASSES).n == one.n
    with pytest.raises(ValueError, match="sketch"):
        Component.load({**one.state(), "sketch": forged}, spec, CLASSES)


def test_sketches_count_in_the_bytes(model):
    one = ltm_of(model).components[0]
    size = len(one.scatter) * (len(one.scatter) + 1) // 2 * one.scatter.itemsize
    assert one.nbytes == one.mean.nbytes + size + SKETCH_BYTES


def test_what_cannot_be_answered_is_refused(model):
    rows = draw(0, 3)
    for rate in (0, 1, -0.1, float("nan")):
        with pytest.raises(UsageError, match="rate"):
            model.unknown(rows, rate=rate)
    few = DGDMN(features="none").partial_fit(draw(0, 50), np.zeros(50))
    with pytest.raises(UsageError, match="learn 150 more rows and a second class"):
        few.unknown(rows)
    assert few.recognize(rows).known.all()


def test_the_deep_memory_refuses():
    x = np.random.default_rng(0).random((20, 4))
    model = DGDMN("quick", generator="vae", generator_epochs=1, learner_epochs=1, sttm_min_steps=0)
    model.partial_fit(x, np.arange(20) % 2)
    for ask in (model.unknown, model.score_samples):
        with pytest.raises(UsageError, match="only the mixture memory can"):
            ask(x)


def test_fixed_settings_are_calibrated_too():
    model = learn(labels=(0, 1, 2), own_covariance=1.0, shrinkage=0.05)
    assert ltm_of(model).pool.log_losses.any()
    known = np.concatenate([draw(label, 1_000, seed=1) for label in range(3)])
    assert 0.003 <= model.unknown(known).mean() <= 0.03


def test_expected_calibration_error_against_a_loop():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 300)
    y = rng.integers(0, 4, 300)
    want = 0.0
    for low in np.arange(15) / 15:
        confidence = p.max(axis=1)
        inside = (confidence > low) & (confidence <= low + 1 / 15)
        if inside.any():
            accuracy = (p.argmax(axis=1) == y)[inside].mean()
            want += inside.mean() * abs(accuracy - confidence[inside].mean())
    assert expected_calibration_error(p, y) == pytest.approx(want)
    assert expected_calibration_error(np.eye(3), [0, 1, 2]) == 0
    with pytest.raises(UsageError, match="y has shape"):
        expected_calibration_error(np.eye(3), [0, 1])
