"""What holds for every algorithm: one suite over all of them."""

import copy
import warnings

import numpy as np
import pytest
import torch

from dgdmn import load
from dgdmn.algorithms import ALGORITHMS, algorithm
from dgdmn.errors import UsageError
from dgdmn.presets import ARRAYS, overridden
from dgdmn.testing import find_rows


def learn(model, tasks):
    for number, (X, y) in enumerate(tasks):
        model.partial_fit(X, y, task=str(number))
    return model


def everything(tasks):
    return np.concatenate([X for X, _ in tasks])


def test_the_same_seed_gives_the_same_bits_and_another_does_not(name, make, tasks):
    X = everything(tasks)
    first, again, other = (learn(make(name, random_state=seed), tasks).predict_proba(X) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_clipped_probabilities_reach_every_learner(name, make, tasks):
    """But iCaRL's, whose outputs are sigmoids."""
    exact, clipped = (
        learn(make(name, preset=overridden(ARRAYS, {"clip_probability": clip})), tasks).predict_proba(
            everything(tasks)
        )
        for clip in (0.0, 0.1)
    )
    assert np.array_equal(exact, clipped) == (name == "icarl")


def test_global_random_states_are_left_alone(name, make, tasks):
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    learn(make(name), tasks).predict(everything(tasks))
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002


def test_a_new_task_of_one_class_is_learnt(name, make, tasks):
    model = make(name, min_steps=80)
    for number, (X, y) in enumerate(tasks):
        model.partial_fit(X, y, task=str(number))
        assert (model.predict(X, task=str(number)) == y).mean() > 0.9
        assert model.classes_.tolist() == list(range(number + 1))
        assert model.predict_proba(X).shape == (24, number + 1)


def test_labels_may_come_in_any_order_and_be_words(name, make, tasks):
    words = np.array(["zebra", "ant", "monkey"])
    model = make(name, min_steps=80)
    for X, y in tasks:
        model.partial_fit(X, words[y], task=words[y[0]])
    assert model.classes_.tolist() == ["ant", "monkey", "zebra"]
    X = everything(tasks)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert np.array_equal(model.predict(X), model.classes_[probabilities.argmax(axis=1)])
    numbers = make(name, min_steps=80)
    for X_task, y in tasks:
        numbers.partial_fit(X_task, y, task=words[y[0]])
    assert np.array_equal(words[numbers.predict(X)], model.predict(X)), "names change nothing"


def test_classes_given_beforehand_have_outputs_at_once(name, make, tasks):
    model = make(name).partial_fit(*tasks[0], classes=[2, 0, 1])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(tasks[0][0]).shape == (24, 3)
    model.partial_fit(*tasks[1], classes=[0, 1, 2]).partial_fit(*tasks[2])
    assert model.classes_.tolist() == [0, 1, 2]


def test_fixed_outputs_without_a_label_have_no_say(name, make, tasks):
    model = make(name, n_classes=10).partial_fit(*tasks[1], task="a")
    assert model.predict_proba(tasks[0][0]).tolist() == [[1.0]] * 24
    assert set(model.predict(tasks[0][0])) == {1}


def _bad(tasks):
    """Arguments of partial_fit that must be refused after two tasks of three known classes, and a word of why."""
    X, y = tasks[1]
    with_nan, with_inf = X.copy(), X.copy()
    with_nan[3, 2, 2], with_inf[5, 0, 0] = np.nan, -np.inf
    return {
        "label outside classes": ((X, y + 7), {}, "not in classes"),
        "classes changed": ((X, y), {"classes": [0, 1, 9]}, "cannot change"),
        "another kind of label": ((X, y.astype(str)), {}, "not in classes"),
        "wrong width": ((X[:, :, :4], y), {}, r"expecting \(6, 6\)"),
        "wrong height": ((X[:, :5], y), {}, "features"),
        "flat rows": ((X.reshape(24, -1), y), {}, "features"),
        "NaN": ((with_nan, y), {}, r"NaN \(first in row 3\)"),
        "infinity": ((with_inf, y), {}, r"infinity \(first in row 5\)"),
        "empty": ((X[:0], y[:0]), {}, "0 sample"),
        "lengths differ": ((X, y[:-1]), {}, "inconsistent"),
        "no values": ((X[:, :, :0], y), {}, "no value"),
        "regression target": ((X, y + np.linspace(0, 1, 24)), {}, "continuous"),
    }


@pytest.mark.parametrize(
    "mistake",
    ["label outside classes", "classes changed", "another kind of label", "wrong width", "wrong height", "flat rows",
     "NaN", "infinity", "empty", "lengths differ", "no values", "regression target"],
)  # fmt: skip
@pytest.mark.parametrize(
    "name", ["nn", "gem", "dgdmn", "joint"]
)  # calls are checked before any memory sees them
def test_a_refused_call_leaves_no_trace(name, make, tasks, mistake):
    model, twin = make(name), make(name)
    for each in (model, twin):
        each.partial_fit(*tasks[0], classes=[0, 1, 2], task="a")
    given, options, why = _bad(tasks)[mistake]
    with pytest.raises(ValueError, match=why) as raised:
        model.partial_fit(*given, **options)
    assert "\n" not in str(raised.value)
    _check_twins(model, twin, tasks)


def _check_twins(model, twin, tasks):
    """Predictions and later learning are the same to the bit."""
    X = everything(tasks)
    assert vars(model).keys() == vars(twin).keys()
    assert np.array_equal(model.predict_proba(X), twin.predict_proba(X))
    for each in (model, twin):
        each.partial_fit(*tasks[1], task="b")
    assert np.array_equal(model.predict_proba(X), twin.predict_proba(X))


def test_labels_of_another_kind_are_refused(name, make, tasks):
    X, y = tasks[0]
    model, twin = make(name).partial_fit(X, y), make(name).partial_fit(X, y)
    with pytest.raises(UsageError, match="'a' is of another kind than 0"):
        model.partial_fit(X, np.full(24, "a"))
    _check_twins(model, twin, tasks)


@pytest.mark.parametrize("kind", ["S1", "datetime64[D]"])
def test_labels_that_cannot_be_saved_are_not_learnt(name, make, tasks, kind):
    X, y = tasks[0]
    with pytest.raises(UsageError, match=r"y has labels of kind (bytes|date); use text or numbers"):
        make(name).partial_fit(X, y.astype(kind))


def test_more_classes_than_fixed_outputs_are_refused(name, make, tasks):
    model, twin = (make(name, n_classes=2).partial_fit(*tasks[0]).partial_fit(*tasks[1]) for _ in range(2))
    with pytest.raises(UsageError, match="class 2 is one too many: n_classes is 2"):
        model.partial_fit(*tasks[2])
    _check_twins(model, twin, tasks)
    with pytest.raises(UsageError, match="3 classes but n_classes is 2"):
        make(name, n_classes=2).partial_fit(*tasks[0], classes=[0, 1, 2])
    with pytest.raises(UsageError, match="classes is empty"):
        make(name).partial_fit(*tasks[0], classes=[])


class Stop:
    """A listener that raises at one event, once."""

    def __init__(self, error, at):
        self.error, self.left = error, at

    def __call__(self, event):
        self.left -= 1
        if self.left == 0:
            raise self.error

    def __eq__(self, other):
        return isinstance(other, Stop)

    __hash__ = None


@pytest.mark.parametrize(
    "error", [RuntimeError("full disk"), KeyboardInterrupt()], ids=["exception", "interrupt"]
)
@pytest.mark.parametrize("at", [1, 3])
def test_an_interrupted_partial_fit_leaves_no_trace(name, make, tasks, error, at):
    model, twin = make(name).partial_fit(*tasks[0], task="a"), make(name).partial_fit(*tasks[0], task="a")
    model.listen = Stop(error, at)
    with pytest.raises(type(error)):
        model.partial_fit(*tasks[2], task="c")
    model.listen = None
    _check_twins(model, twin, tasks)


def test_an_interrupt_at_the_very_end_leaves_no_trace(name, make, tasks, monkeypatch):
    """Just when what was learnt is about to take its place."""
    model, twin = make(name).partial_fit(*tasks[0], task="a"), make(name).partial_fit(*tasks[0], task="a")

    def stop(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(model.learnt_), "sorted_labels", stop)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(*tasks[2], task="c")
    _check_twins(model, twin, tasks)


@pytest.mark.parametrize(
    "error", [RuntimeError("full disk"), KeyboardInterrupt()], ids=["exception", "interrupt"]
)
def test_an_interrupted_fit_keeps_the_old_memory(name, make, tasks, error):
    model, twin = make(name).partial_fit(*tasks[0], task="a"), make(name).partial_fit(*tasks[0], task="a")
    model.listen = Stop(error, 2)
    with pytest.raises(type(error)):
        model.fit(tasks[2][0].reshape(24, 4, 9), tasks[2][1])
    model.listen = None
    assert model.n_features_in_ == 6
    _check_twins(model, twin, tasks)


def test_an_interrupted_first_call_leaves_an_unfitted_estimator(name, make, tasks):
    model = make(name, listen=Stop(KeyboardInterrupt(), 1))
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(*tasks[0])
    assert vars(model) == vars(make(name, listen=model.listen))


@pytest.mark.parametrize(
    "error", [RuntimeError("full disk"), KeyboardInterrupt()], ids=["exception", "interrupt"]
)
@pytest.mark.parametrize("at", [1, 3])
def test_an_interrupted_sleep_leaves_no_trace(make, tasks, error, at):
    model, twin = (make("dgdmn", n_stm=3).partial_fit(*tasks[0], task="a") for _ in range(2))
    model.listen = Stop(error, at)
    with pytest.raises(type(error)):
        model.sleep()
    model.listen = None
    assert model.awake_tasks() == ("a",)
    assert model.consolidated_tasks() == ()
    model.sleep()
    twin.sleep()
    _check_twins(model, twin, tasks)


@pytest.mark.parametrize("how", ["partial_fit", "fit", "uint8", "own range"])
def test_no_row_is_kept_unless_it_says_so(name, make, tasks, how):
    scale, dtype = {"uint8": (255, np.uint8), "own range": (7, np.float32)}.get(how, (1, np.float32))
    given = [((X * scale).astype(dtype), y) for X, y in tasks]
    model = make(name, value_range=(0, 7) if how == "own range" else None)
    if how == "fit":
        model.fit(*given[0])
        given = given[:1]
    else:
        learn(model, given)
    inner = [X / np.float32(255) if dtype is np.uint8 else X / scale for X, _ in given]
    kept = [find_rows(model, rows.reshape(24, -1)) for rows in (*inner, *(X for X, _ in given))]
    assert any(kept) == ("row" in model.keeps)


def test_those_that_keep_rows_say_so():
    kept = {name for name in ALGORITHMS if "row" in algorithm(name).keeps}
    assert kept == {"gem", "icarl", "er", "joint"}
    assert kept - {"joint"} == {name for name in ALGORITHMS if algorithm(name).category == "exemplars"}
    assert {name for name in ALGORITHMS if "every training row" in algorithm(name).keeps} == {"joint"}


def test_what_is_saved_comes_back_and_goes_on_learning(name, make, tasks, tmp_path):
    model = make(name, n_stm=2)
    learn(model, tasks)
    model.save(tmp_path / "memory")
    loaded = load(tmp_path / "memory")
    assert loaded.get_params() == model.get_params()
    assert loaded.memory_bytes() == model.memory_bytes()
    X = everything(tasks)
    assert np.array_equal(model.predict_proba(X), loaded.predict_proba(X))
    for each in (model, loaded):
        each.partial_fit(*tasks[0], task="0").partial_fit(tasks[1][0], np.full(24, 7), task="one more")
    assert np.array_equal(model.predict_proba(X), loaded.predict_proba(X))


def test_fit_forgets(name, make, tasks):
    X = everything(tasks)
    model = learn(make(name), tasks[:2]).fit(*tasks[2])
    fresh = make(name).fit(*tasks[2])
    assert model.classes_.tolist() == [2]
    assert np.array_equal(model.predict_proba(X), fresh.predict_proba(X))
    other = model.fit(X.reshape(-1, 36), np.arange(len(X)) % 2)
    assert other.n_features_in_ == 36


def test_bytes_and_floats_are_the_same(name, make, tasks):
    as_bytes = [(np.round(X * 255).astype(np.uint8), y) for X, y in tasks]
    as_floats = [(X / 255, y) for X, y in as_bytes]
    first, second = learn(make(name), as_bytes), learn(make(name), as_floats)
    X = everything(as_bytes)
    assert np.array_equal(first.predict_proba(X), second.predict_proba(X / 255))
    assert np.array_equal(first.predict(X / 255), second.predict(X)), "also mixed"


def test_images_flat_rows_and_channels_are_the_same(name, make, tasks):
    X = everything(tasks)
    shapes = [(-1, 6, 6), (-1, 36), (-1, 6, 6, 1), (-1, 3, 4, 3)]
    answers = []
    for shape in shapes:
        model = learn(make(name), [(rows.reshape(shape), y) for rows, y in tasks])
        answers.append(model.predict_proba(X.reshape(shape)))
    assert all(np.array_equal(answers[0], other) for other in answers)


def test_values_beyond_the_first_tasks_are_clipped_with_one_warning(name, make, tasks):
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


def test_a_feature_that_was_constant_has_a_unit_of_room(make, tasks):
    """In the first task it said nothing of its range; what comes later is neither lost nor given back as another."""
    X, y = tasks[0]
    rows = np.c_[np.full(len(X), 7.0), 3 * X.reshape(len(X), -1)]
    scaling = make("dgr").fit(rows, y).learnt_.scaling
    later = rows.copy()
    later[:, 0] = 7.5
    assert not scaling.clips(later)
    assert scaling.apply(later)[:, 0] == pytest.approx(0.5)
    assert scaling.invert(scaling.apply(later), rows.shape[1:]) == pytest.approx(later, abs=1e-5)
    later[:, 0] = 8.5
    assert scaling.clips(later)


def test_a_value_range_scales(name, make, tasks):
    X, y = tasks[0]
    scaled = make(name, value_range=(-3, 7)).fit((X * 10 - 3).astype(np.float64), y)
    plain = make(name).fit(X, y)
    np.testing.assert_allclose(scaled.predict_proba(X * 10 - 3), plain.predict_proba(X), atol=1e-4)
    for wrong in [(1, 0), (0, np.inf), (2, 2)]:
        with pytest.raises(UsageError, match="value_range is"):
            make(name, value_range=wrong).fit(X, y)


def test_threads_are_honoured_and_restored(name, make, tasks):
    before = torch.get_num_threads()
    inside = []
    model = make(name, threads=before + 1, listen=lambda event: inside.append(torch.get_num_threads()))
    model.fit(*tasks[0])
    assert set(inside) == {before + 1}
    assert torch.get_num_threads() == before
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full((1, 6, 6), np.nan))
    assert torch.get_num_threads() == before


