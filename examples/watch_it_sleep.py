"""Watch a memory learn four digits, sleep twice and dream.

The digits come with scikit-learn. The core prints nothing; it calls `callback` after each epoch,
replay and sleep, and this callback prints the sleeps.

    python examples/watch_it_sleep.py
"""

import numpy as np

from dgdmn import DGDMN
from dgdmn.core.events import Replayed, SleepStarted
from dgdmn.streams import load

GRAYS = " .:-=+*#%@"


def print_sleep(event):
    if isinstance(event, SleepStarted):
        print(f"   sleep: consolidate the tasks {', '.join(event.tasks)}")
    if isinstance(event, Replayed) and event.memory == "ltm":
        print(f"   train on {event.n_tasks} dreams of these tasks and {event.n_gen} of the past")


def to_text(images):
    """Draw images (n, 28, 28) side by side as text, using every second pixel."""
    level = (images[:, ::2, ::2] * (len(GRAYS) - 1)).round().astype(int)
    lines = level.swapaxes(0, 1)
    return "\n".join("  ".join("".join(GRAYS[v] for v in row) for row in line) for line in lines)


def main():
    stream = load("embedded")[:4]
    small = {"generator_layers": (128,), "min_steps": 100, "generator_epochs": 8}
    memory = DGDMN("deep/embedded", **small, random_state=0, callback=print_sleep)
    for task in stream:
        print(f"learn digit {task.name} from {len(task.train)} samples")
        memory.partial_fit(task.train.x, task.train.y, task=task.name)
        seen = stream[: int(task.name) + 1]
        correct = [np.mean(memory.predict(t.test.x, task=t.name) == t.test.y) for t in seen]
        awake = ", ".join(memory.awake_tasks()) or "none"
        print(
            f"   accuracy: {' '.join(f'{value:.2f}' for value in correct)}; awake tasks: {awake}\n"
        )

    dreams, labels = memory.sample(200, random_state=0)
    best = memory.predict_proba(dreams).argmax(
        axis=0
    )  # for each class the dream it is most sure of
    print("one dream of each digit")
    print(to_text(dreams[[best[digit] for digit in np.unique(labels)]]))


if __name__ == "__main__":
    main()
