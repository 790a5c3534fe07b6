"""The one exception that a user's mistake raises."""


class InputError(ValueError):
    """Bad input, described in one line: where, what was found, what was expected.

    The commands print it to stderr and exit with status 2.
    """
