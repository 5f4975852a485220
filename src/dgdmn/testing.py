"""Does a network of your own keep the contract of `dgdmn.networks.generator`? And who keeps rows?

from dgdmn.testing import check_generator
check_generator(MyGenerator)  # raises an AssertionError that says what is wrong
"""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgdmn.events import EpochDone, Event
from dgdmn.networks.generator import Coder, Generator, GeneratorFactory, Learner, LearnerFactory
from dgdmn.samples import Samples

__all__ = ["check_generator", "check_learner", "find_rows"]


def check_generator(factory: GeneratorFactory, shape: tuple[int, ...] = (8, 8)) -> None:
    """Raise an AssertionError unless the factory makes generators that a memory can work with."""
    x, d = _patterns(shape).x, int(np.prod(shape))
    g = factory(shape, "stm", _rng(0))
    before = _losses(g, x)
    _check_fit(lambda rng, listen: g.fit(x, rng, listen), "generator", x)
    after = _losses(g, x)
    assert after.mean() < before.mean(), "fit does not lower reconstruction_loss on the inputs it was given"
    assert not (kept := find_rows(g, x)), f"fit keeps training rows at {kept[0]}"

    dreams = g.sample(7, _rng(1))
    _check_inputs(dreams, (7, d), "sample(7)")
    assert torch.equal(dreams, g.sample(7, _rng(1))), "sample gives other bits for the same seed"
    assert not torch.equal(dreams, g.sample(7, _rng(2))), "sample gives the same bits for another seed"
    _check_inputs(g.sample(0, _rng(1)), (0, d), "sample(0)")

    seen = g.reconstruct(x)
    _check_inputs(seen, tuple(x.shape), "reconstruct")
    _check_inputs(g.reconstruct(x[:0]), (0, d), "reconstruct of no rows")
    assert torch.equal(seen, g.reconstruct(x)), "reconstruct gives other bits when it is called again"
    _check_row_by_row(g.reconstruct, x, "reconstruct")
    _check_row_by_row(g.reconstruction_loss, x, "reconstruction_loss")
    if isinstance(g, Coder):
        _check_codes(g, x)

    twin = factory(shape, "stm", _rng(0))
    twin.fit(x, _rng(5), _ignore)
    assert torch.equal(seen, twin.reconstruct(x)), "fit gives other bits for the same seed"
    other = copy.deepcopy(g)
    other.fit(1 - x, _rng(6), _ignore)
    assert torch.equal(seen, g.reconstruct(x)), "training a deep copy changes the original"
    loaded = factory(shape, "stm", _rng(7))
    loaded.load_state_dict(_saved(g))
    assert torch.equal(seen, loaded.reconstruct(x)), "load_state_dict does not give reconstruct back"
    assert torch.equal(dreams, loaded.sample(7, _rng(1))), "load_state_dict does not give sample back"


def check_learner(factory: LearnerFactory, shape: tuple[int, ...] = (8, 8)) -> None:
    """Raise an AssertionError unless the factory makes learners that a memory can work with."""
    data = _patterns(shape)
    x, n_classes = data.x, len(data.classes())
    learner = factory(shape, n_classes, "stm", _rng(0))
    _check_probabilities(learner, x, n_classes)
    _check_fit(lambda rng, listen: learner.fit(data, rng, listen), "learner", x)
    answers = _check_probabilities(learner, x, n_classes)
    right = float((answers.argmax(dim=1) == data.y).double().mean())
    assert right > 0.9, f"fit learns a separable set to an accuracy of only {right:.2f}"
    assert not (kept := find_rows(learner, x)), f"fit keeps training rows at {kept[0]}"
    assert tuple(learner.probabilities(x[:0]).shape) == (0, n_classes), "probabilities fails on no rows"
    assert torch.equal(answers, learner.probabilities(x)), "probabilities gives other bits when called again"
    _check_row_by_row(learner.probabilities, x, "probabilities")

    twin = factory(shape, n_classes, "stm", _rng(0))
    twin.fit(data, _rng(5), _ignore)
    assert torch.equal(answers, twin.probabilities(x)), "fit gives other bits for the same seed"
    other = copy.deepcopy(learner)
    other.fit(Samples(x, (data.y + 1) % n_classes), _rng(6), _ignore)
    assert torch.equal(answers, learner.probabilities(x)), "training a deep copy changes the original"

    learner.grow(n_classes, _rng(7))
    assert torch.equal(answers, learner.probabilities(x)), (
        "grow changes answers though there is nothing to add"
    )
    learner.grow(n_classes + 2, _rng(7))
    grown = _check_probabilities(learner, x, n_classes + 2)
    same = torch.equal(answers.argmax(dim=1), grown[:, :n_classes].argmax(dim=1))
    assert same, "grow changes what is known of the old classes"
    loaded = factory(shape, n_classes + 2, "stm", _rng(8))
    loaded.load_state_dict(_saved(learner))
    assert torch.equal(grown, loaded.probabilities(x)), "load_state_dict does not give probabilities back"
    learner.fit(Samples(x, data.y + 2), _rng(9), _ignore)
    learnt = learner.probabilities(x).argmax(dim=1) == data.y + 2
    assert learnt.double().mean() > 0.9, "a learner that has grown does not learn the new classes"


