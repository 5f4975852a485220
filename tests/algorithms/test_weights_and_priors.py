"""Sample weights, class priors, new names, and what `predict` leaves alone."""

import hashlib
import pickle
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import cross_val_score

import dgdmn
from dgdmn import DGDMN, DGR
from dgdmn.algorithms import algorithm
from dgdmn.algorithms.generative import merge
from dgdmn.algorithms.persistence import describe
from dgdmn.config import Config
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.storage import arrays_in

FIXED = {"shrinkage": 0.01, "own_covariance": 0.5}
SUMS = ("dgdmn", "dgr", "ncm", "slda", "ridge")


def make(name, **more):
    options = FIXED if name in ("dgdmn", "dgr") else {"shrinkage": 0.01}
    options = {} if name == "ncm" else options
    more = {"ridge_units": 30, **more} if name == "ridge" else more
    return algorithm(name)(**{**options, **more})


def blobs(n=60, d=4, k=3, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return rng.normal(0, spread, (n, d)) + 3 * y[:, None] * np.linspace(-1, 1, d), y


def learn(model, parts, weights=None):
    for n, (X, y) in enumerate(parts):
        more = {} if weights is None else {"sample_weight": weights[n]}
        model.partial_fit(X, y, classes=range(3), task=f"t{n}", **more)
    return model


def assert_same_sums(one, other):
    """The same sums to rounding; counts of tested rows are not sums of weights."""
    ours, theirs = (dict(arrays_in(describe(model)[1])) for model in (one, other))
    assert ours.keys() == theirs.keys()
    for path, array in ours.items():
        if not re.search("sketch|votes|surprise|right", path):
            size = np.abs(array).max(initial=1e-12)
            assert np.allclose(array, theirs[path], rtol=1e-7, atol=1e-7 * size), path


@settings(deadline=None, max_examples=8)
@given(
    st.sampled_from(SUMS),
    st.lists(st.integers(0, 3), min_size=60, max_size=60),
    st.sampled_from([4, 70]),
)
def test_a_weight_is_a_number_of_copies(name, counts, d):
    X, y = blobs(d=d)
    counts = np.array(counts)
    counts[:3], counts[33] = [1, 2, 1], 1  # each class and each call has rows
    cuts = (slice(0, 33), slice(33, 60))
    weighted = learn(make(name), [(X[c], y[c]) for c in cuts], [counts[c] for c in cuts])
    copies = [(X[c].repeat(counts[c], 0), y[c].repeat(counts[c])) for c in cuts]
    copied = learn(make(name), copies)
    assert_same_sums(weighted, copied)
    tests = blobs(seed=1, d=d)[0]
    assert np.allclose(weighted.predict_proba(tests), copied.predict_proba(tests), atol=1e-6)


@pytest.mark.parametrize("name", SUMS)
def test_only_ratios_of_weights_matter_to_linear_answers(name):
    if name in ("dgdmn", "dgr"):
        return  # the trust in a component's own covariance grows with its rows
    (X, y), tests = blobs(), blobs(seed=1)[0]
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    answers = [
        make(name, features="none").fit(X, y, weight * scale).predict_proba(tests)
        for scale in (1, 1e-3)  # the scale of `relu` depends on the number of rows
    ]
    assert np.allclose(*answers, atol=1e-9)


def test_a_weight_counts_in_the_scale_of_relu_features_too():
    X, y = blobs(40)
    counts = np.arange(40) % 3 + 1
    weighted = make("ridge", features="relu").fit(X, y, sample_weight=counts)
    copied = make("ridge", features="relu").fit(X.repeat(counts, axis=0), y.repeat(counts))
    assert np.abs(weighted.predict_proba(X) - copied.predict_proba(X)).max() < 1e-9


def test_forgetting_weighted_rows_leaves_the_age_of_the_others():
    X, y = blobs(100, k=2)
    model = make("dgdmn").fit(X, y, sample_weight=np.full(100, 10)).forget(labels=[1])
    assert model.info().age == 50


def test_fractions_are_saved_and_whole_sums_stay_whole(tmp_path):
    (X, y), tests = blobs(d=70), blobs(d=70, seed=1)[0]
    for weight, kind in ((0.37, float), (2.0, int)):
        model = DGDMN(**FIXED).fit(X, y, np.full(len(y), weight))
        model.save(tmp_path / "m")
        again = dgdmn.load(tmp_path / "m")
        assert np.array_equal(model.predict_proba(tests), again.predict_proba(tests))
        components = again.fitted_.memory.ltm.components
        assert {type(one.n) for one in components} == {kind}
        assert sum(one.n for one in components) == pytest.approx(60 * weight)
        assert again.info().age == 60, "rows, not weights"
        again.forget(labels=[0]).save(tmp_path / "m")
        assert dgdmn.load(tmp_path / "m").classes_.tolist() == [1, 2]


def test_small_weights_of_one_task_are_merged_with_large_ones():
    parts = [blobs(seed=n, d=70) for n in range(3)]
    weights = [np.full(60, w) for w in (1e-3, 0.25, 100.0)]
    one = learn(DGR(**FIXED), parts, weights)
    for parts_, w in (([parts[2], parts[0], parts[1]], [weights[2], weights[0], weights[1]]),):
        other = DGR(**FIXED)
        for (X, y), weight, task in zip(parts_, w, ("t2", "t0", "t1"), strict=True):
            other.partial_fit(X, y, classes=range(3), sample_weight=weight, task=task)
    tests = blobs(seed=5, d=70)[0]
    assert np.allclose(one.predict_proba(tests), other.predict_proba(tests), atol=1e-9)


@pytest.mark.parametrize(
    ("weight", "reason"),
    [
        (np.zeros(60), "zero"),
        (np.full(60, -1.0), "sample_weight has the value -1; it must be 0, or at least 1e-06"),
        (np.full(60, 1e9), "sample_weight has the value 1e+09"),
        (np.full(60, np.nan), "NaN"),
        (np.ones(59), "sample_weight"),
    ],
)
def test_wrong_weights_are_refused_and_change_nothing(weight, reason):
    X, y = blobs()
    model = DGDMN(**FIXED)
    with pytest.raises(ValueError, match=re.escape(reason)):
        model.fit(X, y, weight)
    assert not model.__sklearn_is_fitted__()


def test_others_refuse_weights():
    X, y = blobs()
    with pytest.raises(UsageError, match="sample_weight needs the mixture memory"):
        DGDMN("quick").fit(X, y, np.arange(60))
    for name in ("nn", "gnb"):
        with pytest.raises(TypeError, match="unexpected keyword argument 'sample_weight'"):
            algorithm(name)("quick").fit(X, y, sample_weight=np.ones(60))


def test_weights_of_images_reach_the_decoder():
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 12, 12)), np.arange(40) % 2
    counts = np.arange(40) % 3
    one = DGDMN(**FIXED).fit(X, y, counts)
    other = DGDMN(**FIXED).fit(X.repeat(counts, 0), y.repeat(counts))
    assert np.allclose(one.reconstruct(X), other.reconstruct(X), atol=1e-5)


