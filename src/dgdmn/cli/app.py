"""`dgdmn VERB …`: finds the verb, prints errors as one line, and sets the exit code."""

import importlib
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

from dgdmn import __version__
from dgdmn.cli.options import USAGE, VERBS, parse
from dgdmn.cli.output import show
from dgdmn.core.errors import DgdmnError, UsageError, suggestion
from dgdmn.runs.environment import handle_signals


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit."""
    run_command("dgdmn", _dispatch, list(sys.argv[1:] if argv is None else argv))


def run_command(program: str, command: Callable[[list[str]], int], words: list[str]) -> NoReturn:
    """Call a command with its words, print errors as one line, and exit.

    TERM and HUP end it as Ctrl-C does; ignored signals, such as with nohup, stay ignored.
    """
    fail, arrived = partial(_fail, program, "--debug" in words), list[int]()

    def interrupt(number: int, _: object) -> NoReturn:
        arrived.append(number)
        raise KeyboardInterrupt

    usual = (signal.SIG_DFL, signal.default_int_handler)
    try:
        with handle_signals(("SIGINT", "SIGTERM", "SIGHUP"), interrupt, usual):
            code = command(words)
        sys.stdout.flush()
    except DgdmnError as error:
        code = fail(str(error), 2 if isinstance(error, UsageError) else 1)
    except KeyboardInterrupt:
        code = fail(_interrupted(program, words))
    except BrokenPipeError:  # `dgdmn … | head` closed the pipe
        sys.stdout = None
        code = 0
    except OSError as error:
        code = fail(f"{error.filename or 'input/output'}: {error.strerror or error}")
    except Exception as error:
        # CPython 3.11 raises a SystemError if it is interrupted while it compiles.
        if arrived and isinstance(error, SystemError):
            code = fail(_interrupted(program, words))
        else:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            code = fail(f"{reason} (probably a bug; --debug shows the traceback)")
    # CPython remembers an interrupt of code run by exec, such as an import, and would exit by the signal
    # although it was caught above. Running any other code by exec clears that.
    exec("")
    sys.exit(code)


def _interrupted(program: str, words: list[str]) -> str:
    kept = "; finished work is saved, and the same command continues it"
    resumable = program != "dgdmn" or words[:1] in (["run"], ["compare"], ["resume"], ["data"])
    return "interrupted" + (kept if resumable else "")


def _dispatch(words: list[str]) -> int:
    name = words[0] if words else "--help"
    if name in ("-h", "--help", "help"):
        lines = (f"  {name:12} {verb.summary}" for name, verb in VERBS.items())
        sys.stdout.write(USAGE.format(verbs="\n".join(lines)))
        return 0
    if name == "--version":
        show(f"dgdmn {__version__}")
        return 0
    if name not in VERBS:
        raise UsageError(
            f"no command {name!r}{suggestion(name, VERBS)}; there are {', '.join(VERBS)}"
        )
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # package.module:Class may be there
    args = parse(f"dgdmn {name}", VERBS[name], words[1:])
    module = importlib.import_module(f"dgdmn.cli.{VERBS[name].module}")  # only now torch, if at all
    code: int | None = getattr(module, name)(args)
    return code or 0


def _fail(program: str, debug: bool, message: str, code: int = 1) -> int:
    if debug:
        show(*traceback.format_exc().splitlines(), error=True)
    show(f"{program}: {' '.join(message.split()) or 'failed'}", error=True)
    return code
