"""RMSProp as Keras had it in 2017, in as few passes over memory as torch allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

_SETTLED = 1e9  # a step count so large that Adam's bias corrections are 1


class RMSProp:
    """RMSProp with `clipnorm` over all gradients together, then `clipvalue` on each element.

        g ← g · min(1, c / |g|),  g ← clip(g, ±v),  s ← ρ s + (1 − ρ) g²,  p ← p − η g / (√s + ε)

    The parameters become views of one flat buffer, and a step is one fused kernel over it: Adam
    without momentum (β₁ = 0, β₂ = ρ) and without bias correction is RMSProp. That saves two of
    three milliseconds on the paper's VAE (docs/decisions/speed.md).
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
        squares: Tensor | None = None,
    ) -> None:
        self.parameters = list(parameters)
        self.flat = torch.cat([p.detach().reshape(-1) for p in self.parameters])
        sizes = [p.numel() for p in self.parameters]
        for parameter, part in zip(self.parameters, self.flat.split(sizes), strict=True):
            parameter.data = part.view(parameter.shape)
        self._gradient = torch.empty_like(self.flat)
        fits = squares is not None and squares.shape == self.flat.shape  # a layer may have grown since
        self.squares = squares.clone() if squares is not None and fits else torch.zeros_like(self.flat)
        self.learning_rate, self.rho, self.epsilon = learning_rate, rho, epsilon
        self.clip_norm, self.clip_value = clip_norm, clip_value
        self._step = [torch.tensor(_SETTLED, device=self.flat.device)]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Move the parameters by their gradients."""
        gradient = self._gradient
        torch.cat([part.reshape(-1) for part in gradients], out=gradient)
        if self.clip_norm:
            gradient.mul_((self.clip_norm / gradient.dot(gradient).sqrt_()).clamp_(max=1.0))
        if self.clip_value:
            gradient.clamp_(-self.clip_value, self.clip_value)
        # The gradient is its own "first moment": with β₁ = 0 the kernel writes it back unchanged.
        torch._fused_adam_(
            [self.flat], [gradient], [gradient], [self.squares], [], self._step,
            lr=self.learning_rate, beta1=0.0, beta2=self.rho, weight_decay=0.0, eps=self.epsilon,
            amsgrad=False, maximize=False,
        )  # fmt: skip
