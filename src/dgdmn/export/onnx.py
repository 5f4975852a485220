"""How a memory predicts, as an ONNX model: from the user's values to the probabilities of `classes_`."""

import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.fitted import FittedState
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.algorithms.icarl import ICaRL
from dgdmn.algorithms.scaling import Scaling
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.memory.generative import DeepGenerativeMemory, combine_with_prior
from dgdmn.memory.latent_prior import LatentPrior
from dgdmn.networks.classifier import Classifier
from dgdmn.networks.vae import VAE

NEVER = -1e30  # replaces −∞, which ONNX's log-sum-exp turns into NaN


def onnx_bytes(model: ContinualClassifier) -> bytes:
    """An ONNX model of the long-term memory or, where there is none, of the network.

    Input `X`: float32, (n, *shape) in the range that `predict` takes for floats, for any n. Output
    `probabilities`: float32, (n, k), in the order of `classes_`, which the metadata has as JSON.
    """
    for package in ("onnx", "onnxscript"):
        if importlib.util.find_spec(package) is None:
            raise DgdmnError(f"{package} is not installed; run: pip install 'dgdmn[onnx]'")
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            _predictor(model).eval(),
            (torch.rand(2, *model.fitted_.shape),),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("n")},),
            input_names=["X"],
            output_names=["probabilities"],
            verbose=False,
        )
    assert program is not None
    names = model.classes_.tolist()
    program.model.metadata_props["classes"] = json.dumps(names, ensure_ascii=False)
    program.model.metadata_props["algorithm"] = model.info().algorithm
    content: bytes = program.model_proto.SerializeToString()
    return content


def _predictor(model: ContinualClassifier) -> nn.Module:
    fitted = model.fitted_
    if isinstance(model, ICaRL):
        raise UsageError("icarl predicts by the nearest of its rows, which cannot be exported")
    if not isinstance(model, GenerativeClassifier):
        learner = getattr(fitted.memory, "learner", None)
        if isinstance(learner, Classifier):
            return _Predictor(fitted, learner)
    elif isinstance(memory := model._require_long_term()[1], DeepGenerativeMemory):
        learner, generator = memory.learner, memory.generator
        if isinstance(learner, Classifier) and isinstance(generator, VAE):
            return _Predictor(fitted, learner, generator, memory.predicting_prior)
    raise UsageError("this memory was made with its own networks; only dgdmn's can be exported")


class _Predictor(nn.Module):
    """x → [0, 1] → G → x_recon → L, combined with the prior of z where it takes part, for the labeled outputs."""

    def __init__(
        self,
        fitted: FittedState,
        learner: Classifier,
        generator: VAE | None = None,
        prior: LatentPrior | None = None,
    ) -> None:
        super().__init__()
        assert isinstance(fitted.inputs, Scaling)
        self.generator, self.learner, self.prior = generator, learner, prior
        self.low, top = (torch.tensor(b).double() for b in (fitted.inputs.low, fitted.inputs.top))
        self.width = top - self.low
        self.units = torch.tensor(fitted.sorted_labels()[1])
        self.missing = fitted.outputs - learner.head.out_features
        if prior is not None:
            self.inverses = torch.linalg.inv(prior.roots.double()).float()
            shares = prior.weights.log() - prior.roots.diagonal(dim1=1, dim2=2).log().sum(dim=1)
            own = F.one_hot(prior.labels, fitted.outputs).bool()
            self.shares = torch.where(own, shares[:, None], NEVER)

    def forward(self, x: Tensor) -> Tensor:
        # in float64, as `Scaling` does
        rows = ((x.double() - self.low) / self.width).clamp(0, 1).float().flatten(1)
        if self.generator is not None:
            z = self.generator.posterior(rows)[0]
            rows = self.generator.decode(z).sigmoid()
        answers = F.pad(F.softmax(self.learner(rows), dim=1), (0, self.missing))
        if (
            self.prior is not None
        ):  # `LatentPrior.log_likelihood` up to a constant, in operations that ONNX has
            centered = z[:, None, :] - self.prior.means
            distances = torch.einsum("kij,nkj->nki", self.inverses, centered).square()
            scores = self.shares - distances.sum(dim=2, keepdim=True) / 2
            answers = combine_with_prior(answers, torch.logsumexp(scores, dim=1))
        known = answers.index_select(1, self.units)
        total = known.sum(dim=1, keepdim=True)
        shares = known / torch.where(total > 0, total, 1.0)
        return torch.where(total > 0, shares, 1 / known.shape[1])


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's warnings about packages it does not need and its own deprecations."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
