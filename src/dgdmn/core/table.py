"""`Table`: named columns of numbers and text. `Columns`: the names and kinds a memory knows, and their encoding.

Nothing here depends on the rows of a table except the kind of each column. A category becomes a hash of its
text, so a category that comes later changes no size.
"""

import datetime
import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.embed import TEXT_COLUMNS, embed_texts
from dgdmn.core.errors import UsageError
from dgdmn.core.text import join_names, shorten

Kind = Literal["number", "category", "text"]
Doubles = NDArray[np.float64]
MAX_VALUE = 1e15
"""Largest size of a value that can be learned: sums of squares still fit float32."""
CATEGORY_COLUMNS = 12
"""Number of ±1 columns per category. Among 20 categories, some two share a code with probability .05."""
WIDTH = {"number": 1, "category": CATEGORY_COLUMNS, "text": TEXT_COLUMNS}
MANY_CELLS = 50
"""A column with fewer cells is never warned about, even if all its texts differ."""
MISSING_NUMBER = 1 << CATEGORY_COLUMNS
"""Code of a missing category in `Columns.learned`."""
MAX_COLUMNS = 100_000
"""Most columns of a table."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of named columns: float64 with NaN for a missing value, or objects: text, and None for a missing one."""

    names: tuple[str, ...]
    columns: tuple[NDArray[Any], ...]
    source: str = "X"
    """Where it comes from, for messages."""
    first: int = 0
    """Number of the first row in messages."""

    def __post_init__(self) -> None:
        for name, times in Counter(self.names).items():
            if times > 1:
                raise UsageError(f"{self.source} has {times} columns named {name!r}; rename one")
        if len(self.names) != len(self.columns) or len({len(one) for one in self.columns}) > 1:
            raise UsageError(f"{self.source} has columns of different lengths")

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def __getitem__(self, rows: Any) -> Self:
        """The table with some of its rows."""
        columns = tuple(column[rows] for column in self.columns)
        return type(self)(self.names, columns, self.source)

    def column(self, name: str) -> NDArray[Any]:
        return self.columns[self.names.index(name)]

    def select(self, names: Iterable[str]) -> Self:
        """The table with these columns, in this order."""
        chosen = tuple(names)
        columns = tuple(self.column(name) for name in chosen)
        return type(self)(chosen, columns, self.source, self.first)

    def where(self, row: int, name: str) -> str:
        """A cell, for messages."""
        return f"row {row + self.first}, column {name!r}"

    @classmethod
    def from_frame(cls, frame: Any, source: str = "X") -> Self:
        """The columns of a data frame: numbers and booleans, text and categories; dates are left out.

        A frame is anything with `columns` and `frame[name]`, as pandas has it.
        """
        if isinstance(frame, cls):
            return frame
        kept, dates = dict[str, NDArray[Any]](), list[str]()
        for name, times in Counter(map(str, frame.columns)).items():
            if times > 1:
                raise UsageError(f"{source} has {times} columns named {name!r}; rename one")
        for name in frame.columns:
            column = _read_column(frame[name], source, str(name))
            if column is None:
                dates.append(str(name))
            else:
                kept[str(name)] = column
        warn_left_out(source, dates)
        return cls(tuple(kept), tuple(kept.values()), source)


def is_frame(X: Any) -> bool:
    """Whether X is a table or a data frame."""
    return isinstance(X, Table) or (hasattr(X, "columns") and hasattr(X, "__getitem__"))


def warn_left_out(source: str, dates: Sequence[str]) -> None:
    """Say which columns of dates and times are not used."""
    if dates:
        names = join_names(map(repr, dates))
        advice = "make them numbers to use them"
        warnings.warn(f"{source}: dates in {names} are left out; {advice}", stacklevel=4)


def _read_column(values: Any, source: str, name: str) -> NDArray[Any] | None:
    """A column of a data frame; None for dates and times."""
    dtype = getattr(values, "dtype", None)
    kind = getattr(dtype, "kind", None) or np.asarray(values).dtype.kind
    if kind in "mM":
        return None
    missing = np.asarray(values.isna() if hasattr(values, "isna") else _is_missing(values))
    if kind in "buif":
        numbers = np.full(len(missing), np.nan)
        numbers[~missing] = np.asarray(values[~missing], np.float64)
        return numbers
    cells = np.array([*values, None], dtype=object)[:-1]
    cells[missing] = None
    if hasattr(dtype, "categories"):
        return np.array([None if c is None else str(c) for c in [*cells]] + [None], object)[:-1]
    return parse_cells(cells, source, name)


def _is_missing(values: Any) -> NDArray[np.bool_]:
    return np.array([one is None or one != one for one in values], dtype=bool)


