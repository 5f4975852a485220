"""Contract checks for your own parts: generators, learners, memories and algorithms; and `find_rows`.

from dgdmn.testing import check_memory
check_memory(MyMemory)  # raises an AssertionError that says what is wrong
"""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from dgdmn.algorithms.dgdmn import DGDMN
from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.persistence import load
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context, EpochDone, Event
from dgdmn.core.rng import SeedStream
from dgdmn.memory.protocols import GenerativeMemory, OwnMemory
from dgdmn.memory.task_log import TaskInfo
from dgdmn.networks.protocols import (
    Generator,
    GeneratorFactory,
    LatentGenerator,
    Learner,
    LearnerFactory,
    Reconstructs,
)

__all__ = ["check_algorithm", "check_generator", "check_learner", "check_memory", "find_rows"]


def check_algorithm(
    make: Callable[..., ContinualClassifier],
    *,
    keeps_rows: bool = False,
    not_applicable: frozenset[str] | set[str] = frozenset(),
    **parameters: Any,
) -> None:
    """Raise an AssertionError unless the estimator behaves as an algorithm of this library must.

    `make(random_state=…, **parameters)` makes it; a class works. `keeps_rows`: it keeps training rows.
    `not_applicable` names what it does not have: "epochs" (it sends no EpochDone events) or "randomness"
    (every seed gives the same result).
    """
    tasks = _three_tasks()
    X = np.concatenate([*(x for x, _ in tasks), (tasks[0][0] + tasks[1][0]) / 2])
    events: list[Event] = []

    def learned(seed: int = 0, n: int = 3, **more: Any) -> ContinualClassifier:
        model = make(random_state=seed, **parameters, **more)
        for number, (x, y) in enumerate(tasks[:n]):
            model.partial_fit(x, y, task=str(number))
            right = float((model.predict(x, task=str(number)) == y).mean())
            assert right > 0.9, f"a new task of one class is learned to an accuracy of {right:.2f}"
            assert model.classes_.tolist() == list(range(number + 1)), "classes_ does not grow"
        return model

    torch_state, numpy_state = torch.get_rng_state(), _numpy_random_state()
    model = learned(callback=events.append)
    assert torch.equal(torch_state, torch.get_rng_state()), "uses torch's global random numbers"
    assert numpy_state == _numpy_random_state(), "uses numpy's global random numbers"
    epochs = [event for event in events if isinstance(event, EpochDone)]
    assert epochs or "epochs" in not_applicable, "sends no EpochDone events"
    answers = model.predict_proba(X)
    assert answers.shape == (len(X), 3), f"predict_proba gives shape {answers.shape}"
    assert np.allclose(answers.sum(axis=1), 1), "predict_proba gives rows that do not sum to 1"
    assert np.array_equal(answers, learned().predict_proba(X)), "a seed gives other bits again"
    if "randomness" not in not_applicable:
        assert not np.array_equal(answers, learned(1).predict_proba(X)), "all seeds give the same"
    assert not clone(model).__sklearn_is_fitted__(), "a clone is fitted"
    rows = np.concatenate([x.reshape(len(x), -1) for x, _ in tasks])
    assert keeps_rows or not find_rows(model, rows), f"keeps rows at {find_rows(model, rows)[:1]}"

    two = learned(n=2)
    before = two.predict_proba(X)
    bad = tasks[2][0].copy()
    bad[3] = np.nan
    _check_refused(lambda: two.partial_fit(bad, tasks[2][1], task="2"), "NaN in X")
    if epochs:  # an error in the middle of learning

        def fail(_: Event) -> None:
            raise KeyboardInterrupt

        two.callback = fail
        _check_refused(lambda: two.partial_fit(*tasks[2], task="2"), "an interrupt")
        two.callback = None
    assert np.array_equal(before, two.predict_proba(X)), "a failed call changes predictions"
    with tempfile.TemporaryDirectory() as home:
        two.save(Path(home) / "memory")
        again = load(Path(home) / "memory", **_own_parts(two))
    assert np.array_equal(before, again.predict_proba(X)), "save and load change predictions"
    for one in (two, again):
        one.partial_fit(*tasks[2], task="2")
    assert np.array_equal(answers, two.predict_proba(X)), "a failed call changes later learning"
    assert np.array_equal(answers, again.predict_proba(X)), "a loaded estimator learns differently"


