"""Tables as people have them: separators, missing values, categories, dates, parquet."""

import builtins
import gzip
import os
import random

import numpy as np
import pytest

from dgdmn.core.errors import DataError, UsageError
from dgdmn.streams import from_arrays, read_arrays, tables
from tests.streams.test_hostile_files import attack, mutate, refusal


def write(path, text):
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.tsv.gz"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_header_line_says_what_separates_columns(tmp_path, name, separator):
    rows = [["a", '"x; y, z"', "label"], ["1.5", "2", "cat"], ["3", "", '"a ""dog"", old"']]
    text = "\n".join(separator.join(row) for row in rows) + "\n"
    found = read_arrays(write(tmp_path / name, text))
    np.testing.assert_array_equal(found.X, [[1.5, 2], [3, np.nan]])
    assert found.y.tolist() == ["cat", 'a "dog", old']
    assert (found.names, found.label) == (("a", "x; y, z"), "label")


def test_a_comma_is_a_decimal_point_between_semicolons(tmp_path):
    found = read_arrays(write(tmp_path / "a.csv", "a;b\n1,5;-2,25\n3;4.5\n"))
    assert found.X.tolist() == [[1.5, -2.25], [3, 4.5]]
    line = refusal(write(tmp_path / "a.tsv", "a\tb\n1,000\t2\n"))
    assert "has '1,000' in row 2, column 'a': write numbers as 1234.5" in line


def test_one_column_has_no_separator(tmp_path):
    assert read_arrays(write(tmp_path / "a.csv", "a\n1\n2\n")).X.tolist() == [[1], [2]]


@pytest.mark.parametrize("cell", ["", " ", "NA", "n/a", "NaN", "null", "<NA>", "#N/A", "?"])
def test_missing_cells(tmp_path, cell):
    found = read_arrays(write(tmp_path / "a.csv", f"a,b,c\n{cell},1,x\n2,{cell},{cell}\n"))
    np.testing.assert_array_equal(found.X[:, :2], [[np.nan, 1], [2, np.nan]])
    assert found.table.column("c").tolist() == ["x", None]
    assert not found.X[1, 2:].any(), "a missing category is 0"


def test_categories_booleans_and_dates(tmp_path):
    text = "when,color,ok,a,label\n2024-05-01,red,True,1,x\n,blue,false,2,y\n2024-05-02T10:00,red,,3,x\n"
    with pytest.warns(UserWarning, match=r"a\.csv: dates in 'when' are left out"):
        found = read_arrays(write(tmp_path / "a.csv", text))
    assert found.table.names == found.names == ("color", "ok", "a")
    assert found.table.column("color").tolist() == ["red", "blue", "red"]
    np.testing.assert_array_equal(found.table.column("ok"), [1, 0, np.nan])
    assert {*np.abs(found.X[:, :12]).ravel()} == {1}
    assert (found.X[0, :12] == found.X[2, :12]).all()
    assert (found.X[0, :12] != found.X[1, :12]).any()


def test_rows_are_ordered_by_numbers_or_dates(tmp_path):
    path = write(
        tmp_path / "a.csv", "when,n,a\n2024-05-02,3,1\n2024-05-01,4,2\n2023-01-01 12:00,5,3\n"
    )
    found = read_arrays(path, order_by="when", ignore=["n"])
    assert found.names == ("a",)
    assert np.argsort(found.order).tolist() == [2, 1, 0]
    with pytest.warns(UserWarning, match="dates in 'when'"):
        assert read_arrays(path, order_by="n").order.tolist() == [3, 4, 5]
    write(path, "when,a\n2024-05-02,3\n,4\n")
    with pytest.raises(DataError, match=r"a\.csv has no value in row 3, column 'when'"):
        read_arrays(path, order_by="when")


def test_columns_are_ignored_by_name(tmp_path):
    path = write(tmp_path / "a.csv", "id,label,other,a\nx1,0,1,2\n7,1,0,3\n")
    found = read_arrays(path, ignore=("id", "label"), label="other")
    assert (found.names, found.y.tolist()) == (("a",), [1, 0])
    with pytest.raises(UsageError, match="has no column 'ids': it has id, label, other, a"):
        read_arrays(path, ignore=["ids"])
    np.save(tmp_path / "a.npy", np.zeros((2, 2)))
    with pytest.raises(UsageError, match=r"a\.npy is not a table"):
        read_arrays(tmp_path / "a.npy", ignore=["ids"])


def test_text_columns_may_look_like_anything(tmp_path):
    pytest.importorskip("tokenizers")
    path = write(tmp_path / "a.csv", 'note,a\n12,1\n"the cat, again",2\n,3\n')
    found = read_arrays(path, text=["note"])
    assert found.table.column("note").tolist() == ["12", "the cat, again", None]
    assert found.X.shape == (3, 257)
    assert not found.X[2, :256].any()


def test_a_gzip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_BYTES", 20_000)
    assert "more than 80,000 characters" in refusal(
        write(tmp_path / "a.csv.gz", "a\n1" + "\n" * 10**5)
    )
    assert "bytes of values" in refusal(write(tmp_path / "b.csv.gz", "a\n" + "1\n" * 5_000))
    content = (tmp_path / "a.csv.gz").read_bytes()
    (tmp_path / "c.csv.gz").write_bytes(content[:-20])
    refusal(tmp_path / "c.csv.gz")


