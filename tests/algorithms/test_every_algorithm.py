"""What holds for every algorithm. `check_algorithm` is the first part; the rest goes beyond it."""

import copy
import functools
import warnings

import numpy as np
import pytest
import torch

from dgdmn import load
from dgdmn.algorithms import algorithm
from dgdmn.config import override, resolve
from dgdmn.config.registry import ALGORITHMS, algorithm_info
from dgdmn.core.errors import UsageError
from dgdmn.testing import check_algorithm, find_rows

KEEP_ROWS = {name for name, info in ALGORITHMS.items() if "row" in info.keeps}
SOME = pytest.mark.parametrize("name", ["nn", "dgdmn"])
"""For what the base class does before any memory sees a call."""


def learn(model, tasks):
    for number, (X, y) in enumerate(tasks):
        model.partial_fit(X, y, task=str(number))
    return model


def all_inputs(tasks):
    return np.concatenate([X for X, _ in tasks])


def has_epochs(name):
    return algorithm_info(name).has_networks(resolve(getattr(name, "preset", "deep")).generator)


def need_epochs(name):
    if not has_epochs(name):
        pytest.skip("it reads each row once; there are no epochs")


def need_events(name):
    """A sleep is an event, too."""
    if not has_epochs(name) and not algorithm_info(name).short_term:
        pytest.skip("it sends no events to interrupt")


def make_twins(make, name, task, **options):
    """Two equal estimators that have learned one task."""
    return [make(name, **options).partial_fit(*task, task="a") for _ in range(2)]


def check_twins(model, twin, tasks):
    """Predictions and later learning are the same to the bit."""
    X = all_inputs(tasks)
    assert vars(model).keys() == vars(twin).keys()
    assert np.array_equal(model.predict_proba(X), twin.predict_proba(X))
    for each in (model, twin):
        each.partial_fit(*tasks[1], task="b")
    assert np.array_equal(model.predict_proba(X), twin.predict_proba(X))


def test_the_public_contract_holds(name, make):
    make_one = functools.partial(make, name, min_steps=50)
    check_algorithm(make_one, keeps_rows=name in KEEP_ROWS)


def test_the_registry_says_which_algorithms_keep_rows():
    exemplars = {name for name, info in ALGORITHMS.items() if info.exemplars}
    ceilings = {name for name, info in ALGORITHMS.items() if info.category == "ceiling"}
    assert exemplars == KEEP_ROWS - ceilings
    assert exemplars == {n for n, info in ALGORITHMS.items() if info.category == "exemplars"}


def test_info_agrees_with_the_registry(name, make, tasks):
    model = learn(make(name, n_stm=2), tasks)
    found, about = model.info(), algorithm_info(name)
    assert (found.algorithm, found.title) == (name, about.title)
    assert (found.generative, found.short_term) == (about.generative, about.short_term)
    assert (found.shape, found.labels) == ((6, 6), (0, 1, 2))
    assert (found.memory_bytes, found.exemplar_bytes) == (
        model.memory_bytes(),
        model.exemplar_bytes(),
    )
    assert (found.exemplar_bytes > 0) == (name in KEEP_ROWS)
    if about.generative:
        assert tuple(found.consolidated) == model.consolidated_tasks()
        assert tuple(found.awake) == model.awake_tasks()
    if about.short_term:
        assert len(found.awake) == 1
        assert list(found.awake_rows.values()) == [24]


def test_clipped_probabilities_reach_every_learner_except_the_sigmoids_of_icarl(name, make, tasks):
    need_epochs(name)
    exact, clipped = (
        learn(
            make(name, preset=override(resolve("deep"), {"clip_probability": clip})), tasks
        ).predict_proba(all_inputs(tasks))
        for clip in (0.0, 0.1)
    )
    assert np.array_equal(exact, clipped) == (name == "icarl")


def test_labels_may_be_words_in_any_order(name, make, tasks):
    words = np.array(["zebra", "ant", "monkey"])
    named, numbered = make(name), make(name)
    for X, y in tasks:
        named.partial_fit(X, words[y], task=words[y[0]])
        numbered.partial_fit(X, y, task=words[y[0]])
    assert named.classes_.tolist() == ["ant", "monkey", "zebra"]
    X = all_inputs(tasks)
    probabilities = named.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert np.array_equal(named.predict(X), named.classes_[probabilities.argmax(axis=1)])
    assert np.array_equal(words[numbered.predict(X)], named.predict(X))