def check_memory(make: OwnMemory, *, keeps_rows: bool = False) -> None:
    """Raise an AssertionError unless the factory makes generative memories that DGDMN can work with.

    `keeps_rows`: the memory keeps training rows.
    """
    data = [Batch(x.reshape(len(x), -1), y) for x, y in _three_tasks()]
    shape, d = _three_tasks()[0][0].shape[1:], data[0].x.shape[1]

    def learned(*batches: Batch) -> GenerativeMemory:
        memory = make(shape, 2, "stm", SeedStream(0))
        assert isinstance(memory, GenerativeMemory), f"{type(memory).__name__} lacks a method"
        for batch in batches:
            tasks = {str(batch.y[0]): TaskInfo(1, batch.classes())}
            memory.learn(batch, tasks, Context(SeedStream(1)))
        return memory

    memory = learned(data[0])
    assert list(memory.tasks) == ["0"], "learn does not log the task"
    answers = memory.predict_proba(data[0].x)
    assert answers.shape == (len(data[0]), 2), f"predict_proba gives shape {answers.shape}"
    assert np.allclose(answers.sum(axis=1), 1, atol=1e-4), "probabilities do not sum to 1"
    assert (answers.argmax(axis=1) == 0).mean() > 0.9, "does not learn one class"
    loss = memory.recognition_loss(data[0].x)
    assert loss.shape == (len(data[0]),), f"recognition_loss gives shape {loss.shape}"
    other = memory.recognition_loss(data[1].x)
    assert loss.mean() < other.mean(), "recognition_loss is not lower for what was learned"
    for name, batch in (
        ("sample", memory.sample(5, SeedStream(2))),
        ("recall", memory.recall(data[0].x[:5])),
    ):
        assert batch.x.shape == (5, d), f"{name} gives inputs of shape {batch.x.shape}"
        assert batch.y.shape == (5,), f"{name} gives labels of shape {batch.y.shape}"
        assert np.isfinite(batch.x).all(), f"{name} gives values that are not finite"
    assert memory.nbytes(at_capacity=True) >= memory.nbytes() > 0, "nbytes is wrong"

    snapshot = copy.copy(memory)
    memory.learn(data[1], {"1": TaskInfo(1, data[1].classes())}, Context(SeedStream(3)))
    memory.grow(3)
    assert np.array_equal(answers, snapshot.predict_proba(data[0].x)), "learn changes a snapshot"
    assert list(snapshot.tasks) == ["0"], "learn changes a snapshot's tasks"
    assert memory.predict_proba(data[0].x).shape[1] == 3, "grow does not add a class"

    first, second = learned(data[0]), learned(data[1])
    long_term = make(shape, 2, "ltm", SeedStream(4))
    long_term.consolidate([first, second], Context(SeedStream(5)))
    assert list(long_term.tasks) == ["0", "1"], "consolidate does not log the tasks"
    both = np.concatenate([data[0].x, data[1].x])
    answers = long_term.predict_proba(both)
    right = float((answers.argmax(axis=1) == np.repeat([0, 1], len(data[0]))).mean())
    assert right > 0.9, f"consolidates two classes to an accuracy of {right:.2f}"
    loaded = make(shape, 2, "ltm", SeedStream(6))
    loaded.load_state(copy.deepcopy(long_term.state()))
    assert np.array_equal(answers, loaded.predict_proba(both)), "load_state changes answers"
    found = [] if keeps_rows else find_rows([first, second, long_term], both)
    assert not found, f"keeps training rows at {found[0]}"

    def model(random_state: int = 0, **parameters: Any) -> DGDMN:
        return DGDMN(memory=make, random_state=random_state, **parameters)

    check_algorithm(model, keeps_rows=keeps_rows, not_applicable={"epochs", "randomness"})
    full = model()
    for number, (x, y) in enumerate(_three_tasks()):
        full.partial_fit(x, y, task=str(number))
    full.sleep()
    assert full.consolidated_tasks() == ("0", "1", "2"), "sleep does not consolidate"
    assert full.sample(6, random_state=0)[0].shape == (6, *shape), "sample fails in DGDMN"


