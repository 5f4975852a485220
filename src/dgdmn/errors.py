"""What can go wrong, in one sentence each: the value, what is allowed, what to do."""


class DgdmnError(Exception):
    """Something failed. The command line prints the sentence and exits with 1."""


class UsageError(DgdmnError, ValueError):
    """The caller asked for something that cannot be. The command line exits with 2."""


class DataError(DgdmnError):
    """A data file is missing, damaged or cannot be fetched."""
