"""A real browser, and pages to open in it: Debian's chromium, driven by Playwright; skipped where either is missing."""

import json
import shutil
import time
from types import SimpleNamespace

import numpy as np
import pytest

from dgdmn.records import RunWriter

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="session")
def browser():
    """One browser for all tests of this process."""
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the PATH")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser):
    """`opened(address, **options)`: a page in a context of its own, and all that it complained about or asked for."""
    contexts = []

    def open_page(address, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        seen = SimpleNamespace(page=context.new_page(), complaints=[], requests=[], dialogs=[])
        seen.page.on(
            "console",
            lambda m: seen.complaints.append(m.text) if m.type in ("error", "warning") else None,
        )
        seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.on(
            "dialog", lambda dialog: (seen.dialogs.append(dialog.message), dialog.dismiss())
        )
        seen.page.goto(address)
        return seen

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def until():
    """`until(page, true, seconds)`: wait until a question about a page is answered with yes."""

    def wait(page, true, seconds=60.0):
        end = time.monotonic() + seconds
        while not (answer := true()):
            assert time.monotonic() < end, (
                f"not within {seconds} s; the page says: {page.inner_text('body')[:2000]}"
            )
            page.wait_for_timeout(100)
        return answer

    return wait


def write_run(root, stream, algorithm, seed, tasks, done=True):
    """A run as `dgdmn run` leaves it, with made-up numbers."""
    rng = np.random.default_rng([seed, *algorithm.encode()])
    name = f"{stream}-{algorithm}-quick-seed{seed}"
    config = {
        "key": name,
        "stream": stream,
        "algorithm": algorithm,
        "preset": "quick",
        "seed": seed,
        "evaluate_on": "test",
        "revise": [],
        "options": {"n_stm": 2, "kappa": 0.05},
        "changes": {"kappa": 0.05},
        "tasks": list(tasks),
        "classes": list(range(len(tasks))),
        "shape": [8, 8],
        "note": f"a note {SCRIPT}",
        "versions": {"dgdmn": "0.0", "torch": "2"},
        "machine": {"system": "Linux"},
    }
    writer = RunWriter(root / name, config)
    dual = algorithm == "dgdmn"
    for step, task in enumerate(tasks, start=1):
        writer.event("task_began", step=step, task=task, samples=100)
        if dual and step % 2 == 0:
            slept = list(tasks[step - 2 : step])
            counts = [10] * (step - 2)
            writer.event("sleep_started", tasks=slept)
            writer.event(
                "replayed", tasks=slept, n_tasks=100, n_gen=50, memory="ltm", dreamed=counts
            )
            writer.event("sleep_ended", tasks=slept)
            x, y = rng.integers(0, 256, (16, 8, 8), dtype=np.uint8), np.arange(16) % step
            writer.artifact(f"dreams-{step:03d}", x=x, y=y, task=y, labels=y, judged=y)
        row = np.round(rng.uniform(0, 1, len(tasks)), 3)
        row[step - 1] = 1.0
        writer.event("task_learned", step=step, task=task)
        writer.row("accuracy", task, row)
        if dual:
            writer.row("accuracy_ltm", task, row if step > 1 else row * np.nan)
        writer.event("step_ended", step=step)
    if dual:
        images = rng.integers(0, 256, (4 * len(tasks), 8, 8), dtype=np.uint8)
        writer.artifact("reconstructions", x=images, reconstructed=images[::-1])
    if done:
        numbers = {"seconds": 12.0, "train_seconds": 10.0, "samples_trained": 1000}
        numbers |= {"steps_trained": 100, "memory_bytes": 100_000, "exemplar_bytes": 0}
        writer.summary({"acc": float(row.mean()), "bwt": -0.5, "peak_rss_mb": 300.0, **numbers})
    return writer


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Two streams, several algorithms and seeds, one unfinished run, one broken directory, odd names."""
    root = tmp_path_factory.mktemp("runs")
    digits = [str(digit) for digit in range(10)]
    odd = ["zero", SCRIPT, "“ä” & <u>b", "a very long name " * 6]
    for algorithm in ("dgdmn", "nn", "joint", "ewc"):
        for seed in (0, 1):
            write_run(root, "digits", algorithm, seed, digits, done=(algorithm, seed) != ("ewc", 1))
    for algorithm in ("dgdmn", "nn", "<u>mine"):
        write_run(root, "odd", algorithm, 0, odd)
    (root / "broken").mkdir()
    (root / "broken" / "config.json").write_text(json.dumps({"tasks": SCRIPT}))
    return root