def check_generator(factory: GeneratorFactory, shape: tuple[int, ...] = (8, 8)) -> None:
    """Raise an AssertionError unless the factory makes generators that a memory can work with."""
    x, d = _patterns(shape).x, int(np.prod(shape))
    g = factory(shape, "stm", _rng(0))
    before = _losses(g, x) if isinstance(g, Reconstructs) else None
    _check_fit(lambda rng, callback: g.fit(x, rng, callback), "generator", x)
    assert not (kept := find_rows(g, x)), f"fit keeps training rows at {kept[0]}"

    samples = g.sample(7, _rng(1))
    _check_inputs(samples, (7, d), "sample(7)")
    assert torch.equal(samples, g.sample(7, _rng(1))), "sample gives other bits for the same seed"
    other_seed = g.sample(7, _rng(2))
    assert not torch.equal(samples, other_seed), "sample gives the same bits for another seed"
    _check_inputs(g.sample(0, _rng(1)), (0, d), "sample(0)")
    if isinstance(g, Reconstructs) and before is not None:
        assert _losses(g, x).mean() < before.mean(), "fit does not lower reconstruction_loss"
        _check_reconstruction(g, x)
    if isinstance(g, LatentGenerator):
        _check_latents(g, x)

    twin = factory(shape, "stm", _rng(0))
    twin.fit(x, _rng(5), _ignore)
    assert torch.equal(samples, twin.sample(7, _rng(1))), "fit gives other bits for the same seed"
    other = copy.deepcopy(g)
    other.fit(1 - x, _rng(6), _ignore)
    assert torch.equal(samples, g.sample(7, _rng(1))), "training a deep copy changes the original"
    loaded = factory(shape, "stm", _rng(7))
    loaded.load_state_dict(_saved(g))
    same = torch.equal(samples, loaded.sample(7, _rng(1)))
    assert same, "load_state_dict does not restore sample"
    if isinstance(g, Reconstructs) and isinstance(loaded, Reconstructs):
        same = torch.equal(g.reconstruct(x), loaded.reconstruct(x))
        assert same, "load_state_dict does not restore reconstruct"


def check_learner(factory: LearnerFactory, shape: tuple[int, ...] = (8, 8)) -> None:
    """Raise an AssertionError unless the factory makes learners that a memory can work with."""
    data = _patterns(shape)
    x, n_classes = data.x, len(data.classes())
    learner = factory(shape, n_classes, "stm", _rng(0))
    _check_probabilities(learner, x, n_classes)
    _check_fit(lambda rng, callback: learner.fit(data, rng, callback), "learner", x)
    answers = _check_probabilities(learner, x, n_classes)
    right = float((answers.argmax(dim=1) == data.y).double().mean())
    assert right > 0.9, f"fit learns a separable set to an accuracy of only {right:.2f}"
    assert not (kept := find_rows(learner, x)), f"fit keeps training rows at {kept[0]}"
    empty = tuple(learner.predict_proba(x[:0]).shape)
    assert empty == (0, n_classes), "predict_proba fails on no rows"
    again = learner.predict_proba(x)
    assert torch.equal(answers, again), "predict_proba gives other bits when called again"
    _check_row_by_row(learner.predict_proba, x, "predict_proba")

    twin = factory(shape, n_classes, "stm", _rng(0))
    twin.fit(data, _rng(5), _ignore)
    assert torch.equal(answers, twin.predict_proba(x)), "fit gives other bits for the same seed"
    other = copy.deepcopy(learner)
    other.fit(Batch(x, (data.y + 1) % n_classes), _rng(6), _ignore)
    unchanged = torch.equal(answers, learner.predict_proba(x))
    assert unchanged, "training a deep copy changes the original"

    learner.grow(n_classes, _rng(7))
    unchanged = torch.equal(answers, learner.predict_proba(x))
    assert unchanged, "grow changes answers although there is nothing to add"
    learner.grow(n_classes + 2, _rng(7))
    grown = _check_probabilities(learner, x, n_classes + 2)
    same = torch.equal(answers.argmax(dim=1), grown[:, :n_classes].argmax(dim=1))
    assert same, "grow changes the answers about old classes"
    loaded = factory(shape, n_classes + 2, "stm", _rng(8))
    loaded.load_state_dict(_saved(learner))
    same = torch.equal(grown, loaded.predict_proba(x))
    assert same, "load_state_dict does not restore predict_proba"
    learner.fit(Batch(x, data.y + 2), _rng(9), _ignore)
    learned = learner.predict_proba(x).argmax(dim=1) == data.y + 2
    assert learned.double().mean() > 0.9, "a learner that has grown does not learn new classes"


