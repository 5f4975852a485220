"""Contract checks for your own parts: generators, learners, memories and algorithms; and `find_rows`.

from dgdmn.testing import check_memory
check_memory(MyMemory)  # raises an AssertionError that says what is wrong
"""

import builtins
import copy
import functools
import gc
import pickle
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from dgdmn.algorithms.dgdmn import DGDMN
from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.persistence import OWN_PARTS, load
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context, EpochDone, Event, ignore
from dgdmn.core.rng import SeedStream
from dgdmn.memory.protocols import GenerativeMemory, UserMemoryFactory
from dgdmn.memory.task_log import TaskInfo
from dgdmn.networks import protocols
from dgdmn.networks.protocols import LatentGenerator, Learner, Reconstructs, Shape

__all__ = ["check_algorithm", "check_generator", "check_learner", "check_memory", "find_rows"]


def check_algorithm(
    make: Callable[..., ContinualClassifier],
    *,
    keeps_rows: bool = False,
    not_applicable: frozenset[str] | set[str] | None = None,
    **parameters: Any,
) -> None:
    """Raise an AssertionError unless the estimator behaves as an algorithm of this library must.

    `make(random_state=…, **parameters)` makes it; a class works. `keeps_rows`: it keeps training rows.
    `not_applicable` names what it does not have: "epochs" (it sends no EpochDone events) or "randomness"
    (every seed gives the same result); by default what its class says.
    """
    if not_applicable is None:
        not_applicable = make(random_state=0, **parameters).not_applicable
    tasks = _three_tasks()
    X = np.concatenate([*(x for x, _ in tasks), (tasks[0][0] + tasks[1][0]) / 2])
    events: list[Event] = []

    def fit_model(seed: int = 0, n: int = 3, **more: Any) -> ContinualClassifier:
        model = make(random_state=seed, **parameters, **more)
        for number, (x, y) in enumerate(tasks[:n]):
            model.partial_fit(x, y, task=str(number))
            _assert_accurate(
                model.predict(x, task=str(number)) == y, "a new task of one class is learned"
            )
            assert model.classes_.tolist() == list(range(number + 1)), "classes_ does not grow"
        return model

    with _no_global_random_numbers(""):
        model = fit_model(callback=events.append)
    epochs = any(isinstance(event, EpochDone) for event in events)
    assert epochs or "epochs" in not_applicable, "sends no EpochDone events"
    answers = model.predict_proba(X)
    assert answers.shape == (len(X), 3), f"predict_proba gives shape {answers.shape}"
    assert np.allclose(answers.sum(axis=1), 1), "predict_proba gives rows that do not sum to 1"
    _assert_equal(answers, fit_model().predict_proba(X), "the same seed gives different results")
    if "randomness" not in not_applicable:
        assert not np.array_equal(answers, fit_model(1).predict_proba(X)), "all seeds give the same"
    assert not clone(model).__sklearn_is_fitted__(), "a clone is fitted"
    rows = np.concatenate([x.reshape(len(x), -1) for x, _ in tasks])
    assert keeps_rows or not find_rows(model, rows), f"keeps rows at {find_rows(model, rows)[:1]}"

    two = fit_model(n=2)
    before = two.predict_proba(X)
    bad = tasks[2][0].copy()
    bad[3] = np.nan
    _check_refused(two, bad, tasks[2][1], "NaN in X")
    if epochs:  # an error in the middle of learning

        def fail(_: Event) -> None:
            raise KeyboardInterrupt

        two.callback = fail
        _check_refused(two, *tasks[2], "an interrupt")
        two.callback = None
    _assert_equal(before, two.predict_proba(X), "a failed call changes predictions")
    with tempfile.TemporaryDirectory() as home:
        two.save(Path(home) / "memory")
        given = two.get_params(deep=False).items()  # `load` needs a user's own parts again
        own = {key: part for key, part in given if key in OWN_PARTS and part is not None}
        again = load(Path(home) / "memory", algorithm=type(two), **own)
    _assert_equal(before, again.predict_proba(X), "save and load change predictions")
    two.partial_fit(*tasks[2], task="2")
    _assert_equal(answers, two.predict_proba(X), "a failed call changes later learning")
    again.partial_fit(*tasks[2], task="2")
    _assert_equal(answers, again.predict_proba(X), "a loaded estimator learns differently")


