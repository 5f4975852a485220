"""The time left of a run, from made-up logs: it is right within a factor of two whenever it is stated."""

import pytest

from dgdmn.runs.time_left import TimeLeft


def equal(task):
    return 1.0


def growing(task):
    return 1.0 + task  # as joint training


def sleeping(task):
    return 4.0 if task % 2 else 1.0  # a sleep after every second task


def write_log(learn, *, tasks=10, start=0.0, test=lambda task: 0.5, final=8.0, epochs=4):
    """Events of a run: kind, seconds of the run, share of the work, seconds of all training or of the test."""
    log, now, trained, done = [], 0.0, 0.0, 0.0
    whole = sum(map(learn, range(tasks)))
    for task in range(tasks):
        for _ in range(epochs):
            each = learn(task) / epochs + start * (not log)
            trained, now, done = trained + each, now + each, done + learn(task) / epochs
            log.append(("epoch", now, done / whole, trained))
        seconds = test(task) + start * (task == 0)
        now += seconds
        log.append(("test", now, done / whole, seconds))
    return log, now + final


@pytest.mark.parametrize("learn", [equal, growing, sleeping])
@pytest.mark.parametrize("start", [0.0, 5.0])
def test_planned_training_is_within_a_factor_of_two(learn, start):
    log, end = write_log(learn, start=start)
    left, tested, checked, trained = TimeLeft(range(1, 11)), 0, 0, 0.0
    left.final_seconds = 8.0
    for kind, now, share, seconds in log:
        if kind == "test":
            left.record_step(seconds)
            tested += 1
        else:
            trained = seconds
        left.record_training(share, trained)
        if tested >= 2:
            assert (end - now) / 2 <= left.seconds() <= 2 * (end - now)
            checked += 1
    assert checked > 30


@pytest.mark.parametrize("learn", [equal, growing, sleeping, lambda task: 3.0 + task])
@pytest.mark.parametrize("test", [equal, growing])
@pytest.mark.parametrize(("tasks", "start"), [(10, 0.0), (10, 5.0), (40, 5.0)])
def test_a_cost_that_is_not_planned_is_within_a_factor_of_two(learn, test, tasks, start):
    log, end = write_log(learn, tasks=tasks, start=start, test=test)
    left, began, checked = TimeLeft(range(1, tasks + 1), planned=False), 0.0, 0
    left.final_seconds = 8.0
    for kind, now, _, _ in log:
        if kind == "test":
            left.record_step(now - began)
            began = now
        said = left.seconds(now - began)
        if said is not None:
            assert (end - now) / 2 <= said <= 2 * (end - now), (kind, now)
            checked += 1
    assert checked >= 0.65 * len(log)


def test_nothing_is_predicted_from_nothing():
    left = TimeLeft([2] * 4)
    left.final_seconds = 2.0
    left.record_training(0.0, 3.0)
    assert left.seconds() is None
    left.record_training(0.5, 3.0)
    assert left.seconds() is None, "the first measure may contain a start"
    left.record_step(1.0)
    left.record_training(0.75, 4.0)
    assert left.seconds() == 1.0 + 3.0 + 2.0, "the first measure contained a start"


def test_a_step_takes_as_long_as_before_if_no_class_is_new():
    left = TimeLeft([2] * 5, planned=False)
    for seconds in (9.0, 3.0, 3.0):
        assert left.seconds() is None
        left.record_step(seconds)
    assert left.seconds() == 6.0, "the first step contained a start"
    assert left.seconds(elapsed=2.0) == 4.0
    assert left.seconds(elapsed=4.0) == 3.0, "a step that takes longer delays no other"
    assert TimeLeft([2] * 5, [4.0] * 3, planned=False).seconds() == 8.0, "earlier steps of a run"
