"""Seconds, sleeps and replays against a day in the life of a run, counted by hand."""

import math

from hypothesis import given
from hypothesis import strategies as st

from dgdmn.report.timeline import PHASES, timeline

DAY = [
    {"kind": "task_began", "seconds": 2.0, "step": 1},
    {"kind": "epoch_done", "seconds": 5.0, "memory": "stm", "done": 0.25},
    {"kind": "task_learned", "seconds": 6.0, "step": 1},
    {"kind": "evaluated", "seconds": 7.0, "step": 1},
    {"kind": "step_ended", "seconds": 7.5, "step": 1},
    {"kind": "task_began", "seconds": 8.0, "step": 2},
    {"kind": "epoch_done", "seconds": 10.0, "memory": "stm", "done": 0.5},
    {"kind": "sleep_began", "seconds": 10.0, "tasks": ["a", "b"], "dreams": 4},
    {"kind": "epoch_done", "seconds": 14.0, "memory": "ltm", "done": 1.0},
    {"kind": "replayed", "seconds": 14.0, "memory": "ltm", "n_tasks": 4, "n_gen": 6, "dreamt": [3, 3]},
    {"kind": "sleep_ended", "seconds": 15.0, "tasks": ["a", "b"]},
    {"kind": "task_learned", "seconds": 15.0, "step": 2},
    {"kind": "evaluated", "seconds": 18.0, "step": 2},
]


def test_a_day():
    seen = timeline(DAY)
    assert seen.seconds == {"learning": 4 + 2, "sleep": 5, "testing": 1.5 + 3, "other": 2 + 0.5}
    assert sum(seen.seconds.values()) == 18.0
    assert seen.trained == (4.0, 11.0)
    assert seen.sleeps == (2,)
    (replay,) = seen.replays
    assert (replay.step, replay.new, replay.dreams, replay.dreamt) == (2, 4, 6, (3, 3))
    assert seen.done == 1.0


def test_an_algorithm_without_sleeps_also_trains_a_long_term_memory():
    seen = timeline([DAY[0], {"kind": "epoch_done", "seconds": 9.0, "memory": "ltm"}])
    assert seen.seconds["sleep"] == 7.0
    assert seen.sleeps == ()


def test_work_that_a_kill_undid_is_no_learning():
    seen = timeline(
        [*DAY[:2], {"kind": "resumed", "seconds": 30.0, "steps": 0}, *[{**DAY[0], "seconds": 31.0}]]
    )
    assert seen.seconds["learning"] == 3.0
    assert seen.seconds["other"] == 2.0 + 25.0 + 1.0


def test_no_events():
    seen = timeline([])
    assert sum(seen.seconds.values()) == 0
    assert math.isnan(seen.done)


VALUES = st.none() | st.floats() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
KINDS = st.sampled_from([event["kind"] for event in DAY] + ["foreign"])


@given(
    st.lists(
        st.fixed_dictionaries({"kind": KINDS, "seconds": VALUES, "step": VALUES, "done": VALUES}), max_size=8
    )
)
def test_odd_values_do_no_harm_and_no_second_is_counted_twice(events):
    seen = timeline(events)
    times = [
        e["seconds"] for e in events if isinstance(e["seconds"], int | float) and abs(e["seconds"]) < 1e18
    ]
    assert math.isclose(sum(seen.seconds.values()), max([0.0, *times]), rel_tol=1e-9)
    assert set(seen.seconds) == set(PHASES)
    assert len(seen.trained) <= 10_000
