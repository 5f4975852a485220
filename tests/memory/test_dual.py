"""Section 3.2 with networks that remember everything: what is trained, when it sleeps, who answers."""

import copy
from functools import partial

import numpy as np
import pytest

from dgdmn.config import Config
from dgdmn.core.batch import concat
from dgdmn.core.events import Context, EpochDone, Replayed, SleepEnded, SleepStarted, ignore
from dgdmn.core.rng import SeedStream
from dgdmn.memory import dual as dual_module
from dgdmn.memory.dual import DualMemory
from dgdmn.memory.generative import DeepGenerativeMemory
from dgdmn.memory.task_log import TaskInfo
from dgdmn.networks.factory import NetworkFactory
from dgdmn.storage import map_arrays


@pytest.fixture
def dual(doubles):
    def make(shift=0.0, n_classes=6, **options):
        made, config = doubles(shift), Config(**options)
        factory = NetworkFactory(config, (2,), "cpu", made.generator, made.learner)
        return DualMemory(
            partial(DeepGenerativeMemory, factory), config, n_classes, SeedStream(0)
        ), made.log

    return make


def learn(memory, task, batch, callback=ignore):
    memory.learn(task, batch, Context(SeedStream(1), callback))


def sleep(memory, callback=ignore):
    memory.sleep(Context(SeedStream(2), callback))


def pairs(batch):
    return sorted((x.tolist(), int(y)) for x, y in zip(batch.x, batch.y, strict=True))


def answers(memory, x, task):
    return memory.predict_proba(x, task).argmax(axis=1).tolist()


