"""Read tables from .csv, .tsv and .parquet files.

Files are not trusted: sizes are counted while values are read, and every failure is one sentence that names the
file, and the row and column where there is one.
"""

import csv
import datetime
import gzip
import itertools
import math
import re
import warnings
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import DataError, UsageError
from dgdmn.core.table import MAX_VALUE, Columns, Table, parse_cells, to_date, warn_left_out
from dgdmn.core.text import join_names, shorten

MAX_BYTES = 1 << 30
"""Most bytes of the values of a file or folder, checked before they are read. Reading takes about twice that."""
LABEL_BYTES = 64
"""Bytes counted per text in addition to its characters: about the overhead of a Python string."""
MAX_ROW_CHARACTERS = 1 << 24
"""Most characters of a csv row."""
CHUNK_ROWS, CHUNK_CHARACTERS = 1_000, 1 << 22
"""Most rows, and about most characters, that are parsed at a time."""
Row = list[str]
Found = dict[int, NDArray[Any]]  # values of the columns, by place
SEPARATORS = ",;\t"
MISSING = frozenset({"", "na", "n/a", "nan", "null", "<na>", "#n/a", "?"})
"""Cells without a value, in any case."""
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")


class ColumnOptions(NamedTuple):
    """Columns named by the caller. They must exist; `remembered_*` come from earlier calls and need not."""

    label: str | None = None
    task: str | None = None
    order: str | None = None
    ignore: Collection[str] = ()
    text: Collection[str] = ()
    remembered_label: str = "label"
    remembered_ignore: Collection[str] = ()
    remembered_tasks: Collection[str] = ()
    needs_labels: bool = True
    """Whether every row must have a label and a task, where the table has columns of them."""


class Arrays(NamedTuple):
    """Samples, and labels, tasks and names where the source has them."""

    X: NDArray[Any]
    """Numbers; the columns of a table as `Columns.encode` makes them, with NaN where a value is missing."""
    y: NDArray[Any] | None
    task: NDArray[Any] | None
    names: tuple[str, ...] = ()
    """Names of the columns of a table."""
    table: Table | None = None
    """The table behind X."""
    order: NDArray[np.float64] | None = None
    """Numbers by which rows are ordered, where a column was named for that."""
    label: str | None = None
    """Name of the label column of a table."""
    task_column: str | None = None
    """Name of its task column."""
    files: tuple[str, ...] = ()
    """Names of the images of a folder, below it."""
    dates: tuple[str, ...] = ()
    """Names of the columns of a table that are left out."""

    @property
    def inputs(self) -> Any:
        """What an estimator learns from: the table, where there is one."""
        return self.X if self.table is None else self.table

    def take(self, rows: Any) -> "Arrays":
        """Some of the rows, without their task, order and files."""
        y = None if self.y is None else self.y[rows]
        table = None if self.table is None else self.table[rows]
        return Arrays(self.X[rows], y, None, self.names, table, label=self.label)


def check_size(path: Path, size: int) -> None:
    """Refuse more bytes of values than MAX_BYTES."""
    if size > MAX_BYTES:
        sizes = f"{size:,} bytes of values, more than {MAX_BYTES:,}"
        raise DataError(f"{path} has {sizes}: split it, or pass arrays in Python")


class _Places(NamedTuple):
    """Where the columns of a table are."""

    label: int | None
    task: int | None
    order: int | None
    features: list[int]


def _find_columns(path: Path, names: Sequence[str], wanted: ColumnOptions) -> _Places:
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise DataError(f"{path} has {times} columns named {name!r}: give each its own name")
    for name in (*wanted.ignore, *wanted.text):
        _find(path, names, name, "")
    label = _find(path, names, wanted.label, wanted.remembered_label)
    ignored = {*wanted.ignore, *wanted.remembered_ignore}
    unused = {*ignored, wanted.task, wanted.order}
    if label is not None and names[label] != "label" and "label" in {*names} - unused:
        both = f"two label columns, {names[label]!r} and 'label'"
        raise DataError(f"{path} has {both}: leave one out (ignore, --ignore), or rename it")
    usual = next((name for name in wanted.remembered_tasks if name and name in names), "task")
    task = _find(path, names, wanted.task, usual)
    order = _find(path, names, wanted.order, "")
    taken = {label, task, order}
    if "" in names:  # pandas writes its index so
        what = f"{path}: the column without a name is left out"
        warnings.warn(f"{what}; give it a name to use it", stacklevel=5)
    unnamed = {*ignored, ""}
    features = [i for i, name in enumerate(names) if i not in taken and name not in unnamed]
    if not features:
        raise DataError(f"{path} has no feature columns besides {join_names(names)}")
    return _Places(label, task, order, features)