def check_memory(make: UserMemoryFactory, *, keeps_rows: bool = False) -> None:
    """Raise an AssertionError unless the factory makes generative memories that DGDMN can work with.

    `keeps_rows`: the memory keeps training rows.
    """
    tasks = _three_tasks()
    zero, one, _ = (Batch(x.reshape(len(x), -1), y) for x, y in tasks)
    shape, (n, d) = tasks[0][0].shape[1:], zero.x.shape

    def learn_batch(batch: Batch) -> GenerativeMemory:
        memory = make(shape, 2, "stm", SeedStream(0))
        assert isinstance(memory, GenerativeMemory), f"{type(memory).__name__} lacks a method"
        log = {str(batch.y[0]): TaskInfo(1, batch.classes())}
        memory.learn(batch, log, Context(SeedStream(1)))
        return memory

    memory = learn_batch(zero)
    assert list(memory.tasks) == ["0"], "learn does not log the task"
    answers = memory.predict_proba(zero.x)
    assert answers.shape == (n, 2), f"predict_proba gives shape {answers.shape}"
    assert np.allclose(answers.sum(axis=1), 1, atol=1e-4), "probabilities do not sum to 1"
    _assert_accurate(answers.argmax(axis=1) == 0, "learns one class")
    loss, other = memory.recognition_loss(zero.x), memory.recognition_loss(one.x)
    assert loss.shape == (n,), f"recognition_loss gives shape {loss.shape}"
    assert loss.mean() < other.mean(), "recognition_loss is not lower for what was learned"
    made = {"sample": memory.sample(5, SeedStream(2)), "recall": memory.recall(zero.x[:5])}
    for name, batch in made.items():
        assert batch.x.shape == (5, d), f"{name} gives inputs of shape {batch.x.shape}"
        assert batch.y.shape == (5,), f"{name} gives labels of shape {batch.y.shape}"
        assert np.isfinite(batch.x).all(), f"{name} gives values that are not finite"
    assert memory.nbytes(at_capacity=True) >= memory.nbytes() > 0, "nbytes is wrong"

    snapshot = copy.copy(memory)
    memory.learn(one, {"1": TaskInfo(1, one.classes())}, Context(SeedStream(3)))
    memory.grow(3)
    _assert_equal(answers, snapshot.predict_proba(zero.x), "learn changes a snapshot")
    assert list(snapshot.tasks) == ["0"], "learn changes a snapshot's tasks"
    assert memory.predict_proba(zero.x).shape[1] == 3, "grow does not add a class"

    task_memories = [learn_batch(zero), learn_batch(one)]
    long_term = make(shape, 2, "ltm", SeedStream(4))
    long_term.consolidate(task_memories, Context(SeedStream(5)))
    assert list(long_term.tasks) == ["0", "1"], "consolidate does not log the tasks"
    both = np.concatenate([zero.x, one.x])
    answers = long_term.predict_proba(both)
    _assert_accurate(answers.argmax(axis=1) == np.repeat([0, 1], n), "consolidates two classes")
    loaded = make(shape, 2, "ltm", SeedStream(6))
    loaded.load_state(copy.deepcopy(long_term.state()))
    _assert_equal(answers, loaded.predict_proba(both), "load_state changes answers")
    found = [] if keeps_rows else find_rows([*task_memories, long_term], both)
    assert not found, f"keeps training rows at {found[0]}"

    model = functools.partial(DGDMN, memory=make)
    check_algorithm(model, keeps_rows=keeps_rows, not_applicable={"epochs", "randomness"})
    full = model(random_state=0)
    for number, (x, y) in enumerate(tasks):
        full.partial_fit(x, y, task=str(number))
    full.sleep()
    assert full.consolidated_tasks() == ("0", "1", "2"), "sleep does not consolidate"
    assert full.sample(6, random_state=0)[0].shape == (6, *shape), "sample fails in DGDMN"


