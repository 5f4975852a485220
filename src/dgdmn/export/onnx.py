"""How a memory predicts, as an ONNX model: from the user's values to the probabilities of `classes_`."""

import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.fitted import FittedState
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.algorithms.icarl import ICaRL
from dgdmn.algorithms.scaling import Scaling
from dgdmn.config.registry import algorithm_info
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.features import FrontEnd
from dgdmn.features.images import FILTER_SIZE, SECOND_SIZE, ImageFeatures
from dgdmn.features.tables import BEND, MAX_COLUMNS, PlainFeatures, TableFeatures
from dgdmn.memory.generative import DeepGenerativeMemory, combine_with_prior
from dgdmn.memory.latent_prior import LatentPrior
from dgdmn.memory.mixture import MixtureMemory
from dgdmn.memory.scores import ComponentSet, component_sets, own_factor
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
        if algorithm_info(name := model.info().algorithm).closed_form:
            raise UsageError(f"{name} cannot be exported; dgdmn, dgr and networks can")
    elif isinstance(memory := model.require_long_term()[1], DeepGenerativeMemory):
        learner, generator = memory.learner, memory.generator
        if isinstance(learner, Classifier) and isinstance(generator, VAE):
            return _Predictor(fitted, learner, generator, memory.predicting_prior)
    elif isinstance(memory, MixtureMemory):
        return _MixturePredictor(fitted, memory)
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
        if self.prior is not None:
            # `LatentPrior.log_likelihood` up to a constant, in operations that ONNX has
            centered = z[:, None, :] - self.prior.means
            distances = torch.einsum("kij,nkj->nki", self.inverses, centered).square()
            scores = self.shares - distances.sum(dim=2, keepdim=True) / 2
            answers = combine_with_prior(answers, torch.logsumexp(scores, dim=1))
        return _shares(answers.index_select(1, self.units))


class _MixturePredictor(nn.Module):
    """x → features → classes, as `MixtureMemory.predict_proba`; scores in float64."""

    def __init__(self, fitted: FittedState, memory: MixtureMemory) -> None:
        super().__init__()
        assert isinstance(fitted.inputs, FrontEnd)
        self.front_end = _front_end(fitted.inputs)
        self.units = torch.tensor(fitted.sorted_labels()[1])
        level, spec = memory.component_set(), memory.spec
        self.levels = nn.ModuleList(
            _ClassScores(one, spec.code, memory.n_classes) for one in component_sets(level, spec)
        )
        self.class_terms = torch.tensor(memory.class_terms(level))
        self.temperature = level.frozen.temperature

    def forward(self, x: Tensor) -> Tensor:
        features = self.front_end(x).double()
        scores = torch.stack([level(features) for level in self.levels]).mean(dim=0)
        answers = F.softmax((scores + self.class_terms) / self.temperature, dim=1)
        return _shares(answers.index_select(1, self.units)).float()


class _ClassScores(nn.Module):
    """`class_scores` of the components of one set."""

    def __init__(self, level: ComponentSet, code: np.ndarray, n_classes: int) -> None:
        super().__init__()
        components, frozen = level.components, level.frozen
        weights, bias = level.pool.weights(components, frozen.setting[0])
        self.weights, self.bias = torch.tensor(weights), torch.tensor(bias)
        self.to_code, self.to_white = torch.tensor(code), torch.tensor(code @ frozen.whitening.T)
        self.own_weight = frozen.setting[1]
        sizes = [len(one.scatter) for one in components]
        self.blocks: list[tuple[Tensor, ...]] = []
        """Components of one block size: their places and factors (`own_factor`)."""
        for q in sorted({*sizes} - {0}) if self.own_weight else ():
            places = [place for place, size in enumerate(sizes) if size == q]
            factors = [own_factor(components[place], frozen, code) for place in places]
            parts = [torch.tensor(np.stack(part)) for part in zip(*factors, strict=True)]
            onto = F.one_hot(torch.tensor(places), len(sizes)).double()
            center, white_center, inverse, log_det = parts
            block = onto, center[:, None], white_center[:, None], inverse.mT.contiguous(), log_det
            self.blocks.append(block)
        of_class = [np.flatnonzero(level.labels == k).tolist() for k in range(n_classes)]
        most = max(map(len, of_class))
        # Classes have different numbers of components: the last column, which never wins, fills the gaps.
        self.of_class = torch.tensor([own + [len(sizes)] * (most - len(own)) for own in of_class])
        self.log_counts = torch.tensor([len(own) or 1 for own in of_class]).double().log()

    def forward(self, features: Tensor) -> Tensor:
        scores = features @ self.weights + self.bias
        code, white = features @ self.to_code, features @ self.to_white
        for onto, center, white_center, inverse, log_det in self.blocks:
            q = center.shape[2]  # errors have the shape (components, n, q')
            own_error, tied_error = (code[:, :q] - center) @ inverse, white[:, :q] - white_center
            own = (own_error.square().sum(dim=2) - tied_error.square().sum(dim=2)).T + log_det
            scores = scores - 0.5 * self.own_weight * (own @ onto)
        scores = F.pad(scores, (0, 1), value=NEVER)
        k, most = self.of_class.shape
        by_class = scores.index_select(1, self.of_class.flatten()).reshape(-1, k, most)
        return torch.logsumexp(by_class, dim=2) - self.log_counts


