"""Tables and their columns as numbers."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgdmn.core import embed
from dgdmn.core.errors import UsageError
from dgdmn.core.table import CATEGORY_COLUMNS, Columns, Table

pandas = pytest.importorskip("pandas")


def text(*cells):
    return np.array([*cells, None], dtype=object)[:-1]


def table(**columns):
    return Table(tuple(columns), tuple(columns.values()))


SMALL = table(a=np.array([1.0, np.nan, 3.0]), kind=text("x", None, "y"))


def test_a_frame_becomes_numbers_and_text():
    frame = pandas.DataFrame(
        {
            "int": [1, 2],
            "whole": pandas.array([1, None], dtype="Int64"),
            "ok": pandas.array([True, None], dtype="boolean"),
            "plain": [True, False],
            "kind": pandas.Series([7, 8], dtype="category"),
            "word": ["a", None],
            "object": pandas.Series([1, 2.5], dtype=object),
            "when": pandas.to_datetime(["2024-01-01", None]),
        }
    )
    with pytest.warns(UserWarning, match="X: dates in 'when' are left out"):
        found = Table.from_frame(frame)
    nan = np.nan
    numbers = {
        "int": [1, 2],
        "whole": [1, nan],
        "ok": [1, nan],
        "plain": [1, 0],
        "object": [1, 2.5],
    }
    for name, values in numbers.items():
        assert found.column(name).dtype == np.float64
        np.testing.assert_array_equal(found.column(name), values)
    assert found.column("kind").tolist() == ["7", "8"]
    assert found.column("word").tolist() == ["a", None]
    assert Columns.fit(found).state()["kind"] == "category"


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([1, "x"], "X has 'x' in row 1, column 'a', which has numbers above; use one kind"),
        (["x", 2], "X has 2 in row 1, column 'a', which has text above; use one kind"),
        ([None, [1]], r"X has \[1\] in row 1, column 'a', which is neither text nor number"),
    ],
)
def test_a_mixed_column_is_refused_by_row_and_value(cells, message):
    with pytest.raises(UsageError, match=message):
        Table.from_frame(pandas.DataFrame({"a": pandas.Series(cells, dtype=object)}))


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(UsageError, match="X has 2 columns named 'a'"):
        Table.from_frame(pandas.DataFrame([[1, 2]], columns=["a", "a"]))


def test_columns_are_found_by_name():
    columns = Columns.fit(SMALL)
    assert columns.width == 1 + CATEGORY_COLUMNS
    turned = SMALL.select(["kind", "a"])
    np.testing.assert_array_equal(columns.encode(SMALL), columns.encode(turned))
    with pytest.raises(UsageError, match=r"X lacks column 'kind'; it has a$"):
        columns.encode(SMALL.select(["a"]))
    with pytest.raises(UsageError, match="X has the unknown column 'b'; leave it out"):
        columns.encode(table(a=np.ones(1), kind=text("x"), b=np.ones(1)))


def test_a_category_is_signs_that_never_change():
    """The first code is fixed for all times: saved memories rely on it."""
    columns = Columns.fit(SMALL)
    codes = columns.encode(SMALL)[:, 1:]
    assert codes[0].tolist() == [*CODE_OF_X]
    assert not codes[1].any()
    later = columns.encode(table(a=np.ones(2), kind=text("new", "x")))[:, 1:]
    assert {*np.abs(later).ravel()} == {1.0}
    np.testing.assert_array_equal(later[1], codes[0])
    other = Columns.fit(table(b=text("x"))).encode(table(b=text("x")))[0]
    assert (other != codes[0]).any(), "the name of the column counts"


CODE_OF_X = (-1, -1, 1, 1, 1, -1, -1, -1, 1, -1, 1, -1)


@given(st.sets(st.text(), max_size=10))
def test_categories_are_encoded_one_by_one(words):
    columns = Columns(("a",), ("category",))
    cells = [*words, None]
    together = columns.encode(table(a=text(*cells)))
    for row, cell in enumerate(cells):
        np.testing.assert_array_equal(together[row], columns.encode(table(a=text(cell)))[0])


def test_a_column_that_changes_kind_is_refused_by_row_and_value():
    columns = Columns.fit(SMALL)
    changed = Table(("a", "kind"), (text(None, "7 kg"), text("x", "x")), "more.csv", 2)
    with pytest.raises(UsageError, match=r"more.csv has '7 kg' in row 3, column 'a': .* numbers"):
        columns.encode(changed)
    with pytest.raises(UsageError, match=r"X has 5.0 in row 0, column 'kind': .* text before"):
        columns.encode(table(a=np.ones(1), kind=np.array([5.0])))
    nothing = columns.encode(table(a=text(None), kind=np.array([np.nan])))
    assert np.isnan(nothing[0, 0]), "a column without any value fits every kind"
    assert not nothing[0, 1:].any()


@pytest.mark.parametrize(
    "state",
    [[], {}, {"a": "number"}, {"a": "number", "kind": "word"}, {"a": "text"}, {"a": None}, None],
)
def test_forged_columns_are_refused(state):
    with pytest.raises(ValueError, match="column"):
        Columns.restore(state, {"kind": []}, 1 + CATEGORY_COLUMNS)
    columns = Columns.fit(SMALL).learn(SMALL)
    saved = columns.state(), columns.learned_state()
    again = Columns.restore(*saved, columns.width)
    assert (again, again.learned) == (columns, columns.learned)
    for forged in ({}, {"kind": [5000]}, {"kind": ["1"]}, {"kind": 3}, {"a": [1], "kind": []}, []):
        with pytest.raises(ValueError, match="categories"):
            Columns.restore(columns.state(), forged, columns.width)


def test_a_category_never_learned_counts_as_missing_in_a_prediction():
    columns = Columns.fit(SMALL).learn(SMALL)
    later = table(a=np.ones(3), kind=text("new", "x", None))
    with pytest.warns(UserWarning, match=r"'kind' has categories never learned \(first: 'new'\)"):
        found = columns.encode(later, unlearned=0.0)[:, 1:]
    assert not found[0].any()
    np.testing.assert_array_equal(found[1], columns.encode(later)[1, 1:])
    with pytest.warns(UserWarning, match="never learned"):
        lost = np.isnan(columns.encode(later, unlearned=np.nan)).any(axis=1)
    assert lost.tolist() == [True, False, None not in SMALL.column("kind").tolist()]
    np.testing.assert_array_equal(
        columns.learn(later).encode(later, unlearned=np.nan), columns.encode(later)
    )
    other = Columns.fit(SMALL).learn(table(a=np.ones(1), kind=text("new")))
    both = columns.merge(other).encode(later, unlearned=np.nan)
    np.testing.assert_array_equal(both, columns.encode(later))


def test_texts_are_the_vectors_of_wordllama(monkeypatch):
    """Unit vectors; similar sentences are close; nothing is downloaded."""
    pytest.importorskip("tokenizers")
    import socket

    monkeypatch.setattr(socket, "socket", None)
    embed._model.cache_clear()
    a, b, c, empty = embed.embed_texts(
        ["my card was stolen", "somebody took my credit card", "what is the weather in Rome", ""]
    )
    assert np.linalg.norm(a) == pytest.approx(1)
    assert a @ b > a @ c + 0.2
    assert not empty.any()
    assert "wordllama" not in sys.modules
    columns = Columns.fit(table(note=text("hello", None)), text=["note"])
    assert columns.encode(table(note=text("hello", None))).shape == (2, embed.TEXT_COLUMNS)
    with pytest.raises(UsageError, match="X has no text column 'notes'; it has note"):
        Columns.fit(table(note=text("hello")), text=["notes"])


def test_other_weights_are_refused(monkeypatch):
    pytest.importorskip("tokenizers")
    monkeypatch.setattr(embed, "FILES", dict.fromkeys(embed.FILES, "0" * 64))
    embed._model.cache_clear()
    with pytest.raises(UsageError, match=r"is not that of wordllama 0\.4\.0; run: pip install"):
        embed.embed_texts(["hello"])


def test_texts_without_the_extra_say_how_to_install_it(monkeypatch):
    monkeypatch.setattr(embed.importlib.util, "find_spec", lambda _: None)
    embed._model.cache_clear()
    with pytest.raises(UsageError, match=r"wordllama; run: pip install 'dgdmn\[text\]'$"):
        embed.embed_texts(["hello"])


def test_dates_as_text_are_left_out():
    frame = pandas.DataFrame(
        {"a": [1.0, 2], "when": ["2025-01-31", "2025-02-01 14:00"], "b": ["x", "y"]}
    )
    with pytest.warns(UserWarning, match="dates in 'when' are left out"):
        assert Table.from_frame(frame).names == ("a", "b")
    frame.loc[1, "when"] = "later"
    assert Table.from_frame(frame).names == ("a", "when", "b")