def check_generator(factory: protocols.GeneratorFactory, shape: Shape = (8, 8)) -> None:
    """Raise an AssertionError unless the factory makes generators that a memory can work with."""
    x, d = _patterns(shape).x, int(np.prod(shape))
    g = factory(shape, "stm", _rng(0))
    before = _losses(g, x) if isinstance(g, Reconstructs) else None
    _check_fit(g, x, x, "generator")

    samples = g.sample(7, _rng(1))
    _check_inputs(samples, (7, d), "sample(7)")
    _assert_equal(samples, g.sample(7, _rng(1)), "sample gives other bits for the same seed")
    differs = not torch.equal(samples, g.sample(7, _rng(2)))
    assert differs, "sample gives the same bits for another seed"
    _check_inputs(g.sample(0, _rng(1)), (0, d), "sample(0)")
    if isinstance(g, Reconstructs) and before is not None:
        assert _losses(g, x).mean() < before.mean(), "fit does not lower reconstruction_loss"
        _check_rows(g.reconstruct, x, d, "reconstruct")
        _check_row_by_row(g.reconstruction_loss, x, "reconstruction_loss")
    if isinstance(g, LatentGenerator):
        _check_latents(g, x)

    twin = factory(shape, "stm", _rng(0))
    twin.fit(x, _rng(5), ignore)
    _assert_equal(samples, twin.sample(7, _rng(1)), "fit gives other bits for the same seed")
    copy.deepcopy(g).fit(1 - x, _rng(6), ignore)
    _assert_equal(samples, g.sample(7, _rng(1)), "training a deep copy changes the original")
    loaded = factory(shape, "stm", _rng(7))
    _load(loaded, g)
    _assert_equal(samples, loaded.sample(7, _rng(1)), "load_state_dict does not restore sample")
    if isinstance(g, Reconstructs) and isinstance(loaded, Reconstructs):
        message = "load_state_dict does not restore reconstruct"
        _assert_equal(g.reconstruct(x), loaded.reconstruct(x), message)


def check_learner(factory: protocols.LearnerFactory, shape: Shape = (8, 8)) -> None:
    """Raise an AssertionError unless the factory makes learners that a memory can work with."""
    data = _patterns(shape)
    x, n_classes = data.x, len(data.classes())
    learner = factory(shape, n_classes, "stm", _rng(0))
    _check_probabilities(learner, x, n_classes)
    _check_fit(learner, data, x, "learner")
    answers = _check_probabilities(learner, x, n_classes)
    _assert_accurate(answers.argmax(dim=1) == data.y, "fit learns a separable set")
    _check_rows(learner.predict_proba, x, n_classes, "predict_proba")

    twin = factory(shape, n_classes, "stm", _rng(0))
    twin.fit(data, _rng(5), ignore)
    _assert_equal(answers, twin.predict_proba(x), "fit gives other bits for the same seed")
    copy.deepcopy(learner).fit(Batch(x, (data.y + 1) % n_classes), _rng(6), ignore)
    _assert_equal(answers, learner.predict_proba(x), "training a deep copy changes the original")

    learner.grow(n_classes, _rng(7))
    _assert_equal(answers, learner.predict_proba(x), "grow changes answers without a new class")
    learner.grow(n_classes + 2, _rng(7))
    grown = _check_probabilities(learner, x, n_classes + 2)
    old = grown[:, :n_classes].argmax(dim=1)
    _assert_equal(answers.argmax(dim=1), old, "grow changes the answers about old classes")
    loaded = factory(shape, n_classes + 2, "stm", _rng(8))
    _load(loaded, learner)
    _assert_equal(grown, loaded.predict_proba(x), "load_state_dict does not restore predict_proba")
    learner.fit(Batch(x, data.y + 2), _rng(9), ignore)
    new = learner.predict_proba(x).argmax(dim=1)
    _assert_accurate(new == data.y + 2, "a learner that has grown learns new classes")


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
    unit = varied[(varied >= 0).all(axis=1) & (varied <= 1).all(axis=1)]  # others are not in bytes
    whole = np.round(unit * 255).astype(np.uint8)
    wanted = [row.tobytes() for row in (*varied, *whole[whole.min(axis=1) < whole.max(axis=1)])]
    found, seen, waiting = [], {id(obj): obj}, [("", obj)]
    while waiting:
        path, one = waiting.pop()
        if any(row in content for content in _contents(one) for row in wanted):
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
        empty = torch.empty(0, dtype=plain.dtype, device=plain.device)
        kind = torch.float32 if plain.is_floating_point() else torch.uint8
        kind = torch.complex64 if plain.is_complex() else kind
        for tensor in (plain, empty.set_(plain.untyped_storage())):
            yield from _contents(tensor.resolve_conj().resolve_neg().cpu().to(kind).numpy())
    elif isinstance(obj, np.ndarray) and obj.dtype.kind in "fiub":
        with np.errstate(over="ignore", invalid="ignore"):
            values: NDArray[Any] = obj.astype(np.float32 if obj.dtype.kind == "f" else np.uint8)
        yield values.tobytes()
        if values.ndim > 1:
            yield values.T.tobytes()


