"""The time left of a run, from made-up logs: after two tasks it is right within a factor of two."""

import pytest

from dgdmn.runs.time_left import TimeLeft


def equal(task):
    return 1.0


def growing(task):
    return 1.0 + task  # as joint training


def sleeping(task):
    return 4.0 if task % 2 else 1.0  # a sleep after every second task


def write_log(learn, planned, *, tasks=10, start=0.0, test=0.5, final=8.0, epochs=4):
    """Events of a run: kind, seconds of the whole run, share of the work, seconds of the training or test."""
    log, now, trained, done = [], 0.0, 0.0, 0.0
    whole = sum(map(learn, range(tasks)))
    for task in range(tasks):
        for _ in range(epochs):
            each = learn(task) / epochs
            trained += each + start * (not log)
            now, done = now + each + start * (not log), done + each
            log.append(("epoch", now, done / whole if planned else task / tasks, trained))
        first = 1.0 if task == 0 else test  # features of the test rows are made once
        now += first
        log.append(("test", now, (task + 1) / tasks if not planned else done / whole, first))
    return log, now + final


@pytest.mark.parametrize(
    ("learn", "planned"),  # without a plan nothing says that later tasks take longer
    [(equal, True), (equal, False), (growing, True), (sleeping, True), (sleeping, False)],
)
@pytest.mark.parametrize("start", [0.0, 5.0])
def test_within_a_factor_of_two(learn, planned, start):
    log, end = write_log(learn, planned, start=start)
    left, tested, checked, trained = TimeLeft(final_tests=8.0, cached=True), 0, 0, 0.0
    for kind, now, share, seconds in log:
        if kind == "test":
            left.record_test(seconds)
            tested += 1
            left.record_training(share, trained)
        else:
            trained = seconds
            left.record_training(share, seconds)
        if tested >= 2:
            assert (end - now) / 2 <= left.seconds(10 - tested) <= 2 * (end - now)
            checked += 1
    assert checked > 30


def test_nothing_is_predicted_from_nothing():
    left = TimeLeft(final_tests=2.0, cached=True)
    left.record_training(0.0, 3.0)
    assert left.seconds(4) is None
    left.record_training(0.5, 3.0)
    assert left.seconds(4) is None, "the first measure may contain a start"
    left.record_test(1.0)
    assert left.seconds(3) == 3.0 + 3.0 + 2.0
    left.record_training(0.75, 4.0)
    assert left.seconds(3) == 1.0 + 3.0 + 2.0, "the first measure contained a start"
    assert left.final_seconds() == 2.0
    left.record_test(0.5)
    assert left.final_seconds() == 2.0, "it makes features of its own, as the first test did"
    plain = TimeLeft(final_tests=2.0, tests=[1.0])
    plain.record_test(0.5)
    assert plain.final_seconds() == 1.0
