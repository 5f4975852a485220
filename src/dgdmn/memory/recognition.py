"""Appendix A: which memory knows these samples, when no task is named."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.memory.protocols import Array, GenerativeMemory, JointlyScored

Memories = Sequence[GenerativeMemory]
UNKNOWN_RATE = 0.01
"""Share of false alarms of `recognize_jointly`: known samples that it calls unknown."""


@dataclass(frozen=True, eq=False)
class Recognized:
    """Which memory answers for each of n samples."""

    losses: Array
    """Recognition loss of each sample in each memory, shape (n, memories)."""
    chosen: NDArray[np.intp]
    """Index of the memory that answers, shape (n,)."""
    known: NDArray[np.bool_]
    """Whether a memory's loss is below γ or, with the mixture memory, the sample is not unknown; shape (n,)."""


def recognize(x: Array, memories: Memories, config: Config) -> Recognized:
    """The memory with the lowest recognition loss below γ, else the last one: the long-term memory.

    Appendix A judges a whole `batch` by its mean. With `recognize_per="sample"` each sample is judged alone, as
    a batch of mixed tasks needs. With `recognition="density"` the lowest loss decides even above γ: the
    loss ranks memories well, but is a poor test for unknown samples.
    """
    losses = np.stack([memory.recognition_loss(x) for memory in memories], axis=1)
    judged = losses
    if config.recognize_per == "batch":
        judged = np.broadcast_to(losses.mean(axis=0, keepdims=True), losses.shape)
    known = judged.min(axis=1) < config.gamma
    sure = known if config.recognition == "reconstruction" else np.ones_like(known)
    return Recognized(losses, np.where(sure, judged.argmin(axis=1), len(memories) - 1), known)


def predict_by(x: Array, memories: Memories, chosen: NDArray[np.intp]) -> Array:
    """Class probabilities, each sample answered by its chosen memory, shape (n, n_classes)."""
    parts = [memory.predict_proba(x[chosen == index]) for index, memory in enumerate(memories)]
    answers = np.empty((len(x), parts[0].shape[1]), dtype=parts[0].dtype)
    for index, part in enumerate(parts):
        answers[chosen == index] = part
    return answers


def find_memory(new: Batch, memories: Memories, gamma: float) -> GenerativeMemory | None:
    """The memory that knows a task's samples best, with a mean recognition loss below γ; None if none does.

    A memory that never learned one of their classes cannot know them.
    """
    able = [memory for memory in memories if memory.tasks.with_classes(new.classes()) is not None]
    losses = [float(memory.recognition_loss(new.x).mean()) for memory in able]
    return able[losses.index(min(losses))] if losses and min(losses) < gamma else None


def recognize_jointly(x: Array, memories: Memories) -> Recognized:
    """The memory of the winning component. Every sample is judged alone; losses are minus log scores.

    A sample is unknown if less than `UNKNOWN_RATE` of the tested rows have a lower relative score.
    """
    first = memories[-1]
    assert isinstance(first, JointlyScored)
    scores, _, owner = first.joint_scores(x, memories[:-1])
    order = [len(memories) - 1, *range(len(memories) - 1)]  # `joint_scores` counts `first` as 0
    losses = np.full((len(x), len(memories)), np.inf)
    for index, memory in enumerate(order):
        if (owner == index).any():
            losses[:, memory] = -np.logaddexp.reduce(scores[:, owner == index], axis=1)
    share = first.score_quantile(x, memories[:-1])
    known = np.ones(len(x), dtype=bool) if share is None else share >= UNKNOWN_RATE
    return Recognized(losses, losses.argmin(axis=1), known)
