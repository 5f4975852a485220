"""How a memory predicts, as an ONNX model: from the user's values to the probabilities of `classes_`."""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgdmn.algorithms.base import ContinualClassifier
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.algorithms.icarl import ICaRL
from dgdmn.algorithms.learnt import Learnt
from dgdmn.algorithms.saving import name_of
from dgdmn.errors import DgdmnError, UsageError
from dgdmn.memory.generative import together
from dgdmn.memory.prior import LatentPrior
from dgdmn.networks.learner import Classifier
from dgdmn.networks.vae import VAE


def onnx_bytes(model: ContinualClassifier) -> bytes:
    """An ONNX model of the long-term memory or, where there is none, of the network.

    Input `X`: float32, (n, *shape) in the range that `predict` takes of floats, for any n. Output
    `probabilities`: float32, (n, k), in the order of `classes_`, which the metadata names as JSON.
    """
    for package in ("onnx", "onnxscript"):
        if importlib.util.find_spec(package) is None:
            raise DgdmnError(
                f"{package} is not installed; pip install '.[onnx]' in a clone of dgdmn brings it"
            )
    predictor = _predictor(model).eval()
    example = torch.rand(2, *model.learnt_.shape)
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            predictor,
            (example,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("n")},),
            input_names=["X"],
            output_names=["probabilities"],
            verbose=False,
        )
    assert program is not None
    program.model.metadata_props["classes"] = json.dumps(model.classes_.tolist(), ensure_ascii=False)
    program.model.metadata_props["algorithm"] = name_of(type(model))
    content: bytes = program.model_proto.SerializeToString()
    return content


def _predictor(model: ContinualClassifier) -> nn.Module:
    learnt = model.learnt_
    if isinstance(model, ICaRL):
        raise UsageError("icarl answers by the nearest of its rows, which is no network to export")
    if isinstance(model, GenerativeClassifier):
        memory = model._consolidated()[1]
        networks: tuple[object, object] = (memory.generator, memory.learner)
        prior = memory.answering_prior
    else:
        networks, prior = (None, getattr(learnt.memory, "learner", None)), None
    generator, learner = networks
    if not isinstance(learner, Classifier) or not isinstance(generator, VAE | None):
        raise UsageError("only dgdmn's own networks can be exported, and this memory has others")
    return _Predictor(learnt, generator, learner, prior)


class _Predictor(nn.Module):
    """x → [0, 1] → G → x_recon → L, beside it z → the prior if it has a say → the share of each class with a name."""

    low: Tensor
    width: Tensor
    units: Tensor

    def __init__(
        self, learnt: Learnt, generator: VAE | None, learner: Classifier, prior: LatentPrior | None
    ) -> None:
        super().__init__()
        self.generator, self.learner = generator, learner
        self.likelihood = None if prior is None else _Likelihood(prior, learnt.outputs)
        low, top = (
            torch.from_numpy(bound.copy()).double() for bound in (learnt.scaling.low, learnt.scaling.top)
        )
        self.register_buffer("low", low)
        self.register_buffer("width", top - low)
        self.register_buffer("units", torch.from_numpy(learnt.sorted_labels()[1].copy()))
        self.missing = learnt.outputs - learner.head.out_features

    def forward(self, x: Tensor) -> Tensor:
        # in doubles, as `Scaling` does
        rows = ((x.double() - self.low) / self.width).clamp(0, 1).float().flatten(1)
        if self.generator is None:
            answers = self._answers(rows)
        else:
            z = self.generator.encode(rows)[0]
            answers = self._answers(self.generator.decode(z).sigmoid())
            if self.likelihood is not None:
                answers = together(answers, self.likelihood(z))
        known = answers.index_select(1, self.units)
        total = known.sum(dim=1, keepdim=True)
        return torch.where(total > 0, known / torch.where(total > 0, total, 1.0), 1 / known.shape[1])

    def _answers(self, rows: Tensor) -> Tensor:
        return F.pad(F.softmax(self.learner(rows), dim=1), (0, self.missing))


class _Likelihood(nn.Module):
    """log p(z | y) but for a constant, as `LatentPrior.log_likelihood`, in operations that ONNX has."""

    means: Tensor
    inverses: Tensor
    shares: Tensor

    def __init__(self, prior: LatentPrior, outputs: int) -> None:
        super().__init__()
        shares = prior.weights.log() - prior.roots.diagonal(dim1=1, dim2=2).log().sum(dim=1)
        own = F.one_hot(prior.labels, outputs).bool()
        self.register_buffer("means", prior.means)
        self.register_buffer("inverses", torch.linalg.inv(prior.roots.double()).float())
        self.register_buffer("shares", torch.where(own, shares[:, None], _NEVER))

    def forward(self, z: Tensor) -> Tensor:
        away = torch.einsum("kij,nkj->nki", self.inverses, z[:, None, :] - self.means)
        return torch.logsumexp(self.shares - away.square().sum(dim=2, keepdim=True) / 2, dim=1)


_NEVER = -1e30
"""For −∞, which ONNX's sum of exponentials makes NaN."""


@contextmanager
def _quiet() -> Iterator[None]:
    """torch's exporter warns of packages it does not need and of its own past."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
