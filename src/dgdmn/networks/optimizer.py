"""RMSProp as in Keras of 2017, in as few passes over memory as torch allows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

_LARGE_STEP = 1e9  # a step count so large that Adam's bias corrections are 1


@dataclass(eq=False)
class RMSProp:
    """RMSProp with `clipnorm` over all gradients together, then `clipvalue` on each element.

        g ← g · min(1, c / |g|),  g ← clip(g, ±v),  s ← ρ s + (1 − ρ) g²,  p ← p − η g / (√s + ε)

    A step is one fused kernel per parameter: Adam with β₁ = 0, β₂ = ρ and no bias correction is RMSProp
    (docs/decisions/speed.md). Momentum m is ours: a ← m a + (1 − m) g replaces g in the step, and costs one
    more buffer of the weights' size.
    """

    parameters: Sequence[nn.Parameter]
    learning_rate: float
    rho: float
    epsilon: float
    clip_norm: float
    clip_value: float
    momentum: float = 0.0

    def __post_init__(self) -> None:
        self.parameters = list(self.parameters)
        self.squares = [torch.zeros_like(p) for p in self.parameters]
        self.averages = [torch.zeros_like(p) for p in self.parameters] if self.momentum else []
        self._steps = [torch.tensor(_LARGE_STEP, device=p.device) for p in self.parameters]

    @torch.no_grad()
    def step(self, gradients: tuple[Tensor, ...]) -> None:
        """Update the parameters; the gradients are overwritten."""
        gradients = self._contiguous(gradients)
        divisor = self._clip(gradients) if self.clip_norm or self.clip_value else 1.0
        scale = torch.tensor(divisor, device=gradients[0].device) if divisor != 1.0 else None
        torch._fused_adam_(
            list(self.parameters),
            gradients,
            self.averages or gradients,  # without momentum each gradient is its own first moment
            self.squares,
            [],
            self._steps,
            lr=self.learning_rate,
            beta1=self.momentum,
            beta2=self.rho,
            weight_decay=0.0,
            eps=self.epsilon,
            amsgrad=False,
            maximize=False,
            grad_scale=scale,
        )

    def _clip(self, gradients: Sequence[Tensor]) -> float:
        """Clip elements and return the divisor with which the fused kernel clips the norm.

        Elements are clipped before the norm here, so their bound is scaled up by the divisor. A tensor
        whose whole norm is below the bound has no element to clip.
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

    def _contiguous(self, gradients: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Each gradient in its own memory, laid out like its parameter.

        The kernel ignores strides and writes in place. Convolutions prefer channels last, and parameters
        that are summed share one gradient.
        """
        shared = len({gradient.data_ptr() for gradient in gradients}) < len(gradients)
        return tuple(
            torch.empty_like(parameter).copy_(gradient)
            if shared or gradient.stride() != parameter.stride()
            else gradient
            for parameter, gradient in zip(self.parameters, gradients, strict=True)
        )
