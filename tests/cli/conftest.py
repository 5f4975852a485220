"""What several tests of the command line need."""

import os
import subprocess
import sys
from concurrent.futures import Future

import pytest

from dgdmn import cli
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.runs.executor import Failure


@pytest.fixture
def offline(tmp_path):
    """Variables of an environment without data, npm and network."""
    closed = "http://127.0.0.1:9"
    return {
        "DGDMN_CACHE": str(tmp_path / "cache"),
        "DGDMN_DATA": "",
        "PATH": str(tmp_path),
        "HTTPS_PROXY": closed,
        "https_proxy": closed,
        "NO_PROXY": "",
        "no_proxy": "",
    }


@pytest.fixture
def call(capsys):
    """Call the command line in this process; returns (exit code, standard output, standard error)."""

    def call(*words, code=0):
        with pytest.raises(SystemExit) as end:
            cli.main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert end.value.code == code, err
        assert "Traceback" not in err
        return out, err

    return call


@pytest.fixture
def refuse(call):
    """Call a command that must fail with one line; returns the line."""

    def refuse(*words, code=2):
        out, err = call(*words, code=code)
        (line,) = err.splitlines()
        assert out == ""
        return line

    return refuse


class InProcessCluster:
    """Executes runs in this process, which saves the start of others."""

    def __init__(self, slots):
        self.slots = slots

    def submit(self, spec, out):
        from dgdmn.runs.runner import execute

        future = Future()
        try:
            execute(spec, out)
            future.set_result(None)
        except DgdmnError as error:
            usage = isinstance(error, UsageError)
            future.set_result(Failure(spec.name, str(error), usage, ""))
        return future

    def stop(self):
        pass

    shutdown = stop


@pytest.fixture
def in_process(monkeypatch):
    monkeypatch.setattr("dgdmn.cli.run.LocalCluster", InProcessCluster)


@pytest.fixture
def spawn(tmp_path):
    """Call the command line in a process of its own, in `tmp_path`."""

    def spawn(*words, code=0, **variables):
        done = subprocess.run(
            [sys.executable, "-m", "dgdmn.cli", *map(str, words)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        )
        assert done.returncode == code, done.stderr
        return done

    return spawn
