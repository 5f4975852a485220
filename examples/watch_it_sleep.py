"""Watch a memory learn four digits, fall asleep twice, and dream.

The digits come with scikit-learn, so nothing is fetched. The core is silent; `listen` is told of each
epoch, replay and sleep, and here it prints the sleeps.

    python examples/watch_it_sleep.py
"""

import numpy as np

from dgdmn import DGDMN
from dgdmn.events import Replayed, SleepBegan
from dgdmn.streams import load

INK = " .:-=+*#%@"


def hear(event):
    if isinstance(event, SleepBegan):
        print(f"   falls asleep with {len(event.tasks)} tasks and dreams {event.dreams} samples of them")
    if isinstance(event, Replayed) and event.memory == "ltm":
        print(f"   consolidates these and {event.n_gen} dreams of its own past, by class {event.dreamt}")


def drawn(images):
    """Images (n, 28, 28) side by side as text, every second row and column."""
    level = (images[:, ::2, ::2] * (len(INK) - 1)).round().astype(int)
    return "\n".join("  ".join("".join(INK[v] for v in row) for row in rows) for rows in level.swapaxes(0, 1))


def main():
    stream = load("embedded")[:4]
    small = {
        "generator_layers": (128, 64),
        "latent": 8,
        "batch_size": 32,
        "min_steps": 150,
        "generator_epochs": 15,
    }
    memory = DGDMN("paper/embedded", n_stm=2, **small, random_state=0, listen=hear)
    for task in stream:
        print(f"learns digit {task.name} from {len(task.train)} samples")
        memory.partial_fit(task.train.x, task.train.y, task=task.name)
        seen = stream[: int(task.name) + 1]
        right = [np.mean(memory.predict(t.test.x, task=t.name) == t.test.y) for t in seen]
        held = ", ".join(memory.awake_tasks()) or "nothing"
        print(f"   accuracy on 0 to {task.name}: {' '.join(f'{r:.2f}' for r in right)}; awake: {held}\n")

    dreams, labels = memory.sample(200, random_state=0)
    surest = memory.predict_proba(dreams).argmax(axis=0)  # for each class the dream it is most sure of
    chosen = [surest[digit] for digit in np.unique(labels)]
    print("dreams of the long-term memory, the one of each digit that it is most sure of")
    print(drawn(dreams[chosen]))


if __name__ == "__main__":
    main()