def test_each_task_has_its_own_task_memory_until_sleep(dual, distinct):
    memory, log = dual(n_stm=3)
    learn(memory, "a", distinct(0, 4, 0))
    learn(memory, "b", distinct(100, 3, 1))
    assert [held.task for held in memory.stm.awake] == ["a", "b"]
    assert [pairs(batch) for batch in log.trained("learner", "stm")] == [
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
    sleep(memory)
    assert not memory.stm.awake
    assert list(memory.ltm.tasks) == ["0", "1", "2", "3", "4"]
    everything = concat(*[distinct(100 * number, 4, number) for number in range(5)])
    assert pairs(log.trained("learner")[-1]) == pairs(everything)
    assert memory.ltm.age == 20


def test_sleep_without_awake_tasks_changes_nothing(dual, distinct):
    memory, log = dual(n_stm=1)
    learn(memory, "a", distinct(0, 4, 0))
    rng, before = SeedStream(7), len(log)
    memory.sleep(Context(rng, lambda event: pytest.fail("there is nothing to report")))
    assert (len(log), rng.used, memory.ltm.age) == (before, 0, 4)


def test_a_task_that_is_awake_retrains_its_task_memory(dual, distinct):
    memory, log = dual(n_stm=2)
    learn(memory, "a", distinct(0, 4, 0))
    learn(memory, "a", distinct(50, 3, 0))
    (held,) = memory.stm.awake
    assert memory.stm.tasks() == {"a": TaskInfo(2, frozenset({0}))}
    assert held.memory.n_seen == 7
    both = concat(distinct(0, 4, 0), distinct(50, 3, 0))
    assert pairs(log.trained("learner", "stm")[-1]) == pairs(both), "with replay of itself"
    events = []
    sleep(memory, events.append)
    assert events[0] == SleepStarted(("a",))
    assert memory.ltm.tasks["a"].times == 2
    assert pairs(log.trained("learner", "ltm")[-1]) == pairs(both)


def test_a_task_of_the_long_term_memory_is_learned_with_its_recall(dual, distinct):
    memory, log = dual(n_stm=1, shift=0.25)
    learn(memory, "a", distinct(0, 4, 3))
    learn(memory, "a", distinct(0, 2, 3))
    trained = log.trained("generator", "stm")[-1]
    assert sorted(trained[:, 0].tolist()) == [0.0, 0.25, 1.0, 1.25], "{X} and {X_recon} together"
    labels = log.trained("learner", "stm")[-1].y
    assert labels.tolist() == [3] * 4, "{Y} and {Y_recon} together"
    assert memory.ltm.tasks["a"] == TaskInfo(2, frozenset({3}))
    assert memory.ltm.age == 4 + 2, "recalled samples do not count"


def test_a_new_task_is_learned_without_recall(dual, distinct):
    memory, log = dual(n_stm=1)
    learn(memory, "a", distinct(0, 4, 0))
    learn(memory, "b", distinct(50, 3, 1))
    assert len(log.trained("generator", "stm")[-1]) == 3


def test_the_task_memory_that_holds_a_task_answers_else_the_long_term_memory(dual, distinct):
    memory, _ = dual(n_stm=2)
    learn(memory, "a", distinct(0, 4, 0))
    learn(memory, "b", distinct(10, 4, 1))  # sleep
    learn(memory, "a", distinct(0, 4, 5))  # "a" has another label now
    x = distinct(0, 4, 0).x
    assert answers(memory, x, "a") == [5] * 4
    assert answers(memory, x, "b") == [0] * 4, "the long-term memory holds b"
    assert answers(memory, x, "never learned") == [0] * 4


def test_without_a_task_each_sample_is_answered_by_the_memory_that_knows_it(dual, distinct):
    memory, _ = dual(n_stm=2, recognize_per="sample")
    learn(memory, "a", distinct(1, 4, 0))
    assert memory.memories() == [memory.stm.awake[0].memory], "the long-term memory is untrained"
    learn(memory, "b", distinct(100, 4, 1))
    assert memory.memories() == [memory.ltm]
    learn(memory, "c", distinct(200, 4, 2))
    assert len(memory.memories()) == 2
    mixed = np.concatenate([distinct(200, 2, 2).x, distinct(1, 2, 0).x, distinct(101, 1, 1).x])
    assert answers(memory, mixed, None) == [2, 2, 0, 0, 1]


def test_one_memory_alone_predicts_without_recognition(dual, distinct, monkeypatch):
    memory, _ = dual(n_stm=2)
    learn(memory, "a", distinct(1, 4, 3))
    expected = answers(memory, distinct(1, 4, 3).x, "a")
    monkeypatch.setattr(dual_module, "recognize", lambda *_: pytest.fail("not needed"))
    assert answers(memory, distinct(1, 4, 3).x, None) == expected == [3] * 4


def test_outputs_grow_when_a_memory_next_learns(dual, distinct):
    memory, _ = dual(n_stm=3, n_classes=1)
    learn(memory, "a", distinct(0, 4, 0))
    memory.grow(3)
    learn(memory, "b", distinct(50, 4, 2))
    assert [held.memory.learner.n_classes for held in memory.stm.awake] == [1, 3]
    x = distinct(0, 1, 0).x
    assert memory.predict_proba(x, "a").tolist() == [[1.0, 0.0, 0.0]], "no untrained outputs"
    assert answers(memory, distinct(50, 1, 2).x, "b") == [2]
    assert memory.ltm.learner.n_classes == 1
    learn(memory, "c", distinct(90, 4, 1))  # the third task: sleep
    assert memory.ltm.learner.n_classes == 3


def test_a_task_without_a_name_is_recognized_or_new(dual, distinct):
    memory, _ = dual(n_stm=3)
    learn(memory, None, distinct(1, 4, 0))
    learn(memory, None, distinct(100, 4, 1))
    learn(memory, None, distinct(1, 4, 0))  # the same samples again
    assert {task: info.times for task, info in memory.stm.tasks().items()} == {
        "task 1": 2,
        "task 2": 1,
    }
    learn(memory, None, distinct(1, 4, 2))  # known samples of a new class: a new task
    assert list(memory.ltm.tasks) == ["task 1", "task 2", "task 3"]


def test_a_new_task_gets_a_free_name(dual, distinct):
    memory, _ = dual(n_stm=3)
    learn(memory, "task 2", distinct(0, 4, 0))
    learn(memory, None, distinct(100, 4, 1))
    learn(memory, None, distinct(200, 4, 2))
    assert list(memory.ltm.tasks) == ["task 2", "task 1", "task 3"]


def test_events_name_their_memory_and_come_in_order(dual, distinct):
    memory, _ = dual(n_stm=1)
    events = []
    learn(memory, "a", distinct(0, 4, 0), events.append)
    assert [(type(event), getattr(event, "memory", None)) for event in events] == [
        (EpochDone, "stm"),
        (EpochDone, "stm"),
        (Replayed, "stm"),
        (SleepStarted, None),
        (EpochDone, "ltm"),
        (EpochDone, "ltm"),
        (Replayed, "ltm"),
        (SleepEnded, None),
    ]


def test_with_perfect_dreams_the_learner_is_trained_on_all_tasks(dual, distinct):
    memory, log = dual(n_stm=1, n_max=1000)
    tasks = [distinct(100 * number, 4 + number, number) for number in range(5)]
    for number, batch in enumerate(tasks):
        learn(memory, str(number), batch)
        assert pairs(log.trained("learner", "ltm")[-1]) == pairs(concat(*tasks[: number + 1]))


def described(memory):
    """The whole state as text, with the bytes of arrays."""
    return str(map_arrays(memory.state(), lambda array: array.tolist()))


@pytest.mark.parametrize("interrupted", ["learn", "sleep", "grow"])
def test_a_snapshot_keeps_what_it_had(dual, distinct, interrupted):
    """`copy.copy` is how a failed call is undone: nothing that a snapshot shares may change."""
    memory, _ = dual(n_stm=2, shift=0.25)
    for number in range(3):
        learn(memory, str(number), distinct(100 * number, 4, number))
    snapshot, before = copy.copy(memory), described(memory)

    def fail(event):
        raise KeyboardInterrupt

    for callback in (fail, ignore):  # an error in the middle, then success
        try:
            if interrupted == "learn":
                learn(memory, "2", distinct(700, 4, 3), callback)
            elif interrupted == "sleep":
                sleep(memory, callback)
            else:
                memory.grow(9)
        except KeyboardInterrupt:
            pass
        assert described(snapshot) == before
    assert described(memory) != before


def test_a_loaded_memory_continues_with_the_same_bits(dual, distinct):
    memory, _ = dual(n_stm=3, shift=0.25)
    for number in range(4):
        learn(memory, str(number), distinct(100 * number, 4, number))
    loaded, _ = dual(n_stm=3, shift=0.25)
    loaded.load_state(copy.deepcopy(memory.state()))
    assert described(loaded) == described(memory)
    for one in (memory, loaded):
        learn(one, "3", distinct(350, 2, 3))
        sleep(one)
    assert described(loaded) == described(memory)