_NOT_WALKED = (types.ModuleType, str, int, float, complex, bytes, type(None))
_FOREIGN = {*sys.stdlib_module_names, "torch", "numpy", "sklearn", "scipy"}


def _children(obj: object) -> Iterator[tuple[str, object]]:
    """What an object refers to, each with the end of its path; parts that have a name come first."""
    is_class = isinstance(obj, type)
    if isinstance(obj, _NOT_WALKED) or (is_class and obj.__module__.split(".")[0] in _FOREIGN):
        return
    attributes = obj.f_locals if isinstance(obj, types.FrameType) else getattr(obj, "__dict__", {})
    yield from ((f".{name}", value) for name, value in list(attributes.items()))
    if is_class or isinstance(obj, types.FrameType):
        return
    if isinstance(obj, Mapping):
        pairs = list(obj.items())
        yield from ((f"[{key!r}]", part) for key, value in pairs for part in (value, key))
    elif isinstance(obj, list | tuple):
        yield from ((f"[{index}]", item) for index, item in enumerate(obj))
    elif isinstance(obj, Tensor):
        yield from ((".grad", obj.grad if obj.is_leaf else None), (".grad_fn", obj.grad_fn))
    elif isinstance(obj, np.ndarray):
        yield ".base", obj.base
        yield from (("[]", item) for item in (obj.ravel() if obj.dtype == object else ()))
    elif isinstance(obj, torch.autograd.graph.Node):
        for name in (name for name in dir(obj) if name.startswith("_saved_")):
            with suppress(RuntimeError):  # freed after the backward pass
                yield "", getattr(obj, name)
        yield from ((".next", node) for node, _ in obj.next_functions)
    yield "", type(obj)
    known, end = [attributes], ""
    if isinstance(obj, types.FunctionType):  # its globals are the program
        known, end = [attributes, obj.__globals__, vars(builtins)], "()"
    for other in gc.get_referents(obj):  # slots, closures, caches
        if not any(other is one for one in known):
            yield end, other


def _assert_equal(expected: Any, found: Any, message: str) -> None:
    assert np.array_equal(expected, found), message


def _assert_accurate(hits: Any, what: str) -> None:
    accuracy = float(np.mean(np.asarray(hits)))
    assert accuracy > 0.9, f"{what} to an accuracy of only {accuracy:.2f}"


@contextmanager
def _no_global_random_numbers(subject: str) -> Iterator[None]:
    def states() -> tuple[bytes, bytes]:
        numpy_state = pickle.dumps(np.random.get_state())  # noqa: NPY002
        return torch.get_rng_state().numpy().tobytes(), numpy_state

    before = states()
    yield
    for library, old, new in zip(("torch", "numpy"), before, states(), strict=True):
        assert old == new, f"{subject}uses {library}'s global random numbers"


def _check_refused(model: ContinualClassifier, x: Any, y: Any, why: str) -> None:
    try:
        model.partial_fit(x, y, task="2")
    except (ValueError, KeyboardInterrupt):
        return
    raise AssertionError(f"partial_fit does not fail with {why}")


