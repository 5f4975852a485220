"""The command line. `dgdmn.cli.app` dispatches; each verb is a function of the module that `VERBS` names."""

from dgdmn.cli.app import main

__all__ = ["main"]
