"""RMSProp as Keras had it in 2017, in as few passes over memory as torch allows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

_SETTLED = 1e9  # a step count so large that Adam's bias corrections are 1


class RMSProp:
    """RMSProp with `clipnorm` over all gradients together, then `clipvalue` on each element.

        g ← g · min(1, c / |g|),  g ← clip(g, ±v),  s ← ρ s + (1 − ρ) g²,  p ← p − η g / (√s + ε)

    A step is one fused kernel over each parameter: Adam without momentum (β₁ = 0, β₂ = ρ) and without
    bias correction is RMSProp. What was measured: docs/decisions/speed.md. With momentum m, not in the paper,
    a step goes along an average of the gradients: a ← m a + (1 − m) g takes the place of the last g. It is for a
    lower loss in as many epochs (docs/LOG.md), and costs one more buffer of the weights' size.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        learning_rate: float,
        rho: float,
        epsilon: float,
        clip_norm: float,
        clip_value: float,
        momentum: float = 0.0,
        squares: Sequence[Tensor] | None = None,
    ) -> None:
        self.parameters = list(parameters)
        self.squares = [torch.zeros_like(p) for p in self.parameters]
        for new, old in zip(self.squares, squares or self.squares, strict=True):
            if new.shape == old.shape:  # else a layer has grown since
                new.copy_(old)
        self.learning_rate, self.rho, self.epsilon = learning_rate, rho, epsilon
        self.clip_norm, self.clip_value, self.momentum = clip_norm, clip_value, momentum
        self.averages = [torch.zeros_like(p) for p in self.parameters] if momentum else []
        self._steps = [torch.tensor(_SETTLED, device=p.device) for p in self.parameters]

    @torch.no_grad()
    def step(self, gradients: tuple[Tensor, ...]) -> None:
        """Move the parameters by their gradients, which are used up."""
        gradients = _own(self.parameters, gradients)
        divisor = self._clip(gradients) if self.clip_norm or self.clip_value else 1.0
        # Without momentum each gradient is its own "first moment": the kernel writes it back as it is.
        torch._fused_adam_(
            list(self.parameters), gradients, self.averages or gradients, self.squares, [], self._steps,
            lr=self.learning_rate, beta1=self.momentum, beta2=self.rho, weight_decay=0.0, eps=self.epsilon,
            amsgrad=False, maximize=False,
            grad_scale=torch.tensor(divisor, device=gradients[0].device) if divisor != 1.0 else None,
        )  # fmt: skip

    def _clip(self, gradients: Sequence[Tensor]) -> float:
        """Clip elements, and return by what the fused kernel must divide to clip the norm.

        The order is the other way round than the formula's, so the bound on an element is scaled up by
        the divisor to come. A tensor whose whole norm is below the bound has no element to clip.
        """
        flat = [gradient.reshape(-1) for gradient in gradients]
        squares: list[float] = torch.stack([part.dot(part) for part in flat]).tolist()
        divisor = max(1.0, math.sqrt(sum(squares)) / self.clip_norm) if self.clip_norm else 1.0
        if self.clip_value:
            bound = self.clip_value * divisor
            for gradient, square in zip(gradients, squares, strict=True):
                if square > bound * bound:
                    gradient.clamp_(-bound, bound)
        return divisor


def _own(parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Each gradient in memory of its own, laid out as its parameter.

    The kernel walks through memory, whatever the strides say, and writes there. Convolutions like channels to
    lie last, and parameters that are added up have one gradient between them.
    """
    shared = len({gradient.data_ptr() for gradient in gradients}) < len(gradients)
    return tuple(
        torch.empty_like(parameter).copy_(gradient)
        if shared or gradient.stride() != parameter.stride()
        else gradient
        for parameter, gradient in zip(parameters, gradients, strict=True)
    )
