"""What several tests of the command line need."""

import pytest


@pytest.fixture
def nowhere(tmp_path):
    """No data, no npm, and a proxy that refuses: only what is embedded."""
    closed = "http://127.0.0.1:9"
    return {"DGDMN_CACHE": str(tmp_path / "cache"), "DGDMN_DATA": "", "PATH": str(tmp_path),
            "HTTPS_PROXY": closed, "https_proxy": closed, "NO_PROXY": "", "no_proxy": ""}  # fmt: skip
