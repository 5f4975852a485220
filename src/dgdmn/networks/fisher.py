"""The Fisher information of a learner: how much each weight matters."""

import itertools
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from dgdmn.core.errors import UsageError
from dgdmn.networks.classifier import Classifier
from dgdmn.networks.protocols import CustomizableLearner

_FLOATS = 2**24  # gradients held at a time: 64 MB


def diagonal_fisher(learner: CustomizableLearner, x: Tensor) -> list[Tensor]:
    """The diagonal of the Fisher information at these inputs, x of shape (n, d):

        F_i = 1/n Σ_x Σ_y p(y | x) (∂ log p(y | x) / ∂θ_i)²

    This is the exact expectation over the learner's own predictions y. Labels drawn from p would estimate
    it with noise and use up random numbers; the true labels instead of p (the "empirical Fisher") give
    another, biased value.
    """
    size = sum(parameter.numel() for parameter in learner.parameters())
    if not size:
        return []
    if type(learner) is Classifier:
        parts = [_squares_by_layer(learner, rows) for rows in x.split(256)]
    elif isinstance(learner, nn.Module):
        n_rows = max(1, _FLOATS // (size * learner(x[:1]).shape[1]))
        parts = [_squares_by_row(learner, rows) for rows in x.split(n_rows)]
    else:
        raise UsageError(f"learner {type(learner).__name__} is not a torch module, which EWC needs")
    return [torch.stack(sums).sum(dim=0) / len(x) for sums in zip(*parts, strict=True)]


def pad_to_shapes(values: Iterable[Tensor], targets: Iterable[Tensor]) -> list[Tensor]:
    """Pad each value to its target's shape with the target's entries; used when the output layer has grown."""
    grown = [target.detach().clone() for target in targets]
    for value, target in zip(values, grown, strict=True):
        target[tuple(slice(n) for n in value.shape)] = value
    return grown


def _squares_by_row(network: nn.Module, x: Tensor) -> list[Tensor]:
    """Σ_x Σ_y p (∂ log p)² of any network: every row's gradient of every class in full."""

    def scores(parameters: dict[str, Tensor], row: Tensor) -> Tensor:
        return _scores(functional_call(network, parameters, (row[None],)))[0]

    parameters = {name: parameter.detach() for name, parameter in network.named_parameters()}
    gradients = vmap(jacrev(scores), in_dims=(None, 0))(parameters, x)  # each (n, classes, *shape)
    return [gradient.square().sum(dim=(0, 1)) for gradient in gradients.values()]


def _squares_by_layer(learner: Classifier, x: Tensor) -> list[Tensor]:
    """The sums of `_squares_by_row` for our own classifier, many times as fast.

    A row's gradient of a layer is made of the layer's input a and the gradient δ of its output. Zeros
    are added to each output so that their gradient is δ; rows do not mix, so one backward pass gives δ of
    all rows.
    """
    inputs, zeros = [], []
    for layer in (*learner.body, learner.head):
        output = layer(x)
        if isinstance(layer, nn.Linear | nn.Conv2d):
            a = F.unfold(x, layer.kernel_size) if isinstance(layer, nn.Conv2d) else x
            inputs.append((layer, a.detach()))
            zeros.append(torch.zeros_like(output, requires_grad=True))
            output = output + zeros[-1]
        x = output
    sums = [torch.zeros_like(parameter) for parameter in learner.parameters()]
    for score in _scores(x).sum(dim=0):
        deltas = torch.autograd.grad(score, zeros, retain_graph=True)
        squares = [_squares(*known, delta) for known, delta in zip(inputs, deltas, strict=True)]
        sums = [total + s for total, s in zip(sums, itertools.chain(*squares), strict=True)]
    return sums


def _squares(layer: nn.Linear | nn.Conv2d, a: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    """Squared gradients of a layer's weight and bias, summed over the rows."""
    if isinstance(layer, nn.Linear):  # a row's gradient is δ aᵀ, and so its square δ² (a²)ᵀ
        return delta.square().T @ a.square(), delta.square().sum(dim=0)
    delta = delta.flatten(2)  # (n, kernels, places), and a is (n, channels · h · w, places)
    weight = (delta @ a.mT).square().sum(dim=0)
    return weight.reshape(layer.weight.shape), delta.sum(dim=2).square().sum(dim=0)


def _scores(logits: Tensor) -> Tensor:
    """√p log p, with p detached: the squares of its gradients are those of log p, weighted by p."""
    log_p = F.log_softmax(logits, dim=1)
    return (log_p.detach() / 2).exp() * log_p
