"""Section 3.2 with networks that remember everything: who is trained on what, who sleeps when, who answers."""

import pytest
import torch

from dgdmn.events import EpochDone, Replayed, SleepBegan, SleepEnded, ignore
from dgdmn.memory.dictionary import Entry
from dgdmn.memory.dual import DualMemory
from dgdmn.networks.blueprint import Blueprint
from dgdmn.presets import Preset
from dgdmn.samples import concat
from dgdmn.seeds import Seeds


@pytest.fixture
def dual(doubles):
    def make(shift=0.0, n_classes=6, **options):
        made = doubles(shift)
        blueprint = Blueprint(Preset(**options), (2,), "cpu", made.generator, made.learner)
        return DualMemory(blueprint, n_classes, Seeds(0)), made.log

    return make


def learn(memory, task, samples, listen=ignore):
    memory.learn(task, samples, Seeds(1), listen)


def pairs(samples):
    return sorted((x.tolist(), int(y)) for x, y in zip(samples.x, samples.y, strict=True))


def answers(memory, x, task):
    return memory.probabilities(x, task).argmax(dim=1).tolist()


def test_every_task_has_a_task_memory_of_its_own_until_sleep(dual, distinct):
    memory, log = dual(n_stm=3)
    learn(memory, "a", distinct(0, 4, 0))
    learn(memory, "b", distinct(100, 3, 1))
    assert [held.task for held in memory.stm.awake] == ["a", "b"]
    assert [pairs(samples) for samples in log.trained("learner", "stm")] == [
        pairs(distinct(0, 4, 0)),
        pairs(distinct(100, 3, 1)),
    ]
    assert log.trained("learner", "ltm") == []
    assert not memory.ltm.tasks


def test_sleep_follows_the_n_stm_th_task(dual, distinct):
    memory, log = dual(n_stm=2)
    slept = []
    for number in range(5):
        learn(memory, str(number), distinct(100 * number, 4, number))
        slept.append(not memory.stm.awake)
    assert slept == [False, True, False, True, False]
    assert list(memory.ltm.tasks) == ["0", "1", "2", "3"]
    memory.sleep(Seeds(2), ignore)
    assert not memory.stm.awake
    assert list(memory.ltm.tasks) == ["0", "1", "2", "3", "4"]
    everything = concat(*[distinct(100 * number, 4, number) for number in range(5)])
    assert pairs(log.trained("learner")[-1]) == pairs(everything)
    assert memory.ltm.age == 20


def test_sleep_with_nothing_awake_changes_nothing(dual, distinct):
    memory, log = dual(n_stm=1)
    learn(memory, "a", distinct(0, 4, 0))
    seeds, before = Seeds(7), len(log)
    memory.sleep(seeds, lambda event: pytest.fail("nobody is told of a sleep that is none"))
    assert (len(log), seeds.used, memory.ltm.age) == (before, 0, 4)


def test_a_held_task_retrains_its_task_memory(dual, distinct):
    memory, log = dual(n_stm=2)
    learn(memory, "a", distinct(0, 4, 0))
    learn(memory, "a", distinct(50, 3, 0))
    (held,) = memory.stm.awake
    assert memory.stm.tasks() == {"a": Entry(2, frozenset({0}))}
    assert held.seen == 7
    both = concat(distinct(0, 4, 0), distinct(50, 3, 0))
    assert pairs(log.trained("learner", "stm")[-1]) == pairs(both), "with replay of itself"
    heard = []
    memory.sleep(Seeds(2), heard.append)
    assert heard[0] == SleepBegan(("a",), 7)
    assert memory.ltm.tasks["a"].times == 2
    assert pairs(log.trained("learner", "ltm")[-1]) == pairs(both)


def test_a_task_known_to_the_long_term_memory_comes_with_its_recall(dual, distinct):
    memory, log = dual(n_stm=1, shift=0.25)
    learn(memory, "a", distinct(0, 4, 3))
    again = distinct(0, 2, 3)
    learn(memory, "a", again)
    trained = log.trained("generator", "stm")[-1]
    assert sorted(trained[:, 0].tolist()) == [0.0, 0.25, 1.0, 1.25], "{X} and {X_recon} together"
    labels = log.trained("learner", "stm")[-1].y
    assert labels.tolist() == [3] * 4, "{Y} and {Y_recon} together"
    assert memory.ltm.tasks["a"] == Entry(2, frozenset({3}))
    assert memory.ltm.age == 4 + 2, "recalled samples do not count: the sleep dreams as many as came"


