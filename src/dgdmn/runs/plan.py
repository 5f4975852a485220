"""What learning will cost: the real algorithm runs over networks that only count."""

# ruff: noqa: ARG002  (counting networks ignore most of their arguments)

import itertools
import math
from collections.abc import Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from dgdmn.algorithms import algorithm
from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.exemplars import exemplar_capacity
from dgdmn.algorithms.fitted import EstimatorInfo
from dgdmn.algorithms.generative import GenerativeClassifier
from dgdmn.algorithms.persistence import describe, restore_model
from dgdmn.config import Config
from dgdmn.config.registry import algorithm_info
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Callback, EpochDone, Event, SleepStarted
from dgdmn.features import FrontEnd
from dgdmn.memory.code import MixtureSpec, triangle_bytes
from dgdmn.memory.code_buffer import CodeBuffer
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.layers import image_shape
from dgdmn.networks.protocols import Role
from dgdmn.networks.train import Schedule
from dgdmn.storage import arrays_in, bytes_in, map_arrays, to_numpy

MAX_TASKS, MAX_ROWS = 1_000, 1_000_000  # of `plan_next`: a memory may state any numbers

Labels = Sequence[tuple[str, Any]]  # the name of each task and the labels of its training rows


@dataclass
class Stage:
    """One task to be learned, or one sleep."""

    kind: Literal["learn", "sleep"]
    tasks: tuple[str, ...]
    trainings: list[EpochDone] = field(default_factory=list)  # the last epoch of each, in order
    samples: int = 0  # most samples that one training uses
    steps: int = 0  # optimizer steps of all trainings
    work: float = 0.0  # about how many multiplications the trainings take forward
    bytes: int = 0  # kept when it ends, as `memory_bytes` counts them