def _three_tasks() -> list[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Three tasks of one class each: images of 6 × 6 that are easy to separate."""
    patterns = _patterns((6, 6), n_each=24)
    x, y = patterns.x.numpy().reshape(-1, 6, 6), patterns.y.numpy()
    return [(x[y == label], y[y == label]) for label in range(3)]


def _patterns(shape: Shape, n_each: int = 40) -> Batch:
    """Three noisy patterns that are easy to separate: flat inputs of that shape, and their classes."""
    d = int(np.prod(shape))
    y = np.arange(3 * n_each) % 3
    ink = (np.arange(d) * 3 // d)[None, :] == y[:, None]  # each class has another third
    noise = np.random.default_rng(0).uniform(-0.1, 0.1, size=(len(y), d))
    return Batch(torch.from_numpy(np.where(ink, 0.8, 0.1) + noise).float(), torch.tensor(y))


def _rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _check_fit(network: Any, data: Tensor | Batch, x: Tensor, kind: str) -> None:
    """Fit with seed 5; check events, random numbers, that inputs stay as they are and no row is kept."""
    events: list[Event] = []
    before = x.clone()
    with _no_global_random_numbers("fit "):
        network.fit(data, _rng(5), events.append)
    _assert_equal(before, x, "fit writes into the inputs it was given")
    epochs = [event for event in events if isinstance(event, EpochDone)]
    assert epochs, "fit sends no events: call callback(EpochDone(...)) after each epoch"
    named = {event.network for event in epochs}
    assert named == {kind}, f"fit's EpochDone events name the network {named}, not {kind!r}"
    for k, event in enumerate(epochs, start=1):
        right = (event.epoch, event.epochs) == (k, len(epochs))
        assert right, "fit does not count its epochs from 1"
    assert not (kept := find_rows(network, x)), f"fit keeps training rows at {kept[0]}"


def _check_tensor(x: Tensor, shape: Shape, call: str) -> None:
    assert isinstance(x, Tensor), f"{call} gives a {type(x).__name__}, not a tensor"
    assert x.dtype == torch.float32, f"{call} gives {x.dtype}, not torch.float32"
    assert tuple(x.shape) == shape, f"{call} gives shape {tuple(x.shape)}, not {shape}"
    assert not x.requires_grad, f"{call} gives a tensor with a gradient graph"
    assert bool(torch.isfinite(x).all()), f"{call} gives values that are not finite"


def _check_inputs(x: Tensor, shape: Shape, call: str) -> None:
    _check_tensor(x, shape, call)
    assert bool(((x >= 0) & (x <= 1)).all()), f"{call} gives values outside [0, 1]"


def _check_rows(function: Callable[[Tensor], Tensor], x: Tensor, width: int, name: str) -> None:
    """The same bits again, each row for itself, and no row for none."""
    result = function(x)
    _check_inputs(result, (len(x), width), name)
    _check_inputs(function(x[:0]), (0, width), f"{name} of no rows")
    _assert_equal(result, function(x), f"{name} gives other bits when called again")
    _check_row_by_row(function, x, name)


def _check_row_by_row(function: Callable[[Tensor], Tensor], x: Tensor, name: str) -> None:
    some = torch.arange(0, len(x), 7).flip(0)
    close = torch.allclose(function(x)[some], function(x[some]), rtol=1e-5, atol=1e-5)
    assert close, f"{name} of a row depends on the other rows"


def _check_latents(g: LatentGenerator, x: Tensor) -> None:
    """Codes of the right size, deviations of at least 0, and inputs from any code."""
    mean, deviation = g.encode(x)
    _check_tensor(mean, (len(x), g.latent_dim), "the mean of encode")
    _check_tensor(deviation, (len(x), g.latent_dim), "the deviation of encode")
    assert bool((deviation >= 0).all()), "the deviation of encode has values below 0"
    _check_row_by_row(lambda rows: torch.cat(g.encode(rows), dim=1), x, "encode")
    codes = torch.randn(7, g.latent_dim, generator=_rng(3))
    _check_rows(g.decode_mean, codes, x.shape[1], "decode_mean")


def _losses(g: Reconstructs, x: Tensor) -> Tensor:
    losses = g.reconstruction_loss(x)
    _check_tensor(losses, (len(x),), "reconstruction_loss")
    return losses


def _check_probabilities(learner: Learner, x: Tensor, n_classes: int) -> Tensor:
    answers = learner.predict_proba(x)
    _check_inputs(answers, (len(x), n_classes), "predict_proba")
    errors = (answers.sum(dim=1) - 1).abs()
    assert bool((errors < 1e-4).all()), "predict_proba gives rows that do not sum to 1"
    return answers


def _load(target: protocols.Stateful, source: protocols.Stateful) -> None:
    state = copy.deepcopy(source.state_dict())
    others = [key for key, value in state.items() if not isinstance(value, Tensor)]
    assert not others, f"state_dict has a value that is not a tensor at {others[:1]}"
    target.load_state_dict(dict(state))
