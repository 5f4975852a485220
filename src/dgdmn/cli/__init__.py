"""The command line: `dgdmn VERB …`. Each verb is a module, imported only when it is called."""

from __future__ import annotations

import importlib
import sys
import traceback

from dgdmn.errors import DgdmnError, UsageError, suggestion

VERBS = {
    "run": "learn a stream of tasks, test after each, record everything",
    "resume": "go on with runs that were interrupted",
    "reproduce": "run what the paper's tables and figures need, and put ours beside theirs",
    "report": "show runs as one page, and their figures as files",
    "watch": "follow runs in the browser while they go",
    "learn": "teach a memory on disk one more task of your own data",
    "predict": "ask a memory on disk for the labels of rows",
    "inspect": "tell what a memory on disk knows, and what its next task will cost",
    "sleep": "let a memory on disk consolidate what it learnt last",
    "dream": "draw what a memory on disk dreams of",
    "export": "write how a memory on disk predicts as an ONNX model",
    "plan": "tell what learning a stream, or going on with a memory, will cost",
    "data": "find, fetch and verify the datasets",
    "algorithms": "list the algorithms",
    "doctor": "tell versions, threads, memory and the data found",
}

USAGE = """usage: dgdmn VERB …

{verbs}

`dgdmn VERB --help` tells the rest. `--debug` shows the traceback of an error.
Exit codes: 0 done, 1 failed, 2 wrong usage.
"""


_GO_ON = ("run", "resume", "reproduce", "data")
"""Verbs that lose nothing when they are interrupted."""


def main(argv: list[str] | None = None) -> None:
    """Do what the command line says and exit."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    try:
        code = _dispatch([argument for argument in arguments if argument != "--debug"], debug)
    except DgdmnError as error:
        code = _complain(str(error), debug, 2 if isinstance(error, UsageError) else 1)
    except KeyboardInterrupt:
        lost = not arguments or arguments[0] not in _GO_ON
        told = "" if lost else "; what was done is saved, and the same command goes on with it"
        code = _complain(f"interrupted{told}", debug, 1)
    except BrokenPipeError:  # `dgdmn … | head`: nobody reads on
        sys.stdout = None
        code = 0
    except OSError as error:
        code = _complain(f"{error.filename or 'input/output'}: {error.strerror or error}", debug, 1)
    except Exception as error:
        code = _complain(f"{type(error).__name__}: {error} (a bug? --debug shows where)", debug, 1)
    # CPython notes an interrupt of text that it executes, as imports do, and would end by the signal although
    # it was caught here. Executing any other text makes it forget.
    exec("")
    sys.exit(code)


def _dispatch(arguments: list[str], debug: bool) -> int:
    verb = arguments[0] if arguments else "--help"
    if verb in ("-h", "--help", "help"):
        sys.stdout.write(USAGE.format(verbs="\n".join(f"  {name:12} {what}" for name, what in VERBS.items())))
        return 0
    if verb == "--version":
        from dgdmn import __version__

        sys.stdout.write(f"dgdmn {__version__}\n")
        return 0
    if verb not in VERBS:
        raise UsageError(f"no verb {verb!r}{suggestion(verb, VERBS)}; there are {', '.join(VERBS)}")
    code: int = importlib.import_module(f"dgdmn.cli.{verb}").main(arguments[1:], debug)
    return code


def _complain(message: str, debug: bool, code: int) -> int:
    if debug:
        traceback.print_exc()
    first = message.splitlines()[0] if message else "failed"
    sys.stderr.write(f"dgdmn: {first}\n")
    return code
