"""The options of `best` together, dense and convolutional: they remember what the paper's dreams would forget."""

from dataclasses import replace

import pytest
import torch

from dgdmn.events import Replayed, ignore
from dgdmn.memory.dual import DualMemory
from dgdmn.networks.blueprint import Blueprint
from dgdmn.presets import Preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds

OPTIONS = {
    "n_stm": 2, "n_max": 400, "latent": 6, "sttm_latent": 6, "generator_layers": (24,), "sttm_generator_layers": (24,),
    "learner_layers": (24,), "sttm_learner_layers": (12,), "batch_size": 16, "min_steps": 200, "learning_rate": 0.004,
    "clip_norm": 0.0, "clip_value": 0.0, "beta": 0.1, "index": "codes", "prior_components": 8, "dreams": "anew",
    "soft_labels": 0.2, "latent_noise": 1.0, "answers": "both", "recognition": "density", "momentum": 0.9,
    "rate": "cycle",
}  # fmt: skip
BRIEFLY = {"generator_epochs": 1, "learner_epochs": 1}
CONVOLUTIONAL = {
    "generator_convolutions": (4,), "sttm_generator_convolutions": (4,), "learner_convolutions": (4,),
}  # fmt: skip


def bar(label, n=60):
    """Images of 8 × 8 with one bright column, which one is the label; the brightness varies."""
    rng = torch.Generator().manual_seed(label)
    x = 0.1 * torch.rand(n, 8, 8, generator=rng)
    x[:, :, 2 * label] += 0.6 + 0.3 * torch.rand(n, 1, generator=rng)
    return Samples(x.reshape(n, 64), torch.full((n,), label))


@pytest.mark.parametrize("networks", [{}, CONVOLUTIONAL], ids=["dense", "convolutional"])
def test_tasks_learnt_and_slept_over_are_known_and_recognised(networks):
    memory = DualMemory(Blueprint(Preset(**{**OPTIONS, **networks}), (8, 8)), 4, Seeds(0))
    for label in range(3):
        memory.learn(str(label), bar(label), Seeds(label), ignore)
    assert [held.task for held in memory.stm.awake] == ["2"]
    for label in range(3):
        x = bar(label).x
        assert float((memory.probabilities(x, str(label)).argmax(dim=1) == label).float().mean()) > 0.9
        assert memory.recognise(x).answers.tolist() == [0 if label == 2 else 1] * len(x), (
            "awake first, then the LTM"
        )
    dreams = memory.ltm.dream(40, Seeds(9))
    assert dreams.y.bincount().tolist() == [20, 20], "balanced, with labels known"
    columns = dreams.x.reshape(40, 8, 8).mean(dim=1).argmax(dim=1)
    assert float((columns == 2 * dreams.y).float().mean()) > 0.75, "one of eight by chance"


def test_the_learner_and_the_prior_answer_together():
    """By hand: p(y | x) ∝ (L(y | x_recon) p(z | y))^¼; nobody answers with a class that was never met."""
    memory = DualMemory(Blueprint(Preset(**{**OPTIONS, "min_steps": 40}), (8, 8)), 4, Seeds(0))
    for label in range(3):
        memory.learn(str(label), bar(label), Seeds(label), ignore)
    x, ltm = bar(0).x[:6], memory.ltm
    assert ltm.prior
    by_learner = ltm.answers(ltm.generator.reconstruct(x))
    likely = ltm.prior.log_likelihood(ltm.generator.posterior(x)[0], 4).exp()
    assert likely[:, 2:].tolist() == [[0, 0]] * 6, "one is awake, one to come"
    by_hand = (by_learner * likely) ** 0.25
    torch.testing.assert_close(ltm.probabilities(x), by_hand / by_hand.sum(dim=1, keepdim=True))
    assert ltm.probabilities(x[:0]).shape == (0, 4)
    ltm.options = replace(ltm.options, answers="learner")
    torch.testing.assert_close(ltm.probabilities(x), by_learner)
    held = memory.stm.awake[0].memory
    recalled = held.answers(held.generator.reconstruct(x))
    (
        torch.testing.assert_close(held.probabilities(x), recalled),
        "an STTM has seen rows: its learner knows best",
    )


def taught(**changes):
    """The long-term memory's learner after three short sleeps."""
    options = Preset(**{**OPTIONS, "n_stm": 1, "min_steps": 0, **BRIEFLY, **changes})
    memory = DualMemory(Blueprint(options, (8, 8)), 3, Seeds(0))
    for label in range(3):
        memory.learn(str(label), bar(label), Seeds(label), ignore)
    return torch.cat([parameter.detach().flatten() for parameter in memory.ltm.learner.parameters()])