def test_classes_given_in_the_first_call_have_outputs_at_once(name, make, tasks):
    model = make(name).partial_fit(*tasks[0], classes=[2, 0, 1])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(tasks[0][0]).shape == (24, 3)
    model.partial_fit(*tasks[1], classes=[0, 1, 2]).partial_fit(*tasks[2])
    assert model.classes_.tolist() == [0, 1, 2]


def test_outputs_without_a_label_get_no_probability(name, make, tasks):
    model = make(name, n_classes=10).partial_fit(*tasks[1], task="a")
    assert model.predict_proba(tasks[0][0]).tolist() == [[1.0]] * 24
    assert set(model.predict(tasks[0][0])) == {1}


MISTAKES = {
    "label outside classes": "not in classes",
    "classes changed": "cannot change",
    "another kind of label": "not in classes",
    "wrong width": r"expecting \(6, 6\)",
    "wrong height": "features",
    "flat rows": "features",
    "NaN": r"NaN \(first in row 3\)",
    "infinity": r"infinity \(first in row 5\)",
    "empty": "0 sample",
    "lengths differ": "inconsistent",
    "no values": "must contain values",
    "regression target": "continuous",
}


def bad_arguments(mistake, X, y):
    """Arguments of partial_fit with one mistake."""
    with_nan, with_inf = X.copy(), X.copy()
    with_nan[3, 2, 2], with_inf[5, 0, 0] = np.nan, -np.inf
    return {
        "label outside classes": ((X, y + 7), {}),
        "classes changed": ((X, y), {"classes": [0, 1, 9]}),
        "another kind of label": ((X, y.astype(str)), {}),
        "wrong width": ((X[:, :, :4], y), {}),
        "wrong height": ((X[:, :5], y), {}),
        "flat rows": ((X.reshape(24, -1), y), {}),
        "NaN": ((with_nan, y), {}),
        "infinity": ((with_inf, y), {}),
        "empty": ((X[:0], y[:0]), {}),
        "lengths differ": ((X, y[:-1]), {}),
        "no values": ((X[:, :, :0], y), {}),
        "regression target": ((X, y + np.linspace(0, 1, 24)), {}),
    }[mistake]


@pytest.mark.parametrize("mistake", MISTAKES)
@SOME
def test_a_refused_call_changes_nothing(name, make, tasks, mistake):
    model, twin = make(name), make(name)
    for each in (model, twin):
        each.partial_fit(*tasks[0], classes=[0, 1, 2], task="a")
    given, options = bad_arguments(mistake, *tasks[1])
    with pytest.raises(ValueError, match=MISTAKES[mistake]) as raised:
        model.partial_fit(*given, **options)
    assert "\n" not in str(raised.value)
    check_twins(model, twin, tasks)


@SOME
def test_labels_of_another_kind_are_refused(name, make, tasks):
    model, twin = make_twins(make, name, tasks[0])
    with pytest.raises(UsageError, match="'a' and 0 have different types"):
        model.partial_fit(tasks[0][0], np.full(24, "a"))
    check_twins(model, twin, tasks)


@pytest.mark.parametrize("kind", ["S1", "datetime64[D]"])
def test_labels_that_cannot_be_saved_are_refused(make, tasks, kind):
    X, y = tasks[0]
    with pytest.raises(UsageError, match=r"y has labels of kind (bytes|date); use text or numbers"):
        make("nn").partial_fit(X, y.astype(kind))


def test_more_classes_than_fixed_outputs_are_refused(name, make, tasks):
    model, twin = make_twins(make, name, tasks[0], n_classes=2)
    for each in (model, twin):
        each.partial_fit(*tasks[1], task="b")
    with pytest.raises(UsageError, match="2 is class 3, but n_classes is 2"):
        model.partial_fit(*tasks[2])
    check_twins(model, twin, tasks)
    with pytest.raises(UsageError, match="2 is class 3, but n_classes is 2"):
        make(name, n_classes=2).partial_fit(*tasks[0], classes=[0, 1, 2])
    with pytest.raises(UsageError, match="classes is empty"):
        make(name).partial_fit(*tasks[0], classes=[])


class Stop:
    """A callback that raises an error at one event, once."""

    def __init__(self, error, at):
        self.error, self.left = error, at

    def __call__(self, event):
        self.left -= 1
        if self.left == 0:
            raise self.error

    def __eq__(self, other):
        return isinstance(other, Stop)

    __hash__ = None