# Priors


def skewed(seed=0, n=(180, 20)):
    rng = np.random.default_rng(seed)
    y = np.repeat(["often", "rare"], n)
    return rng.normal(np.where(y == "rare", 0.35, 0.0)[:, None], 1, (sum(n), 70)), y


def test_priors_multiply_the_posterior():
    (X, y), tests = skewed(), skewed(seed=1)[0]
    base = DGDMN(**FIXED).fit(X, y)
    p, temperature = base.predict_proba(tests), base.fitted_.memory.ltm.frozen().temperature
    assert temperature >= 1
    for priors, weights in (
        ("uniform", (1, 1)),
        ("empirical", (180, 20)),
        ({"often": 180, "rare": 20.0}, (180, 20)),
        ({"rare": 5}, (1, 5)),
        ({"rare": 5, "never": 3}, (1, 5)),
    ):
        found = DGDMN(priors=priors, **FIXED).fit(X, y)
        expected = p * weights
        expected /= expected.sum(axis=1, keepdims=True)
        assert np.allclose(found.predict_proba(tests), expected, atol=1e-9)
        assert np.array_equal(found.predict(tests), found.classes_[expected.argmax(axis=1)])
    empirical = DGDMN(priors="empirical", **FIXED).fit(X, y).predict(tests)
    assert (empirical == "rare").sum() < (p.argmax(axis=1) == 1).sum()


