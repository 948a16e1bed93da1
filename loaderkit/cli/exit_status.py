"""What the command's exit status says, and the error of a command line that can't be carried out."""

from enum import IntEnum


class ExitStatus(IntEnum):
    """The exit statuses of `loaderkit`: the same for all commands.

    >>> int(ExitStatus.FINDINGS)
    1
    """

    DONE = 0
    FINDINGS = 1  # check found something, or no record was chosen
    USAGE = 2  # arguments that can't be carried out, a missing library
    UNREADABLE = 3  # the data can't be read
    INTERRUPTED = 130  # Ctrl-C: 128 and the number of SIGINT
    CLOSED_PIPE = 141  # the reader of the output went away: 128 and the number of SIGPIPE


class UsageError(Exception):
    """The arguments can't be carried out: the message says which and what to give instead.

    >>> raise UsageError("--field: expected one of jpg, cls, got 'png'")
    Traceback (most recent call last):
    loaderkit.cli.exit_status.UsageError: --field: expected one of jpg, cls, got 'png'
    """