@pytest.mark.parametrize(
    "off",
    [
        {"index": "none"}, {"prior_components": 0}, {"dreams": "once"}, {"soft_labels": 0.0}, {"latent_noise": 0.0},
        {"momentum": 0.0}, {"rate": "constant"}, {"beta": 1.0},
    ],
    ids=lambda off: next(iter(off)),
)  # fmt: skip
def test_each_option_changes_what_the_learner_learns(off):
    with_all = taught()
    assert torch.equal(with_all, taught())
    assert not torch.equal(with_all, taught(**off))


@pytest.fixture
def shown(monkeypatch):
    """`shown(memory, new, dreams, anew)`: the latents and targets of one visit with seed 3, and what it was given."""

    def look(memory, new, dreams, anew):
        caught, latents, targets = [], [], []
        monkeypatch.setattr(memory.learner, "train_with", lambda *given: caught.append(given))
        decoded, cross_entropy = memory.generator.decoded, torch.nn.functional.cross_entropy
        memory.train_learner_on_latents(new, dreams, anew, Seeds(2), ignore)
        monkeypatch.setattr(memory.generator, "decoded", lambda z: latents.append(z) or decoded(z))
        monkeypatch.setattr(
            torch.nn.functional, "cross_entropy", lambda x, y: targets.append(y) or cross_entropy(x, y)
        )
        ((loss, data, *_),) = caught
        loss(*data, torch.Generator().manual_seed(3))
        return latents[0], targets[0], decoded(latents[0])

    return look


@pytest.mark.parametrize("anew", [True, False])
def test_what_the_learner_is_shown_by_hand(shown, anew):
    """New rows as mean + a · σ · ε, dreams likewise or drawn from the prior; a share of belief in dreams alone."""
    options = {**OPTIONS, "n_stm": 1, "min_steps": 0, **BRIEFLY, "latent_noise": 0.5, "soft_labels": 0.3}
    memory = DualMemory(Blueprint(Preset(**options), (8, 8)), 3, Seeds(0))
    for label in range(2):
        memory.learn(str(label), bar(label), Seeds(label), ignore)
    ltm, new = memory.ltm, bar(2, 5)
    dreams = ltm.dream(7, Seeds(1))
    z, y, x = shown(ltm, new, dreams, anew)

    rng = torch.Generator().manual_seed(3)
    mean, deviation = ltm.generator.posterior(torch.cat([new.x, dreams.x]))
    by_hand = mean + 0.5 * deviation * torch.randn(mean.shape, generator=rng)
    if anew:
        by_hand[5:] = ltm.prior.latents_of(dreams.y, rng)
    torch.testing.assert_close(z, by_hand)
    known = torch.eye(3)[torch.cat([new.y, dreams.y])]
    torch.testing.assert_close(y[:5], known[:5])
    torch.testing.assert_close(y[5:], 0.7 * known[5:] + 0.3 * ltm.learner.probabilities(x)[5:])


@pytest.mark.parametrize(("allocation", "dreams"), [("age", 120), ("class", 30)])
def test_a_class_of_few_rows_is_outnumbered_by_age_and_not_by_class(allocation, dreams):
    """Two classes of 60 rows, then one of 15: the past is 120 samples, or 15 a class."""
    options = Preset(**{**OPTIONS, "n_stm": 1, "min_steps": 0, **BRIEFLY, "allocation": allocation})
    memory, heard = DualMemory(Blueprint(options, (8, 8)), 3, Seeds(0)), []
    for label, rows in enumerate((60, 60, 15)):
        memory.learn(str(label), bar(label, rows), Seeds(label), heard.append)
    replayed = [event for event in heard if isinstance(event, Replayed)][-1]
    assert (replayed.n_tasks, replayed.n_gen, memory.ltm.age) == (15, dreams, 135)


def test_a_learner_that_is_sure_of_nothing_likely_has_no_veto():
    """Where L gives every class that the prior knows exactly 0, the answer is still a probability."""
    memory = DualMemory(Blueprint(Preset(**{**OPTIONS, "min_steps": 20}), (8, 8)), 4, Seeds(0))
    for label in range(2):
        memory.learn(str(label), bar(label), Seeds(label), ignore)
    with torch.no_grad():
        memory.ltm.learner.head.bias.copy_(torch.tensor([-1e4, -1e4, 0.0, 1e4]))
    answers = memory.ltm.probabilities(bar(0).x)
    assert torch.allclose(answers.sum(dim=1), torch.ones(len(answers)))
    assert bool((answers[:, 2:] == 0).all())
