"""What the dual memory needs of a generative memory. No torch here: arrays are numpy at this seam.

A memory is a persistent value: `copy.copy(memory)` is a cheap snapshot. Methods that change a memory replace
its attributes and never modify what a snapshot shares. This is how a failed call leaves everything as it was.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from numpy.typing import NDArray

from dgdmn.core.batch import Batch
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.memory.task_log import TaskInfo, TaskLog
from dgdmn.storage import State

Role = Literal["stm", "ltm"]
"""A small memory for one task, or the large memory for all of them."""
Array = NDArray[Any]


@runtime_checkable
class GenerativeMemory(Protocol):
    """Learns labeled samples, predicts labels and generates similar samples."""

    tasks: TaskLog
    """The tasks it has learned; empty before it learns."""

    def learn(
        self, new: Batch, tasks: Mapping[str, TaskInfo], ctx: Context, recalled: Batch | None = None
    ) -> None:
        """Learn new samples of these tasks.

        `recalled` are the same inputs as another memory recalls them; they may help, but are not counted.
        """

    def consolidate(self, task_memories: Sequence[Any], ctx: Context) -> None:
        """Take over what task memories of the same kind have learned."""

    def sample(self, n: int, rng: SeedStream) -> Batch:
        """Generate n labeled samples."""

    def predict_proba(self, x: Array) -> Array:
        """Class probabilities, shape (n, n_classes)."""

    def recognition_loss(self, x: Array) -> Array:
        """How poorly this memory explains each sample, shape (n,); lower means better known."""

    def recall(self, x: Array) -> Batch:
        """The inputs as this memory remembers them, with its own labels."""

    def grow(self, n_classes: int) -> None:
        """Set the number of classes."""

    def nbytes(self, *, at_capacity: bool = False) -> int:
        """Bytes of what it keeps, now or when it is full, without `buffer_bytes`."""

    def buffer_bytes(self) -> int:
        """Bytes kept only until the next sleep."""

    def state(self) -> State:
        """All that was learned, as plain values and arrays."""

    def load_state(self, state: State) -> None:
        """Load what `state` returned."""


@runtime_checkable
class JointlyScored(Protocol):
    """A memory whose answers can be combined with those of others of its kind into one posterior.

    The memories of one dual memory share a pool of statistics. The long-term memory owns it; a task memory
    gets it before it learns or answers and hands it back.
    """

    pool: Any
    """What they share: a value that is replaced, never modified."""

    def learn(
        self,
        new: Batch,
        tasks: Mapping[str, TaskInfo],
        ctx: Context,
        recalled: Batch | None = None,
        *,
        others: Sequence[Any] = (),
    ) -> None:
        """Learn new samples of one task beside what the other memories know."""

    def joint_scores(self, x: Array, others: Sequence[Any]) -> tuple[Array, Array, Array]:
        """log p(x, component) up to a common term, (n, components); class and memory index of each component."""

    def joint_proba(self, x: Array, others: Sequence[Any]) -> Array:
        """Class probabilities by the components of all these memories."""

    def score_quantile(self, x: Array, others: Sequence[Any]) -> Array | None:
        """The share of tested rows with a lower relative score than each sample; None before any test."""

    def log_density(self, x: Array, others: Sequence[Any]) -> Array:
        """The log density of each sample by the components of all these memories."""

    def rename_components(self, names: Mapping[str, str]) -> None:
        """Give tasks new names in everything but `tasks`."""

    def column_moments(self, d: int, others: Sequence[Any]) -> tuple[Array, Array, float]:
        """Mean and covariance of the first d features over all samples of these memories, and their number."""

    def newest_task(self, label: int) -> str | None:
        """The task of the newest component of a class."""

    def fit_budget(self, awake: Sequence[Any]) -> bool:
        """Shrink components until all memories fit the budget; returns whether they do."""


MemoryFactory = Callable[[Role, int, SeedStream], GenerativeMemory]
"""Makes an untrained memory of a role for a number of classes."""
UserMemoryFactory = Callable[[tuple[int, ...], int, Role, SeedStream], GenerativeMemory]
"""A user's memory class, what `DGDMN(memory=…)` takes: it makes an untrained memory for flattened inputs of a
shape, in [0, 1], and a number of classes."""
