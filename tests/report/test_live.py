"""How far runs are, told from their directories: without a lock, without reading twice, whatever lies there."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgdmn.records import RunWriter, locked
from dgdmn.report import live, locks, tail
from dgdmn.report.live import QUIET, Watch, newest_dreams
from dgdmn.report.story import Story, enough
from dgdmn.report.tail import Tail

NOBODY = frozenset()


def begun(directory, tasks=("a", "b"), **config):
    return RunWriter(directory, {"tasks": list(tasks), **config})


def epoch(writer, epoch, epochs, done, network="generator", memory="stm"):
    writer.event("epoch_done", network=network, epoch=epoch, epochs=epochs, samples=1, loss=1.0,
                 memory=memory, done=done)  # fmt: skip


def looked(*paths, **options):
    return {progress.name: progress for progress in Watch(paths, **options).look()}


HEARD: list[list[str]] = []


def _hear(event, args):
    if HEARD and event in ("open", "os.scandir"):
        HEARD[0].append(os.fspath(args[0]))


sys.addaudithook(_hear)  # it cannot be taken away again, but it can be kept from hearing


@pytest.fixture
def opened():
    """The files opened since the list was last cleared."""
    HEARD.append([])
    yield HEARD[0]
    HEARD.clear()


# ---- states ----


def test_a_run_is_running_while_its_lock_is_held_then_stopped_then_done(tmp_path):
    watch = Watch([tmp_path])
    with locked(tmp_path / "run"):
        assert [(p.state, p.doing) for p in watch.look()] == [("running", "starting")]
        writer = begun(tmp_path / "run", revise=[1])
        writer.event("task_began", step=1, task="a", samples=10)
        (progress,) = watch.look()
        assert (progress.state, progress.step, progress.steps) == ("running", 1, 3)
        assert progress.doing == "learning a"
    assert [p.state for p in watch.look()] == ["stopped"]
    writer.summary({"acc": 1.0})
    (progress,) = watch.look()
    assert (progress.state, progress.share) == ("done", 1.0)


def test_the_lock_of_another_process_is_seen_until_it_is_killed(tmp_path):
    begun(tmp_path / "run")
    code = "import sys; from pathlib import Path; from dgdmn.records import locked\n"
    code += "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"held\n"
        assert looked(tmp_path)["run"].state == "running"
        process.kill()
    assert looked(tmp_path)["run"].state == "stopped"


def test_a_writer_never_fails_because_somebody_watches(tmp_path, monkeypatch):
    begun(tmp_path / "run")
    watch, over, looks = Watch([tmp_path]), threading.Event(), []

    def look():
        while not over.is_set():
            looks.extend(watch.look())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(300):
            with locked(tmp_path / "run"):
                pass
    finally:
        over.set()
        thread.join()
    assert looks
    monkeypatch.setattr(fcntl, "flock", lambda *_: pytest.fail("took a lock"))
    assert watch.look()


def test_the_table_of_locks(tmp_path):
    table = tmp_path / "locks"
    table.write_text(
        "1: FLOCK  ADVISORY  WRITE 10759 fe:00:2499205 0 EOF\n"
        "1: -> FLOCK  ADVISORY  WRITE 10760 fe:00:77 0 EOF\n"
        "2: FLOCK  ADVISORY  READ 10761 fe:00:78 0 EOF\n"
        "3: POSIX  ADVISORY  WRITE 10762 fe:00:79 0 EOF\n"
        "4: FLOCK  ADVISORY  WRITE 10763 00:2a:80 0 EOF\nodd\n5: FLOCK A WRITE 1 x:y:z 0 EOF\n"
    )
    found = locks.held(table)
    assert found == {(0xFE << 32, 2499205), (0x2A, 80)}
    assert locks.held(tmp_path / "none") is None

    def stat(device, inode):
        return os.stat_result((0, inode, device, 0, 0, 0, 0, 0, 0, 0))

    assert locks.is_held(stat(os.makedev(0xFE, 0), 2499205), found)
    assert not locks.is_held(stat(os.makedev(0xFE, 1), 2499205), found)
    assert not locks.is_held(stat(os.makedev(0, 0x2B), 2499205), found)
    assert locks.is_held(stat(os.makedev(0, 0x2B), 80), found), "btrfs shows stat another device"


def test_a_writer_behind_an_invisible_lock_is_known_by_its_files(tmp_path):
    writer = begun(tmp_path / "run")
    (tmp_path / "run" / ".lock").touch()
    writer.event("task_began", step=1, task="a", samples=1)
    now = [(tmp_path / "run" / "events.jsonl").stat().st_ctime]
    watch = Watch([tmp_path], clock=lambda: now[0], held=lambda: NOBODY)
    assert [p.state for p in watch.look() + watch.look()] == ["stopped", "stopped"]
    epoch(writer, 1, 2, 0.1)
    assert [p.state for p in watch.look() + watch.look()] == ["running", "running"]
    now[0] += QUIET + 10
    assert [p.state for p in watch.look()] == ["stopped"]


def test_where_locks_are_not_listed_age_decides(tmp_path):
    begun(tmp_path / "run")
    (tmp_path / "run" / ".lock").touch()
    now = (tmp_path / "run" / "config.json").stat().st_ctime
    assert looked(tmp_path, clock=lambda: now + 1, held=lambda: None)["run"].state == "running"
    assert looked(tmp_path, clock=lambda: now + QUIET + 1, held=lambda: None)["run"].state == "stopped"


# ---- what is read ----


def test_nothing_is_read_twice(tmp_path, opened):
    writers = [begun(tmp_path / f"run-{n}") for n in range(4)]
    for writer in writers:
        epoch(writer, 1, 2, 0.5)
    for writer in writers[:2]:
        writer.summary({})
    watch = Watch([tmp_path], clock=lambda: 4e9, held=lambda: NOBODY)
    first = watch.look()
    opened.clear()
    assert watch.look() == first
    assert all(one is other for one, other in zip(watch.look(), first, strict=True))
    assert opened == []

    epoch(writers[3], 2, 2, 0.75)
    opened.clear()
    assert [p.share for p in watch.look()] == [1.0, 1.0, 0.5, 0.75]
    assert opened == [str(tmp_path / "run-3" / "events.jsonl")]

    begun(tmp_path / "run-4")
    opened.clear()
    assert len(watch.look()) == 5
    assert [Path(path).parent.name for path in opened if Path(path).name == "config.json"] == ["run-4"]


def test_a_done_run_costs_one_stat(tmp_path, monkeypatch):
    begun(tmp_path / "run").summary({})
    watch = Watch([tmp_path], clock=lambda: 4e9, held=lambda: NOBODY)
    watch.look()
    stats, stat = [], Path.stat
    monkeypatch.setattr(Path, "stat", lambda path, **how: stats.append(path.name) or stat(path, **how))
    watch.look()
    assert stats == [tmp_path.name, "summary.json"]


def test_what_a_report_is_made_from_changes_with_rows_not_with_epochs(tmp_path):
    writer = begun(tmp_path / "run")
    watch = Watch([tmp_path])
    watch.look()
    before = watch.recorded
    epoch(writer, 1, 2, 0.5)
    watch.look()
    assert watch.recorded == before
    writer.row("accuracy", "a", [1.0, 0.0])
    watch.look()
    assert watch.recorded != before


def lines(n):
    return [json.dumps({"kind": "epoch_done", "n": number, "pad": "x" * 100}) for number in range(n)]


def test_of_a_long_file_only_the_end_is_read_and_then_only_what_is_new(tmp_path, monkeypatch):
    path, read, pread = tmp_path / "events.jsonl", [], os.pread
    path.write_text('{"kind": "task_began"}\n' + "\n".join(lines(5000)) + "\n")
    monkeypatch.setattr(os, "pread", lambda *what: read.append(what[1]) or pread(*what))
    anew, events = Tail(path, enough=lambda events: len(events) > 3).news()
    assert anew
    assert events[-1]["n"] == 4999
    assert sum(read) == tail.WINDOW
    following = Tail(path, enough=lambda events: events[0]["kind"] == "task_began")
    assert len(following.news()[1]) == 5001
    read.clear()
    assert following.news() == (False, [])
    with path.open("a") as file:
        file.write('{"kind": "new"}\n{"kind": "to')
    assert following.news() == (False, [{"kind": "new"}])
    assert sum(read) < 1000


@given(st.lists(st.integers(1, 300), max_size=12), st.integers(0, 20))
def test_events_come_once_however_the_file_grows(tmp_path_factory, cuts, n):
    path = tmp_path_factory.mktemp("tail") / "events.jsonl"
    content = "".join(line + "\n" for line in lines(n)).encode()
    reader, heard, at = Tail(path, enough), [], 0
    for step in [*cuts, len(content)]:
        with path.open("ab") as file:
            file.write(content[at : at + step])
        at += step
        anew, events = reader.news()
        assert not (anew and heard), "what was read came again"
        heard += events
    assert [event["n"] for event in heard] == list(range(n))


def test_a_file_that_was_replaced_is_read_anew(tmp_path):
    path = tmp_path / "events.jsonl"
    reader = Tail(path, enough)
    path.write_text("\n".join(lines(3)) + "\n")
    assert reader.news()[0]
    path.write_text('{"kind": "resumed"}\n' + "\n".join(lines(9)) + "\n")
    anew, events = reader.news()
    assert (anew, len(events)) == (True, 10)
    path.write_text("")
    assert reader.news() == (True, [])


# ---- what it tells ----


def told(*events):
    story = Story()
    for number, event in enumerate(events):
        story.take({"time": "2026-11-16T00:00:00.000+00:00", "seconds": number * 10, **event})
    return story


def an_epoch(epoch, epochs, done, network="generator", memory="stm", samples=100):
    return {"kind": "epoch_done", "epoch": epoch, "epochs": epochs, "done": done, "network": network,
            "memory": memory, "samples": samples}  # fmt: skip


BEGAN = {"kind": "task_began", "step": 1, "task": "7"}


def test_time_left_by_hand():
    story = told(BEGAN, an_epoch(1, 25, 0.1), an_epoch(2, 25, 0.2), an_epoch(3, 25, 0.3))
    assert story.left == pytest.approx(20 * 0.7 / 0.2)
    assert story.phase_left == pytest.approx(10 * 22)
    assert story.doing == "learning 7; generator epoch 3 of 25"
    assert story.noted == pytest.approx(1794787200)


def test_what_is_left_of_a_sleep_counts_the_learner_that_follows():
    first = [
        an_epoch(1, 2, 0.1),
        an_epoch(2, 2, 0.2),
        an_epoch(1, 2, 0.3, "learner"),
        an_epoch(2, 2, 0.4, "learner"),
    ]
    again = [an_epoch(1, 4, 0.5, samples=50), an_epoch(2, 4, 0.6, samples=50)]
    assert told(BEGAN, *first, *again).phase_left == pytest.approx(2 * 10 + 20 / 100 * 50)
    other = [an_epoch(1, 4, 0.5, memory="ltm"), an_epoch(2, 4, 0.6, memory="ltm")]
    assert told(BEGAN, *first, *other).phase_left == pytest.approx(2 * 10), (
        "nobody timed that memory's learner"
    )


def test_an_earlier_attempt_takes_none_of_this_ones_time():
    story = told(BEGAN, an_epoch(1, 2, 0.4), {"kind": "resumed", "steps": 0}, an_epoch(2, 2, 0.5))
    assert story.left is None
    story.take({"time": "2026-11-16T00:00:00.000+00:00", "seconds": 40, **an_epoch(1, 9, 0.75, "learner")})
    assert story.left == pytest.approx(10.0)
    assert story.phase_left is None


def test_asleep_and_awake():
    story = told(BEGAN, {"kind": "sleep_began", "tasks": ["0", "1"]})
    assert story.doing == "asleep: consolidating 0, 1"
    story = told(BEGAN, {"kind": "sleep_began", "tasks": ["0", "1"]}, an_epoch(7, 25, 0.3, memory="ltm"))
    assert story.doing == "asleep: consolidating 0, 1; generator epoch 7 of 25"
    story = told(BEGAN, {"kind": "sleep_began", "tasks": ["0"]}, {"kind": "sleep_ended", "tasks": ["0"]})
    assert story.doing == "awake again after 7"
    assert told(BEGAN, {"kind": "task_learned", "step": 1, "task": "7"}).doing == "testing after 7"


def test_the_last_row_counts_the_tasks_seen():
    story = told(BEGAN, {"kind": "evaluated", "step": 2, "task": "7", "accuracy": [1.0, 0.5, 0.0]})
    assert (story.accuracy, story.evaluated) == (0.75, 2)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
KINDS = ["task_began", "epoch_done", "sleep_began", "sleep_ended", "task_learned", "evaluated", "resumed"]
FIELDS = ["step", "steps", "task", "tasks", "accuracy", "epoch", "epochs", "done", "network", "memory"]
odd_events = st.fixed_dictionaries(
    {"kind": st.sampled_from(KINDS) | anything},
    optional={
        "time": st.just("2026-11-16T00:00:00+00:00") | anything,
        "seconds": st.floats(0, 100) | anything,
        **{name: st.integers(1, 9) | st.floats(0, 1) | anything for name in FIELDS},
    },
)


@given(st.lists(odd_events, max_size=8))
def test_no_event_can_upset_the_story(events):
    story = Story()
    for event in events:
        story.take(event)
    assert 0 <= story.done <= 1
    assert all(left is None or left >= 0 for left in (story.left, story.phase_left))
    assert isinstance(story.doing, str)
    assert enough(events) in (True, False)


# ---- whatever lies there ----


def fill(path, content):
    path.mkdir()
    (path / "config.json").write_bytes(content)


def huge(path):
    fill(path, b"")
    os.truncate(path / "config.json", 1 << 33)


def deep(path):
    fill(path, b'{"tasks":' + b"[" * 100_000)


def odd_file(path, name, make):
    begun(path)
    make(path / name)


BROKEN = {
    "empty": Path.mkdir,
    "no JSON": lambda path: fill(path, b"{"),
    "no object": lambda path: fill(path, b"[]"),
    "no tasks": lambda path: fill(path, b"{}"),
    "tasks of lists": lambda path: fill(path, b'{"tasks": [[1]]}'),
    "huge": huge,
    "deep": deep,
    "config is a directory": lambda path: (path / "config.json").mkdir(parents=True),
    "events is a pipe": lambda path: odd_file(path, "events.jsonl", os.mkfifo),
    "events is a directory": lambda path: odd_file(path, "events.jsonl", Path.mkdir),
    "summary is a pipe": lambda path: odd_file(path, "summary.json", os.mkfifo),
    "summary is torn": lambda path: odd_file(path, "summary.json", lambda p: p.write_text('{"done": tr')),
}
ODD = {
    "events are noise": lambda path: odd_file(
        path, "events.jsonl", lambda p: p.write_bytes(bytes(range(256)) * 999)
    ),
    "artefacts is a file": lambda path: odd_file(path, "artefacts", Path.touch),
    "lock is a directory": lambda path: odd_file(path, ".lock", Path.mkdir),
    "link to nowhere": lambda path: odd_file(path, "accuracy.csv", lambda p: p.symlink_to("nowhere")),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_broken_directory_is_a_line(tmp_path, name):
    BROKEN[name](tmp_path / "bad")
    begun(tmp_path / "good")
    watch = Watch([tmp_path])
    first, again = watch.look(), watch.look()
    assert {p.name: p.state for p in first} == {"bad": "broken", "good": "stopped"}
    assert first == again
    assert first[0].problem
    assert "\n" not in first[0].problem
    assert str(tmp_path) not in first[0].problem


@pytest.mark.parametrize("name", list(ODD))
def test_an_odd_file_does_not_matter(tmp_path, name):
    ODD[name](tmp_path / "odd")
    assert looked(tmp_path)["odd"].state == "stopped"


def test_a_mended_directory_is_read_whole(tmp_path):
    writer = begun(tmp_path / "run")
    writer.summary({})
    config = (tmp_path / "run" / "config.json").read_bytes()
    (tmp_path / "run" / "config.json").write_bytes(b"{")
    watch = Watch([tmp_path])
    assert [p.state for p in watch.look()] == ["broken"]
    (tmp_path / "run" / "config.json").write_bytes(config)
    assert [p.state for p in watch.look()] == ["done"]


def test_a_directory_removed_before_or_while_it_is_read(tmp_path, monkeypatch):
    begun(tmp_path / "one")
    begun(tmp_path / "two")
    watch = Watch([tmp_path])
    read = live.read_object

    def removed(path):
        shutil.rmtree(path.parent)
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(live, "read_object", removed)
        assert {p.state for p in watch.look()} == {"broken"}
    assert watch.look() == ()
    begun(tmp_path / "one")
    assert [p.state for p in watch.look()] == ["stopped"]


def test_runs_are_found_as_they_come_and_a_run_may_be_named_itself(tmp_path):
    watch = Watch([tmp_path])
    assert watch.look() == ()
    begun(tmp_path / "it's one")
    (progress,) = watch.look()
    assert (progress.name, progress.command) == ("it's one", f"dgdmn resume '{tmp_path}/it'\"'\"'s one'")
    assert [p.name for p in Watch([tmp_path / "it's one"]).look()] == ["it's one"]


def test_the_newest_dreams_are_those_of_the_highest_step(tmp_path):
    writer = begun(tmp_path / "run")
    for step in ("999", "1000", "010"):
        writer.artefact(f"dreams-{step}", x=np.zeros((1, 2, 2), np.uint8))
    writer.artefact("dreams-of-you")
    (tmp_path / "run" / "artefacts" / ".dreams-2000.npz.tmp").touch()
    assert newest_dreams(tmp_path / "run" / "artefacts").name == "dreams-1000.npz"
    assert newest_dreams(tmp_path) is None


def test_all_tasks_together_are_one_step(tmp_path):
    begun(tmp_path / "run", together=True)
    [progress] = Watch([tmp_path]).look()
    assert progress.steps == 1