def test_predictions_change_nothing(name, make, tasks):
    model, twin = make(name).partial_fit(*tasks[0], task="a"), make(name).partial_fit(*tasks[0], task="a")
    for task in (None, "a", "unheard of"):
        model.predict(tasks[1][0], task=task)
        model.predict_proba(tasks[1][0], task)
    _check_twins(model, twin, tasks)


def test_names_that_do_not_exist_get_a_suggestion(name, make, tasks):
    with pytest.raises(UsageError, match=f"did you mean {name}"):
        algorithm(name + "x")
    with pytest.raises(UsageError, match="did you mean paper"):
        make(name, preset="papr").fit(*tasks[0])
    with pytest.raises(UsageError, match="did you mean shapes"):
        make(name, preset="paper/shape").fit(*tasks[0])


def test_a_deep_copy_goes_its_own_way(name, make, tasks):
    model = make(name).partial_fit(*tasks[0], task="a")
    before = model.predict_proba(everything(tasks))
    copy.deepcopy(model).partial_fit(*tasks[1], task="b")
    assert np.array_equal(model.predict_proba(everything(tasks)), before)


def test_no_warning_for_ordinary_data(name, make, tasks):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        learn(make(name), tasks).predict(everything(tasks))
    assert [str(warning.message) for warning in heard] == []
