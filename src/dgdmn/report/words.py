"""How numbers, names and settings are said on a page."""

import math
from collections.abc import Iterable
from typing import Any


def ratio(value: float, digits: int = 3) -> str:
    """An accuracy; a dash where there is none.

    >>> ratio(0.8184), ratio(-0.15), ratio(-0.0001), ratio(float("nan"))
    ('0.818', '−0.150', '0.000', '–')
    """
    if not math.isfinite(value):
        return "–"
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")  # adding 0 makes −0 plain


def with_error(mean: float, error: float) -> str:
    """A mean and its standard error.

    >>> with_error(0.8184, 0.0123), with_error(0.5, float("nan"))
    ('0.818 ± 0.012', '0.500')
    """
    return f"{ratio(mean)} ± {ratio(error)}" if math.isfinite(error) else ratio(mean)


def percent(value: float) -> str:
    """A share.

    >>> percent(0.844)
    '84 %'
    """
    return f"{value * 100:.0f} %" if math.isfinite(value) else "–"


def seconds(value: float) -> str:
    """A time to compare with another, so not in minutes.

    >>> seconds(1234.5), seconds(float("nan"))
    ('1,234 s', '–')
    """
    return f"{value:,.0f} s" if math.isfinite(value) else "–"


def sentence(text: str) -> str:
    """With a capital letter at its beginning, the rest as it is.

    >>> sentence("n_stm 5, on validation rows")
    'N_stm 5, on validation rows'
    """
    return text[:1].upper() + text[1:]


def short(text: str, most: int = 60) -> str:
    """A name that a page has room for.

    >>> short("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


_DATASETS = {
    "digits": "Digits",
    "tdigits": "TDigits",
    "permnist": "Permnist",
    "shapes": "Shapes",
    "hindi": "Hindi",
    "split-digits": "Split Digits",
    "embedded": "Embedded digits",
}


def dataset_name(dataset: str) -> str:
    """What people call a dataset; a stranger keeps its name.

    >>> dataset_name("tdigits"), dataset_name("mine")
    ('TDigits', 'mine')
    """
    return _DATASETS.get(dataset, dataset)


def listed(values: Iterable[Any]) -> str:
    """Values in a line.

    >>> listed([1, 6])
    '1, 6'
    """
    return ", ".join(str(value) for value in values)


def plain(value: Any) -> str:
    """An option's value as people write it.

    >>> plain([24, 24]), plain([]), plain(0.05)
    ('24 24', 'none', '0.05')
    """
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value) or "none"
    return "none" if value is None else str(value)