def _find(path: Path, names: Sequence[str], name: str | None, default: str) -> int | None:
    if name is not None and name not in names:
        raise UsageError(f"{path} has no column {name!r}: it has {join_names(names)}")
    wanted = default if name is None else name
    return names.index(wanted) if wanted and wanted in names else None


# csv


def read_csv(path: Path, wanted: ColumnOptions) -> Arrays:
    """Read a table of text with a header line; commas, semicolons or tabs separate its columns."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", newline="", encoding="utf-8-sig") as file:
        separator = _find_separator(file)
        rows = _csv_rows(path, file, separator)
        names = [name.strip() for name in next(rows, [])]
        first = next(rows, None)
        if first is None:
            raise DataError(f"{path} has no rows: give a header line and at least one row")
        to_number = _to_decimal if separator == ";" else _to_number
        counted = [str(i) for i in range(len(names))]  # how pandas names columns without a name
        if names != counted and None not in map(to_number, names):
            header = "its first line is numbers, give each column a name"
            raise DataError(f"{path} has no header: {header}")
        places = _find_columns(path, names, wanted)
        given = dict.fromkeys([places.label], "label") | dict.fromkeys([places.task], "task")
        columns: dict[int, _FeatureColumn | _TextColumn] = {
            i: _TextColumn(path, names[i], given.get(i, ""), wanted.needs_labels)
            for i, name in enumerate(names)
            if i in given or name in wanted.text
        }
        for i in (*places.features, *([] if places.order is None else [places.order])):
            columns.setdefault(i, _FeatureColumn(path, names[i], to_number))
        for start, chunk in _chunks(path, itertools.chain([first], rows), len(names)):
            for i, column in columns.items():
                column.extend([row[i] for row in chunk], start)
            check_size(path, sum(column.nbytes for column in columns.values()))
    found = {i: column.values() for i, column in columns.items()}
    return _to_arrays(path, names, places, found, 2, wanted)


def _to_arrays(
    path: Path,
    names: Sequence[str],
    places: _Places,
    found: Found,
    first: int,
    wanted: ColumnOptions,
) -> Arrays:
    """The columns as arrays, without the dates among the features; `first` is the number of the first row."""
    dates = [names[i] for i in places.features if found[i].dtype.kind == "M"]
    features = {names[i]: found[i] for i in places.features if names[i] not in dates}
    if not features:
        raise DataError(f"{path} has no feature columns besides {join_names(names)}")
    warn_left_out(str(path), dates)
    table = Table(tuple(features), tuple(features.values()), str(path), first)
    for name, column in features.items():
        if column.dtype == np.float64 and (odd := np.abs(column) > MAX_VALUE).any():
            row = int(odd.argmax())
            what = "an infinite value" if np.isinf(column[row]) else f"{column[row]:g}"
            limit = f"values may have a size of at most {MAX_VALUE:g}, fix or remove it"
            raise DataError(f"{path} has {what} in {table.where(row, name)}: {limit}")
    order = None
    if places.order is not None:
        order = _to_order(path, names[places.order], found[places.order], first)
    columns = Columns.fit(table, wanted.text)
    check_size(path, 8 * columns.width * len(table))
    y, task = (None if i is None else found[i] for i in (places.label, places.task))
    label, by = (None if i is None else names[i] for i in (places.label, places.task))
    x, left_out = columns.encode(table), tuple(dates)
    return Arrays(x, y, task, table.names, table, order, label, by, dates=left_out)


def _to_order(path: Path, name: str, values: NDArray[Any], first: int) -> NDArray[np.float64]:
    """Numbers by which rows are sorted: values of a column, or seconds of its dates."""
    if values.dtype.kind == "M":
        seconds = (values - np.datetime64(0, "s")) / np.timedelta64(1, "s")
        values = np.asarray(seconds, np.float64)
    if values.dtype == object:
        row = next(row for row, value in enumerate(values.tolist()) if value is not None)
        what = f"{shorten(repr(values[row]))} in row {row + first}, column {name!r}"
        advice = "order rows by numbers, or by dates like 2025-01-31 or 2025-01-31 14:00"
        raise DataError(f"{path} has {what}: {advice}")
    if (missing := np.isnan(values)).any():
        row = int(missing.argmax()) + first
        raise DataError(f"{path} has no value in row {row}, column {name!r}: fill or remove it")
    return values


def _find_separator(file: TextIO) -> str:
    """The separator that splits the header line into most columns, and the next line into as many."""
    lines = [file.readline(MAX_ROW_CHARACTERS) for _ in range(2)]
    file.seek(0)
    best, most = SEPARATORS[0], (False, 1)
    for separator in SEPARATORS:
        header, row = (len(next(csv.reader([line], delimiter=separator), [])) for line in lines)
        if header > 1 and (header == row, header) > most:
            best, most = separator, (header == row, header)
    return best


def _csv_rows(path: Path, file: TextIO, separator: str) -> Iterator[Row]:
    """The rows that are not empty. A row that is too long is refused before it is split."""
    length = total = 0

    def lines() -> Iterator[str]:
        nonlocal length, total
        while line := file.readline(MAX_ROW_CHARACTERS):
            length, total = length + len(line), total + len(line)
            if length >= MAX_ROW_CHARACTERS:
                most = f"{MAX_ROW_CHARACTERS:,} characters"
                raise DataError(f"{path} has a row of more than {most}: give a csv file")
            if total > 4 * MAX_BYTES:  # a small file may unpack to any number of empty lines
                raise DataError(f"{path} has more than {4 * MAX_BYTES:,} characters: split it")
            yield line

    start = 1  # the line at which a row begins
    reader = csv.reader(lines(), delimiter=separator, strict=True)
    try:
        for row in reader:
            start, length = reader.line_num + 1, 0
            if row:
                yield row
    except csv.Error as error:
        raise DataError(
            f"{path} has a quote that is not closed, in the row at line {start}"
        ) from error


def _chunks(path: Path, rows: Iterable[Row], n_columns: int) -> Iterator[tuple[int, list[Row]]]:
    """Some rows at a time with the number of the first of them; all have the same number of cells."""
    chunk, length, number = list[Row](), 0, 1
    for row in rows:
        number += 1
        if len(row) != n_columns:
            problem = f"{len(row)} values in row {number}, not {n_columns}"
            raise DataError(f"{path} has {problem} as in its header")
        chunk.append(row)
        length += sum(map(len, row))
        if len(chunk) == CHUNK_ROWS or length > CHUNK_CHARACTERS:
            yield number + 1 - len(chunk), chunk
            chunk, length = [], 0
    if chunk:
        yield number + 1 - len(chunk), chunk


class _TextColumn:
    """A column of text: labels or tasks, which must not be missing if they are needed, or sentences."""

    def __init__(self, path: Path, name: str, part: str, needed: bool) -> None:
        self.path, self.name, self.part, self.needed = path, name, part, needed
        self.cells, self.longest = list[str | None](), 0
        self._seen: dict[str, str] = {}

    @property
    def nbytes(self) -> int:
        return len(self.cells) * (LABEL_BYTES + 4 * self.longest)  # as in an array of labels

    def extend(self, cells: Sequence[str], start: int) -> None:
        """Add cells; `start` is the row number of the first."""
        for number, cell in enumerate(cells, start):
            cell = cell.strip(" \t") if self.part else cell
            if not is_missing(cell):
                self.cells.append(self._seen.setdefault(cell, cell))
                self.longest = max(self.longest, len(cell))
            elif self.part and self.needed:
                where = f"row {number}, column {self.name!r}"
                raise DataError(f"{self.path} has no {self.part} in {where}: fill or remove it")
            else:
                self.cells.append(None)

    def values(self) -> NDArray[Any]:
        if not self.part:
            return _objects(self.cells)
        known = [cell for cell in self.cells if cell is not None]
        labels = to_labels(known)
        if len(known) == len(self.cells):
            return labels
        given = iter(labels.tolist())
        return _objects(None if cell is None else next(given) for cell in self.cells)


class _FeatureColumn:
    """Cells of a feature: numbers, categories, true and false, or dates."""

    def __init__(self, path: Path, name: str, to_number: Callable[[str], float | None]) -> None:
        self.path, self.name, self.to_number = path, name, to_number
        self.numbers, self.texts = array("d"), list[str | None]()
        self.has_numbers, self.extra = False, 0
        self._seen: dict[str, str] = {}

    @property
    def nbytes(self) -> int:
        return 8 * (len(self.numbers) + len(self.texts)) + self.extra

    def extend(self, cells: Sequence[str], start: int) -> None:
        """Add cells; `start` is the row number of the first."""
        joined = "".join(cells)
        if not self._seen and joined.isascii() and "_" not in joined:
            with suppress(ValueError):  # the usual case, and the fast one
                values = [*map(float, cells)]
                self.numbers.extend(values)
                self.has_numbers = self.has_numbers or any(one == one for one in values)
                return
        for number, cell in enumerate(cells, start):
            value = self.to_number(cell)
            if is_missing(cell) and self._seen:
                self.texts.append(None)
            elif is_missing(cell):
                self.numbers.append(math.nan)
            elif value is None or self._seen:
                self._add_text(cell.strip(), value, number)
            else:
                self.numbers.append(value)
                self.has_numbers = True

    def _add_text(self, cell: str, value: float | None, number: int) -> None:
        where = f"{shorten(cell)!r} in row {number}, column {self.name!r}"
        if value is None and _looks_like_number(cell):
            usual = "1234,5" if self.to_number is _to_decimal else "1234.5"
            advice = f"write numbers as {usual}"
            raise DataError(f"{self.path} has {where}: {advice}")
        if self.has_numbers or value is not None:
            above = "numbers" if self.has_numbers else "text"
            raise DataError(
                f"{self.path} has {where}, which has {above} above: features are numbers or text, not both; "
                "fix the cell, or leave the column out (ignore, --ignore)"
            )
        if not self._seen:  # missing cells may come first
            self.texts, self.numbers = [None] * len(self.numbers), array("d")
        if cell not in self._seen:
            self._seen[cell] = cell
            self.extra += LABEL_BYTES + 4 * len(cell)
        self.texts.append(self._seen[cell])

    def values(self) -> NDArray[Any]:
        """Numbers, text, or datetime64."""
        if not self._seen:
            return np.array(self.numbers)
        words = {cell.lower() for cell in self._seen}
        if words <= {"true", "false"}:
            truth = {None: math.nan} | {cell: cell.lower() == "true" for cell in self._seen}
            return np.array([truth[one] for one in self.texts], np.float64)
        dates = {cell: to_date(cell) for cell in self._seen}
        if None not in dates.values():
            return np.array([dates.get(one or "") for one in self.texts], "M8[us]")
        if next(iter(dates.values())) is not None:  # it begins with dates
            odd = next(cell for cell, date in dates.items() if date is None)
            where = f"row {self.texts.index(odd) + 2}, column {self.name!r}"
            advice = "fix the cell, or leave the column out (ignore, --ignore)"
            what = f"{shorten(odd)!r} in {where}, which has dates above"
            raise DataError(f"{self.path} has {what}: {advice}")
        return _objects(self.texts)


def _objects(values: Iterable[Any]) -> NDArray[Any]:
    """Values as an array of objects; the None at the end keeps numpy from looking into them."""
    return np.array([*values, None], dtype=object)[:-1]


def is_missing(cell: str) -> bool:
    """Whether a cell has no value.

    >>> is_missing(" "), is_missing("NaN"), is_missing("0")
    (True, True, False)
    """
    return len(cell) < 8 and cell.strip().lower() in MISSING


def _to_number(text: str) -> float | None:
    """A number as csv files write it: `float` alone also takes 1_000 and the digits of all scripts."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def _to_decimal(text: str) -> float | None:
    """The same where a comma may be the decimal point, as in files with semicolons."""
    return _to_number(text.replace(",", ".") if _DECIMAL_COMMA.fullmatch(text.strip()) else text)


