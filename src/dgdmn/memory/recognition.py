"""Appendix A: which memory knows these samples, when nobody says which task they are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dgdmn.memory.generative import GenerativeMemory
from dgdmn.samples import Samples


def recognition_loss(memory: GenerativeMemory, x: Tensor) -> Tensor:
    """recons_loss(x) / intensity(x) for each sample, shape (n,).

    Intensity is the sum of pixel values; a blank image counts as one pixel of ink, since it has none.
    Appendix A sums over the samples of a task but compares with one γ for any number of them, so a
    task is judged by the mean.
    """
    return memory.generator.reconstruction_loss(x) / x.sum(dim=1).clamp(min=1.0)


def known_by(new: Samples, memories: Sequence[GenerativeMemory], gamma: float) -> GenerativeMemory | None:
    """The memory that knows a task's samples best, with a recognition loss below γ; None if none does.

    A memory that never met one of their classes cannot know them, whatever it reconstructs.
    """
    able = [memory for memory in memories if memory.tasks.with_classes(new.classes()) is not None]
    losses = [float(recognition_loss(memory, new.x).mean()) for memory in able]
    return able[losses.index(min(losses))] if losses and min(losses) < gamma else None


def share_out(x: Tensor, memories: Sequence[GenerativeMemory]) -> Tensor:
    """Class probabilities, each sample answered by the memory that reconstructs it best, shape (n, k)."""
    if len(memories) == 1:
        return memories[0].probabilities(x)
    best = torch.stack([recognition_loss(memory, x) for memory in memories]).argmin(dim=0)  # (n,)
    answers = torch.stack([memory.probabilities(x) for memory in memories])  # (memories, n, k)
    return answers[best, torch.arange(len(x), device=x.device)]