def test_priors_choose_the_memory_and_the_task_that_answer():
    X, y = skewed(n=(60, 60))
    for priors in ({"rare": 1e20}, {"often": 1e20}):
        model = DGDMN(priors=priors, n_stm=3, **FIXED)
        for label in ("often", "rare"):
            model.partial_fit(X[y == label], y[y == label], task=f"{label} task")
        winner = f"{next(iter(priors))} task"
        assert (model.recognize(X).answered_by == winner).mean() > 0.95
        assert (model.answering_tasks(X) == winner).mean() > 0.95


@pytest.mark.parametrize("priors", ["empirical", {"rare": 9.0, "new": 2.0}])
def test_priors_are_saved_renamed_and_follow_new_classes(priors, tmp_path):
    X, y = skewed()
    model = DGDMN(priors=priors, **FIXED).partial_fit(X, y, task="a")
    model.save(tmp_path / "m")
    again = dgdmn.load(tmp_path / "m")
    assert again.get_params()["priors"] == priors
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    more = np.random.default_rng(3).normal(0.1, 1, (30, 70)), ["new"] * 30
    for one in (model, again):
        one.partial_fit(*more, task="b").rename(labels={"rare": "seldom"})
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert model.sleep().classes_.tolist() == ["new", "often", "seldom"]
    plain = DGDMN(**FIXED).partial_fit(X, y, task="a").partial_fit(*more, task="b").sleep()
    weights = (30, 180, 20) if priors == "empirical" else (2, 1, 9)
    expected = plain.predict_proba(X) * weights
    expected /= expected.sum(axis=1, keepdims=True)
    assert np.allclose(model.predict_proba(X), expected, atol=1e-6)
    model.forget(labels=["new"])
    assert model.predict_proba(X).shape == (200, 2)


def test_wrong_priors_are_refused():
    X, y = skewed()
    for priors, reason in (
        ("equal", "priors is 'equal'; it must be one of uniform, empirical"),
        ({"rare": 0}, "the prior of 'rare' is 0; it must be a number above 0"),
        ({"rare": float("nan")}, "the prior of 'rare' is nan"),
        ({"rare": "x"}, "the prior of 'rare' is 'x'"),
        ({1: 2.0}, "label 1 of priors and 'often' have different types"),
    ):
        with pytest.raises(UsageError, match=re.escape(reason)):
            DGDMN(priors=priors).fit(X, y)
    with pytest.raises(UsageError, match="priors are for the mixture memory"):
        DGDMN("quick", priors="empirical").fit(X, y)
    models = [DGDMN(priors=p, **FIXED).fit(X, y) for p in ("empirical", "uniform", {"rare": 2.0})]
    for other in models[1:]:
        with pytest.raises(UsageError, match="cannot merge: "):
            merge(models[0], other)


@pytest.mark.parametrize("given", [{"value_range": (0, 1)}, {"device": "cuda"}])
def test_arguments_without_effect_are_named(given):
    X, y = blobs(d=70)
    model = DGDMN(**given)
    with pytest.warns(UserWarning, match=f"{next(iter(given))} has no effect") as caught:
        model.fit(X, y)
    assert caught[0].filename == __file__
    assert len(caught) == 1
    model.partial_fit(X, y)  # once is enough


# Names


@pytest.mark.parametrize("name", ["dgdmn", "dgdmn-recog", "dgr", "gem", "slda"])
def test_new_names_change_no_answer(name, tmp_path):
    model = algorithm(name)(random_state=0, threads=1)
    if name == "gem":
        config = Config(learner_epochs=1, learner_layers=(8,))
        model.set_params(preset=config, value_range=(-20, 20))
    X, y = blobs(d=70)
    for label in range(3):
        model.partial_fit(X[y == label], y[y == label], task=f"task {label + 1}")
    p = model.predict_proba(X)
    model.rename(labels={0: 7, 1: 0})
    assert model.classes_.tolist() == [0, 2, 7]
    assert np.array_equal(model.predict_proba(X)[:, [2, 0, 1]], p)
    assert model.predict(X).tolist() == [{0: 7, 1: 0, 2: 2}[n] for n in p.argmax(axis=1).tolist()]
    if name == "slda":
        with pytest.raises(UsageError, match="SLDA keeps no names of tasks"):
            model.rename(tasks={"task 1": "a"})
        return
    model.rename(tasks={"task 1": "a", "task 3": "task 1"})
    model.save(tmp_path / "m")
    again = dgdmn.load(tmp_path / "m")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    if name != "gem":
        assert {*again.consolidated_tasks(), *again.awake_tasks()} == {"a", "task 2", "task 1"}
        (where,) = {*again.answering_tasks(X[y == 2])}
        assert where == "task 1"
    again.partial_fit(X[y == 0], np.full(20, 7), task="a")


