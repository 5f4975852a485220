"""scikit-learn's own checks, and the tools that people use with its estimators."""

import io
from dataclasses import replace

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dgdmn.algorithms import algorithm
from dgdmn.config import DEFAULT_PRESET, Config, resolve
from dgdmn.config.registry import ALGORITHMS, algorithm_info

FLOAT32 = "float32 sums depend on the batch size, so probabilities differ in the seventh digit"
EXPECTED = {
    "check_methods_subset_invariance": FLOAT32,
    "check_methods_sample_order_invariance": FLOAT32,
}
QUICK = Config(
    min_steps=100,
    learning_rate=0.01,
    batch_size=32,
    generator_epochs=1,
    learner_epochs=1,
    joint_epochs=1,
    beta=0.02,
    generator_layers=(16,),
    latent_dim=4,
    learner_layers=(16,),
    sttm_generator_layers=(16,),
    sttm_latent_dim=4,
    sttm_learner_layers=(16,),
    ppr_memory=0,
    ridge_units=50,
    shrinkage=0.01,  # else held-out rows choose it, and rows that are repeated choose differently
)
DEFAULT, DEEP = resolve(DEFAULT_PRESET), replace(resolve("deep"), min_steps=60)
KINDS = ("nn", "icarl", "slda")  # the others are made of the same parts


WEIGHTS = "networks refuse sample_weight; only sums use it"
NO_WEIGHTS = {
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_sample_weights_list": WEIGHTS,
    "check_sample_weights_not_overwritten": WEIGHTS,
}


def checks(names, config=QUICK, more=None):
    made = [algorithm(name)(config, random_state=0, threads=1) for name in names]
    expected = {**EXPECTED, **(more or {})}
    return parametrize_with_checks(made, expected_failed_checks=lambda estimator: expected)


@checks(KINDS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@checks(["dgdmn"], DEFAULT)
def test_scikit_learn_checks_with_the_default_preset(estimator, check):
    check(estimator)


@checks(["dgdmn"], DEEP, NO_WEIGHTS)
def test_scikit_learn_checks_with_networks(estimator, check):
    check(estimator)


@pytest.mark.slow
@checks(
    [name for name in ALGORITHMS if name not in KINDS], replace(QUICK, min_steps=150), NO_WEIGHTS
)
def test_scikit_learn_checks_of_the_others(estimator, check):
    check(estimator)


NO_OPTIONS = {
    "preset",
    "learner",
    "generator",
    "memory",
    "value_range",
    "image_shape",
    "scale",
    "random_state",
    "device",
    "threads",
    "callback",
    "text",
}


def test_every_parameter_is_an_option_or_one_of_few_others(name, make):
    parameters = type(make(name))().get_params()
    assert parameters.keys() - vars(Config()).keys() <= NO_OPTIONS
    given = {key: value for key, value in parameters.items() if value is not None}
    given.pop("device", None)
    assert given == {"preset": DEFAULT_PRESET}


def test_parameters_override_the_preset(name, make, tasks):
    model = make(name)
    if algorithm_info(name).closed_form:
        changed = {"n_classes": 9, "code_seed": 3, "features": "none"}
    else:
        changed = {"learner_layers": [7], "n_classes": 9, "min_steps": 5, "batch_size": 3}
    config = model.set_params(**changed).fit(*tasks[0]).info().config
    changed |= (
        {"learner_layers": (7,)} if "learner_layers" in changed else {}
    )  # lists become tuples
    assert {key: getattr(config, key) for key in changed} == changed


def test_a_clone_has_the_parameters_and_nothing_learned(name, make, tasks):
    model = make(name).fit(*tasks[0])
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not copy.__sklearn_is_fitted__()
    assert "random_state=0" in repr(copy)


def test_a_pipeline_learns(name, make, tasks):
    X, y = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
    flat = X.reshape(len(X), -1) * 40 - 3
    pipe = make_pipeline(MinMaxScaler(clip=True), make(name, min_steps=100)).fit(flat, y)
    assert pipe.score(flat, y) > 0.8


def test_grid_search_over_the_papers_parameters(make, tasks):
    X, y = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
    grid = GridSearchCV(make("dgdmn"), {"n_stm": [1, 2], "kappa": [0.0, 0.5]}, cv=2).fit(X, y)
    assert len(grid.cv_results_["params"]) == 4
    assert grid.predict(X).shape == y.shape


def test_a_pickled_estimator_continues_to_learn(name, make, tasks):
    model = make(name).partial_fit(*tasks[0], task="a")
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    loaded = joblib.load(file)
    for each in (model, loaded):
        each.partial_fit(*tasks[1], task="b")
    X = np.concatenate([task[0] for task in tasks])
    assert np.array_equal(model.predict_proba(X), loaded.predict_proba(X))


def test_feature_names_are_checked(make):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]})
    model = make("nn").fit(frame, [0, 1])
    assert (model.predict(frame[["b", "a"]]) == model.predict(frame)).all(), "any order"
    with pytest.raises(ValueError, match="X lacks column 'b'"):
        model.predict(frame[["a"]])