ERRORS = pytest.mark.parametrize(
    "error", [RuntimeError("full disk"), KeyboardInterrupt()], ids=repr
)


@ERRORS
def test_an_interrupted_partial_fit_changes_nothing(name, make, tasks, error):
    need_events(name)
    model, twin = make_twins(make, name, tasks[0])
    model.callback = Stop(error, 2)
    with pytest.raises(type(error)):
        model.partial_fit(*tasks[2], task="c")
    model.callback = None
    check_twins(model, twin, tasks)


def test_an_interrupt_at_the_very_end_changes_nothing(name, make, tasks, monkeypatch):
    """The interrupt comes just before the new state replaces the old one."""
    model, twin = make_twins(make, name, tasks[0])

    def stop(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(model.fitted_), "sorted_labels", stop)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(*tasks[2], task="c")
    check_twins(model, twin, tasks)


def test_an_interrupted_fit_keeps_the_old_memory(name, make, tasks):
    need_events(name)
    model, twin = make_twins(make, name, tasks[0])
    model.callback = Stop(KeyboardInterrupt(), 2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(tasks[2][0].reshape(24, 4, 9), tasks[2][1])
    model.callback = None
    assert model.n_features_in_ == 6
    check_twins(model, twin, tasks)


def test_an_interrupted_first_call_leaves_an_unfitted_estimator(name, make, tasks):
    need_epochs(name)
    model = make(name, callback=Stop(KeyboardInterrupt(), 1))
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(*tasks[0])
    assert vars(model) == vars(make(name, callback=model.callback))


@ERRORS
@pytest.mark.parametrize(("preset", "at"), [("deep", 1), ("deep", 3), ("best", 1), ("best", 2)])
def test_an_interrupted_sleep_changes_nothing(make, tasks, error, preset, at):
    model, twin = make_twins(make, "dgdmn", tasks[0], preset=preset, n_stm=3)
    model.callback = Stop(error, at)
    with pytest.raises(type(error)):
        model.sleep()
    model.callback = None
    assert model.awake_tasks() == ("a",)
    assert model.consolidated_tasks() == ()
    model.sleep()
    twin.sleep()
    check_twins(model, twin, tasks)


@pytest.mark.parametrize("how", ["fit", "uint8", "own range"])
def test_only_algorithms_that_say_so_keep_rows(name, make, tasks, how):
    scale, dtype = {"uint8": (255, np.uint8), "own range": (7, np.float32)}.get(
        how, (1, np.float32)
    )
    given = [((X * scale).astype(dtype), y) for X, y in tasks]
    has_range = how == "own range" and not hasattr(name, "preset")  # a mixture has none
    model = make(name, value_range=(0, 7) if has_range else None)
    if how == "fit":
        model.fit(*given[0])
        given = given[:1]
    else:
        learn(model, given)
    scaled = [X / np.float32(255) if dtype is np.uint8 else X / scale for X, _ in given]
    kept = [find_rows(model, rows.reshape(24, -1)) for rows in (*scaled, *(X for X, _ in given))]
    assert any(kept) == (name in KEEP_ROWS)


def test_a_loaded_estimator_has_the_same_parameters_and_bytes(name, make, tasks, tmp_path):
    model = learn(make(name, n_stm=2), tasks)
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.get_params() == model.get_params()
    assert loaded.memory_bytes() == model.memory_bytes()
    assert loaded.exemplar_bytes() == model.exemplar_bytes()
    for each in (model, loaded):  # a known task, then a new class
        each.partial_fit(*tasks[0], task="0").partial_fit(tasks[1][0], np.full(24, 7), task="new")
    X = all_inputs(tasks)
    assert np.array_equal(model.predict_proba(X), loaded.predict_proba(X))


def test_fit_forgets_what_was_learned(name, make, tasks):
    X = all_inputs(tasks)
    model = learn(make(name), tasks[:2]).fit(*tasks[2])
    fresh = make(name).fit(*tasks[2])
    assert model.classes_.tolist() == [2]
    assert np.array_equal(model.predict_proba(X), fresh.predict_proba(X))
    other = model.fit(X.reshape(-1, 36), np.arange(len(X)) % 2)
    assert other.n_features_in_ == 36


def test_bytes_and_floats_give_the_same_result(name, make, tasks):
    as_bytes = [(np.round(X * 255).astype(np.uint8), y) for X, y in tasks]
    as_floats = [(X / 255, y) for X, y in as_bytes]
    first, second = learn(make(name), as_bytes), learn(make(name), as_floats)
    X = all_inputs(as_bytes)
    assert np.array_equal(first.predict_proba(X), second.predict_proba(X / 255))
    assert np.array_equal(first.predict(X / 255), second.predict(X)), "mixed input differs"


@SOME
def test_images_flat_rows_and_channels_give_the_same_result(name, make, tasks):
    X, answers = all_inputs(tasks), []
    for shape in [(-1, 6, 6), (-1, 36), (-1, 6, 6, 1), (-1, 3, 4, 3)]:
        model = learn(make(name), [(rows.reshape(shape), y) for rows, y in tasks])
        answers.append(model.predict_proba(X.reshape(shape)))
    assert all(np.array_equal(answers[0], other) for other in answers)


@SOME
def test_values_outside_the_first_range_are_clipped_with_one_warning(name, make, tasks):
    X, y = tasks[0]
    model = make(name).fit(X * 10 - 3, y)
    low, high = (X * 10 - 3).min(), (X * 10 - 3).max()
    wide = X * 20 - 8
    with pytest.warns(UserWarning, match="clipped; give value_range") as caught:
        answers = model.predict_proba(wide)
    assert len(caught) == 1
    model.predict(wide)  # a second warning would be an error
    model.partial_fit(wide, y)
    again = make(name).fit(X * 10 - 3, y)
    assert np.array_equal(answers, again.predict_proba(wide.clip(low, high)))


def test_a_constant_feature_gets_a_range_of_one_unit(make, tasks):
    """Values of the next task are then neither clipped at once nor changed by scaling back."""
    X, y = tasks[0]
    rows = np.c_[np.full(len(X), 7.0), 3 * X.reshape(len(X), -1)]
    scaling = make("nn").fit(rows, y).fitted_.inputs
    later = rows.copy()
    later[:, 0] = 7.5
    assert not scaling.clips(later)
    assert scaling.apply(later)[:, 0] == pytest.approx(0.5)
    assert scaling.invert(scaling.apply(later), rows.shape[1:]) == pytest.approx(later, abs=1e-5)
    later[:, 0] = 8.5
    assert scaling.clips(later)


@SOME
def test_a_value_range_scales(name, make, tasks):
    X, y = tasks[0]
    scaled = make(name, value_range=(-3, 7)).fit((X * 10 - 3).astype(np.float64), y)
    plain = make(name).fit(X, y)
    np.testing.assert_allclose(scaled.predict_proba(X * 10 - 3), plain.predict_proba(X), atol=1e-4)
    for wrong in [(1, 0), (0, np.inf), (2, 2)]:
        with pytest.raises(UsageError, match="value_range is"):
            make(name, value_range=wrong).fit(X, y)


@SOME
def test_threads_are_set_during_a_call_and_restored(name, make, tasks):
    before, inside = torch.get_num_threads(), []
    model = make(
        name, threads=before + 1, callback=lambda event: inside.append(torch.get_num_threads())
    )
    model.fit(*tasks[0])
    assert set(inside) == {before + 1}
    assert torch.get_num_threads() == before
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full((1, 6, 6), np.nan))
    assert torch.get_num_threads() == before