def _front_end(inputs: FrontEnd) -> nn.Module:
    found = inputs.mapping
    if isinstance(found, ImageFeatures):
        return _ImageFeatures(found)
    if isinstance(found, TableFeatures | PlainFeatures):
        return _TableFeatures(found)
    raise UsageError("its features are your own function; only dgdmn's can be exported")


class _ImageFeatures(nn.Module):
    """`ImageFeatures` in float32, with maps as (n, channels, h, w)."""

    def __init__(self, found: ImageFeatures) -> None:
        super().__init__()
        self.shape = (*found.shape[:2], found.channels)
        self.first = _filters(found.first_filters, FILTER_SIZE)
        self.second = _filters(found.second_filters, SECOND_SIZE)
        self.resize = found.resizing and tuple(map(torch.tensor, found.resizing))
        self.halve = tuple(map(torch.tensor, found.halving))
        self.to_grid = tuple(map(torch.tensor, found.to_grid))

    def forward(self, x: Tensor) -> Tensor:
        maps = x.reshape(-1, *self.shape).permute(0, 3, 1, 2)
        if self.resize is not None:
            maps = _pool(maps, *self.resize)
        maps = F.conv2d(maps, self.first, padding=FILTER_SIZE // 2)
        maps = _pool(torch.cat([maps.relu(), (-maps).relu()], dim=1), *self.halve).sqrt()
        maps = F.conv2d(maps, self.second, padding=SECOND_SIZE // 2).relu()
        energy = _pool(maps.square(), *self.to_grid)
        return energy.sqrt().sqrt().permute(0, 2, 1, 3).flatten(1)


def _filters(flat: np.ndarray, size: int) -> Tensor:
    """Filters (f, size · size · channels) as torch has them: (f, channels, size, size)."""
    return torch.tensor(flat).reshape(len(flat), size, size, -1).permute(0, 3, 1, 2).contiguous()


def _pool(maps: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    return rows @ (maps @ columns)


class _TableFeatures(nn.Module):
    """`TableFeatures` and `PlainFeatures` in float64."""

    def __init__(self, found: TableFeatures | PlainFeatures) -> None:
        super().__init__()
        self.scale = self.directions = None
        if isinstance(found, TableFeatures):
            center = torch.tensor(found.scale.center)
            below, above = torch.tensor(found.scale.spread).expand(2, len(center))
            self.scale = center, below, above
            weights, hinges = found.units.parameters
            self.units = torch.tensor(weights), torch.tensor(hinges)
        elif found.n_columns > MAX_COLUMNS:
            self.directions = torch.tensor(found.directions)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(1).double()
        if self.scale is not None:
            (center, below, above), (weights, hinges) = self.scale, self.units
            z = rows - center
            z = z / torch.where(z < 0, below, above)
            units = (_asinh(z) @ weights - hinges).relu()
            return torch.cat([BEND * _asinh(z / BEND), units], dim=1)
        return rows if self.directions is None else rows @ self.directions


def _asinh(x: Tensor) -> Tensor:
    """ONNX has asinh in float32 only."""
    return x.sign() * (x.abs() + (x.square() + 1).sqrt()).log()


def _shares(known: Tensor) -> Tensor:
    """Answers of the known classes as probabilities; equal ones where no class has any."""
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