def find_rows(obj: object, rows: Any) -> list[str]:
    """Where an object keeps one of these rows, shape (n, d): the paths of the arrays that contain it.

    Walks everything reachable: attributes, containers, closures, tensors with their storages and
    gradients, arrays with their bases. A row is found by equality of its float32 values, or of its
    uint8 values (x · 255 rounded), wherever in an array it stands. Rows of one value only are left out:
    a blank image is in every zero bias.

    >>> find_rows({"cache": [np.array([[0.25, 0.5], [0.0, 1.0]])]}, [[0.0, 1.0]])
    ["['cache'][0]"]
    """
    flat = np.asarray(torch.as_tensor(rows).detach().cpu(), dtype=np.float32)
    flat = flat.reshape(len(flat), -1)
    telling = flat[flat.min(axis=1) < flat.max(axis=1)]
    floats = [row.tobytes() for row in telling]
    whole = [row.tobytes() for row in np.round(telling * 255).astype(np.uint8) if row.min() < row.max()]
    found, seen, waiting = [], {id(obj): obj}, [("", obj)]
    while waiting:
        path, one = waiting.pop()
        if any(row in content for content in _contents(one) for row in (*floats, *whole)):
            found.append(path or "itself")
        for name, child in _children(one):
            if id(child) not in seen:
                seen[id(child)] = child  # kept, so that its id is not used again
                waiting.append((path + name, child))
    return sorted(found)


def _contents(obj: object) -> Iterator[bytes]:
    """The bytes of an array, as float32 or uint8 rows; by rows and by columns."""
    if isinstance(obj, bytes | bytearray | memoryview):
        yield bytes(obj)
    elif isinstance(obj, Tensor) and obj.layout is torch.strided and obj.device.type != "meta":
        plain = obj.detach().as_subclass(Tensor)
        storage = torch.empty(0, dtype=plain.dtype, device=plain.device).set_(plain.untyped_storage())
        for tensor in (plain, storage):
            yield from _contents(tensor.resolve_conj().resolve_neg().cpu().to(_numpy_type(tensor)).numpy())
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
    """What an object leads to, each with the end of its path."""
    if isinstance(obj, _NOT_WALKED):
        return
    if isinstance(obj, type):
        own = {} if obj.__module__.partition(".")[0] in _FOREIGN else vars(obj)
        yield from ((f".{name}", value) for name, value in own.items())
    elif isinstance(obj, types.FunctionType):  # not its globals: they are the program, not the object
        yield from (("()", cell.cell_contents) for cell in obj.__closure__ or () if _filled(cell))
        yield from (("()", value) for value in (obj.__defaults__, obj.__kwdefaults__, vars(obj)))
    elif isinstance(obj, types.FrameType):
        yield from ((f".{name}", value) for name, value in obj.f_locals.items())
    elif isinstance(obj, torch.autograd.graph.Node):
        yield from (("", _saved_or_none(obj, name)) for name in dir(obj) if name.startswith("_saved_"))
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
    yield from (("", other) for other in gc.get_referents(obj) if other is not attributes)  # slots, caches …


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