def _looks_like_number(text: str) -> bool:
    """Whether a text is a number in another notation: 1,000 or 50 % or 0x10, but not 10-20."""
    plain = re.sub(r"[\s_,'’%$€£]", "", text)
    for parse in (float, lambda one: int(one, 0)):
        with suppress(ValueError):
            parse(plain)
            return True
    return False


def to_labels(texts: Iterable[str]) -> NDArray[Any]:
    """Return texts as an array, of integers if every text is one in its usual form, or as 1.0.

    >>> to_labels(["1", "-2"]), to_labels(["1.0", "2"]), to_labels(["1", "b"]), to_labels(["01"])
    (array([ 1, -2]), array([1, 2]), array(['1', 'b'], dtype='<U1'), array(['01'], dtype='<U2'))
    """
    given = list(texts)
    texts = [
        re.sub(r"(?<=\d)\.0+$", "", text) for text in given
    ]  # pandas writes 1.0 once a label was missing
    if any(text.endswith("\0") for text in set(texts)):
        raise ValueError("a label or task ends with a NUL character, which an array drops")
    try:
        numbers = {text: int(text) for text in set(texts)}
    except ValueError:
        return np.array(given)
    usual = all(str(number) == text and abs(number) < 2**63 for text, number in numbers.items())
    return np.array([numbers[text] for text in texts] if usual else given)