def test_predictions_change_neither_the_model_nor_global_random_numbers(name, make, tasks):
    model, twin = make_twins(make, name, tasks[0])
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    for task in (None, "a", "unknown"):
        model.predict(tasks[1][0], task=task)
        model.predict_proba(tasks[1][0], task)
    assert torch.equal(torch_state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002
    check_twins(model, twin, tasks)


@SOME
def test_an_unknown_name_gets_a_suggestion(name, make, tasks):
    with pytest.raises(UsageError, match=f"did you mean {name}"):
        algorithm(name + "x")
    with pytest.raises(UsageError, match="did you mean paper"):
        make(name, preset="papr").fit(*tasks[0])
    with pytest.raises(UsageError, match="did you mean shapes"):
        make(name, preset="paper/shape").fit(*tasks[0])


def test_a_deep_copy_learns_on_its_own(name, make, tasks):
    model = make(name).partial_fit(*tasks[0], task="a")
    before = model.predict_proba(all_inputs(tasks))
    copy.deepcopy(model).partial_fit(*tasks[1], task="b")
    assert np.array_equal(model.predict_proba(all_inputs(tasks)), before)


def test_ordinary_data_gives_no_warning(name, make, tasks):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learn(make(name), tasks).predict(all_inputs(tasks))
    assert [str(warning.message) for warning in caught] == []
