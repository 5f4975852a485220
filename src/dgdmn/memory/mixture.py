"""The mixture memory: one Gaussian for each class within a task, kept as exact sums in a fixed random code.

Each component keeps a count, a mean of the features and a scatter in the code. All components of a dual memory
share one pooled scatter. Bayes' rule on these Gaussians gives the class. Sums do not depend on the order of
rows, so nothing is forgotten until the byte budget binds. Formulas: docs/mixture.md.
"""

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.batch import Batch
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.core.table import MAX_VALUE
from dgdmn.memory.budget import merge_means, shrink_scatters
from dgdmn.memory.code import DECODER_DIM, MixtureSpec, encode, reference_setting
from dgdmn.memory.components import Component, CrossMoment, stack_means, sum_rows
from dgdmn.memory.dreams import DREAM_DEVIATION, decode_features, draw_features
from dgdmn.memory.gaussian import (
    COUNT_TOLERANCE,
    Doubles,
    Moments,
    gram,
    softmax,
)
from dgdmn.memory.held_out import PARTS, TEST_EVERY, hold_out
from dgdmn.memory.pool import FrozenSettings, Pool
from dgdmn.memory.protocols import Role
from dgdmn.memory.scores import (
    ComponentSet,
    choose_setting,
    component_sets,
    own_factor,
    score_against_background,
    score_classes,
    score_components,
    size_terms,
)
from dgdmn.memory.task_log import TaskInfo, TaskLog
from dgdmn.memory.unknown import MIN_TESTED, find_far, score_quantile, sketch
from dgdmn.storage import State, get_int, get_typed