def _patterns(shape: tuple[int, ...], n_each: int = 40) -> Samples:
    """Three noisy patterns, easy to tell apart: 120 inputs of that shape, flat, and their classes."""
    d = int(np.prod(shape))
    rng = np.random.default_rng(0)
    y = np.arange(3 * n_each) % 3
    ink = (np.arange(d) * 3 // d)[None, :] == y[:, None]  # each class inks another third
    x = np.where(ink, 0.8, 0.1) + rng.uniform(-0.1, 0.1, size=(len(y), d))
    return Samples(torch.tensor(x, dtype=torch.float32), torch.tensor(y))


def _rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _ignore(event: Event) -> None:
    pass


def _check_fit(
    fit: Callable[[torch.Generator, Callable[[Event], None]], None], network: str, x: Tensor
) -> None:
    """Fit with seed 5, and look at what it tells, what it draws and what it writes."""
    events: list[Event] = []
    before, torch_state, numpy_state = x.clone(), torch.get_rng_state(), pickle.dumps(np.random.get_state())  # noqa: NPY002
    fit(_rng(5), events.append)
    assert torch.equal(before, x), "fit writes into the inputs it was given"
    assert torch.equal(torch_state, torch.get_rng_state()), "fit draws from torch's global random numbers"
    same = numpy_state == pickle.dumps(np.random.get_state())  # noqa: NPY002
    assert same, "fit draws from numpy's global random numbers"
    epochs = [event for event in events if isinstance(event, EpochDone)]
    assert epochs, "fit tells nobody of its epochs: call listen(EpochDone(...)) after each"
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
    assert not x.requires_grad, f"{call} gives a tensor that still carries its gradient graph"
    assert bool(((x >= 0) & (x <= 1)).all()), f"{call} gives values outside [0, 1]"


def _check_codes(g: Coder, x: Tensor) -> None:
    """Codes of the right size, spreads that are none below zero, and inputs from any code."""
    for part, name in zip(g.posterior(x), ("mean", "deviation"), strict=True):
        call, shape = f"posterior's {name}", (len(x), g.latent)
        assert tuple(part.shape) == shape, f"{call} has shape {tuple(part.shape)}, not (n, latent) = {shape}"
        assert part.dtype == torch.float32, f"{call} is {part.dtype}, not torch.float32"
        assert not part.requires_grad, f"{call} is a tensor that still carries its gradient graph"
        assert bool(torch.isfinite(part).all()), f"{call} has values that are not finite"
    assert bool((g.posterior(x)[1] >= 0).all()), "posterior's deviation has values below 0"
    _check_row_by_row(lambda rows: torch.cat(g.posterior(rows), dim=1), x, "posterior")
    codes = torch.randn(7, g.latent, generator=_rng(3))
    _check_inputs(g.decoded(codes), (7, x.shape[1]), "decoded")
    _check_inputs(g.decoded(codes[:0]), (0, x.shape[1]), "decoded of no codes")
    assert torch.equal(g.decoded(codes), g.decoded(codes)), "decoded gives other bits when it is called again"


def _losses(g: Generator, x: Tensor) -> Tensor:
    losses = g.reconstruction_loss(x)
    assert tuple(losses.shape) == (len(x),), (
        f"reconstruction_loss gives shape {tuple(losses.shape)}, not (n,)"
    )
    assert bool(torch.isfinite(losses).all()), "reconstruction_loss gives values that are not finite"
    return losses


def _check_probabilities(learner: Learner, x: Tensor, n_classes: int) -> Tensor:
    answers = learner.probabilities(x)
    _check_inputs(answers, (len(x), n_classes), "probabilities")
    assert bool(((answers.sum(dim=1) - 1).abs() < 1e-4).all()), (
        "probabilities gives rows that do not sum to 1"
    )
    return answers


def _check_row_by_row(function: Callable[[Tensor], Tensor], x: Tensor, name: str) -> None:
    some = torch.arange(0, len(x), 7).flip(0)
    whole, part = function(x)[some], function(x[some])
    close = torch.allclose(whole, part, rtol=1e-5, atol=1e-5)
    assert close, f"{name} gives a row another answer when other rows come with it"


def _saved(network: Generator | Learner) -> dict[str, Any]:
    state = copy.deepcopy(network.state_dict())
    strays = [key for key, value in state.items() if not isinstance(value, Tensor)]
    assert not strays, f"state_dict holds something that is no tensor at {strays[:1]}"
    return dict(state)
