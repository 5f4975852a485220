"""The deep generative memory (DGM) of section 3.1: a generator, a learner, a task log and an age."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from dgdmn.config import Config
from dgdmn.core.batch import Batch, concat
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.memory.code_buffer import CodeBuffer
from dgdmn.memory.latent_prior import LatentPrior
from dgdmn.memory.protocols import Array
from dgdmn.memory.replay import replay
from dgdmn.memory.task_log import TaskInfo, TaskLog
from dgdmn.networks.classifier import cross_entropy
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.protocols import CustomizableLearner, LatentGenerator, Reconstructs, Role
from dgdmn.networks.runtime import as_tensor, as_tensors, copy_tensor
from dgdmn.networks.train import map_batches
from dgdmn.storage import State, bytes_in, get_int, map_arrays, to_numpy
from dgdmn.storage.checks import MAX_COUNT

COUNTS = ("age", "n_seen", "n_classes", "outputs")  # attributes saved as numbers
POOLING_EXPONENT = 0.25
"""Exponent of the product of learner and prior, which are not independent (docs/decisions/deep.md)."""


class DeepGenerativeMemory:
    """DGM = G + L + D_dgm + age. It keeps no sample of the past: it generates them.

    What goes beyond the paper is optional: a latent prior to sample from (`LatentPrior`), codes of a task's
    samples until sleep (`CodeBuffer`), and a learner trained on noisy latents.
    """

    def __init__(
        self,
        factory: NetworkFactory,
        role: Role,
        n_classes: int,
        rng: SeedStream,
        *,
        until_known: bool = False,
    ) -> None:
        self.factory, self.role, self.config = factory, role, factory.config
        self._until_known = until_known
        self.generator = factory.generator(role, rng.next())
        self.learner = factory.learner(role, n_classes, rng.next())
        self.tasks = TaskLog()
        self.age = 0  # samples seen so far, or trained on with `age="n_total"`
        self.n_seen = 0  # new samples learned; a task memory dreams as many at sleep
        self.n_classes = self.outputs = n_classes
        self.prior: LatentPrior | None = None
        self.codes: CodeBuffer | None = None
        if isinstance(self.generator, LatentGenerator):
            if components := _prior_components(self.config, role):
                self.prior = LatentPrior(components, self.generator.latent_dim)
            if self.config.code_buffer and role == "stm":
                capacity = max(1, self.config.n_max // self.config.n_stm)
                self.codes = CodeBuffer(capacity, self.generator.latent_dim)

    @property
    def has_latents(self) -> bool:
        """Whether the generator has a latent space."""
        return isinstance(self.generator, LatentGenerator)

    def learn(
        self, new: Batch, tasks: Mapping[str, TaskInfo], ctx: Context, recalled: Batch | None = None
    ) -> None:
        """Learn new samples by deep generative replay (Algorithm 1)."""
        batch = samples = as_tensors(new, self.factory.device)
        if recalled is not None:
            samples = concat(batch, as_tensors(recalled, self.factory.device))
        past = self.codes.decode(self._latent_generator) if self.codes else None
        self._replay(samples, tasks, ctx, past)
        if self.codes is not None:
            seen = batch if past is None else concat(past, batch)
            self.codes = self.codes.store(self._latent_generator, seen, ctx.rng)
        self.n_seen += len(new)

    def consolidate(self, task_memories: Sequence[Self], ctx: Context) -> None:
        """The task memories dream, and Algorithm 1 learns their dreams."""
        dreams = concat(*[memory.dream_all(ctx.rng) for memory in task_memories])
        tasks = {task: info for memory in task_memories for task, info in memory.tasks.items()}
        self._replay(dreams, tasks, ctx)

    def _replay(
        self, new: Batch, tasks: Mapping[str, TaskInfo], ctx: Context, past: Batch | None = None
    ) -> None:
        # Training changes weights in place, so it works on copies: a snapshot keeps the old ones.
        self.generator, self.learner = copy.deepcopy(self.generator), copy.deepcopy(self.learner)
        replay(self, new, tasks, self.config, ctx.in_memory(self.role), past)

    def train_generator(self, batch: Batch, new: Batch, ctx: Context) -> None:
        """Train G and fit the prior to its latents (line 22).

        With recognition, repeat until the new samples are recognized, at most `recog_trainings` times. Dreams
        are excluded: their blur raises the loss above γ (appendix A).
        """
        trainings = self.config.recog_trainings if self._until_known else 1
        for _ in range(trainings):
            self.generator.fit(batch.x, ctx.rng.next(), ctx.callback)
            if self.prior is not None:
                mean, deviation = self._latent_generator.encode(batch.x)
                self.prior = self.prior.fit(mean, deviation, batch.y, ctx.rng.next())
            if trainings == 1 or self._recognition_loss(new.x).mean() < self.config.gamma:
                return

    def train_learner(self, new: Batch, dreams: Batch, ctx: Context, *, resample: bool) -> None:
        """Train L on reconstructions of the new samples and on the dreams (lines 23-25)."""
        # Not before the dreams are labeled: untrained outputs would distort their labels.
        if self.n_classes > self.outputs:
            self.learner.grow(self.n_classes, ctx.rng.next())
            self.outputs = self.n_classes
        noisy = self.config.latent_noise > 0 and isinstance(self.generator, LatentGenerator)
        if noisy and isinstance(self.learner, CustomizableLearner):
            self._train_on_latents(self.learner, new, dreams, ctx, resample)
            return
        if self.config.reconstruct_inputs in ("new", "all"):
            new = Batch(self._reconstruct(new.x), new.y)  # 23
        if self.config.reconstruct_inputs == "all":
            dreams = Batch(self._reconstruct(dreams.x), dreams.y)
        self.learner.fit(concat(new, dreams), ctx.rng.next(), ctx.callback)  # 24-25

    def _train_on_latents(
        self, learner: CustomizableLearner, new: Batch, dreams: Batch, ctx: Context, resample: bool
    ) -> None:
        """Train L on decoded draws from q(z | x), a new draw at each visit; resample dreams if there is a prior.

        The decoder's variation of a sample is what later dreams look like. It costs one decoding per visit.
        """
        generator, prior = self._latent_generator, self.prior if resample else None
        noise, clip = self.config.latent_noise, self.config.clip_probability
        samples = concat(new, dreams)
        mean, deviation = generator.encode(samples.x)
        is_dream = torch.arange(len(samples), device=mean.device) >= len(new)

        def loss(mean: Tensor, deviation: Tensor, y: Tensor, is_dream: Tensor, rng: Any) -> Tensor:
            draw = torch.randn(mean.shape, generator=rng).to(mean.device)
            z = torch.addcmul(mean, deviation, draw, value=noise)
            if prior:
                z[is_dream] = prior.sample_for(y[is_dream], rng)
            return cross_entropy(learner(generator.decode_mean(z), rng), y, clip)

        data = (mean, deviation, samples.y, is_dream)
        learner.train_with(loss, data, ctx.rng.next(), ctx.callback)

    def grow(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def dream(self, n: int, rng: SeedStream) -> Batch:
        """Draw n inputs from G and label them with L (lines 17-18); a fitted prior knows the labels."""
        if self.prior:
            z, y = self.prior.sample(n, rng.next())
            return Batch(self._latent_generator.decode_mean(z), y)
        x = self.generator.sample(n, rng.next())
        return Batch(x, self._predict(x).argmax(dim=1))

    def dream_all(self, rng: SeedStream) -> Batch:
        """As many samples as it has seen, dreamed or decoded from their codes."""
        if self.codes:
            return self.codes.decode(self._latent_generator)
        return self.dream(self.n_seen, rng)

    def sample(self, n: int, rng: SeedStream) -> Batch:
        dreams = self.dream(n, rng)
        return Batch(to_numpy(dreams.x), to_numpy(dreams.y))

    def recall(self, x: Array) -> Batch:
        """Reconstructions of the inputs, with the learner's labels (section 3.2)."""
        x_recon = self._reconstruct(self._tensor(x))
        return Batch(to_numpy(x_recon), to_numpy(self._predict(x_recon).argmax(dim=1)))

    def _reconstruct(self, x: Tensor) -> Tensor:
        return self.generator.reconstruct(x) if isinstance(self.generator, Reconstructs) else x

    def encode(self, x: Array) -> Array:
        """Mean latents of the inputs, shape (n, latent_dim)."""
        return to_numpy(self._latent_generator.encode(self._tensor(x))[0])

    def predict_proba(self, x: Array) -> Array:
        """Class probabilities by way of the reconstruction: x → G → x_recon → L → y (figure 1).

        With `predict_with="learner+prior"`, p(y | x) ∝ (L(y | x_recon) p(z | y))^¼, where z is the mean of
        q(z | x). The exponent does not change the label; without it the answers are overconfident.
        """
        inputs, prior = self._tensor(x), self.predicting_prior
        answers = self._predict(self._reconstruct(inputs))
        if prior is not None:
            z = self._latent_generator.encode(inputs)[0]
            likelihood = map_batches(lambda part: prior.log_likelihood(part, self.n_classes), z)
            answers = combine_with_prior(answers, likelihood)
        return to_numpy(answers)

    @property
    def predicting_prior(self) -> LatentPrior | None:
        """The prior if predictions use it. Task memories do not: their learner was trained on real rows."""
        used = self.role == "ltm" and self.config.predict_with == "learner+prior"
        return self.prior if used and self.prior else None

    def _predict(self, x: Tensor) -> Tensor:
        """L(x), shape (n, n_classes); a class that came after the last training has probability 0."""
        return F.pad(self.learner.predict_proba(x), (0, self.n_classes - self.outputs))

    def recognition_loss(self, x: Array) -> Array:
        """recons_loss(x) / intensity(x) of each sample, shape (n,) (appendix A).

        Intensity is the sum of pixel values; a blank image counts as one pixel. With `recognition="density"`:
        (recons_loss(x) − H(x) − log p(z)) / intensity(x). The latent density is added, and the entropy of gray
        pixels, which no reconstruction can avoid, is subtracted.
        """
        return to_numpy(self._recognition_loss(self._tensor(x)))

    def _recognition_loss(self, x: Tensor) -> Tensor:
        generator = self.generator
        if not isinstance(generator, Reconstructs):
            problem = f"generator {type(generator).__name__} cannot reconstruct"
            raise UsageError(f"{problem}, so tasks cannot be recognized; pass the task's name")
        loss = generator.reconstruction_loss(x)
        if self.prior and self.config.recognition == "density":
            z = self._latent_generator.encode(x)[0]
            entropy = -(torch.xlogy(x, x) + torch.xlogy(1 - x, 1 - x)).sum(
                dim=1
            )  # of Bernoulli pixels
            loss = loss - entropy - map_batches(self.prior.log_density, z)
        return loss / x.sum(dim=1).clamp(min=1.0)

    def nbytes(self, *, at_capacity: bool = False) -> int:
        """Bytes of weights and prior; at capacity the prior has all its components."""
        state = {**self.state(), "codes": None}
        if not at_capacity or self.prior is None:
            return bytes_in(state)
        return bytes_in({**state, "prior": None}) + self.prior.capacity_bytes(self.n_classes)

    def buffer_bytes(self) -> int:
        return bytes_in(self.codes.state()) if self.codes else 0

    def state(self) -> State:
        state = {
            "generator": dict(self.generator.state_dict()),
            "learner": dict(self.learner.state_dict()),
            "tasks": self.tasks.state(),
            **{name: getattr(self, name) for name in COUNTS},
        }
        optional = {"prior": self.prior, "codes": self.codes}
        return state | {key: part.state() for key, part in optional.items() if part is not None}

    def load_state(self, state: State) -> None:
        state = map_arrays(state, lambda array: copy_tensor(array, self.factory.device))
        n_classes = get_int(state, "n_classes", self.n_classes, self.n_classes)
        outputs, age = get_int(state, "outputs", 1, n_classes), get_int(state, "age")
        n_seen = get_int(state, "n_seen", 0, age if self.config.age == "seen" else MAX_COUNT)
        if outputs != self.outputs:
            self.learner = self.factory.learner(self.role, outputs, SeedStream(0).next())
        self.generator.load_state_dict(state["generator"])
        self.learner.load_state_dict(state["learner"])
        if self.prior is not None:
            self.prior = self.prior.with_state(state["prior"], n_classes)
        if self.codes is not None:
            self.codes = self.codes.with_state(state["codes"], n_classes)
        self.tasks = TaskLog.from_state(state["tasks"], n_classes)
        self.age, self.n_seen, self.outputs = age, n_seen, outputs

    @property
    def _latent_generator(self) -> LatentGenerator:
        assert isinstance(self.generator, LatentGenerator)
        return self.generator

    def _tensor(self, array: Array) -> Tensor:
        return as_tensor(array, self.factory.device)


def _prior_components(config: Config, role: Role) -> int:
    """Components of a memory's prior. A task memory needs one for recognition only, a tenth of the size."""
    if role == "ltm" or config.prior_components == 0:
        return config.prior_components
    return max(1, config.prior_components // 10) if config.recognition == "density" else 0


def combine_with_prior(answers: Tensor, log_likelihood: Tensor) -> Tensor:
    """Class probabilities from the learner's answers, clamped so that no zero excludes a class, and log-likelihoods."""
    log_answers = answers.clamp(min=torch.finfo(answers.dtype).tiny).log()
    return torch.softmax(POOLING_EXPONENT * (log_answers + log_likelihood), dim=1)