def find_rows(obj: object, rows: Any) -> list[str]:
    """The paths at which an object keeps one of these rows, shape (n, d).

    Walks everything reachable: attributes, containers, closures, tensors with their storages and gradients,
    arrays with their bases. A row is found by equality of its float32 values, or of its uint8 values
    (x · 255 rounded), anywhere in an array. Rows of a single value are skipped: every zero bias contains a
    blank image.

    >>> find_rows({"cache": [np.array([[0.25, 0.5], [0.0, 1.0]])]}, [[0.0, 1.0]])
    ["['cache'][0]"]
    """
    flat = np.asarray(torch.as_tensor(rows).detach().cpu(), dtype=np.float32)
    flat = flat.reshape(len(flat), -1)
    varied = flat[flat.min(axis=1) < flat.max(axis=1)]
    floats = [row.tobytes() for row in varied]
    whole = [
        row.tobytes() for row in np.round(varied * 255).astype(np.uint8) if row.min() < row.max()
    ]
    found, seen, waiting = [], {id(obj): obj}, [("", obj)]
    while waiting:
        path, one = waiting.pop()
        if any(row in content for content in _contents(one) for row in (*floats, *whole)):
            found.append(path or "itself")
        for name, child in _children(one):
            if id(child) not in seen:
                seen[id(child)] = child  # kept alive, so that its id is not reused
                waiting.append((path + name, child))
    return sorted(found)


def _contents(obj: object) -> Iterator[bytes]:
    """The bytes of an array, as float32 or uint8 rows; by rows and by columns."""
    if isinstance(obj, bytes | bytearray | memoryview):
        yield bytes(obj)
    elif isinstance(obj, Tensor) and obj.layout is torch.strided and obj.device.type != "meta":
        plain = obj.detach().as_subclass(Tensor)
        storage = torch.empty(0, dtype=plain.dtype, device=plain.device).set_(
            plain.untyped_storage()
        )
        for tensor in (plain, storage):
            yield from _contents(
                tensor.resolve_conj().resolve_neg().cpu().to(_numpy_type(tensor)).numpy()
            )
    elif isinstance(obj, np.ndarray) and obj.dtype.kind in "fiub":
        with np.errstate(over="ignore", invalid="ignore"):
            values: NDArray[Any] = obj.astype(np.float32 if obj.dtype.kind == "f" else np.uint8)
        yield values.tobytes()
        if values.ndim > 1:
            yield values.T.tobytes()


def _numpy_type(tensor: Tensor) -> torch.dtype:
    if tensor.is_complex():
        return torch.complex64
    return torch.float32 if tensor.is_floating_point() else torch.uint8


_NOT_WALKED = (types.ModuleType, str, int, float, complex, bytes, type(None))
_FOREIGN = {*sys.stdlib_module_names, "torch", "numpy", "sklearn", "scipy"}


def _children(obj: object) -> Iterator[tuple[str, object]]:
    """What an object refers to, each with the end of its path."""
    if isinstance(obj, _NOT_WALKED):
        return
    if isinstance(obj, type):
        own = {} if obj.__module__.partition(".")[0] in _FOREIGN else vars(obj)
        yield from ((f".{name}", value) for name, value in own.items())
    elif isinstance(obj, types.FunctionType):  # not its globals, which are the program
        yield from (("()", cell.cell_contents) for cell in obj.__closure__ or () if _filled(cell))
        yield from (("()", value) for value in (obj.__defaults__, obj.__kwdefaults__, vars(obj)))
    elif isinstance(obj, types.FrameType):
        yield from ((f".{name}", value) for name, value in obj.f_locals.items())
    elif isinstance(obj, torch.autograd.graph.Node):
        yield from (
            ("", _saved_or_none(obj, name)) for name in dir(obj) if name.startswith("_saved_")
        )
        yield from ((".next", node) for node, _ in obj.next_functions)
    else:
        yield from _parts(obj)