class MixtureMemory:
    """Components of one task (short term) or of all tasks (long term), and the pool that they share."""

    def __init__(self, spec: "MixtureSpec", role: Role, n_classes: int, rng: SeedStream) -> None:
        self.spec, self.config, self.role, self.n_classes = spec, spec.config, role, n_classes
        self.tasks, self.age = TaskLog(), 0
        self.components: tuple[Component, ...] = ()
        """Components; the one learned last is at the end."""
        self.pool = Pool.empty(spec.d if role == "ltm" else 0, CrossMoment.empty(spec))
        """Owned by the long-term memory; a task memory gets it before each use."""
        self.class_weights: Doubles | None = None
        """Class priors that the user gave, set and saved by the estimator."""

    # Learning

    def learn(
        self,
        new: Batch,
        tasks: Mapping[str, TaskInfo],
        ctx: Context,
        recalled: Batch | None = None,
        *,
        others: Sequence[Self] = (),
    ) -> None:
        """Add rows of one task to its components and to the pool; now and then test some of them.

        Tested rows are scored against all components, those of the `others` included.
        """
        (task,) = tasks
        x, y, weight = np.asarray(new.x, np.float64), np.asarray(new.y), new.weight
        if (size := float(np.abs(x).max(initial=0))) > MAX_VALUE:
            raise UsageError(
                f"a value of X is {size:.3g}; it must be at most {MAX_VALUE:g}; scale X first"
            )
        self.tasks = self.tasks.add(tasks)
        self.age += len(y)
        if new.raw is not None and self.pool.inputs is not None:
            code = encode(x, self.spec.code[:, :DECODER_DIM])
            self.pool = replace(self.pool, inputs=self.pool.inputs.add(new.raw, code, weight))
        self._add(x, y, weight, task)
        if self.pool.untested >= TEST_EVERY and len(y) >= PARTS:
            self._test(x, y, weight, task, others)
        self.pool = self.pool.refresh(self.spec.code)
        if self.pool.frozen is not None:  # so that the next prediction is fast
            for component in self.components[-len(np.unique(new.y)) :]:
                if len(component.scatter):
                    own_factor(component, self.pool.frozen, self.spec.code)

    def _add(self, x: Doubles, y: NDArray[np.int64], weight: Doubles | None, task: str) -> None:
        """Add rows to the components of a task and to the pool."""
        by_key = {(component.task, component.label): component for component in self.components}
        parts, centered = sum_rows(x, y, weight, task, self.spec.code)
        between = []
        for part in parts:
            old = by_key.pop((task, part.label), None)
            if old is not None:
                between.append(old.between_vector(part)[None])
                part = old.merge(part, self.spec.code)
            by_key[task, part.label] = part  # the component learned last comes last
        total = self.pool.total.add(x, np.zeros(len(y), np.int64), weight)
        untested = self.pool.untested + len(y)
        self.pool = replace(self.pool, total=total, untested=untested)
        n = len(y) if weight is None else float(weight.sum())
        self.pool = self.pool.add_scatter(gram(np.concatenate([centered, *between])), n)
        self.components = tuple(by_key.values())

    def _test(
        self,
        x: Doubles,
        y: NDArray[np.int64],
        weight: Doubles | None,
        task: str,
        others: Sequence[Self],
    ) -> None:
        """Test the rows just learned against the memory without them; update votes, log losses and sketches."""
        pool = self.pool
        result = hold_out(
            x,
            y,
            weight,
            task,
            self.components,
            gather(others),
            pool,
            self.spec,
            chosen=self._choose(gather([self, *others])),
            n_classes=self.n_classes,
        )
        # Scores rise while a component grows, so earlier counts lose half of their weight.
        self.components = tuple(
            replace(component, sketch=component.sketch // 2 + sketch(result.relative[rows]))
            if component.task == task and (rows := result.labels == component.label).any()
            else component
            for component in self.components
        )
        self.pool = replace(
            pool,
            votes=pool.votes + result.votes,
            log_losses=pool.log_losses + result.log_losses,
            untested=0,
        )

    def consolidate(self, task_memories: Sequence[Self], ctx: Context) -> None:
        """Take over the components of task memories, fit the budget, choose λ and g, and freeze."""
        new = gather(task_memories)
        self._merge_components(new)
        for memory in task_memories:
            self.tasks = self.tasks.add(memory.tasks)
        n_new = sum(memory.age for memory in task_memories)
        self.fit_budget((), {(component.task, component.label) for component in new}, n_new)
        self.age += n_new
        frozen = self.pool.freeze(self._choose(self.components), self.spec.code)
        self.pool = replace(self.pool, frozen=frozen)

    def _merge_components(self, components: Iterable[Component]) -> None:
        """Add components; those of the same task and class merge."""
        by_key = {(component.task, component.label): component for component in self.components}
        for component in components:
            old = by_key.pop((component.task, component.label), None)
            if old is not None:
                self.pool = self.pool.add_scatter(gram(old.between_vector(component)[None]))
                component = old.merge(component, self.spec.code)
            by_key[component.task, component.label] = component
        self.components = tuple(by_key.values())

    # Budget

    def fit_budget(
        self, awake: Sequence[Self], fresh: Set[tuple[str, int]] = frozenset(), n_new: int = 0
    ) -> bool:
        """Shrink scatters until this memory and the awake ones fit `memory_budget`; returns whether they do.

        Fresh and awake components get max(κ, n_new / (n_new + age)) of the bytes for scatters (Algorithm 1), the
        past gets the rest; both parts are divided by how often a task was learned. A component keeps the largest
        leading block that fits. If means alone do not fit, components of a class merge, oldest first.
        """
        budget = self.config.memory_budget - self.spec.pool_bytes - self.spec.front_end_bytes
        if sum(component.nbytes for component in gather([self, *awake])) <= budget:
            return True
        most = budget // self.spec.min_component_bytes - len(gather(awake))
        self.components, between = merge_means(self.components, most, self.spec.code)
        if between:
            self.pool = self.pool.add_scatter(gram(np.stack(between)))
        fits = len(self.components) <= most
        if not fits and not awake:
            needed = self.config.memory_budget - budget
            needed += self.spec.min_component_bytes * len(self.components)
            warnings.warn(
                f"memory_budget is {self.config.memory_budget:,}; one mean per class needs {needed:,} "
                "bytes, so the memory grows beyond it",
                stacklevel=2,
            )
        everything = gather([self, *awake])
        n_new += sum(memory.age for memory in awake)
        new = [
            place >= len(self.components) or (component.task, component.label) in fresh
            for place, component in enumerate(everything)
        ]
        times = {**self.tasks, **{task: info for m in awake for task, info in m.tasks.items()}}
        small = iter(
            shrink_scatters(
                everything,
                budget - self.spec.min_component_bytes * len(everything),
                share=max(self.config.kappa, n_new / max(1, n_new + self.age)),
                new=np.array(new),
                times=[times[component.task].times for component in everything],
            )
        )
        for memory in (self, *awake):
            memory.components = tuple(next(small) for _ in memory.components)
        return fits

    # Forgetting and merging

    def forget(self, matches: Callable[[Component], bool], labels: Sequence[int]) -> None:
        """Remove the components that match; class i becomes labels.index(i).

        Where a scatter is complete (q = d), its share of the pooled scatter is removed too. Elsewhere that
        share stays.
        """
        removed = [component for component in self.components if matches(component)]
        share = sum(one.n for one in removed) / (sum(one.n for one in self.components) or 1)
        self.age = round(self.age * (1 - share))  # n is a sum of weights, age is a number of rows
        for component in removed:
            if len(component.scatter) == self.spec.d:
                self.pool = self.pool.remove(component, self.spec.code)
        places = {label: place for place, label in enumerate(labels)}
        self.components = tuple(
            replace(component, label=places[component.label])
            for component in self.components
            if not matches(component)
        )
        gone = {(component.task, component.label) for component in removed}
        self.tasks = self.tasks.relabel(places, without=gone)
        self.n_classes = len(labels)

    def rename_components(self, names: Mapping[str, str]) -> None:
        """Give tasks new names in the components."""
        self.components = tuple(
            replace(component, task=names[component.task]) if component.task in names else component
            for component in self.components
        )

    def relabel(self, places: Sequence[int]) -> Self:
        """A copy in which class i is places[i]."""
        twin = copy.copy(self)
        twin.components = tuple(replace(c, label=places[c.label]) for c in self.components)
        twin.tasks = self.tasks.relabel(dict(enumerate(places)))
        return twin

    def add_memory(self, other: Self) -> None:
        """Add the sums of another long-term memory with the same classes, front end and code.

        Components are ordered by their relative position in either memory, because score histograms of early
        components were counted when few classes were known.
        """
        age = {
            (component.task, component.label): place / len(memory.components)
            for memory in (self, other)
            for place, component in enumerate(memory.components, start=1)
        }
        self._merge_components(other.components)
        self.components = tuple(sorted(self.components, key=lambda one: age[one.task, one.label]))
        self.pool = self.pool.merge(other.pool)
        self.tasks, self.age = self.tasks.add(other.tasks), self.age + other.age

    # Predictions

    def column_moments(self, d: int, others: Sequence[Self] = ()) -> tuple[Doubles, Doubles, float]:
        """Mean and covariance of the first d features over all rows of these memories, and their number."""
        components = gather([self, *others])
        counts, means = stack_means(components)
        return Moments(counts, means, self.pool.scatter).pooled(d)

    def joint_scores(
        self, x: Any, others: Sequence[Self]
    ) -> tuple[Doubles, NDArray[np.int64], NDArray[np.int64]]:
        """log p(x, component) up to a common term; the class of each component, and the index of its memory."""
        memories = [self, *others]
        owner = np.repeat(np.arange(len(memories)), [len(memory.components) for memory in memories])
        level = self.component_set(others)
        scores, _ = self._score(x, others, level.frozen)
        return scores + self.class_terms(level)[level.labels], level.labels, owner

    def class_terms(self, level: ComponentSet) -> Doubles:
        """What is added to the score of each class, shape (n_classes,): its size term and its log prior.

        The prior is multiplied by the temperature that the score is divided by later.
        """
        weights = np.ones(self.n_classes)
        if self.config.priors == "empirical" and level.components:
            counts = [component.n for component in level.components]
            weights = np.bincount(level.labels, counts, minlength=self.n_classes) / sum(counts)
            weights[weights == 0] = 1.0  # a class without components has no score either
        if self.class_weights is not None:
            weights = self.class_weights
        scaled: Doubles = level.frozen.temperature * np.log(weights)
        if level.components:
            shrinkage = level.frozen.setting[0]
            scaled += size_terms(level.components, level.pool, shrinkage, self.n_classes)
        return scaled

    def answering_tasks(
        self, x: Any, others: Sequence[Self], answers: NDArray[np.int64]
    ) -> list[str]:
        """The task of the component that scores highest for each row's predicted class, a class index in `answers`."""
        scores, labels, _ = self.joint_scores(x, others)
        best = np.where(labels == answers[:, None], scores, -np.inf).argmax(axis=1)
        tasks = [component.task for component in gather([self, *others])]
        return [tasks[place] for place in best]

    def _score(
        self, x: Any, others: Sequence[Self], frozen: FrozenSettings
    ) -> tuple[Doubles, Doubles]:
        """Scores of the components of all these memories and their tied part, both (n, components)."""
        components = gather([self, *others])
        return score_components(np.asarray(x, np.float64), components, self.pool, frozen, self.spec)

    def relative_scores(self, x: Any, others: Sequence[Self] = ()) -> Doubles:
        """How much better the best component explains each row than the background does, shape (n,)."""
        reference = self.pool.freeze(reference_setting(self.config), self.spec.code)
        scores, tied = self._score(x, others, reference)
        components = gather([self, *others])
        return score_against_background(scores, tied, components, self.pool, self.spec)

    def score_quantile(self, x: Any, others: Sequence[Self] = ()) -> Doubles | None:
        """The share of tested rows with a lower relative score than each row; None if too few rows are tested."""
        if self.count_tested(others) < MIN_TESTED:
            return None
        components = gather([self, *others])
        counts, means = stack_means(components)
        far = find_far(np.asarray(x, np.float64), means, counts, np.diag(self.pool.scatter))
        sketches = [component.sketch for component in components]
        return score_quantile(self.relative_scores(x, others), sketches, *far)

    def count_tested(self, others: Sequence[Self] = ()) -> int:
        """Number of rows in the score histograms; 0 with a single component, which has no background."""
        components = gather([self, *others])
        return sum(int(one.sketch.sum()) for one in components) if len(components) > 1 else 0

    def log_density(self, x: Any, others: Sequence[Self] = ()) -> Doubles:
        """log p(x) of the features if all components are equally likely; exact for g = 1."""
        x, frozen = np.asarray(x, np.float64), self.frozen(others)
        scores, _ = self._score(x, others, frozen)
        total = np.logaddexp.reduce(scores, axis=1) - np.log(scores.shape[1])
        density: Doubles = total + self.pool.log_common(x, frozen.setting[0])
        return density

    def predict_proba(self, x: Any) -> Doubles:
        """Class probabilities by the components of this memory."""
        return self.joint_proba(x, ())

    def joint_proba(self, x: Any, others: Sequence[Self]) -> Doubles:
        """Class probabilities by the components of all these memories, and by whole classes that have several tasks."""
        level = self.component_set(others)
        levels = component_sets(level, self.spec)
        scores = score_classes(np.asarray(x, np.float64), levels, self.spec, self.n_classes)
        return softmax((scores + self.class_terms(level)) / level.frozen.temperature)

    def recognition_loss(self, x: Any) -> Doubles:
        """Minus the log of the summed component scores."""
        scores = self.joint_scores(x, ())[0]
        loss: Doubles = -np.logaddexp.reduce(scores, axis=1, initial=-np.inf)
        return loss

    def newest_task(self, label: int) -> str | None:
        """The task of the component of a class that was learned last."""
        return next(
            (component.task for component in reversed(self.components) if component.label == label),
            None,
        )

    def recall(self, x: Any) -> Batch:
        """The inputs decoded from their code, with this memory's predicted labels."""
        return Batch(self._decode(np.asarray(x, np.float64)), self.predict_proba(x).argmax(axis=1))

    def sample(self, n: int, rng: SeedStream) -> Batch:
        """Draw a component by its number of rows, then features by its Gaussian, decoded to inputs."""
        generator = rng.next_numpy()
        counts = np.array([component.n for component in self.components], dtype=np.float64)
        chosen = generator.choice(len(counts), n, p=counts / counts.sum())
        noise = generator.standard_normal((n, self.spec.d))
        noise *= 1.0 if self.spec.invert is not None else DREAM_DEVIATION
        x = draw_features(self.components, chosen, noise, self.pool, self.frozen(), self.spec)
        return Batch(self._decode(x), np.array([self.components[i].label for i in chosen]))

    @property
    def has_dreams(self) -> bool:
        """Whether inputs can be generated."""
        return self.spec.invert is not None or self.pool.inputs is not None

    def _decode(self, x: Doubles) -> NDArray[Any]:
        return decode_features(x, self.components, self.pool, self.spec)

    has_latents = True

    def encode(self, x: Any) -> NDArray[np.float32]:
        """The code of features, the latent space of this memory, shape (n, q)."""
        return encode(np.asarray(x, np.float64), self.spec.code).astype(np.float32)

    @property
    def n_seen(self) -> int:
        """Rows learned."""
        return self.age

    def frozen(self, others: Sequence[Self] = ()) -> FrozenSettings:
        """What the last sleep froze; before the first sleep, what a sleep would freeze now."""
        if self.pool.frozen is not None:
            return self.pool.frozen
        return self.pool.freeze(self._choose(gather([self, *others])), self.spec.code)

    def component_set(self, others: Sequence[Self] = ()) -> ComponentSet:
        """The components of all these memories and what scores them."""
        return ComponentSet(gather([self, *others]), self.pool, self.frozen(others))

    def chosen_settings(self, others: Sequence[Self] = ()) -> dict[str, float]:
        """λ, g and the temperature of predictions now."""
        frozen = self.frozen(others)
        shrinkage, weight = frozen.setting
        return {
            "shrinkage": shrinkage,
            "own_covariance": weight,
            "temperature": frozen.temperature,
        }

    def _choose(self, components: Sequence[Component]) -> tuple[float, float]:
        return choose_setting(components, self.pool, self.spec)

    def grow(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def nbytes(self, *, at_capacity: bool = False) -> int:
        """Bytes of components and, in the long-term memory, of the pool."""
        own = sum(component.nbytes for component in self.components)
        return own + (self.spec.pool_bytes if self.role == "ltm" else 0)

    def buffer_bytes(self) -> int:
        return 0

    # State

    def state(self) -> State:
        state: State = {
            "tasks": self.tasks.state(),
            "age": self.age,
            "n_classes": self.n_classes,
            "components": [component.state() for component in self.components],
        }
        if self.role == "ltm":
            state["pool"] = self.pool.state()
        return state

    def load_state(self, state: State) -> None:
        self.tasks = TaskLog.from_state(get_typed(state, "tasks", list), self.n_classes)
        self.age = get_int(state, "age")
        self.components = tuple(
            Component.load(component, self.spec, self.n_classes)
            for component in get_typed(state, "components", list)
        )
        if {component.task for component in self.components} - self.tasks.keys():
            raise ValueError("a component belongs to a task that is not in the log")
        if any(
            component.label not in self.tasks[component.task].classes
            for component in self.components
        ):
            raise ValueError("a component has a class that its task never had")
        if len({(component.task, component.label) for component in self.components}) < len(
            self.components
        ):
            raise ValueError("two components have the same task and class")
        if self.role == "ltm":
            self.pool = Pool.load(get_typed(state, "pool", dict), self.spec)
            rows = sum(component.n for component in self.components)
            if rows > self.pool.n * (1 + COUNT_TOLERANCE):  # sums of weights are rounded
                raise ValueError(f"the components have {rows:,} rows, but the pool {self.pool.n:,}")


def gather(memories: Iterable[MixtureMemory]) -> list[Component]:
    return [component for memory in memories for component in memory.components]
