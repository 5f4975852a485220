"""`dgdmn watch` in a real browser, following a real run that is killed and continues."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from dgdmn.records import RunWriter

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
SCRIPT = "<script>alert(1)</script>"
# about twenty seconds: the page must see it run before it is done
SMALL = ["--preset", "quick", "--threads", "1", "--samples-per-task", "60", "--min-steps", "400"]
ROWS = "document.querySelector('#report table.heat')?.querySelectorAll('tbody tr').length ?? 0"
PLACE = """() => [
    scrollY,
    [...document.querySelectorAll('#report svg.chart[data-x]')].indexOf(document.activeElement),
    document.querySelector('[role=tab][aria-selected=true]').textContent,
    [...document.querySelectorAll('#report button[aria-pressed=false]')].map((one) => one.textContent),
]"""


@contextmanager
def started(*words, **options):
    """A command of this package in a process of its own, which always ends."""
    command = [sys.executable, "-m", "dgdmn.cli", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def watching():
    """`watching(root)` serves the runs in a directory and returns where."""
    processes = []

    def watch(root):
        context = started("watch", root, "--port", 0, stdout=subprocess.PIPE)
        processes.append(context)
        return re.search(r"http://\S+", context.__enter__().stdout.readline())[0]

    yield watch
    for context in processes:
        context.__exit__(None, None, None)


@pytest.mark.slow
def test_it_follows_a_run_that_is_killed_and_continues(opened, watching, until, tmp_path):
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    seen = opened(watching(tmp_path))
    page = seen.page
    page.evaluate("window.sameDocument = true")
    until(page, lambda: "No runs yet" in page.inner_text("#live"))

    with started("run", "embedded", "--out", tmp_path, *SMALL, **silent) as run:
        until(page, lambda: page.locator("#live li[data-state=running]").count() == 1, 120)
        until(
            page,
            lambda: float(page.get_by_role("progressbar").get_attribute("value") or 0) > 0,
            120,
        )
        until(page, lambda: "task" in page.inner_text("#live .live-phase"), 120)
        few = until(page, lambda: page.evaluate(ROWS), 120)
        until(page, lambda: page.evaluate(ROWS) > few, 120)
        until(
            page, lambda: page.locator("#live img").evaluate("(one) => one.naturalWidth") > 0, 120
        )
        run.send_signal(signal.SIGKILL)
        until(page, lambda: page.locator("#live li[data-state=stopped]").count() == 1, 60)

    (directory,) = tmp_path.iterdir()
    assert page.inner_text("#live code") == f"dgdmn resume {directory}"
    assert page.inner_text("#live .live-summary") == "1 stopped"
    with started("resume", directory, **silent):
        until(page, lambda: page.locator("#live li[data-state=running]").count() == 1, 120)
        until(page, lambda: page.inner_text("#live .live-summary") == "1 done", 180)
        until(page, lambda: page.evaluate(ROWS) == 10, 60)
    assert page.evaluate("window.sameDocument"), "the page was loaded again"
    assert page.locator("#live li").count() == 0
    assert seen.complaints == []
    asked = {url.split("/")[2] for url in seen.requests if not url.startswith("data:")}
    assert asked == {page.url.split("/")[2]}


@pytest.mark.slow
def test_a_run_says_what_it_does_before_anything_is_learned(opened, watching, until, tmp_path):
    writer = RunWriter(tmp_path / "run", {"key": "k", "tasks": ["a", "b", "c"]})
    known = {"task": "a", "steps": 3, "share": 0.0, "seconds": 1.0, "pid": os.getpid()}
    writer.status("loading", step=0, **known)
    page = opened(watching(tmp_path)).page
    until(page, lambda: "reading the data and planning 3 tasks" in page.inner_text("#live"))
    writer.status("learning", step=1, **known)
    until(page, lambda: "learning task 1 of 3, 1 s so far" in page.inner_text("#live"))
    assert page.get_by_role("progressbar").get_attribute("value") is None


@pytest.mark.slow
def test_a_reader_keeps_the_place_while_rows_come(opened, watching, until, runs, tmp_path):
    root = shutil.copytree(runs, tmp_path / "runs")
    directory = root / "odd-nn-quick-seed0"
    (directory / "summary.json").unlink()
    page = opened(watching(root)).page
    until(page, lambda: page.get_by_role("tab").count() == 2)
    page.get_by_role("tab").nth(1).click()
    page.locator("button[aria-pressed]:visible").nth(1).click()
    page.locator("svg.chart[data-x]:visible").nth(1).focus()
    page.evaluate("scrollBy({ top: 40, behavior: 'instant' })")
    before = page.evaluate(PLACE)
    assert before[0] > 0
    assert before[1] >= 0
    version = page.evaluate("document.getElementById('report').dataset.version")
    writer = RunWriter.resume(directory, 4)
    writer.row("accuracy", "zero", [0.125, 0.25, 0.5, 0.75], step=4)
    until(
        page, lambda: page.evaluate("document.getElementById('report').dataset.version") != version
    )
    assert page.evaluate(PLACE) == before
    assert "2 not finished" in page.inner_text("header")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_panel_stands_out_and_fits_a_phone_and_executes_no_name(
    opened, watching, until, runs, tmp_path, scheme
):
    root = shutil.copytree(runs, tmp_path / "runs")
    writer = RunWriter(root / f"long-{'name-' * 20}<u>seed0", {"key": "k", "tasks": [SCRIPT]})
    writer.status("sleeping", task=SCRIPT, step=1, steps=1, share=0.5, seconds=1.0, pid=os.getpid())
    seen = opened(watching(root), color_scheme=scheme, viewport={"width": 360, "height": 740})
    page = seen.page
    until(page, lambda: page.locator("#live li").count() == 3)
    assert page.inner_text("#live .live-phase >> visible=true") == f"sleeping, task {SCRIPT}"
    assert page.inner_text("#live .live-summary") == "1 running, 1 stopped, 10 done, 1 broken"
    assert page.evaluate(CONTRAST, 4.5)["found"] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert (
        page.evaluate("document.querySelectorAll('#live script, #live u, main script').length") == 0
    )
    assert seen.dialogs == seen.complaints == []
