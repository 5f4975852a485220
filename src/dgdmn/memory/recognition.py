"""Appendix A: which memory knows these samples, when nobody says which task they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dgdmn.memory.generative import GenerativeMemory
from dgdmn.presets import Preset
from dgdmn.samples import Samples


@dataclass(frozen=True, eq=False)
class Recognised:
    """Who answers for each of n samples, and why."""

    losses: Tensor
    """Recognition loss of each sample in each memory, shape (n, memories)."""
    answers: Tensor
    """Index of the memory that answers, shape (n,)."""
    known: Tensor
    """Whether some memory's loss was below γ, shape (n,)."""


def recognised(x: Tensor, memories: Sequence[GenerativeMemory], options: Preset) -> Recognised:
    """The memory with the lowest recognition loss below γ, else the last: the long-term memory, if it ever slept.

    Appendix A judges a task by all its samples: the mean over the `batch` decides for all. With
    `sample` each is judged alone, as a batch of mixed tasks must be. By `density` the lowest loss decides even
    above γ: it says whose samples they are far better than whether they are anyone's.
    """
    losses = torch.stack([memory.recognition_loss(x) for memory in memories], dim=1)
    judged = (
        losses.mean(dim=0, keepdim=True).expand_as(losses) if options.recognise_each == "batch" else losses
    )
    lowest, best = judged.min(dim=1)
    known = lowest < options.gamma
    sure = known if options.recognition == "reconstruction" else torch.ones_like(known)
    return Recognised(losses, torch.where(sure, best, len(memories) - 1), known)


def answered(x: Tensor, memories: Sequence[GenerativeMemory], by: Tensor) -> Tensor:
    """Class probabilities, each sample answered by the memory of that index, shape (n, k)."""
    parts = [memory.probabilities(x[by == index]) for index, memory in enumerate(memories)]
    answers = parts[0].new_empty(len(x), parts[0].shape[1])
    for index, part in enumerate(parts):
        answers[by == index] = part
    return answers


def known_by(new: Samples, memories: Sequence[GenerativeMemory], gamma: float) -> GenerativeMemory | None:
    """The memory that knows a task's samples best, with a recognition loss below γ; None if none does.

    A memory that never met one of their classes cannot know them, whatever it reconstructs.
    """
    able = [memory for memory in memories if memory.tasks.with_classes(new.classes()) is not None]
    losses = [float(memory.recognition_loss(new.x).mean()) for memory in able]
    return able[losses.index(min(losses))] if losses and min(losses) < gamma else None