def test_a_new_task_brings_no_recall(dual, distinct):
    memory, log = dual(n_stm=1)
    learn(memory, "a", distinct(0, 4, 0))
    learn(memory, "b", distinct(50, 3, 1))
    assert len(log.trained("generator", "stm")[-1]) == 3


def test_the_task_memory_that_holds_the_task_answers_else_the_long_term_memory(dual, distinct):
    memory, _ = dual(n_stm=2)
    learn(memory, "a", distinct(0, 4, 0))
    learn(memory, "b", distinct(10, 4, 1))  # sleep
    learn(memory, "a", distinct(0, 4, 5))  # "a" has another label now
    x = distinct(0, 4, 0).x
    assert answers(memory, x, "a") == [5] * 4
    assert answers(memory, x, "b") == [0] * 4, "the long-term memory holds b"
    assert answers(memory, x, "never met") == [0] * 4


def test_without_a_task_each_sample_goes_to_the_memory_that_knows_it(dual, distinct):
    memory, _ = dual(n_stm=2, recognise_each="sample")
    learn(memory, "a", distinct(1, 4, 0))
    assert memory.memories() == [memory.stm.awake[0].memory], "an untrained long-term memory has no say"
    learn(memory, "b", distinct(100, 4, 1))
    assert memory.memories() == [memory.ltm]
    learn(memory, "c", distinct(200, 4, 2))
    assert len(memory.memories()) == 2
    mixed = torch.cat([distinct(200, 2, 2).x, distinct(1, 2, 0).x, distinct(101, 1, 1).x])
    assert answers(memory, mixed, None) == [2, 2, 0, 0, 1]


def test_a_memory_grows_when_it_next_learns(dual, distinct):
    memory, _ = dual(n_stm=3, n_classes=1)
    learn(memory, "a", distinct(0, 4, 0))
    memory.grow(3)
    learn(memory, "b", distinct(50, 4, 2))
    assert [held.memory.learner.n_classes for held in memory.stm.awake] == [1, 3]
    assert memory.probabilities(distinct(0, 1, 0).x, "a").tolist() == [[1.0, 0.0, 0.0]], (
        "no random new outputs"
    )
    assert answers(memory, distinct(50, 1, 2).x, "b") == [2]
    assert memory.ltm.learner.n_classes == 1
    learn(memory, "c", distinct(90, 4, 1))  # the third task: sleep
    assert memory.ltm.learner.n_classes == 3


def test_a_task_without_a_name_is_recognised_or_new(dual, distinct):
    memory, _ = dual(n_stm=3)
    learn(memory, None, distinct(1, 4, 0))
    learn(memory, None, distinct(100, 4, 1))
    learn(memory, None, distinct(1, 4, 0))  # the same samples again: known
    assert {task: entry.times for task, entry in memory.stm.tasks().items()} == {"task 1": 2, "task 2": 1}
    learn(memory, None, distinct(1, 4, 2))  # samples that look known, of a class never met: new
    assert list(memory.ltm.tasks) == ["task 1", "task 2", "task 3"]


def test_a_new_task_takes_no_name_that_is_taken(dual, distinct):
    memory, _ = dual(n_stm=3)
    learn(memory, "task 2", distinct(0, 4, 0))
    learn(memory, None, distinct(100, 4, 1))
    learn(memory, None, distinct(200, 4, 2))
    assert list(memory.ltm.tasks) == ["task 2", "task 1", "task 3"]


def test_events_say_which_memory_and_in_which_order(dual, distinct):
    memory, _ = dual(n_stm=1)
    heard = []
    learn(memory, "a", distinct(0, 4, 0), heard.append)
    assert [(type(event), getattr(event, "memory", None)) for event in heard] == [
        (EpochDone, "stm"),
        (EpochDone, "stm"),
        (Replayed, "stm"),
        (SleepBegan, None),
        (EpochDone, "ltm"),
        (EpochDone, "ltm"),
        (Replayed, "ltm"),
        (SleepEnded, None),
    ]


def test_perfect_dreams_hand_the_learner_the_union_of_all_tasks(dual, distinct):
    memory, log = dual(n_stm=1, age="seen", n_max=1000)
    tasks = [distinct(100 * number, 4 + number, number) for number in range(5)]
    for number, samples in enumerate(tasks):
        learn(memory, str(number), samples)
        assert pairs(log.trained("learner", "ltm")[-1]) == pairs(concat(*tasks[: number + 1]))