def _parts(obj: object) -> Iterator[tuple[str, object]]:
    if isinstance(obj, Mapping):
        yield from ((f"[{key!r}]", value) for key, value in list(obj.items()))
        yield from (("", key) for key in list(obj))
    elif isinstance(obj, list | tuple):
        yield from ((f"[{index}]", item) for index, item in enumerate(obj))
    elif isinstance(obj, Tensor):
        yield from ((".grad", obj.grad if obj.is_leaf else None), (".grad_fn", obj.grad_fn))
    elif isinstance(obj, np.ndarray):
        yield ".base", obj.base
        yield from (("[]", item) for item in (obj.ravel() if obj.dtype == object else ()))
    elif isinstance(obj, functools.partial):
        yield from ((".func", obj.func), (".args", obj.args), (".keywords", obj.keywords))
    attributes = getattr(obj, "__dict__", {})
    yield from ((f".{name}", value) for name, value in list(attributes.items()))
    yield "", type(obj)
    yield from (
        ("", other) for other in gc.get_referents(obj) if other is not attributes
    )  # slots, caches …


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _saved_or_none(node: Any, name: str) -> object:
    try:
        return getattr(node, name)
    except RuntimeError:  # freed after the backward pass
        return None


def _three_tasks() -> list[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Three tasks of one class each: images of 6 × 6 that are easy to separate."""
    patterns = _patterns((6, 6), n_each=24)
    x, y = patterns.x.numpy().reshape(-1, 6, 6), patterns.y.numpy()
    return [(x[y == label], y[y == label]) for label in range(3)]


def _check_refused(call: Callable[[], object], why: str) -> None:
    try:
        call()
    except (ValueError, KeyboardInterrupt):
        return
    raise AssertionError(f"partial_fit does not fail with {why}")


def _own_parts(model: ContinualClassifier) -> dict[str, Any]:
    """What `load` needs again: an own memory, generator or learner, and a class that is not registered."""
    parameters = model.get_params(deep=False)
    own = {name: parameters.get(name) for name in ("memory", "generator", "learner")}
    kept = {name: part for name, part in own.items() if part is not None}
    return {**kept, "algorithm": type(model)}


def _numpy_random_state() -> bytes:
    return pickle.dumps(np.random.get_state())  # noqa: NPY002


def _patterns(shape: tuple[int, ...], n_each: int = 40) -> Batch:
    """Three noisy patterns that are easy to separate: 120 flat inputs of that shape, and their classes."""
    d = int(np.prod(shape))
    rng = np.random.default_rng(0)
    y = np.arange(3 * n_each) % 3
    ink = (np.arange(d) * 3 // d)[None, :] == y[:, None]  # each class has another third
    x = np.where(ink, 0.8, 0.1) + rng.uniform(-0.1, 0.1, size=(len(y), d))
    return Batch(torch.tensor(x, dtype=torch.float32), torch.tensor(y))


def _rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _ignore(event: Event) -> None:
    pass


def _check_fit(
    fit: Callable[[torch.Generator, Callable[[Event], None]], None], network: str, x: Tensor
) -> None:
    """Fit with seed 5, and check its events, its random numbers and that inputs stay as they are."""
    events: list[Event] = []
    before, torch_state, numpy_state = x.clone(), torch.get_rng_state(), _numpy_random_state()
    fit(_rng(5), events.append)
    assert torch.equal(before, x), "fit writes into the inputs it was given"
    assert torch.equal(torch_state, torch.get_rng_state()), "fit uses torch's global random numbers"
    same = numpy_state == _numpy_random_state()
    assert same, "fit uses numpy's global random numbers"
    epochs = [event for event in events if isinstance(event, EpochDone)]
    assert epochs, "fit sends no events: call callback(EpochDone(...)) after each epoch"
    named = {event.network for event in epochs}
    assert named == {network}, f"fit's EpochDone events name the network {named}, not {network!r}"
    counted = [(event.epoch, event.epochs) for event in epochs]
    assert counted == [(k, len(epochs)) for k in range(1, len(epochs) + 1)], (
        "fit does not count its epochs from 1"
    )


def _check_inputs(x: Tensor, shape: tuple[int, ...], call: str) -> None:
    assert isinstance(x, Tensor), f"{call} gives a {type(x).__name__}, not a tensor"
    assert x.dtype == torch.float32, f"{call} gives {x.dtype}, not torch.float32"
    assert tuple(x.shape) == shape, f"{call} gives shape {tuple(x.shape)}, not {shape}"
    assert not x.requires_grad, f"{call} gives a tensor with a gradient graph"
    assert bool(((x >= 0) & (x <= 1)).all()), f"{call} gives values outside [0, 1]"


def _check_reconstruction(g: Reconstructs, x: Tensor) -> None:
    seen = g.reconstruct(x)
    _check_inputs(seen, tuple(x.shape), "reconstruct")
    _check_inputs(g.reconstruct(x[:0]), (0, x.shape[1]), "reconstruct of no rows")
    assert torch.equal(seen, g.reconstruct(x)), "reconstruct gives other bits when called again"
    _check_row_by_row(g.reconstruct, x, "reconstruct")
    _check_row_by_row(g.reconstruction_loss, x, "reconstruction_loss")


def _check_latents(g: LatentGenerator, x: Tensor) -> None:
    """Codes of the right size, deviations of at least 0, and inputs from any code."""
    for part, name in zip(g.encode(x), ("mean", "deviation"), strict=True):
        call, shape = f"the {name} of encode", (len(x), g.latent_dim)
        assert tuple(part.shape) == shape, f"{call} has shape {tuple(part.shape)}, not {shape}"
        assert part.dtype == torch.float32, f"{call} is {part.dtype}, not torch.float32"
        assert not part.requires_grad, f"{call} carries a gradient graph"
        assert bool(torch.isfinite(part).all()), f"{call} has values that are not finite"
    assert bool((g.encode(x)[1] >= 0).all()), "the deviation of encode has values below 0"
    _check_row_by_row(lambda rows: torch.cat(g.encode(rows), dim=1), x, "encode")
    codes = torch.randn(7, g.latent_dim, generator=_rng(3))
    decoded = g.decode_mean(codes)
    _check_inputs(decoded, (7, x.shape[1]), "decode_mean")
    _check_inputs(g.decode_mean(codes[:0]), (0, x.shape[1]), "decode_mean of no codes")
    assert torch.equal(decoded, g.decode_mean(codes)), (
        "decode_mean gives other bits when called again"
    )


def _losses(g: Reconstructs, x: Tensor) -> Tensor:
    losses = g.reconstruction_loss(x)
    assert tuple(losses.shape) == (len(x),), (
        f"reconstruction_loss gives shape {tuple(losses.shape)}, not (n,)"
    )
    assert bool(torch.isfinite(losses).all()), (
        "reconstruction_loss gives values that are not finite"
    )
    return losses


def _check_probabilities(learner: Learner, x: Tensor, n_classes: int) -> Tensor:
    answers = learner.predict_proba(x)
    _check_inputs(answers, (len(x), n_classes), "predict_proba")
    assert bool(((answers.sum(dim=1) - 1).abs() < 1e-4).all()), (
        "predict_proba gives rows that do not sum to 1"
    )
    return answers


def _check_row_by_row(function: Callable[[Tensor], Tensor], x: Tensor, name: str) -> None:
    some = torch.arange(0, len(x), 7).flip(0)
    whole, part = function(x)[some], function(x[some])
    close = torch.allclose(whole, part, rtol=1e-5, atol=1e-5)
    assert close, f"{name} of a row depends on the other rows"


def _saved(network: Generator | Learner) -> dict[str, Any]:
    state = copy.deepcopy(network.state_dict())
    strays = [key for key, value in state.items() if not isinstance(value, Tensor)]
    assert not strays, f"state_dict has a value that is not a tensor at {strays[:1]}"
    return dict(state)
