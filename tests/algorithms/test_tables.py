"""Estimators learn data frames: by column name, with categories, text and missing values."""

import pickle
import warnings

import numpy as np
import pytest

from dgdmn import DGDMN, DGR, load
from dgdmn.algorithms import algorithm
from dgdmn.algorithms.generative import merge
from dgdmn.core.errors import UsageError
from dgdmn.core.table import CATEGORY_COLUMNS, Table

pandas = pytest.importorskip("pandas")
MEANS = np.random.default_rng(1).normal(size=(4, 8)) * 1.6
MIX = np.random.default_rng(2).normal(size=(8, 8))


def gaussians(n, seed, missing=0.0):
    """Rows of four classes with one covariance, some values missing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    X = (MEANS[y] + rng.normal(size=(n, 8))) @ MIX
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def sequence(model, X, y):
    for task in (0, 1):
        rows = y // 2 == task
        model.partial_fit(X[rows], y[rows], task=str(task))
    return model


@pytest.mark.parametrize("features", ["relu", "none"])
def test_one_value_in_five_may_be_missing(features):
    """In learning and in prediction; column means in their place would be worse."""
    (X, y), (gaps, _) = gaussians(1000, 0), gaussians(1000, 0, 0.2)
    (T, ty), (test_gaps, _) = gaussians(1000, 3), gaussians(1000, 3, 0.2)
    full = sequence(DGDMN(features=features), X, y).score(T, ty)
    model = sequence(DGDMN(features=features), gaps, y)
    means = np.nanmean(gaps, axis=0)
    plain = sequence(DGDMN(features=features), np.where(np.isnan(gaps), means, gaps), y)
    plain = plain.score(np.where(np.isnan(test_gaps), means, test_gaps), ty)
    assert model.score(T, ty) > full - 0.03
    assert model.score(test_gaps, ty) > max(full - 0.1, plain)


def test_missing_values_of_a_later_call_are_filled_from_what_was_learned():
    """By hand, from the moments of the rows learned: with `none`, the features are the columns."""
    from dgdmn.memory.gaussian import fill_missing

    X, y = gaussians(400, 0)
    model = sequence(DGDMN(features="none", n_stm=3), X, y)
    centered = X - X.mean(axis=0)
    test = gaussians(50, 5, 0.3)[0]
    filled = fill_missing(test, X.mean(axis=0), centered.T @ centered / len(X), len(X))
    np.testing.assert_allclose(
        model.predict_proba(test), model.predict_proba(filled), rtol=1e-6, atol=1e-9
    )
    units = sequence(DGDMN(features="relu", n_stm=3), X, y)
    inputs = units.fitted_.inputs  # its moments are those of the columns as the front end sees them
    seen = inputs.to_columns(X)
    centered = seen - seen.mean(axis=0)
    moments = seen.mean(axis=0), centered.T @ centered / len(X), len(X)
    filled = inputs.from_columns(fill_missing(inputs.to_columns(test), *moments))
    np.testing.assert_allclose(
        units.predict_proba(test), units.predict_proba(filled), rtol=1e-5, atol=1e-7
    )


def test_a_constant_column_with_a_rounded_mean_does_not_decide_what_a_gap_becomes():
    """Means are float32 once the budget binds: a constant is then many of its deviations from its mean."""
    from dgdmn.memory.gaussian import fill_missing

    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(200, 2)), np.full(200, 0.1)])
    mean, covariance = X.mean(axis=0), np.cov(X.T)
    mean[2], covariance[2], covariance[:, 2] = np.float32(0.1), 1e-18, 1e-18
    covariance[2, 2] = 1e-34
    filled = fill_missing(np.array([[np.nan, 0.0, 0.1]]), mean, covariance, 200)
    assert abs(filled[0, 0]) < 1


@pytest.mark.parametrize("name", ["slda", "ncm", "ridge", "nn", "joint", "er", "dgr", "sgd", "gnb"])
def test_other_algorithms_take_gaps_too(name):
    X, y = gaussians(400, 0, 0.2)
    options = {"min_steps": 100} if name in ("nn", "joint", "er") else {}
    model = algorithm(name)(random_state=0, **options)
    assert model.__sklearn_tags__().input_tags.allow_nan
    model.partial_fit(X, y, classes=range(4))
    assert model.predict(gaussians(20, 1, 0.2)[0]).shape == (20,)
    assert model.predict(np.full((1, 8), np.nan)).shape == (1,)


@pytest.mark.parametrize(
    ("options", "X", "message"),
    [
        ({}, np.full((4, 12, 12), np.nan), r"NaN \(first in row 0\); images must have all values"),
        ({"features": lambda X: X}, np.full((4, 3), np.nan), "fill missing values first"),
        ({"image_shape": (3, 4)}, np.full((4, 12), np.nan), "fill missing values first"),
        ({}, np.full((4, 1025), np.nan), "at most 1,024 columns"),
        ({}, np.full((4, 3), np.inf), r"X contains infinity \(first in row 0\)"),
        (
            {},
            np.full((4, 3), -1e200),
            r"X has -1e\+200 in row 0; values may have a size of at most",
        ),
    ],
)
def test_what_cannot_be_filled_is_refused(options, X, message):
    model = DGDMN(**options)
    with pytest.raises(UsageError, match=message):
        model.fit(X, [0, 1, 0, 1])
    assert not model.__sklearn_is_fitted__()
    expected = not options
    assert model.__sklearn_tags__().input_tags.allow_nan is expected


def people(n, seed, missing=0.0):
    """A table of numbers, categories and booleans; its label follows from the category."""
    rng = np.random.default_rng(seed)
    color = rng.choice(["red", "green", "blue"], n)
    y = np.array([{"red": 0, "green": 1, "blue": 2}[one] for one in color])
    frame = pandas.DataFrame(
        {
            "size": rng.normal(y, 1),
            "color": color,
            "new": rng.random(n) < 0.5,
            "weight": rng.normal(size=n),
        }
    )
    for name in ("size", "color", "weight"):
        frame.loc[rng.random(n) < missing, name] = None
    return frame, y


@pytest.mark.filterwarnings("ignore:values outside the range")
@pytest.mark.parametrize("name", ["dgdmn", "slda", "nn"])
def test_a_frame_of_mixed_columns(name, tmp_path):
    (frame, y), (test, ty) = people(600, 0), people(200, 1)
    options = {"min_steps": 400} if name == "nn" else {}
    model = algorithm(name)(random_state=0, **options)
    for rows in (y < 2, y == 2):
        model.partial_fit(frame[rows], y[rows], classes=[0, 1, 2])
    assert model.feature_names_in_.tolist() == ["size", "color", "new", "weight"]
    assert model.n_features_in_ == 4
    assert model.fitted_.shape == (3 + CATEGORY_COLUMNS,)
    assert name == "nn" or model.score(test, ty) > 0.95
    before = pickle.dumps(model)
    turned = model.predict_proba(test[["weight", "new", "color", "size"]])
    np.testing.assert_array_equal(turned, model.predict_proba(test))
    np.testing.assert_array_equal(turned, model.predict_proba(Table.from_frame(test)))
    assert pickle.dumps(model) == before, "predict changes nothing"
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(test), turned)
    assert (again.columns_, again.n_features_in_) == (model.columns_, 4)


def test_a_frame_is_refused_by_name_row_and_value():
    frame, y = people(100, 0)
    model = DGDMN().fit(frame, y)
    for change, message in (
        (frame.drop(columns="size"), "X lacks column 'size'"),
        (frame.assign(id=1), "X has the unknown column 'id'"),
        (frame.assign(size="big"), "X has 'big' in row 0, column 'size': the column had numbers"),
        (frame.assign(color=3), "X has 3.0 in row 0, column 'color': the column had text"),
        (np.zeros((5, 15)), "X has no column names; pass a table with the columns size, color"),
    ):
        with pytest.raises(UsageError, match=message):
            model.predict(change)
        before = model.fitted_
        with pytest.raises(UsageError, match=message):
            model.partial_fit(change, y[: len(change)])
        assert model.fitted_ is before, "nothing is learned"


def test_a_category_that_comes_later_changes_no_size():
    frame, y = people(300, 0, 0.1)
    model = DGDMN().partial_fit(frame, y)
    later = frame.assign(color="violet")
    model.partial_fit(later, np.full(300, 3))
    assert model.score(later, np.full(300, 3)) > 0.95


def test_numbers_keep_their_type_and_learn_from_frames_and_arrays_alike():
    X, y = gaussians(200, 0)
    frame = pandas.DataFrame(X, columns=list("abcdefgh"))
    one, other = DGDMN().fit(frame, y), DGDMN().fit(X, y)
    np.testing.assert_array_equal(
        one.predict_proba(frame[list("hgfedcba")]), other.predict_proba(X)
    )
    assert one.columns_.is_numeric
    table = Table.from_frame(frame)
    np.testing.assert_array_equal(other.predict_proba(table), other.predict_proba(X))
    with pytest.raises(UsageError, match="X has text, but the memory has learned numbers only"):
        other.predict(frame.assign(a="x"))
    small = pandas.DataFrame(np.uint8([[0, 255], [255, 0]]), columns=["a", "b"])
    network = algorithm("nn")(min_steps=1, random_state=0).fit(small, [0, 1])
    assert float(network.fitted_.inputs.high) == 1, "bytes mean value / 255"


def test_a_column_of_names_is_warned_about():
    frame, y = people(100, 0)
    with pytest.warns(UserWarning, match="'id' has 100 different texts in 100 rows; leave it out"):
        DGDMN().fit(frame.assign(id=[f"x{n}" for n in range(100)]), y)


def test_a_category_that_comes_later_is_missing_until_it_is_learned(tmp_path):
    """Its code was never seen: without this rule the answers would be noise."""
    rng, n = np.random.default_rng(0), 300
    y = np.arange(n) % 3
    frame = pandas.DataFrame(
        {"a": y + 0.3 * rng.standard_normal(n), "site": rng.choice(["p", "q", "r"], n)}
    )
    model = DGDMN().partial_fit(frame, y, task="one")
    new = frame.assign(site="mars")
    model.save(tmp_path / "m")
    for one in (model, load(tmp_path / "m")):
        with pytest.warns(UserWarning, match="column 'site' has categories never learned"):
            assert one.score(new, y) > 0.9
    missing = frame.assign(site=None)
    with pytest.warns(UserWarning, match="never learned"):
        np.testing.assert_array_equal(model.predict_proba(new), model.predict_proba(missing))
    model.partial_fit(new, y, task="two")
    assert model.score(new, y) > 0.9
    with pytest.raises(UsageError):
        model.partial_fit(frame.assign(site="venus"), np.full(n, "text"), task="three")
    with pytest.warns(UserWarning, match="'venus'"):
        model.predict(frame.assign(site="venus"))


def test_fit_forgets_the_columns():
    frame, y = people(100, 0)
    model = DGDMN().fit(frame, y)
    X, y = gaussians(100, 0)
    model.fit(X, y)
    assert not hasattr(model, "columns_")
    assert model.n_features_in_ == 8
    model.predict(X)


def test_memories_of_other_columns_are_not_merged():
    frame, y = people(100, 0)
    scale = (0.0, 1.0)
    one, two = (DGDMN(scale=scale).fit(frame, y) for _ in range(2))
    merged = merge(one, two)
    assert merged.columns_ == one.columns_
    merged.predict(frame)
    other = DGDMN(scale=scale).fit(frame.rename(columns={"size": "length"}), y)
    with pytest.raises(UsageError, match="the names or kinds of columns differ"):
        merge(one, other)


def test_text_columns():
    pytest.importorskip("tokenizers")
    frame = pandas.DataFrame(
        {
            "note": ["my card was stolen", "is it going to rain", None, "what a sunny day"] * 10,
            "n": np.arange(40.0),
        }
    )
    y = ["bank", "weather", "bank", "weather"] * 10
    model = DGDMN(text=("note",), features="none").fit(frame, y)
    assert model.fitted_.shape == (257,)
    test = pandas.DataFrame({"n": [0.0, 1], "note": ["lost my bank card", "a rainy day"]})
    assert model.predict(test).tolist() == ["bank", "weather"]
    with pytest.raises(UsageError, match="text names columns, but X has no names"):
        DGDMN(text=("note",)).fit(np.zeros((2, 2)), [0, 1])


def test_sampling_and_unknown_work_with_tables():
    frame, y = people(600, 0, 0.1)
    model = DGR().fit(frame, y)
    dreams, _ = model.sample(5, random_state=0)
    assert dreams.shape == (5, 3 + CATEGORY_COLUMNS)
    assert model.unknown(frame.head(5)).shape == (5,)
    assert model.reconstruct(frame.head(5)).shape == (5, 3 + CATEGORY_COLUMNS)


def test_dates_are_mentioned_once_in_the_life_of_a_model():
    frame = pandas.DataFrame({"when": pandas.date_range("2024-01-01", periods=40)})
    frame["height"], frame["soil"] = np.arange(40.0), ["dry", "wet"] * 20
    y = np.arange(40) // 20
    with pytest.warns(UserWarning, match="X: dates in 'when' are left out"):
        model = DGDMN().partial_fit(frame, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(frame, y).predict(frame)


@pytest.mark.parametrize("gap", [None, np.nan, pandas.NA, pandas.NaT])
def test_a_missing_label_is_refused_with_its_row(gap):
    for y in (["a", gap, "b", gap], pandas.Series(["a", gap, "b", gap], dtype=object)):
        with pytest.raises(UsageError, match=r"y has 2 missing labels \(first in row 1\)"):
            DGDMN().fit(np.eye(4), y)


def test_a_task_for_each_row_is_refused():
    X, y = np.eye(4), ["a", "a", "b", "b"]
    model = DGDMN().partial_fit(X, y, task=2024)
    for task in (["x"] * 4, np.array(["x"] * 4), pandas.Series(["x"] * 4)):
        for call in (
            lambda task=task: model.partial_fit(X, y, task=task),
            lambda task=task: model.predict(X, task),
        ):
            with pytest.raises(
                UsageError, match="task has a name for each row; it must be one name"
            ):
                call()
    assert model.awake_tasks() == ("2024",)
