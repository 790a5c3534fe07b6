"""The one exception that a user's mistake raises."""


class InputError(ValueError):
    """Bad input, described in one line: where, what was found, what was expected.

    The commands print it to stderr and exit with status 2.
    """


class MissingSubset(InputError):
    """There is no such subset in a folder of binarised data."""
