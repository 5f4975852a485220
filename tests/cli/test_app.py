"""Verbs, help texts, one-line errors and exit codes."""

import re
import resource
import subprocess
import sys

import pytest

from dgdmn.cli.options import _ARGUMENT, VERBS
from dgdmn.config.entries import FIELDS

HEAVY = {
    "torch",
    "numpy",
    "sklearn",
    "scipy",
    "pandas",
    "matplotlib",
    "pooch",
    "rich",
    "onnx",
    "PIL",
}


def test_help_names_every_verb(call):
    for words in ((), ("--help",), ("help",)):
        out, err = call(*words)
        assert all(f"  {verb} " in out for verb in VERBS)
        assert err == ""
    assert call("--version")[0].startswith("dgdmn ")


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_help(call, verb):
    out, err = call(verb, "--help")
    assert out.startswith(f"usage: dgdmn {verb}")
    assert "--help-all" in out
    assert err == ""


def test_help_imports_nothing_heavy():
    script = f"""
import sys, dgdmn.cli
for words in [["--help"], *([verb, "--help"] for verb in {[*VERBS]}), ["run", "--help-all"]]:
    try:
        dgdmn.cli.main(words)
    except SystemExit as end:
        assert not end.code, words
    assert not {HEAVY} & set(sys.modules), (words, {HEAVY} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_help_is_fast(spawn):
    for words, most in (("--help",), 0.3), (("run", "--help"), 1.0):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        spawn(*words)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert used < most, "seconds of processor time: other processes do not count"


def test_each_line_of_an_argument_is_understood():
    for verb in VERBS.values():
        for line in verb.arguments.splitlines():
            assert re.fullmatch(_ARGUMENT, line), line


def test_help_shows_a_dozen_options_and_help_all_shows_every_field(call):
    short = call("run", "digits", "--help")[0]
    assert 10 <= short.count("\n  --") <= 18
    assert "--ewc-coefficient" not in short
    full = call("run", "tdigits", "--preset", "paper", "--help-all")[0]
    for name in FIELDS:
        assert f"--{name.replace('_', '-')} " in full or f"--{name.replace('_', '-')}," in full
    assert "replay and recognition:" in full
    assert "[0.05]" in full, "κ of TDigits in the paper"


def test_learn_shows_no_option_of_another_algorithm(call):
    short = call("learn", "--help")[0]
    first = short.partition("common hyperparameters")[2].split()
    assert [word for word in first if word.startswith("--")] == [
        "--memory-budget",
        "--features",
        "--priors",
        "--n-stm",
        "--kappa",
    ]
    assert "--value-range" not in short
    deep = call("learn", "--preset", "deep", "--help")[0]
    assert "--learner-layers" in deep
    assert "--memory-budget" not in deep
    full = call("learn", "--help-all")[0]
    assert "--generator-epochs" in full
    assert "--clip-norm" in full
    for other in ("ewc", "si-", "lwf", "gem", "ppr", "dropout", "joint", "tdigits", "samples-per"):
        assert f"--{other}" not in full
    assert "--value-range" in full
    assert "--value-range" not in call("learn", "--algorithm", "slda", "--help-all")[0]
    other = call("learn", "--algorithm", "ewc", "--help-all")[0]
    assert "--ewc-coefficient" in other
    assert "--n-stm" not in other


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("rn embedded", "no command 'rn' (did you mean run?); there are run, compare, resume"),
        ("run", "required: STREAM; `dgdmn run --help`"),
        ("run digts", "no stream or file 'digts' (did you mean digits?)"),
        ("run embedded --algorithm dgdm", "did you mean dgdmn"),
        ("run embedded --algorithm nn dgdmn:bst", "no preset 'bst' (did you mean best?)"),
        ("run embedded --algorithm dgdm:best", "no algorithm 'dgdm' (did you mean dgdmn?)"),
        ("run embedded --algorithm dgdmn:", "no preset ''; there are best"),
        ("run embedded --algorithm :best", "no algorithm ''; there are nn"),
        ("run embedded --algorithm no.module:Net", "cannot import 'no.module:Net'"),
        ("run embedded --algorithm fractions:fraction", "has no attribute 'fraction'"),
        ("run embedded --algorithm fractions:Fraction", "Fraction is not a dgdmn estimator"),
        ("run embedded --algorithm dgdm:paper", "no algorithm 'dgdm' (did you mean dgdmn?)"),
        ("run embedded --algorithm", "--algorithm expected at least one argument"),
        ("run embedded --preset papr", "did you mean paper"),
        ("run embedded --kappa 1.5", "kappa (κ) is 1.5; it must be in [0, 1]"),
        ("run embedded --kappa much", "kappa is 'much'; it must be a finite number"),
        ("run embedded --kappa nan", "kappa is nan; it must be a finite number"),
        ("run embedded --n-max 0", "n_max (N_max) is 0; it must be at least 1"),
        ("run embedded --n-stm two", "n_stm is 'two'; it must be a whole number"),
        ("run embedded --n-stm", "--n-stm expected one argument"),
        ("run embedded --learner-layers 4 x", "learner_layers is (4, 'x'); it must be a tuple"),
        ("run embedded --recognition dens", "must be one of reconstruction, density"),
        ("run embedded --tdigits-classes 10", "tdigits_classes is 10, but the stream is embedded"),
        ("run embedded --kapa 0.1", "unknown argument --kapa (did you mean --kappa?)"),
        ("run embedded --code-buffer=yes", "--code-buffer"),
        ("run embedded more", "unknown argument more"),
        ("run embedded --seed -1", "--seed is -1; it must be a whole number of at least 0"),
        ("run embedded --seed 1.5", "--seed is 1.5; it must be"),
        ("run embedded --seed", "--seed expected at least one argument"),
        ("run embedded --jobs -2", "--jobs is -2"),
        (
            "run embedded --evaluate-on tset",
            "--evaluate-on is tset (did you mean test?); it must be test or",
        ),
        ("run embedded --fallback any", "--fallback is any; it must be embedded or"),
        ("run embedded --revise 1 --together", "together learns all tasks at once"),
        ("resume", "required: RUN"),
        ("report", "required: RUN"),
        ("report nowhere", "nowhere does not exist; give run directories"),
        ("report . --figures f --no-figures", "exclude each other"),
        ("watch /dev/null", "/dev/null is not a directory"),
        ("data", "required: ACTION; `dgdmn data --help`"),
        ("data fetsch", "ACTION is fetsch (did you mean fetch?); it must be where or fetch"),
        ("data where mnits", "did you mean mnist"),
        ("doctor now", "unknown argument now"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(refuse, words, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = refuse(*words.split(" "))
    assert line.startswith("dgdmn: ")
    assert expected in line
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_traceback(spawn):
    assert "Traceback" not in spawn("run", "digts", code=2).stderr
    assert "Traceback" in spawn("run", "digts", "--debug", code=2).stderr


def test_an_unexpected_error_is_one_line(refuse, monkeypatch):
    monkeypatch.setattr("dgdmn.cli.info.doctor", lambda args: [][0])
    assert refuse("doctor", code=1) == (
        "dgdmn: IndexError: list index out of range (probably a bug; --debug shows the traceback)"
    )


def test_an_interrupted_import_ends_with_our_code(tmp_path):
    code = (
        "import dgdmn.cli.app as app\napp._dispatch = lambda _: exec('raise KeyboardInterrupt')\n"
    )
    (tmp_path / "stopped.py").write_text(code + "app.main(['run'])\n")
    done = subprocess.run(
        [sys.executable, "-m", "stopped"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1, "and not by the signal"
    assert done.stderr.startswith("dgdmn: interrupted; finished work is saved")


def test_a_closed_pipe_is_no_error():
    words = f"{sys.executable} -m dgdmn.cli run digits --show-config"
    command = f"{words} | (exec <&-; sleep 1); exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