def parse_cells(cells: NDArray[Any], source: str, name: str, first: int = 0) -> NDArray[Any] | None:
    """A column of Python objects as numbers or as text; None for dates and times, also as text.

    Numbers and text in one column are refused, and so is any other object.
    """
    kinds = {str: "text", bool: "number", int: "number", float: "number"}
    found, numbers = "", np.full(len(cells), np.nan)
    for row, cell in enumerate(cells.tolist()):
        if cell is None:
            continue
        cell = cell.item() if isinstance(cell, np.generic) else cell
        is_date = isinstance(cell, datetime.date | datetime.time | datetime.timedelta)
        kind = "date" if is_date else kinds.get(type(cell), "")
        if not kind or (found and kind != found):
            problem = f"{source} has {shorten(repr(cell))} in row {row + first}, column {name!r}"
            before = f"which has {found}s above" if found else "which is neither text nor number"
            raise UsageError(f"{problem}, {before.replace('texts', 'text')}; use one kind")
        found = kind
        if kind == "number":
            numbers[row] = cell
    if found == "text":
        return None if all(map(to_date, {*cells} - {None})) else cells
    return None if found == "date" else numbers


_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")


def to_date(text: str) -> datetime.datetime | None:
    """An ISO date without its time zone, in UTC; None if the text is none."""
    if not _DATE.fullmatch(text):
        return None
    try:
        found = datetime.datetime.fromisoformat(text)
        return found.astimezone(datetime.UTC).replace(tzinfo=None) if found.tzinfo else found
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class Columns:
    """The columns that a memory knows: the name and kind of each. Maps a table to numbers."""

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    learned: Mapping[str, frozenset[int]] = field(default_factory=dict, compare=False)
    """Codes of the categories learned so far, by column. Others carry no information, so they count as missing."""

    @classmethod
    def fit(cls, table: Table, text: Iterable[str] = ()) -> Self:
        """The columns of a table. Those named in `text` are sentences, other text is a category."""
        if not table.names:
            raise UsageError(f"{table.source} has no columns to learn from")
        texts = set(text)
        for name in texts - set(table.names):
            have = join_names(table.names)
            raise UsageError(f"{table.source} has no text column {name!r}; it has {have}")
        kinds: list[Kind] = [
            "text" if name in texts else "category" if column.dtype == object else "number"
            for name, column in zip(table.names, table.columns, strict=True)
        ]
        return cls(table.names, tuple(kinds))

    @classmethod
    def all_numeric(cls, names: Sequence[str]) -> Self:
        """Return columns that are all numbers."""
        return cls(tuple(names), tuple[Kind, ...](["number"] * len(names)))

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return sum(WIDTH[kind] for kind in self.kinds)

    @property
    def is_numeric(self) -> bool:
        return set(self.kinds) == {"number"}

    @property
    def is_coded(self) -> NDArray[np.bool_]:
        """Which columns of numbers are codes of categories and sentences, shape (width,)."""
        return np.concatenate([np.full(WIDTH[kind], kind != "number") for kind in self.kinds])

    @property
    def text(self) -> tuple[str, ...]:
        """Names of the columns of sentences."""
        return tuple(n for n, kind in zip(self.names, self.kinds, strict=True) if kind == "text")

    def check_names(self, names: Sequence[str], source: str) -> None:
        """Refuse columns that are missing or unknown, by name."""
        missing = [name for name in self.names if name not in names]
        extra = [name for name in names if name not in self.names]
        if missing:
            listed, have = join_names(map(repr, missing)), join_names(names)
            raise UsageError(f"{source} lacks {_count(missing)} {listed}; it has {have}")
        if extra:
            listed, known = join_names(map(repr, extra)), join_names(self.names)
            them = "it" if len(extra) == 1 else "them"
            advice = f"leave {them} out (ignore); the memory knows {known}"
            raise UsageError(f"{source} has the unknown {_count(extra)} {listed}; {advice}")

    def learn(self, table: Table) -> Self:
        """The same columns, which have learned the categories of a table too."""
        learned = dict(self.learned)
        for name, kind in zip(self.names, self.kinds, strict=True):
            if kind == "category":
                column = table.column(name)  # of numbers, if all cells are missing
                found = _category_codes(
                    name, {*column.tolist()} if column.dtype == object else {None}
                )
                learned[name] = learned.get(name, frozenset()) | {*found.values()}
        return replace(self, learned=learned)

    def merge(self, other: Self) -> Self:
        """The same columns with the categories of both."""
        learned = {name: self.learned[name] | other.learned[name] for name in self.learned}
        return replace(self, learned=learned)

    def encode(self, table: Table, unlearned: float | None = None) -> Doubles:
        """The table as numbers, shape (n, width); columns are found by name.

        A number that is missing is NaN. A category is CATEGORY_COLUMNS signs, a text TEXT_COLUMNS numbers;
        where either is missing, they are 0. To predict, `unlearned` replaces the signs of a category that was
        never learned, and of a missing one if none was missing before.
        """
        self.check_names(table.names, table.source)
        parts = []
        for name, kind in zip(self.names, self.kinds, strict=True):
            column = table.column(name)
            if (column.dtype == object) != (kind != "number"):
                column = _change_kind(table, name, kind)
            if kind == "number":
                parts.append(np.asarray(column, np.float64)[:, None])
                continue
            levels = {cell: place for place, cell in enumerate(dict.fromkeys(column.tolist()))}
            codes = np.zeros((len(levels), WIDTH[kind]))
            given = [cell for cell in levels if cell is not None]
            places = [levels[cell] for cell in given]
            if given:
                codes[places] = embed_texts(given) if kind == "text" else _hash_signs(name, given)
            if kind == "category" and unlearned is not None:
                known = self.learned.get(name, frozenset())
                new = [
                    cell
                    for cell, number in _category_codes(name, levels).items()
                    if number not in known
                ]
                codes[[levels[cell] for cell in new]] = unlearned
                _warn_unlearned(table, name, [cell for cell in new if cell is not None])
            parts.append(codes[[levels[cell] for cell in column.tolist()]])
        return np.concatenate(parts, axis=1)

    def state(self) -> dict[str, str]:
        """The kind of each column by its name."""
        return dict(zip(self.names, self.kinds, strict=True))

    def learned_state(self) -> dict[str, list[int]]:
        """The codes of categories learned, by column."""
        return {name: sorted(codes) for name, codes in self.learned.items()}

    @classmethod
    def restore(cls, state: Any, learned: Any, width: int) -> Self:
        """Restore columns from `state()` and `learned_state()`; they must encode to `width` columns."""
        if not isinstance(state, dict) or not 1 <= len(state) <= MAX_COLUMNS:
            raise ValueError("columns must map names to kinds")
        for name, kind in state.items():
            if not isinstance(name, str) or kind not in get_args(Kind):
                raise ValueError(f"column {shorten(repr(name))} has kind {shorten(repr(kind))}")
        categories = {name for name, kind in state.items() if kind == "category"}
        if not isinstance(learned, dict) or {*learned} != categories:
            raise ValueError("categories must name the columns that are categories")
        for name, codes in learned.items():
            right = isinstance(codes, list) and all(type(code) is int for code in codes)
            if not right or not {*codes} <= {*range(MISSING_NUMBER + 1)}:
                raise ValueError(f"column {shorten(repr(name))} has unknown codes of categories")
        sets = {name: frozenset(codes) for name, codes in learned.items()}
        found = cls(tuple(state), tuple(state.values()), sets)
        if found.width != width:
            raise ValueError(f"the columns make {found.width:,} numbers, the inputs have {width:,}")
        return found


