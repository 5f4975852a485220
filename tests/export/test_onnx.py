"""An exported model gives the probabilities of the memory it was made from."""

import json

import numpy as np
import onnxruntime
import pytest

import dgdmn
from dgdmn.algorithms import algorithm
from dgdmn.config import override, resolve
from dgdmn.core.errors import DgdmnError
from dgdmn.export.onnx import onnx_bytes


def check_same_answers(model, X):
    content = onnx_bytes(model)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for rows in (X, X[:1], X[3:10]):
        (answers,) = session.run(["probabilities"], {"X": rows})
        assert answers == pytest.approx(model.predict_proba(rows), abs=1e-5)
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
    """The default preset: the prior counts, and a class that is still to come has no probability."""
    rng = np.random.default_rng(0)
    model = dgdmn.DGDMN("deep", min_steps=60, n_stm=1, random_state=0, threads=1, value_range=(-9.0, 16.0))
    for label in ("a", "b", "c"):
        X = rng.normal(ord(label) % 7, 1, (60, 3))
        model.partial_fit(X, [label] * 60, ["a", "b", "c", "d"], task=label)
    assert model.info().config.predict_with == "learner+prior"
    X = rng.normal(1, 2, (40, 3)).astype(np.float32)
    check_same_answers(model, X)
    assert model.predict_proba(X)[:, 3].tolist() == [0] * 40


def test_a_missing_package_is_named(monkeypatch):
    model = dgdmn.NN(min_steps=1, random_state=0).fit([[0.0], [1.0]], [0, 1])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DgdmnError, match=r"pip install 'dgdmn\[onnx\]'"):
        onnx_bytes(model)