def test_names_that_are_refused_change_nothing():
    X, y = blobs(d=70)
    model = DGDMN(**FIXED).partial_fit(X, y, task="a").partial_fit(X, y, task="b")
    before = digest(model)
    for names, reason in (
        ({"labels": {0: 1}}, "label 1 exists already"),
        ({"labels": {0: "one"}}, "label 'one' and 0 have different types"),
        ({"labels": {9: 1}}, "no label 9; there are 0, 1, 2"),
        ({"labels": {0: None}}, "label 0 cannot be renamed to None"),
        ({"labels": {0: float("nan")}}, "cannot be saved"),
        ({"labels": {0: 5, 1: 5}}, "label 5 exists already"),
        ({"tasks": {"a": "b"}}, "task 'b' exists already"),
        ({"tasks": {"c": "d"}}, "no task 'c'"),
        ({"tasks": {"a": ""}}, "task 'a' cannot be renamed to ''"),
        ({"tasks": {"a": 3}}, "task 'a' cannot be renamed to 3"),
        ({"labels": {0: 8}, "tasks": {"a": "b"}}, "task 'b' exists already"),
    ):
        with pytest.raises(UsageError, match=re.escape(reason)):
            model.rename(**names)
    assert digest(model) == before


# Predicting


def digest(model):
    """A hash of all that a model has learned and was made with."""
    about, state = describe(model)
    arrays = [(path, array.tobytes()) for path, array in arrays_in(state)]
    return hashlib.sha256(pickle.dumps((about, arrays, vars(model.fitted_.rng)))).hexdigest()


@cache
def learned(d, asleep):
    return learn(DGDMN(n_stm=4 - asleep), [blobs(n=110, d=d, seed=n) for n in range(3)])


@settings(deadline=None, max_examples=10)
@given(st.sampled_from([4, 70]), st.permutations(range(6)), st.booleans())
def test_predict_judges_rows_one_by_one_and_changes_nothing(d, order, asleep):
    model = learned(d, asleep)
    tests, before = blobs(n=6, d=d, seed=9, spread=3.0)[0], digest(model)
    methods = ("predict", "predict_proba", "unknown", "answering_tasks", "score_samples")
    for method in methods:
        whole = getattr(model, method)(tests)
        permuted = getattr(model, method)(tests[list(order)])
        alone = np.concatenate([getattr(model, method)(tests[n : n + 1]) for n in order])
        for found in (permuted, alone):
            if whole.dtype.kind == "f":
                assert np.allclose(found, whole[list(order)], rtol=1e-9, atol=1e-9)
            else:
                assert np.array_equal(found, whole[list(order)])
    recognized = model.recognize(tests).answered_by
    assert np.array_equal(model.recognize(tests[list(order)]).answered_by, recognized[list(order)])
    assert digest(model) == before


def test_cross_validation():
    X, y = blobs(n=120, d=70)
    assert cross_val_score(DGDMN(), X, y, cv=3).mean() > 0.9
    weights = {"sample_weight": np.ones(120)}
    assert cross_val_score(DGDMN(), X, y, cv=3, params=weights).mean() > 0.9


def test_a_forged_prior_is_refused(tmp_path):
    from dgdmn import storage

    X, y = skewed()
    DGDMN(priors={"rare": 2.0}, **FIXED).fit(X, y).save(tmp_path / "m")
    about, state = storage.read(tmp_path / "m")
    for forged in ([["rare", -1.0]], [["rare", "x"]], 7, [7], [["rare"]]):
        about["fitted"]["priors"] = forged
        storage.write(tmp_path / "forged", about, state)
        with pytest.raises(DgdmnError, match="is not a memory that can be loaded"):
            dgdmn.load(tmp_path / "forged")
