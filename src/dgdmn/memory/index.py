"""An index of a task's samples: the code of each, kept from learning to sleep, as the hippocampus is thought to."""

from __future__ import annotations

import torch

from dgdmn.networks.generator import Coder
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import State


class Index:
    """Latent codes and labels of samples: 2 bytes a number, a few dozen numbers a sample.

    Decoded by the generator that made them they are the samples but for its blur, which no dream is. They are
    also far closer to the data than weights are, so they go when the task memory is freed.
    """

    def __init__(self, most: int, latent: int) -> None:
        self.most = most
        """Codes kept at most; of more samples a random part is."""
        self.codes = torch.zeros(0, latent, dtype=torch.float16)
        self.y = torch.zeros(0, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def each(self) -> int:
        """Bytes of one sample's code and label."""
        return self.codes.shape[1] * self.codes.itemsize + self.y.itemsize

    def samples(self, generator: Coder) -> Samples:
        """What the codes stand for."""
        return Samples(generator.decoded(self.codes.float()), self.y)

    def rewrite(self, generator: Coder, samples: Samples, seeds: Seeds) -> None:
        """Keep the codes of these samples instead of those before."""
        if len(samples) > self.most:
            samples = samples.subsample(self.most, seeds.next())
        self.codes, self.y = generator.posterior(samples.x)[0].half(), samples.y

    def state(self) -> State:
        """The codes and labels."""
        return {"codes": self.codes, "labels": self.y}

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        n, latent = len(state["labels"]), self.codes.shape[1]
        for name, kept, shape in (("codes", self.codes, (n, latent)), ("labels", self.y, (n,))):
            if state[name].dtype != kept.dtype or state[name].shape != shape:
                raise ValueError(f"{name} of the index are {state[name].dtype} of {tuple(state[name].shape)}")
        self.codes, self.y = state["codes"].clone(), state["labels"].clone()
