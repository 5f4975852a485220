"""What learning will take: the samples, optimizer steps and bytes of each task and each sleep.

What imports torch is imported where networks are planned: `dgdmn inspect` of a mixture memory needs none.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from dgdmn.algorithms import algorithm
from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.config import Config, override
from dgdmn.config.registry import AlgorithmInfo, algorithm_info
from dgdmn.core.errors import UsageError
from dgdmn.features import FrontEnd
from dgdmn.memory.code import MixtureSpec, triangle_bytes
from dgdmn.memory.mixture import gather
from dgdmn.memory.replay import allocate
from dgdmn.memory.unknown import SKETCH_BYTES
from dgdmn.storage import bytes_in

MAX_TASKS = 1_000  # of `plan_next`: a memory may state any number

Labels = Sequence[tuple[str, Any]]  # the name of each task and the labels of its training rows


class Stage(NamedTuple):
    """One task to be learned (kind "learn"), or one sleep (kind "sleep")."""

    kind: str
    tasks: tuple[str, ...]
    samples: int  # of each training
    steps: int  # optimizer steps of all trainings
    bytes: int  # kept when it ends, as `memory_bytes` counts them


def plan_stream(name: str, config: Config, tasks: Labels, shape: tuple[int, ...]) -> list[Stage]:
    """The stages of learning these tasks with a new model, and of a last sleep.

    Samples and steps are those of the run itself, except for what recognition makes of real inputs.
    """
    planner = _Planner(algorithm_info(name), config, math.prod(shape))
    if planner.is_mixture:
        rows = np.random.default_rng(0).random((2, *shape))  # equal rows would have no scale
        inputs = FrontEnd.fit(rows, config.features, seed=config.code_seed)
        spec = MixtureSpec(config, inputs.n_features, inputs.n_decoded, inputs.inverse)
        spec.check()
        planner.mixture, planner.bytes = spec, spec.pool_bytes + bytes_in(inputs.state())
    else:  # a model that has learned a few rows for one epoch has all its weights
        epochs = dict.fromkeys(("generator_epochs", "learner_epochs", "joint_epochs"), 1)
        off: dict[str, Any] = {"min_steps": 0, "sttm_min_steps": 0, "code_buffer": False}
        small = override(config, {**epochs, **off, "recog_trainings": 1})
        outputs = _count_outputs(config, tasks)
        model, y = algorithm(name)(small, random_state=0), np.repeat(np.arange(outputs), 3)
        model.partial_fit(np.zeros((len(y), *shape)), y, task="")
        planner.bytes = model.memory_bytes() - model.exemplar_bytes()
        planner.capacity = _capacity(planner.info, config, outputs, shape)
        if planner.has_codes:
            from dgdmn.memory.code_buffer import CodeBuffer

            planner.code_bytes = CodeBuffer(1, config.sttm_latent_dim).bytes_per_sample
    return planner.plan((task, len(y), len(np.unique(y))) for task, y in tasks)


def plan_next(model: ContinualClassifier, sizes: Sequence[int]) -> list[Stage]:
    """The stages of learning new tasks of these sizes with a fitted model, and of a last sleep.

    Each task has one new class.
    """
    info = model.info()
    if getattr(model, "memory", None) is not None:
        raise UsageError("a model with its own memory class cannot be planned; learn to find out")
    if len(sizes) > MAX_TASKS:
        raise UsageError(f"{len(sizes):,} tasks to plan; at most {MAX_TASKS:,} can be planned")
    planner = _Planner(algorithm_info(info.algorithm), info.config, math.prod(info.shape))
    planner.awake, planner.known = dict(info.awake_rows), set(info.consolidated)
    planner.age, planner.is_new = info.age, False
    planner.bytes = info.memory_bytes - info.exemplar_bytes
    planner.kept_rows = info.exemplar_bytes // planner.row_bytes
    planner.capacity = getattr(model.fitted_.memory, "capacity", math.inf)
    if planner.is_mixture:
        memories = model.fitted_.snapshot().memory.copy_memories()  # type: ignore[attr-defined]
        planner.mixture, components = memories[0].spec, gather(memories)
        double = [one.nbytes for one in components if one.mean.itemsize == 8]
        planner.components, planner.bytes = len(double), planner.bytes - sum(double)
    return planner.plan((f"next task {n}", size, 1) for n, size in enumerate(sizes, start=1))


def planned_steps(name: str, config: Config, tasks: Labels, shape: tuple[int, ...]) -> int | None:
    """The optimizer steps of a run; None if the algorithm has none or is of another package."""
    info = algorithm_info(name)
    if info.category == "custom" or not info.has_networks(config.generator):
        return None
    planner = _Planner(info, config, math.prod(shape))
    planner.capacity = _capacity(info, config, _count_outputs(config, tasks), shape)
    stages = planner.plan((task, len(y), 1) for task, y in tasks)
    return sum(stage.steps for stage in stages) or None


def _count_outputs(config: Config, tasks: Labels) -> int:
    return max(config.n_classes, len({label for _, y in tasks for label in np.unique(y).tolist()}))


def _capacity(info: AlgorithmInfo, config: Config, outputs: int, shape: tuple[int, ...]) -> float:
    """How many training rows an algorithm may keep."""
    if not info.exemplars:
        return math.inf
    from dgdmn.algorithms.exemplars import exemplar_capacity
    from dgdmn.networks.factory import NetworkFactory

    return exemplar_capacity(NetworkFactory(config, shape), outputs)


@dataclass
class _Planner:
    """Counts what an algorithm trains on and keeps, by its rules and without its networks."""

    info: AlgorithmInfo
    config: Config
    width: int  # values of an input
    bytes: int = 0  # of weights or sums
    code_bytes: int = 0  # of the code of one sample
    mixture: MixtureSpec | None = None
    components: int = 0  # of a mixture in float64; `bytes` has the others
    capacity: float = math.inf  # training rows that may be kept
    kept_rows: int = 0
    age: int = 0  # of the long-term memory
    awake: dict[str, int] = field(default_factory=dict)  # rows of tasks in the short-term memory
    known: set[str] = field(default_factory=set)  # tasks in the long-term memory
    is_new: bool = True  # before the first task

    def __post_init__(self) -> None:
        if self.info.closed_form:
            title = self.info.title
            raise UsageError(f"{title} reads each row once; there are no epochs to plan")
        self.is_mixture = not self.info.has_networks(self.config.generator)
        self.has_codes = self.info.short_term and self.config.code_buffer
        self.row_bytes = 4 * self.width + 8
        if self.info.exemplars:
            from dgdmn.algorithms.exemplars import LABEL_BYTES

            self.row_bytes = self.width + LABEL_BYTES  # values as bytes

    def plan(self, tasks: Iterable[tuple[str, int, int]]) -> list[Stage]:
        """The stages of tasks, given by name, rows and classes, and of a last sleep."""
        stages, codes = list[Stage](), 0

        def add(kind: str, names: tuple[str, ...], samples: int, steps: int) -> None:
            size = self.bytes + self.kept_rows * self.row_bytes
            size += self.config.n_stm * codes * self.code_bytes
            if self.mixture:
                size += self.components * self._component_bytes(8)
                if size > self.config.memory_budget:  # all become float32, and shrink if they must
                    self.bytes += self.components * self._component_bytes(4)
                    self.components = 0
                    size = max(min(self.bytes, self.config.memory_budget), self.mixture.pool_bytes)
            stages.append(Stage(kind, names, samples, steps, size))

        for task, rows, classes in tasks:
            samples, steps = self._learn(task, rows)
            self.components += classes
            if task in self.awake:
                codes = max(codes, self._samples_at_sleep(task))
            add("learn", (task,), samples, steps)
            if len(self.awake) >= self.config.n_stm:
                add("sleep", *self._sleep())
        if self.awake:
            add("sleep", *self._sleep())
        return stages

    def _component_bytes(self, itemsize: int) -> int:
        spec = cast(MixtureSpec, self.mixture)
        return itemsize * spec.d + triangle_bytes(spec.q, itemsize) + SKETCH_BYTES

    def _learn(self, task: str, rows: int) -> tuple[int, int]:
        """The samples and steps of learning a task."""
        is_new, self.is_new = self.is_new, False
        if self.info.short_term:
            before = self.awake.get(task, 0)
            self.awake[task] = before + rows
            new = 2 * rows if task in self.known else rows  # the long-term memory recalls as many
            samples = sum(allocate(new, before, *self._limits(1)))
            return (rows, 0) if self.is_mixture else (samples, self._steps(samples, "stm"))
        if self.info.generative:
            return (rows, 0) if self.is_mixture else self._replay(rows, 1)
        noise = max(rows, self.config.ppr_memory or 3 * rows) - rows
        past = {"rows": self.kept_rows, "exemplars": self.kept_rows, "noise": noise}
        samples = rows + (0 if is_new else past.get(self.info.replays, 0))
        if self.info.exemplars or self.info.replays == "rows":
            self.kept_rows = int(min(self.kept_rows + rows, self.capacity))
        return samples, self._steps(samples)

    def _sleep(self) -> tuple[tuple[str, ...], int, int]:
        """The tasks, samples and steps of a sleep."""
        tasks = tuple(self.awake)
        dreams = sum(map(self._samples_at_sleep, tasks))
        self.known, self.awake = self.known.union(tasks), {}
        return (tasks, 0, 0) if self.is_mixture else (tasks, *self._replay(dreams, len(tasks)))

    def _samples_at_sleep(self, task: str) -> int:
        """As many as it has seen, or as it has codes of."""
        limit = max(1, self.config.n_max // self.config.n_stm)
        return min(self.awake[task], limit) if self.has_codes else self.awake[task]

    def _replay(self, rows: int, tasks: int) -> tuple[int, int]:
        """The samples and steps of Algorithm 1 in the long-term memory."""
        samples = sum(allocate(rows, self.age, *self._limits(tasks)))
        self.age += rows if self.config.age == "seen" else samples
        return samples, self._steps(samples)

    def _limits(self, tasks: int) -> tuple[int, float]:
        kappa = self.config.kappa * (tasks if self.config.kappa_per == "task" else 1)
        return self.config.n_max, min(1.0, kappa)

    def _steps(self, samples: int, memory: str = "ltm") -> int:
        """The optimizer steps of the networks of a memory."""
        from dgdmn.networks.train import Schedule

        config = self.config
        epochs = config.joint_epochs if self.info.replays == "rows" else config.learner_epochs
        trainings = [(epochs, config.min_steps)]
        if self.info.generative:
            least = config.sttm_min_steps if memory == "stm" else 0
            trainings.append((config.generator_epochs, max(config.min_steps, least)))
        schedules = [Schedule(n, config.batch_size, min_steps=least) for n, least in trainings]
        per_epoch = math.ceil(samples / config.batch_size)
        return per_epoch * sum(schedule.epochs_for(samples) for schedule in schedules)
