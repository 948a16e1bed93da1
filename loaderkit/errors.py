"""The errors that loaderkit raises itself. Each is also a built-in error, for callers that don't know ours.

An error of a user's own source or transform keeps its type and gets a note that says where it was raised.
"""


class LoaderkitError(Exception):
    """Base of every error of our own, so that one `except` catches them all.

    >>> issubclass(CheckpointMismatchError, LoaderkitError) and issubclass(
    ...     CheckpointMismatchError, ValueError
    ... )
    True
    """


class StateError(LoaderkitError, ValueError):
    """A saved state can't be read: not JSON, another format, a newer version, a malformed or altered field.

    >>> import loaderkit as lk
    >>> try:
    ...     iter(lk.load([1, 2])).set_state(b"{}")
    ... except lk.errors.StateError as error:
    ...     print(error)
    format: expected 'loaderkit', got nothing; is it a state of loaderkit?
    """


class CheckpointMismatchError(LoaderkitError, ValueError):
    """A saved state is valid, but of another stream: the differing fields and both values are named.

    >>> import loaderkit as lk
    >>> saved = iter(lk.load([1, 2], batch_size=1)).get_state()
    >>> try:
    ...     iter(lk.load([1, 2], batch_size=2)).set_state(saved)
    ... except lk.CheckpointMismatchError as error:
    ...     print(str(error).splitlines()[1].strip())
    global_batch_size: saved 1 rows (1 indices), this loader 2 rows (2 indices)
    """


class ResumeMismatchError(LoaderkitError, ValueError):
    """An unfinished set of files is of another run: what differs is named with both sides, and how to go on.

    >>> issubclass(ResumeMismatchError, ValueError)
    True
    """


class BatchError(LoaderkitError, ValueError):
    """Rows of one batch can't be stacked: both records and the path of the leaf are named.

    >>> import loaderkit as lk
    >>> try:
    ...     next(iter(lk.load([{"x": [1]}, {"x": [1, 2]}], batch_size=2)))
    ... except lk.errors.BatchError as error:
    ...     print(str(error).partition(" can't")[0])
    index 0 and index 1
    """


class NoResultError(LoaderkitError, TypeError):
    """A function of an operation returned None, as one without a `return` does: the operation is named.

    >>> import loaderkit as lk
    >>> def double(element):
    ...     element * 2
    >>> try:
    ...     next(iter(lk.load([1, 2], operations=[double])))
    ... except lk.errors.NoResultError as error:
    ...     print(error)
    operations[0] Map(double): expected the new element, got None; does the function lack a return?
    """


class TransportError(LoaderkitError, TypeError):
    """An operation, a source or an element can't be sent between the trainer and a worker.

    >>> import loaderkit as lk, threading
    >>> lock = threading.Lock()
    >>> try:
    ...     next(iter(lk.load([1, 2], operations=[lambda x: (lock, x)], worker_count=1)))
    ... except lk.errors.TransportError as error:
    ...     print(str(error).partition(":")[0])
    operations[0] Map(<lambda>) can't be sent to worker processes
    """


class ChecksumError(LoaderkitError, RuntimeError):
    """Bytes aren't those that were written: of a file of ours, named with the place and what to do, or, with
    `verify=True`, of memory that a worker wrote.

    >>> issubclass(ChecksumError, RuntimeError)
    True
    """


class BadRecordsError(LoaderkitError, RuntimeError):
    """More records are bad than `max_bad_records` allows, or so many in a row that the cause can't be the records.

    >>> import loaderkit as lk
    >>> def decode(element):
    ...     raise OSError("truncated")
    >>> try:
    ...     next(iter(lk.load([1, 2], num_epochs=1, operations=[decode], on_record_error="replace")))
    ... except lk.errors.BadRecordsError as error:
    ...     print(error)
    index 0 can't be replaced: its own record and the 1 tried instead are bad
    """