def warn_about_names(table: Table, columns: Columns) -> None:
    """Warn about a category column in which almost every cell is different: it holds names or sentences."""
    for name, kind in columns.state().items():
        cells = [cell for cell in table.column(name).tolist() if kind == "category" and cell]
        if len(cells) >= MANY_CELLS and len(set(cells)) > 0.9 * len(cells):
            many = f"{len(set(cells)):,} different texts in {len(cells):,} rows"
            advice = "leave it out (ignore=, --ignore), or name it in text"
            warnings.warn(f"{table.source}: column {name!r} has {many}; {advice}", stacklevel=6)


def _count(names: Sequence[str]) -> str:
    return "column" if len(names) == 1 else "columns"


def _change_kind(table: Table, name: str, kind: Kind) -> NDArray[Any]:
    """A column whose values are all missing fits every kind; any other is refused."""
    column = table.column(name)
    is_text = column.dtype == object
    missing = _is_missing(column)
    if missing.all():
        return np.full(len(column), *((np.nan,) if kind == "number" else (None, object)))
    row = int(np.argmin(missing))
    value, now = shorten(repr(column.tolist()[row])), "text" if is_text else "a number"
    was = "numbers" if kind == "number" else "text"
    raise UsageError(
        f"{table.source} has {value} in {table.where(row, name)}: the column had {was} before and is {now} "
        "here; give it one kind"
    )


def _warn_unlearned(table: Table, name: str, cells: Sequence[str]) -> None:
    if cells:
        what = f"{table.source}: column {name!r} has categories never learned"
        first = shorten(repr(cells[0]))
        warnings.warn(f"{what} (first: {first}); they count as missing", stacklevel=7)


def _category_codes(name: str, cells: Iterable[str | None]) -> dict[str | None, int]:
    """The integer code of each category; MISSING_NUMBER for a missing value."""
    given = [cell for cell in cells if cell is not None]
    signs = _hash_signs(name, given)
    numbers = ((signs > 0) @ (1 << np.arange(CATEGORY_COLUMNS))).tolist()
    found: dict[str | None, int] = dict(zip(given, numbers, strict=True))
    return found if len(given) == len([*cells]) else {**found, None: MISSING_NUMBER}


def _hash_signs(name: str, categories: Sequence[str]) -> Doubles:
    """The ±1 code of each category, shape (n, CATEGORY_COLUMNS): bits of a hash of the column's name and its text."""
    size = CATEGORY_COLUMNS // 8 + 1
    person = hashlib.blake2b(name.encode(errors="replace"), digest_size=16).digest()
    digests = [
        hashlib.blake2b(one.encode(errors="replace"), digest_size=size, person=person).digest()
        for one in categories
    ]
    packed = np.frombuffer(b"".join(digests), np.uint8).reshape(len(categories), size)
    bits = np.unpackbits(packed, axis=1)[:, :CATEGORY_COLUMNS]
    return bits.astype(np.float64) * 2 - 1