def frame():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    return pandas.DataFrame(
        {
            "n": [1, 2, None],
            "kind": pandas.Series(["a", None, "b"], dtype="category"),
            "ok": [True, False, True],
            "when": pandas.to_datetime(["2024-01-03", "2024-01-01", "2024-01-02"]),
            "label": [3, 4, 3],
            "month": pandas.to_datetime(["2024-01-03"] * 3),
        }
    )


def test_parquet_is_read_as_the_same_csv(tmp_path):
    made = frame()
    made.to_parquet(tmp_path / "a.parquet")
    made.to_csv(tmp_path / "a.csv", index=False)
    one, other = (
        read_arrays(tmp_path / name, task="month", order_by="when")
        for name in ("a.parquet", "a.csv")
    )
    np.testing.assert_array_equal(one.X, other.X)
    np.testing.assert_array_equal(one.order, other.order)
    assert one.y.tolist() == other.y.tolist() == [3, 4, 3]
    assert one.names == other.names == ("n", "kind", "ok")
    assert one.task.tolist() == other.task.tolist() == ["2024-01-03"] * 3
    with pytest.warns(UserWarning, match="dates in 'when', 'month' are left out"):
        found = read_arrays(tmp_path / "a.parquet", label="ok", ignore=["label"])
    assert found.y.tolist() == ["True", "False", "True"]


def test_parquet_is_refused_by_row_and_column(tmp_path):
    made, path = frame(), tmp_path / "a.parquet"
    made.to_parquet(path)
    assert "no label in row 3, column 'n'" in refusal(path, label="n", ignore=["label"])
    assert "no task in row 2, column 'kind'" in refusal(path, task="kind")
    made["list"] = [[1], [2], [3]]
    made.to_parquet(path)
    assert "column 'list' of type list" in refusal(path)
    made.iloc[:0].to_parquet(path)
    assert "no rows" in refusal(path, ignore=["list"])
    path.write_bytes(b"PAR1 no parquet PAR1")
    refusal(path)


def test_parquet_without_the_extra_says_how_to_install_it(tmp_path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **options):
        if name.partition(".")[0] == "pyarrow":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    line = refusal(tmp_path / "a.parquet", UsageError)
    assert line.endswith("needs the package pyarrow; run: pip install 'dgdmn[parquet]'")


def test_repeated_texts_of_a_parquet_file_take_little_memory(tmp_path):
    """A dictionary of one long text, used by many rows."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000, pa.int32()), ["x" * 10**6])
    made = pa.table({"a": texts, "b": pa.array([1.0] * 2_000)})
    parquet.write_table(made, tmp_path / "a.parquet", store_schema=False)
    assert read_arrays(tmp_path / "a.parquet").X.shape == (2_000, 13)
    assert "bytes of values" in refusal(tmp_path / "a.parquet", task="a")


def test_mutated_parquet_is_read_or_refused(tmp_path):
    frame().drop(columns=["when", "month"]).to_parquet(tmp_path / "a.parquet")
    rng, content = random.Random(0), (tmp_path / "a.parquet").read_bytes()
    n = int(os.environ.get("DGDMN_ATTACKS", "200"))
    read = sum(attack(tmp_path / "b.parquet", mutate(content, rng)) for _ in range(n))
    assert 0 < read < n


def test_dates_of_training_and_test_rows_are_mentioned_once(tmp_path):
    lines = ["x,day,label", *(f"{n},2024-01-0{n},{'ab'[n % 2]}" for n in range(1, 9))]
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).write_text("\n".join(lines))
    with pytest.warns(UserWarning, match=r"train\.csv: dates in 'day' are left out") as caught:
        from_arrays(tmp_path / "train.csv", test=tmp_path / "test.csv")
    assert len(caught) == 1


def test_a_column_without_a_name_is_left_out(tmp_path):
    """pandas writes its index so; it is no feature, no task and no order."""
    path = tmp_path / "a.csv"
    path.write_text(",a,b,label\n0,1,2,x\n1,3,4,y\n")
    with pytest.warns(UserWarning, match="the column without a name is left out"):
        arrays = read_arrays(path, remembered=("label", (), ("", "")))
    assert (arrays.table.names, arrays.task, arrays.order) == (("a", "b"), None, None)


def test_a_quote_that_is_not_closed_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,label\n1,x\n2,"y\n' + "3,z\n" * 50)
    with pytest.raises(DataError, match="a quote that is not closed, in the row at line 3"):
        read_arrays(path)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [(["1.0", "2.0"], [1, 2]), ([" x", "x "], ["x", "x"]), (["1.5", "2.0"], ["1.5", "2.0"])],
)
def test_labels_as_pandas_and_people_write_them(tmp_path, cells, expected):
    path = tmp_path / "a.csv"
    path.write_text("a,label\n" + "".join(f"1,{cell}\n" for cell in cells))
    assert read_arrays(path).y.tolist() == expected


def test_a_column_that_changes_from_dates_to_text_is_refused(tmp_path):
    path = write(tmp_path / "a.csv", "a,day,label\n1,2024-01-01,x\n2,,y\n3,yesterday,x\n")
    with pytest.raises(
        DataError, match=r"'yesterday' in row 4, column 'day', which has dates above"
    ):
        read_arrays(path)
    path = write(tmp_path / "a.csv", "a,day,label\n1,monday,x\n2,,y\n3,2024-01-01,x\n")
    assert read_arrays(path).table.column("day").tolist() == ["monday", None, "2024-01-01"]
