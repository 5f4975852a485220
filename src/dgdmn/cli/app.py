"""`dgdmn VERB …`: finds the verb, prints errors as one line, and sets the exit code."""

import importlib
import sys
import traceback
from pathlib import Path

from dgdmn import __version__
from dgdmn.cli.options import USAGE, VERBS, parse
from dgdmn.core.errors import DgdmnError, UsageError, suggestion

_RESUMABLE = ("run", "resume", "data")  # these continue if they are called again


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    try:
        code = _dispatch(words)
        sys.stdout.flush()
    except DgdmnError as error:
        code = _fail(str(error), debug, 2 if isinstance(error, UsageError) else 1)
    except KeyboardInterrupt:
        kept = "; finished work is saved, and the same command continues it"
        code = _fail(f"interrupted{kept if words[:1] and words[0] in _RESUMABLE else ''}", debug, 1)
    except BrokenPipeError:  # `dgdmn … | head` closed the pipe
        sys.stdout = None
        code = 0
    except OSError as error:
        code = _fail(f"{error.filename or 'input/output'}: {error.strerror or error}", debug, 1)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        code = _fail(f"{reason} (probably a bug; --debug shows the traceback)", debug, 1)
    # CPython remembers an interrupt of code run by exec, as imports are, and would exit by the signal
    # although it was caught above. Running any other code by exec clears that.
    exec("")
    sys.exit(code)


def _dispatch(words: list[str]) -> int:
    name = words[0] if words else "--help"
    if name in ("-h", "--help", "help"):
        lines = (f"  {name:12} {verb.summary}" for name, verb in VERBS.items())
        sys.stdout.write(USAGE.format(verbs="\n".join(lines)))
        return 0
    if name == "--version":
        sys.stdout.write(f"dgdmn {__version__}\n")
        return 0
    if name == "reproduce":
        advice = "`python -m reproduction`, run from the source tree"
        raise UsageError(f"`dgdmn reproduce` is now {advice}")
    if name not in VERBS:
        raise UsageError(f"no verb {name!r}{suggestion(name, VERBS)}; there are {', '.join(VERBS)}")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # package.module:Class may be there
    args = parse(name, words[1:])
    module = importlib.import_module(f"dgdmn.cli.{VERBS[name].module}")  # only now torch, if at all
    code: int | None = getattr(module, name)(args)
    return code or 0


def _fail(message: str, debug: bool, code: int) -> int:
    if debug:
        traceback.print_exc()
    sys.stderr.write(f"dgdmn: {message.splitlines()[0] if message else 'failed'}\n")
    return code
