"""The deep generative memory (DGM) of section 3.1: a generator, a learner and a dictionary of tasks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from dgdmn.events import Listener
from dgdmn.memory.dictionary import Entry, TaskDictionary
from dgdmn.memory.prior import LatentPrior
from dgdmn.memory.replay import replay, softened
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.generator import Coder, Generator, Learner, Role, ShapedLearner
from dgdmn.networks.learner import cross_entropy
from dgdmn.networks.training import in_batches
from dgdmn.presets import Preset
from dgdmn.samples import Samples, concat
from dgdmn.seeds import Seeds
from dgdmn.storage import State, bytes_in

_MODESTY = 0.25
"""Power of the product of two opinions that are not independent: docs/decisions/best.md."""


class GenerativeMemory:
    """DGM = G + L + D_dgm + age. It keeps no sample: what it knows of the past it dreams."""

    generator: Generator
    """G: models the inputs."""
    learner: Learner
    """L: predicts their class."""
    tasks: TaskDictionary
    """D_dgm: the tasks learnt, and how often each was met."""
    age: int
    """Samples seen so far (or trained on, with `age="letter"`)."""
    n_classes: int
    """Classes there are; L has fewer outputs while it has not learnt since new ones came."""
    prior: LatentPrior | None
    """Where the latents of G lie, by class; None: taken to be N(0, I), as in the paper."""
    options: Preset

    def __init__(self, blueprint: Blueprint, role: Role, n_classes: int, seeds: Seeds) -> None:
        self._blueprint, self._role = blueprint, role
        self.generator = blueprint.generator(role, seeds.next())
        self.learner = blueprint.learner(role, n_classes, seeds.next())
        self.tasks = TaskDictionary()
        self.age = 0
        self.n_classes = self._outputs = n_classes
        self.options = blueprint.preset
        self.prior = (
            LatentPrior(_components(self.options, role), self.generator.latent)
            if _components(self.options, role) and isinstance(self.generator, Coder)
            else None
        )

    def learn(
        self,
        new: Samples,
        tasks: Mapping[str, Entry],
        seeds: Seeds,
        listen: Listener,
        past: Samples | None = None,
    ) -> None:
        """Learn new samples by deep generative replay (Algorithm 1), of `past` where somebody remembers it better."""
        replay(self, new, tasks, past, seeds=seeds, listen=listen)

    def make_room(self, seeds: Seeds) -> None:
        """Give L outputs for the classes that came since it last learnt; after the dreams were labelled.

        New outputs have random weights, and would have a say in what the past was.
        """
        if self.n_classes > self._outputs:
            self.learner.grow(self.n_classes, seeds.next())
            self._outputs = self.n_classes

    def train_generator(self, lesson: Samples, new: Tensor, seeds: Seeds, listen: Listener) -> None:
        """Train G, and see where its latents lie now.

        Where recognition relies on it, on until it knows the new samples, within bounds. Its own dreams are in
        the lesson too, and not a measure: blurred ink costs more than it weighs (appendix A).
        """
        trainings = self.options.recog_trainings if self._blueprint.until_known else 1
        for _ in range(trainings):
            self.generator.fit(lesson.x, seeds.next(), listen)
            if self.prior is not None:
                self.prior.fit(*self._coder.posterior(lesson.x), lesson.y, seeds.next())
            if trainings == 1 or self.recognition_loss(new).mean() < self.options.gamma:
                return

    def recognition_loss(self, x: Tensor) -> Tensor:
        """recons_loss(x) / intensity(x) for each sample, shape (n,) (appendix A).

        Intensity is the sum of pixel values; a blank image counts as one pixel of ink, since it has none.
        Appendix A sums over the samples of a task but compares with one γ for any number of them, so a
        task is judged by the mean.

        By `density`, a latent where none of the memory's own lie costs its nats too, and the entropy of grey
        pixels, which no memory can reconstruct away, none: (recons_loss(x) − H(x) − log p(z)) / intensity(x).
        """
        loss = self.generator.reconstruction_loss(x)
        if self.prior and self.options.recognition == "density":
            loss = loss - _entropy(x) - in_batches(self.prior.log_density, self._coder.posterior(x)[0])
        return loss / x.sum(dim=1).clamp(min=1.0)

    def balanced_age(self, y: Tensor) -> int:
        """The age of a memory that met each class of its past as often as these ones were met on average.

        Dreams from a prior are as many of each class, so by its age a long past outnumbers a new class of few
        rows. It costs nothing. Without a prior nobody knows the classes, and age it is.
        """
        if not self.prior:
            return self.age
        return round(len(y) / len(y.unique()) * len(self.prior.labels.unique()))

    def dream(self, n: int, seeds: Seeds) -> Samples:
        """Draw n inputs from G and label them with L (Algorithm 1, lines 17-18).

        Latents drawn from a fitted prior have known labels, and need no L.
        """
        if self.prior:
            z, y = self.prior.draw(n, seeds.next())
            return Samples(self._coder.decoded(z), y)
        x = self.generator.sample(n, seeds.next())
        return Samples(x, self.answers(x).argmax(dim=1))

    @property
    def learns_from_latents(self) -> bool:
        """Whether L sees decodes of z ~ q(z | x), where the preset says so and the networks can."""
        able = isinstance(self.generator, Coder) and isinstance(self.learner, ShapedLearner)
        return self.options.latent_noise > 0 and able

    def train_learner_on_latents(
        self, new: Samples, dreams: Samples, anew: bool, seeds: Seeds, listen: Listener
    ) -> None:
        """Train L on decodes of z about the mean of q(z | x), drawn anew at each visit of a sample.

        A decoder's way of varying a sample is what dreams will look like. Dreams may be dreamt `anew` as well,
        from the fitted prior. It costs a decoding for each visit.
        """
        generator, learner, options = self._coder, self.learner, self.options
        assert isinstance(learner, ShapedLearner)
        lesson = concat(new, dreams)
        mean, deviation = generator.posterior(lesson.x)
        old = torch.arange(len(lesson), device=mean.device) >= len(new)
        prior = self.prior if anew else None
        believed = self._beliefs() if options.soft_labels else None
        self.make_room(seeds)

        def loss(mean: Tensor, deviation: Tensor, y: Tensor, old: Tensor, rng: torch.Generator) -> Tensor:
            noise = torch.randn(mean.shape, generator=rng).to(mean.device)
            z = torch.addcmul(mean, deviation, noise, value=options.latent_noise)
            if prior:
                z[old] = prior.latents_of(y[old], rng)
            x = generator.decoded(z)
            if believed:
                y = softened(y, old, believed(x), options.soft_labels)
            return cross_entropy(learner(x, rng), y, options.clip_probability)

        learner.train_with(loss, (mean, deviation, lesson.y, old), seeds.next(), listen)

    def _beliefs(self) -> Callable[[Tensor], Tensor]:
        """L(x) as it is now, whatever it learns from here on."""
        learner, unmet = copy.deepcopy(self.learner), self.n_classes - self._outputs
        return lambda x: F.pad(learner.probabilities(x), (0, unmet))

    def recall(self, x: Tensor) -> Samples:
        """The inputs as this memory remembers them, with its learner's labels (section 3.2)."""
        x_recon = self.generator.reconstruct(x)
        return Samples(x_recon, self.answers(x_recon).argmax(dim=1))

    def probabilities(self, x: Tensor) -> Tensor:
        """Class probabilities, by way of the reconstruction: x → G → x_recon → L → y (figure 1).

        With `both`, L and the prior have an equal say: p(y | x) ∝ (L(y | x_recon) p(z | y))^¼, z being the mean of
        q(z | x). The power changes no answer; without it they are surer than they are right. It costs
        (components) · d² products a sample, and no training.
        """
        answers, prior = self.answers(self.generator.reconstruct(x)), self.answering_prior
        if prior is None:
            return answers
        z = self._coder.posterior(x)[0]
        likely = in_batches(lambda part: prior.log_likelihood(part, self.n_classes), z)
        return together(answers, likely)

    @property
    def answering_prior(self) -> LatentPrior | None:
        """The prior, if it has a say: fitted, in the LTM, with `both`. An STTM's learner has seen rows."""
        has_a_say = self.prior and self._role == "ltm" and self.options.answers == "both"
        return self.prior if has_a_say else None

    def answers(self, x: Tensor) -> Tensor:
        """L(x), shape (n, n_classes); a class that came after this memory last learnt has probability 0."""
        known = self.learner.probabilities(x)
        return F.pad(known, (0, self.n_classes - self._outputs))

    @property
    def _coder(self) -> Coder:
        assert isinstance(self.generator, Coder)
        return self.generator

    def room(self) -> int:
        """Bytes of all that it knows, its prior with all the components it may have."""
        prior = self.prior.room(self.n_classes) if self.prior is not None else 0
        return bytes_in({**self.state(), "prior": {}}) + prior

    def state(self) -> State:
        """All that was learnt."""
        return {
            "generator": dict(self.generator.state_dict()),
            "learner": dict(self.learner.state_dict()),
            "tasks": self.tasks.state(),
            "age": self.age,
            "n_classes": self.n_classes,
            "outputs": self._outputs,
            **({"prior": self.prior.state()} if self.prior is not None else {}),
        }

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        if state["outputs"] != self._outputs:
            self.learner = self._blueprint.learner(self._role, state["outputs"], Seeds(0).next())
        self.generator.load_state_dict(state["generator"])
        if self.prior is not None:
            self.prior.restore(state["prior"])
        self.learner.load_state_dict(state["learner"])
        self.tasks = TaskDictionary.restored(state["tasks"])
        self.age, self.n_classes, self._outputs = state["age"], state["n_classes"], state["outputs"]


def _components(options: Preset, role: Role) -> int:
    """Gaussians of a memory's prior. A task memory needs one only to be recognised by, a tenth of the size."""
    if role == "ltm" or options.prior_components == 0:
        return options.prior_components
    return max(1, options.prior_components // 10) if options.recognition == "density" else 0


def _entropy(x: Tensor) -> Tensor:
    """H(x) of pixels that are Bernoulli means, in nats, shape (n,): what the best of reconstructions costs."""
    return -(torch.xlogy(x, x) + torch.xlogy(1 - x, 1 - x)).sum(dim=1)


def together(answers: Tensor, likely: Tensor) -> Tensor:
    """Probabilities of the classes by L's answers and the latent's log-likelihoods; L has no veto."""
    sure = answers.clamp(min=torch.finfo(answers.dtype).tiny).log()
    return torch.softmax(_MODESTY * (sure + likely), dim=1)
