"""The errors that loaderkit raises itself. Each is also the built-in a caller would catch without knowing us.

What a user's own source or transform raises keeps its type; it gains a note that says where.
"""


class LoaderkitError(Exception):
    """Base of every error of our own, so that one `except` catches them all.

    >>> issubclass(CheckpointMismatchError, LoaderkitError) and issubclass(
    ...     CheckpointMismatchError, ValueError
    ... )
    True
    """


class StateError(LoaderkitError, ValueError):
    """A saved state can't be read: not JSON, another format, a newer version, a malformed or altered field."""


class CheckpointMismatchError(LoaderkitError, ValueError):
    """A saved state is sound, but it belongs to another stream: the differing fields and both values are named."""


class BatchError(LoaderkitError, ValueError):
    """Rows of one batch can't be stacked: both records and the path of the leaf are named."""


class TransportError(LoaderkitError, TypeError):
    """Something can't travel between the trainer and a worker: an operation, a source, or an element."""


class WorkerError(LoaderkitError, RuntimeError):
    """A worker can't be started or keeps dying: its exit code and the records it had are named."""


class ArenaMemoryError(LoaderkitError, MemoryError):
    """The shared memory for batches can't grow: what was asked, what is left and which setting to lower."""


class IteratorClosedError(LoaderkitError, RuntimeError):
    """The iterator was closed, or belongs to the process that this one was forked from."""
