"""An exported model gives the probabilities of the memory it was made from."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch

import dgdmn
from dgdmn.algorithms import algorithm
from dgdmn.config import override, resolve
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.export.onnx import _predictor, onnx_bytes
from dgdmn.memory.components import cut_scatter


def check_same_answers(model, X, tolerance=1e-5):
    content = onnx_bytes(model)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for rows in (X, X[:1], X[3:10]):
        (answers,) = session.run(["probabilities"], {"X": rows})
        assert answers == pytest.approx(model.predict_proba(rows), abs=tolerance)
    meta = session.get_modelmeta().custom_metadata_map
    assert json.loads(meta["classes"]) == model.classes_.tolist()


@pytest.mark.parametrize("name", ["dgdmn", "si"])
def test_a_convolutional_memory(name):
    rng = np.random.default_rng(0)
    few = {"generator_epochs": 1, "learner_epochs": 2, "n_classes": 0, "n_stm": 1}
    model = algorithm(name)(override(resolve("paper/hindi"), few), random_state=0)
    for label in (7, 3):
        model.partial_fit(rng.random((20, 15, 14)), np.full(20, label), task=str(label))
    check_same_answers(model, rng.random((12, 15, 14)).astype(np.float32))


def test_a_memory_that_predicts_with_its_prior():
    """The prior counts, and a class that is still to come has no probability."""
    rng = np.random.default_rng(0)
    model = dgdmn.DGDMN("deep", min_steps=60, n_stm=1, random_state=0, value_range=(-9.0, 16.0))
    for label in ("a", "b", "c"):
        X = rng.normal(ord(label) % 7, 1, (60, 3))
        model.partial_fit(X, [label] * 60, ["a", "b", "c", "d"], task=label)
    assert model.info().config.predict_with == "learner+prior"
    X = rng.normal(1, 2, (40, 3)).astype(np.float32)
    check_same_answers(model, X)
    assert model.predict_proba(X)[:, 3].tolist() == [0] * 40


MIXTURES = {
    "12 × 12": ((12, 12), "gabor"),
    "28 × 28": ((28, 28), "gabor"),
    "color, resized": ((40, 36, 3), "gabor"),
    "13 columns": ((13,), "relu"),
    "70 columns": ((70,), "none"),
    "1,500 columns": ((1500,), "none"),
}


def mixture(shape, kind, **options):
    """A memory of three classes in four tasks, with components of different block sizes, and rows."""
    rng = np.random.default_rng(0)
    centers, share = rng.random((3, *shape)), 1 / math.prod(shape) ** 0.5

    def rows(n):
        y = rng.integers(0, 3, n)
        rows = share * centers[y] + (1 - share) * rng.random((n, *shape))
        return rows.astype(np.float32), y

    options = {"own_covariance": 0.5, "features": kind, "random_state": 0, **options}
    model = dgdmn.DGDMN(**options)
    for task in "abcd":
        X, y = rows(50)
        model.partial_fit(X, np.array(["x", "z", "y"])[y], ["w", "x", "y", "z"], task=task)
    ltm = model.fitted_.memory.ltm
    blocks = zip(ltm.components, itertools.cycle((60, 7, 0, 60)), strict=False)
    ltm.components = tuple(cut_scatter(one, q, np.float32) for one, q in blocks)
    # A temperature at which answers are neither sure nor equal.
    X, frozen = rows(40)[0], ltm.pool.frozen
    scores = np.sort(ltm.joint_scores(model.fitted_.inputs.apply(X), ())[0], axis=1)
    temperature = max(1.0, float(np.median(scores[:, -1] - scores[:, 0])) / 2)
    ltm.pool = replace(ltm.pool, frozen=replace(frozen, temperature=temperature))
    return model, X


@pytest.mark.parametrize("name", MIXTURES)
def test_the_formulas_of_a_mixture(name):
    model, X = mixture(*MIXTURES[name])
    expected = model.predict_proba(X)
    assert 0.01 < expected[:, 1:].max(axis=1).min() < 0.99, "else the test shows little"
    assert expected[:, 0].tolist() == [0] * 40, "of w nothing was learned"
    answers = _predictor(model)(torch.tensor(X))
    assert answers.numpy() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("priors", ["empirical", {"x": 5.0, "y": 0.1}])
def test_priors_of_a_mixture(priors):
    model, X = mixture(*MIXTURES["70 columns"], priors=priors)
    expected = model.predict_proba(X)
    plain = mixture(*MIXTURES["70 columns"])[0].predict_proba(X)
    assert np.abs(expected - plain).max() > 0.01
    answers = _predictor(model)(torch.tensor(X))
    assert answers.numpy() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    "name",
    [
        name if name == "70 columns" else pytest.param(name, marks=pytest.mark.slow)
        for name in MIXTURES
    ],
)
def test_a_mixture(name):
    check_same_answers(*mixture(*MIXTURES[name]), tolerance=1e-4)


def test_bytes_of_an_image_become_values_up_to_one():
    model, X = mixture((12, 12), "gabor")
    images = np.round(255 * X).astype(np.uint8)
    answers = _predictor(model)(torch.tensor(images / np.float32(255)))
    assert answers.numpy() == pytest.approx(model.predict_proba(images), abs=1e-4)


def test_what_cannot_be_exported_is_refused_in_one_sentence():
    model, X = mixture((5,), lambda X: X)
    with pytest.raises(UsageError, match="its features are your own function; only dgdmn's"):
        onnx_bytes(model)
    model = dgdmn.SLDA().fit(X, np.arange(40) % 2)
    with pytest.raises(UsageError, match="slda cannot be exported; dgdmn, dgr and networks can"):
        onnx_bytes(model)


def test_a_missing_package_is_named(monkeypatch):
    model = dgdmn.NN(min_steps=1, random_state=0).fit([[0.0], [1.0]], [0, 1])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DgdmnError, match=r"pip install 'dgdmn\[onnx\]'"):
        onnx_bytes(model)