class FileChangedError(LoaderkitError, OSError):
    """A file of the data source was replaced, truncated or written to since the run began.

    Policies for bad records and `Retry` don't apply to it, because no record is bad.

    >>> issubclass(FileChangedError, OSError)
    True
    """


class DataFormatError(LoaderkitError, OSError):
    """A data file isn't what its format says: the file, the offset and what to do are named.

    No read of it will succeed, so `Retry` doesn't apply.

    >>> issubclass(DataFormatError, OSError)
    True
    """


class StorageError(LoaderkitError, OSError):
    """Bytes couldn't be read from a server or a disk, after the retries: the object, the range and the cause are named.

    Attributes:
        refused: True where the server refused to give them, False where it failed or couldn't be reached.

    >>> issubclass(StorageError, OSError)
    True
    """

    refused = False


class WorkerError(LoaderkitError, RuntimeError):
    """A worker can't be started, or workers keep dying: exit code and records are named.

    Attributes:
        indices: at which workers were lost, as far as known; usually that of one record. For a record that was read
            instead of a bad one it is the index of the lost row.
        record_keys: of the records that were read at these indices.

    >>> raise WorkerError("3 workers were lost at the same work, the last with exit code 1 at index 3")
    Traceback (most recent call last):
    loaderkit.errors.WorkerError: 3 workers were lost at the same work, the last with exit code 1 at index 3
    """

    indices: tuple[int, ...] = ()
    record_keys: tuple[int, ...] = ()


class WorkerTimeoutError(WorkerError, TimeoutError):
    """A worker made no progress for `worker_timeout` seconds: its records and what it was doing are named.

    >>> issubclass(WorkerTimeoutError, TimeoutError)
    True
    """


class RemoteWorkerError(WorkerError):
    """Workers of other machines can't be used: no host was let in, for the reason named, or no port could be opened.

    >>> issubclass(RemoteWorkerError, WorkerError)
    True
    """


class ClusterError(LoaderkitError, RuntimeError):
    """A cluster can't do the tasks: what drives it ended, a host differs from this machine, or a task was lost again
    and again. The host, or the shard, and what to do are named.

    What is done stays: the same call goes on, here or on a cluster.

    >>> issubclass(ClusterError, RuntimeError)
    True
    """


class ArenaMemoryError(LoaderkitError, MemoryError):
    """The shared memory for batches can't grow: needed and available bytes, and the settings to lower, are named.

    >>> issubclass(ArenaMemoryError, MemoryError)
    True
    """


class PurityError(LoaderkitError, AssertionError):
    """`loaderkit.testing` found an operation with a result that depends on more than its arguments.

    Args:
        message: what was found.
        operation: its label, or "data_source"; "operations" where it isn't known which.
        leaf: the path of the leaf that differs, "" for the element itself.

    >>> PurityError("it reads a clock", operation="operations[0] Map(now)", leaf="['time']").leaf
    "['time']"
    """

    def __init__(self, message: str, *, operation: str, leaf: str) -> None:
        super().__init__(message)
        self.operation, self.leaf = operation, leaf


class ConformanceError(LoaderkitError, AssertionError):
    """`loaderkit.testing` found a source, a sampler or an operation that breaks a rule that loaderkit relies on.

    Args:
        message: what was found.
        check: the name of the check that failed, as `skip=` of the same function takes it.

    >>> ConformanceError("Pictures: expected ..., got ...", check="read again").check
    'read again'
    """

    def __init__(self, message: str, *, check: str) -> None:
        super().__init__(message)
        self.check = check


class IteratorClosedError(LoaderkitError, RuntimeError):
    """The iterator was closed, or belongs to the process that this one was forked from.

    >>> import loaderkit as lk
    >>> it = iter(lk.load([1, 2]))
    >>> it.close()
    >>> try:
    ...     next(it)
    ... except lk.errors.IteratorClosedError as error:
    ...     print(error)
    the iterator was closed; iter(loader) gives another
    """