def plan_stream(name: str, config: Config, tasks: Labels, shape: tuple[int, ...]) -> list[Stage]:
    """The stages of learning these tasks with a new model, and of a last sleep.

    Epochs and samples are those of the run itself, except for what recognition makes of real inputs.
    """
    if is_mixture(name, config):
        few = np.random.default_rng(0).random((2, *shape))  # equal rows would have no scale
        inputs = FrontEnd.fit(few, config.features, seed=config.code_seed)
        spec = MixtureSpec(config, inputs.n_features, inputs.n_decoded, inputs.inverse)
        spec.check()
        start = spec.pool_bytes + bytes_in(inputs.state())
        return _plan_mixture(spec, tasks, start, algorithm_info(name).short_term)
    _check_epochs(name)
    outputs = max(config.n_classes, len(_classes(tasks)))
    once = replace(config, generator_epochs=1, learner_epochs=1, joint_epochs=1, recog_trainings=1)
    small = replace(once, min_steps=0, sttm_min_steps=0, code_buffer=False)
    model = algorithm(name)(small, random_state=0)
    y = np.repeat(np.arange(outputs), 3)
    model.partial_fit(np.zeros((len(y), *shape)), y, task="")
    fixed, codes = model.memory_bytes() - model.exemplar_bytes(), 0
    has_codes = config.code_buffer and algorithm_info(name).short_term
    code_bytes = config.n_stm * CodeBuffer(1, config.sttm_latent_dim).bytes_per_sample
    stages = _count_stream(name, config, tasks, shape)
    for stage in stages:
        rows = sum(len(y) for task, y in tasks if task == stage.tasks[0])
        codes = max(codes, min(rows, config.n_max // config.n_stm)) if has_codes else 0
        stage.bytes += fixed + codes * code_bytes
    return stages


def plan_next(model: ContinualClassifier, sizes: Sequence[int]) -> list[Stage]:
    """The stages of learning new tasks of these sizes with a fitted model, and of a last sleep.

    Each task has a class of its own, so that it is not recognized as a known one.
    """
    info, (about, state) = model.info(), describe(model)
    if "memory" in about["own"]:
        raise UsageError("a model with its own memory class cannot be planned; learn to find out")
    _check_size(info, sizes)
    if is_mixture(info.algorithm, info.config):
        tasks = [(f"next task {n}", np.zeros(size)) for n, size in enumerate(sizes, start=1)]
        (spec,) = {memory.spec for memory in model.fitted_.snapshot().memory.copy_memories()}  # type: ignore[attr-defined]
        return _plan_mixture(spec, tasks, info.memory_bytes, info.short_term, tuple(info.awake))
    _check_epochs(info.algorithm)
    # Inputs get one value, and new classes may come.
    about |= {"features": 1, "columns": {}}
    about["fitted"] |= {"shape": [1], "closed": False}
    about["config"] |= {"n_classes": 0, "exemplars": state.get("capacity", 0)}
    about["config"] |= {"prior_components": min(1, info.config.prior_components)}
    state["scaling"] = {"low": np.zeros(()), "high": np.ones(()), "given": False}
    networks = _counting_networks(info.algorithm, info.config)
    counting = restore_model(
        about,
        _narrow(map_arrays(state, to_numpy), info.config.n_max),
        device="cpu",
        algorithm=type(model),
        **networks,
    )
    last = max(info.labels)
    tasks = [
        (f"next task {n}", np.full(size, f"{last}+{n}" if isinstance(last, str) else last + n))
        for n, size in enumerate(sizes, start=1)
    ]
    stages = _count(counting, info.config, tasks, None, info.shape)
    for stage in stages:
        stage.bytes += info.memory_bytes - info.exemplar_bytes
    return stages


def planned_work(name: str, config: Config, tasks: Labels, shape: tuple[int, ...]) -> float | None:
    """The work of a whole run; None if the algorithm has no epochs or cannot be planned."""
    if algorithm_info(name).closed_form or is_mixture(name, config):
        return None
    try:
        return sum(stage.work for stage in _count_stream(name, config, tasks, shape)) or None
    except Exception:
        # An algorithm of another package may not work with counting networks.
        if algorithm_info(name).category == "custom":
            return None
        raise


def training_work(epoch: EpochDone, config: Config, shape: tuple[int, ...]) -> float:
    """About how many multiplications an epoch takes forward."""
    is_generator, options = epoch.network == "generator", vars(config)
    role = "sttm_" if epoch.memory == "stm" else ""
    network = role + ("generator" if is_generator else "learner")
    latent = (options[f"{role}latent_dim"],) if is_generator else ()
    sizes, kernels = options[f"{network}_layers"] + latent, options[f"{network}_convolutions"]
    products, n_in = 0, math.prod(shape)
    if kernels:
        height, width, n_in = image_shape(shape)
        for n_out in kernels:  # strided 4 × 4 convolutions, or 3 × 3 ones with pooling
            products += height * width * n_in * n_out * (4 if is_generator else 9)
            height, width, n_in = height // 2, width // 2, n_out
        n_in *= height * width
    products += sum(a * b for a, b in itertools.pairwise((n_in, *sizes)))
    return float(epoch.samples * products * (2 if is_generator else 1))


class TimeLeft:
    """Predicts when a run ends from what it has done: training at its speed so far, tests as long as before.

    The first measure of training contains what happens once, as the start of a library. It counts only after
    a test, until there is a second one.
    """

    def __init__(
        self, final_tests: float, tests: Sequence[float] = (), *, cached: bool = False
    ) -> None:
        """`final_tests`: how many tests the end takes as long as; `tests`: earlier ones, in seconds.

        `cached`: the first test makes features that later ones use again. The end makes its own.
        """
        self._final, self._tests, self._cached = final_tests, list(tests), cached
        self._trained: list[tuple[float, float]] = []  # the first measure and the latest one

    def trained(self, share: float, seconds: float) -> None:
        """Note how many seconds the training took until this share of its work was done."""
        if share > (self._trained[-1][0] if self._trained else 0.0):
            self._trained = [*self._trained[:1], (share, seconds)]

    def tested(self, seconds: float) -> None:
        """Note how long one test of all tasks took."""
        self._tests.append(seconds)

    def seconds(self, tests_left: int) -> float | None:
        """Seconds until the end; None before there is anything to predict from."""
        if not self._trained or len(self._trained) + len(self._tests) < 2:
            return None
        (first, start), (share, end) = self._trained[0], self._trained[-1]
        pace = (end - start) / (share - first) if share > first else end / share
        return pace * (1 - share) + tests_left * self._test_seconds() + self.final_seconds()

    def final_seconds(self) -> float:
        """Seconds of what follows the last test."""
        return self._final * (
            self._tests[0] if self._cached and self._tests else self._test_seconds()
        )

    def _test_seconds(self) -> float:
        usual = self._tests[1:] or self._tests or [0.0]
        return sum(usual) / len(usual)


def _check_epochs(name: str) -> None:
    info = algorithm_info(name)
    if info.closed_form:
        raise UsageError(f"{info.title} reads each row once; there are no epochs to plan")


def is_mixture(name: str, config: Config) -> bool:
    """Whether an algorithm learns with the mixture memory: by sums, without epochs."""
    return algorithm_info(name).generative and config.generator == "mixture"


def _plan_mixture(
    spec: MixtureSpec, tasks: Labels, size: int, short_term: bool, awake: tuple[str, ...] = ()
) -> list[Stage]:
    """The stages of a mixture memory that has `size` bytes: each row is read once, each class adds a component."""
    stages, component = list[Stage](), 8 * spec.d + triangle_bytes(spec.q, 8)
    for task, y in tasks:
        size += component * len(np.unique(y))
        kept = max(min(size, spec.config.memory_budget), spec.pool_bytes)
        stages.append(Stage("learn", (task,), samples=len(y), bytes=kept))
        awake = (*awake, task) if short_term else ()
        if len(awake) >= spec.config.n_stm:
            stages.append(Stage("sleep", awake, bytes=kept))
            awake = ()
    if awake:
        stages.append(Stage("sleep", awake, bytes=stages[-1].bytes))
    return stages


def _classes(tasks: Labels) -> list[Any]:
    return sorted({label for _, y in tasks for label in np.unique(y).tolist()})


def _count_stream(name: str, config: Config, tasks: Labels, shape: tuple[int, ...]) -> list[Stage]:
    """The stages of a new model with counting networks, for inputs of one value."""
    classes, small = _classes(tasks), config
    if algorithm_info(name).exemplars:  # the real shape decides how many rows are kept
        outputs = max(config.n_classes, len(classes))
        rows = exemplar_capacity(NetworkFactory(config, shape), outputs)
        small = replace(config, exemplars=rows)
    # All inputs are equal, so one Gaussian per class is as good as many and much faster.
    small = replace(small, prior_components=min(1, config.prior_components))
    model = algorithm(name)(small, random_state=0, **_counting_networks(name, config))
    return _count(model, config, tasks, classes, shape)


def _counting_networks(name: str, config: Config) -> dict[str, Any]:
    """The arguments that make an algorithm use counting networks."""
    info = algorithm_info(name)
    learner_epochs = config.joint_epochs if info.category == "ceiling" else config.learner_epochs

    def generator(_shape: Any, role: Role, _rng: Any) -> CountingNetwork:
        steps = max(config.min_steps, config.sttm_min_steps if role == "stm" else 0)
        schedule = Schedule(config.generator_epochs, batch_size=config.batch_size, min_steps=steps)
        return CountingNetwork("generator", schedule)

    def learner(_shape: Any, n_classes: int, _role: Role, _rng: Any) -> CountingNetwork:
        steps = config.min_steps
        schedule = Schedule(learner_epochs, batch_size=config.batch_size, min_steps=steps)
        return CountingNetwork("learner", schedule, n_classes)

    return {"learner": learner, **({"generator": generator} if info.generative else {})}


def _count(
    model: ContinualClassifier,
    config: Config,
    tasks: Labels,
    classes: Sequence[Any] | None,
    shape: tuple[int, ...],
) -> list[Stage]:
    """Let a model of counting networks learn and sleep; `bytes` holds those of training rows."""
    stages: list[Stage] = []

    def note(event: Event) -> None:
        if isinstance(event, EpochDone):
            stage = stages[-1]
            stage.trainings.append(event)
            stage.samples = max(stage.samples, event.samples)
            stage.steps += event.epochs * math.ceil(event.samples / config.batch_size)
            stage.work += event.epochs * training_work(event, config, shape)
        elif isinstance(event, SleepStarted):
            stages.append(Stage("sleep", event.tasks))

    model.callback = note
    for task, y in tasks:
        stages.append(Stage("learn", (task,)))
        model.partial_fit(np.zeros((len(y), 1)), y, classes=classes, task=task)
        kept = arrays_in(model.fitted_.memory.state().get("rows"))
        width = math.prod(shape)
        stages[-1].bytes = sum(int(x.nbytes) * (width if x.ndim == 2 else 1) for _, x in kept)
    if isinstance(model, GenerativeClassifier):
        model.sleep()
    return stages


def _check_size(info: EstimatorInfo, sizes: Sequence[int]) -> None:
    """Refuse numbers that would take long to plan: a counting model still counts every row."""
    config, rows = info.config, sum(sizes)
    if info.generative:
        rows = max([*sizes, min(config.n_max, rows + info.age + sum(info.awake_rows.values()))])
    if not algorithm_info(info.algorithm).unused("ppr_memory"):
        rows = max(rows, config.ppr_memory)
    for number, most, what in ((len(sizes), MAX_TASKS, "tasks"), (rows, MAX_ROWS, "rows")):
        if number > most:
            raise UsageError(f"{number:,} {what} to plan; at most {most:,} can be planned")


def _narrow(state: Any, n_max: int, key: str = "") -> Any:
    """A state without weights, with rows, codes and latents of one value."""
    if isinstance(state, dict):
        return {name: _narrow(child, n_max, name) for name, child in state.items()}
    if isinstance(state, list):
        return [_narrow(child, n_max) for child in state if not isinstance(child, np.ndarray)]
    if key == "n_seen":  # a replay trains on n_max samples whatever exceeds it
        return min(state, n_max)
    if key == "roots":
        return state[:, :1, :1]
    return state[:, :1] if key in ("x", "codes", "means") else state


class CountingNetwork(nn.Module):
    """A generator and a learner that trains nothing and reports the last epoch of each training.

    It has no weights, all that it returns is zero, and inputs have one value.
    """

    latent_dim = 1

    def __init__(self, network: str, schedule: Schedule, n_classes: int = 0) -> None:
        super().__init__()
        self._network, self._schedule, self._n_classes = network, schedule, n_classes

    def fit(self, data: Sized, rng: torch.Generator, callback: Callback) -> None:
        epochs = self._schedule.epochs_for(len(data))
        callback(EpochDone(self._network, epochs, epochs, len(data), math.nan))

    def train_with(
        self, loss: Any, data: Any, rng: Any, callback: Callback, *step: Any, **accumulators: Any
    ) -> None:
        self.fit(data[0], rng, callback)

    def sample(self, n: int, rng: torch.Generator) -> Tensor:
        return torch.zeros(n, 1)

    def reconstruct(self, x: Tensor) -> Tensor:
        return x

    def reconstruction_loss(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x))

    def features(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), 1)

    decode_mean = features

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.features(x), self.features(x)

    def forward(self, x: Tensor, rng: torch.Generator | None = None) -> Tensor:
        return torch.zeros(len(x), self._n_classes)

    predict_proba = forward

    def grow(self, n_classes: int, rng: torch.Generator) -> None:
        self._n_classes = n_classes

    def load_state_dict(self, *_: Any, **__: Any) -> None:
        """Ignore the weights of the real network."""
