"""The index: codes from learning to sleep, and none after."""

import copy
from dataclasses import replace

import pytest
import torch

from dgdmn.events import Replayed, ignore
from dgdmn.memory.dual import DualMemory
from dgdmn.memory.index import Index
from dgdmn.networks.blueprint import Blueprint
from dgdmn.presets import Preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds
from dgdmn.storage import bytes_in, tensors_in
from dgdmn.testing import find_rows

SMALL = Preset(
    n_stm=2, n_max=60, generator_layers=(8,), latent=4, sttm_generator_layers=(8,), sttm_latent=3,
    learner_layers=(8,), sttm_learner_layers=(8,), generator_epochs=2, learner_epochs=2, batch_size=8,
    index="codes", prior_components=4, soft_labels=0.5, latent_noise=1.0, momentum=0.9, rate="cycle",
)  # fmt: skip


def made(**changes):
    return DualMemory(Blueprint(replace(SMALL, **changes), (4, 4)), 4, Seeds(0))


def some(label, n=20, seed=0):
    rng = torch.Generator().manual_seed(10 * label + seed)
    return Samples(torch.rand(n, 16, generator=rng), torch.full((n,), label))


def test_an_awake_task_memory_decodes_its_samples_instead_of_dreaming():
    memory, new = made(), some(0)
    memory.learn("a", new, Seeds(1), ignore)
    held = memory.stm.awake[0]
    decoded = held.dream(Seeds(2))
    assert torch.equal(decoded.y, new.y)
    assert torch.allclose(decoded.x, held.memory.generator.reconstruct(new.x), atol=2e-3), "but for float16"


def test_there_are_at_most_n_max_codes_in_all_task_memories():
    memory = made(n_max=30)
    memory.learn("a", some(0, n=50), Seeds(1), ignore)
    assert len(memory.stm.awake[0].index) == 15
    assert len(memory.stm.dream(Seeds(2))) == 15


def test_a_task_met_again_before_the_sleep_keeps_what_it_had():
    memory = made()
    memory.learn("a", some(0), Seeds(1), ignore)
    memory.learn("a", some(0, n=6, seed=1), Seeds(2), ignore)
    assert len(memory.stm.awake[0].index) == 26


def test_what_has_codes_is_replayed_from_them_and_not_dreamt(monkeypatch):
    memory, heard = made(), []
    memory.learn("a", some(0), Seeds(1), ignore)
    (held,) = memory.stm.awake
    before, lessons = held.dream(Seeds(2)), []
    generator = held.memory.generator
    monkeypatch.setattr(generator, "sample", lambda *_: pytest.fail("a dream from N(0, I)"))
    monkeypatch.setattr(generator, "fit", lambda x, *_: lessons.append(x))
    memory.learn("a", some(0, n=6, seed=1), Seeds(2), heard.append)
    assert torch.equal(lessons[0][:6], some(0, n=6, seed=1).x)
    assert sorted(lessons[0][6:].tolist()) == sorted(before.x.tolist())
    (replayed,) = (event for event in heard if isinstance(event, Replayed))
    assert (replayed.n_tasks, replayed.n_gen) == (6, 20)


def test_what_has_codes_is_not_drawn_from_a_prior_either(monkeypatch):
    """A task memory has one where it is recognised by it; its codes say more."""
    memory = made(recognition="density", prior_components=40, dreams="anew", soft_labels=0.0)
    memory.learn("a", some(0), Seeds(1), ignore)
    (held,) = memory.stm.awake
    assert held.memory.prior
    monkeypatch.setattr(held.memory.prior, "latents_of", lambda *_: pytest.fail("a draw from the prior"))
    memory.learn("a", some(0, n=6, seed=1), Seeds(2), ignore)
    assert len(held.index) == 26


def test_sleep_frees_every_code_and_the_bytes_say_so():
    memory = made()
    memory.learn("a", some(0), Seeds(1), ignore)
    codes = [path for path, _ in tensors_in(memory.state()) if "codes" in path]
    assert codes == ["stm/0/index/codes"]
    assert bytes_in(memory.state()["stm"][0]["index"]) == 20 * (3 * 2 + 8)
    room = memory.room()
    memory.learn("b", some(1, n=10), Seeds(2), ignore)
    assert memory.room() == room, (
        "two task memories, each with as many codes as the largest had, and all priors"
    )
    assert not [path for path, _ in tensors_in(memory.state()) if "codes" in path]
    assert memory.stm.awake == []


def test_after_a_sleep_no_code_is_left_in_the_object_either():
    memory = made()
    memory.learn("a", some(0), Seeds(1), ignore)
    codes = memory.stm.awake[0].index.codes.float().clone()
    assert find_rows(memory, codes), "it looks where they are"
    memory.sleep(Seeds(2), ignore)
    assert find_rows(memory, codes) == []


def test_more_classes_than_components_have_their_room_from_the_start():
    memory = made(prior_components=1, n_stm=1)
    rooms = []
    for number in range(4):
        memory.learn(str(number), some(number), Seeds(number), ignore)
        rooms.append(memory.room())
    assert len(memory.ltm.prior.labels) == 4, "one component a class, though the budget is one"
    assert len(set(rooms)) == 1


def test_without_the_option_there_is_none():
    memory = made(index="none", n_stm=3)
    memory.learn("a", some(0), Seeds(1), ignore)
    assert memory.stm.awake[0].index is None


def test_a_memory_found_again_sleeps_to_the_same_bits():
    memory, other = made(n_stm=3), made(n_stm=3)
    for number in range(2):
        memory.learn(str(number), some(number), Seeds(number), ignore)
    other.restore(copy.deepcopy(memory.state()))
    for each in (memory, other):
        each.sleep(Seeds(5), ignore)
        each.learn("2", some(2), Seeds(6), ignore)
        each.sleep(Seeds(7), ignore)
    x = some(3).x
    assert torch.equal(memory.probabilities(x, None), other.probabilities(x, None))
    assert torch.equal(memory.ltm.prior.means, other.ltm.prior.means)


@pytest.mark.parametrize(
    "wrong", [torch.zeros(5, 3), torch.zeros(5, 4, dtype=torch.float16)], ids=["type", "size"]
)
def test_codes_that_do_not_fit_are_refused(wrong):
    with pytest.raises(ValueError, match="codes"):
        Index(9, 3).restore({"codes": wrong, "labels": torch.zeros(5, dtype=torch.int64)})