# parquet


def read_parquet(path: Path, wanted: ColumnOptions) -> Arrays:
    """Read a parquet file of plain columns."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        install = "run: pip install 'dgdmn[parquet]'"
        raise UsageError(f"{path} needs the package pyarrow; {install}") from error
    with path.open("rb") as opened:
        file = parquet.ParquetFile(opened)
        schema = file.schema_arrow
        places = _find_columns(path, schema.names, wanted)
        used = [i for i in (*places, *places.features) if isinstance(i, int)]
        for i in used:
            if pa.types.is_nested(schema.types[i]):
                problem = f"column {schema.names[i]!r} of type {schema.types[i]}"
                raise DataError(f"{path} has {problem}: give numbers or text, or leave it out")
        chosen = [schema.names[i] for i in used]
        check_size(path, 8 * file.metadata.num_rows * len(used))
        text_types = (pa.string(), pa.large_string())
        texts = [name for name in chosen if schema.field(name).type in text_types]
        # as dictionaries: a small file may repeat a long text many times
        file = parquet.ParquetFile(opened, read_dictionary=texts)
        batches, size = list[Any](), 0
        for batch in file.iter_batches(65_536, columns=chosen):
            size += batch.nbytes
            check_size(path, size)
            batches.append(batch)
        if not size:
            raise DataError(f"{path} has no rows: give at least one row")
    whole = pa.Table.from_batches(batches)
    found: Found = {}
    for i in used:
        name, column = schema.names[i], whole.column(schema.names[i])
        if i in (places.label, places.task):
            part = "label" if i == places.label else "task"
            labels = _TextColumn(path, name, part, wanted.needs_labels)
            labels.extend(_label_texts(_cells(column, pa).tolist()), 1)
            check_size(path, labels.nbytes)
            found[i] = labels.values()
        else:
            found[i] = _arrow_values(path, name, column, pa)
    return _to_arrays(path, schema.names, places, found, 1, wanted)


def _arrow_values(path: Path, name: str, column: Any, pa: Any) -> NDArray[Any]:
    """A column as float64, text or datetime64."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return np.asarray(column.cast(pa.timestamp("us")).to_numpy(), "M8[us]")
    if pa.types.is_dictionary(kind):
        cells = _cells(column, pa)
        return np.array([None if cell is None else str(cell) for cell in cells], object)
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return np.array([math.nan if one is None else float(one) for one in column.to_pylist()])
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)
    cells = _cells(column, pa)
    found = parse_cells(cells, str(path), name, 1)
    if found is None and all(cell is None or isinstance(cell, str) for cell in cells):
        return np.array([to_date(cell or "") for cell in cells], "M8[us]")
    if found is None:
        raise DataError(f"{path} has times in column {name!r}: leave it out (ignore, --ignore)")
    return found


def _cells(column: Any, pa: Any) -> NDArray[Any]:
    """A column as Python objects; equal texts of a dictionary are one object."""
    if not pa.types.is_dictionary(column.type):
        return _objects(column.to_pylist())
    parts = [np.empty(0, object)]
    for chunk in column.chunks:
        levels = np.array([*chunk.dictionary.to_pylist(), None], dtype=object)
        places = chunk.indices.fill_null(len(levels) - 1)
        parts.append(levels[places.to_numpy(zero_copy_only=False)])
    return np.concatenate(parts)


def _label_texts(values: Sequence[Any]) -> list[str]:
    """Labels as a csv file has them: whole numbers without a point, dates in ISO format, midnight left out."""
    texts, times = [], [value for value in values if isinstance(value, datetime.datetime)]
    if all(value.time() == datetime.time() for value in times):
        values = [v.date() if isinstance(v, datetime.datetime) else v for v in values]
    for value in values:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        is_date = isinstance(value, datetime.date)
        texts.append(value.isoformat() if is_date else "" if value is None else str(value))
    return texts
