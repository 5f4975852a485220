"""Your own stream: scikit-learn's wines, one task per class.

python examples/own_stream.py
PYTHONPATH=examples dgdmn run own_stream:wines --algorithm nn dgdmn
"""

from functools import cache

from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import minmax_scale

from dgdmn.streams import Rows, TaskStream


def wines(*, seed=0, validation=0.0):
    """Return three tasks of one class each."""
    tasks = [(f"wine {label}", (label,)) for label in range(3)]
    return TaskStream("wines", tasks, (13,), _load, seed=seed, validation=validation)


@cache
def _read():
    X, y = load_wine(return_X_y=True)
    return minmax_scale(X), y


def _load(number):
    """Return (train, test) of a task; called when the task is indexed."""
    X, y = _read()
    rows = y == number
    x_train, x_test, y_train, y_test = train_test_split(X[rows], y[rows], random_state=0)
    return Rows(x_train, y_train), Rows(x_test, y_test)


if __name__ == "__main__":
    for task in wines():
        print(f"{task.name}: {len(task.train)} rows to train on, {len(task.test)} to test on")
