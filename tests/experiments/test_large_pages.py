"""The processes that train take their memory in large pages."""

import os
import subprocess
import sys

import pytest

from dgdmn.experiments.large_pages import large_pages, with_large_pages


def test_what_somebody_chose_stays() -> None:
    """Other settings are kept, and so is another choice for the pages."""
    assert with_large_pages({})["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    others = with_large_pages({"GLIBC_TUNABLES": "glibc.malloc.check=0", "A": "b"})
    assert others == {"GLIBC_TUNABLES": "glibc.malloc.check=0:glibc.malloc.hugetlb=1", "A": "b"}
    assert with_large_pages({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}) == {
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"
    }


@pytest.mark.parametrize("before", [None, "glibc.malloc.check=0"])
def test_a_process_started_meanwhile_has_them(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    """A child sees the setting; afterwards our own environment is as it was, also after an error."""
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    if before:
        monkeypatch.setenv("GLIBC_TUNABLES", before)
    told = [sys.executable, "-c", "import os; print(os.environ['GLIBC_TUNABLES'])"]
    with large_pages():
        assert "glibc.malloc.hugetlb=1" in subprocess.check_output(told, text=True)
    with pytest.raises(ZeroDivisionError), large_pages():
        _ = 1 / 0
    assert os.environ.get("GLIBC_TUNABLES") == before
