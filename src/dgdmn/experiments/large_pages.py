"""Memory in large pages for the processes that train: measured in docs/decisions/speed.md."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_NAME = "GLIBC_TUNABLES"
_TUNABLE = "glibc.malloc.hugetlb"


def with_large_pages(environment: Mapping[str, str]) -> dict[str, str]:
    """This environment, with a word to glibc's allocator; other C libraries do not read it.

    It is read when a process begins, so it can be given to a child only. What somebody chose stays.
    """
    chosen = environment.get(_NAME, "")
    if _TUNABLE in chosen:
        return dict(environment)
    return {**environment, _NAME: ":".join(filter(None, [chosen, f"{_TUNABLE}=1"]))}


@contextmanager
def large_pages() -> Iterator[None]:
    """Let the processes started meanwhile have them."""
    before = os.environ.get(_NAME)
    os.environ.update(with_large_pages(os.environ))
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NAME]
        else:
            os.environ[_NAME] = before
