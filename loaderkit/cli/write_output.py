"""OUT: records written to a file or to stdout, which commands that make data files share."""

import contextlib
import os
import pickle
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import GeneratorType
from typing import Any

from loaderkit._base.notes import notes_of
from loaderkit._base.system.whole_file import partial_file
from loaderkit._loader.one_pass import one_pass
from loaderkit.errors import DataFormatError
from loaderkit.formats import registry
from loaderkit.formats._writing.parallel_encoding import encoded_by_workers
from loaderkit.formats._writing.record_stream import encoded_records, files_for
from loaderkit.formats._writing.shard_jobs import sync
from loaderkit.formats._writing.shard_stream import write_shard
from loaderkit.formats._writing.write_format import RecordFiles, WriteFormat
from loaderkit.formats._writing.written_index import drop_index, write_index
from loaderkit.transforms import Map

from .exit_status import UsageError
from .open_source import PIPE, shown_name

_WORKER_TRACEBACK = "Traceback of the worker"  # what the note of an error begins with that has one
# Formats whose writers only append, so that a pipe takes each record when it is written; of others it takes the file.
STREAMED = frozenset(("tar", "tfrecord", "jsonl", "jsonl.zst"))


def format_of_target(name: str) -> str | None:
    """The format that a new file's name says, None where it says none; UsageError for that of a compressed file.

    name: of the file.

    >>> format_of_target("x.tokens"), format_of_target("x.ndjson"), format_of_target("folder")
    ('tokens', 'jsonl', None)
    """
    if registry.is_compressed(name):
        raise UsageError(
            f"OUT: expected a file that can be read from any place, got the compressed {shown_name(name)}; write a "
            "file such as x.tar, and compress it where a program asks for that"
        )
    found = registry.by_name(name)
    return None if found is None else found.name


def write_file(
    path: str, records: Any, form: WriteFormat, *, overwrite: bool = False, worker_count: int | None = None
) -> int:
    """Writes records in order into one file, which is there when all are in it, or to stdout; gives their number.

    path: of the file, "-" for stdout. records: one or more, each like the first. form: of the file. overwrite: whether
    a file of that name is replaced; else it is a UsageError. worker_count: of a data source, the processes that read
    and encode its records, with a progress bar; the file is the same for any number. DataFormatError for a record that
    the format can't hold.
    """
    check_new(path, overwrite=overwrite)
    if registry.of_name(form.name).beside:
        raise UsageError(
            f"--to: expected a format of one file, got {form.name}; write it by lk.write(records, path)"
        )
    with data_errors():
        if worker_count is None:
            files, records = files_for(form, records, drop=False)
            return _write(path, files, encoded_records(records, files.encoder, None))
        files = RecordFiles(form, form.encoder(records[0]))
        encoded = encoded_by_workers(records, files.encoder, None, worker_count, "process", None)
        return _write(path, files, encoded)


def check_records(source: Any) -> None:
    """UsageError for a source without records, of which no file can be made."""
    if not len(source):
        raise UsageError("SRC: expected a record or more, got none")


def check_new(path: str, *, overwrite: bool, kind: str = "file") -> None:
    """UsageError where a file, or a folder, can't get this name."""
    if path == PIPE:
        return
    if kind == "file" and os.path.isdir(path):
        raise UsageError(f"DST: expected the name of a file, got the folder {shown_name(path)}")
    if os.path.lexists(path) and not overwrite:
        raise UsageError(
            f"DST: expected a new {kind}, got {shown_name(path)}, which is there; give another name, or --overwrite"
        )


def name_files(made: Mapping[str, str], data_format: str, worker_count: int) -> None:
    """Gives finished files their names, with an index beside them.

    made: the path of each, by its name. data_format: theirs. worker_count: processes that make the index.
    """
    names = [*map(os.path.abspath, made)]
    drop_index(names, data_format)
    for name, path in made.items():
        os.replace(path, name)
    for folder in {*map(os.path.dirname, names)}:
        sync(folder)
    write_index(names, data_format, worker_count)


@contextlib.contextmanager
def data_errors() -> Iterator[None]:
    """What a record can't be is an error of the data, with the status for it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if isinstance(error, OSError):
            raise
        # A worker's traceback is for the programmer of a loader; the notes beside it name the record.
        notes = "".join(
            f"; {note}" for note in notes_of(error) if not str(note).startswith(_WORKER_TRACEBACK)
        )
        raise DataFormatError(f"{error}{notes}") from error


def _write(path: str, files: RecordFiles, encoded: Iterable[Any]) -> int:
    if path != PIPE:
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, exist_ok=True)
        with partial_file(path) as partial:
            written = write_shard(encoded, files, partial)
            sync(partial)
            drop_index([os.path.abspath(path)], files.format.name)
        sync(folder)
        write_index([os.path.abspath(path)], files.format.name)
        return written
    sys.stdout.flush()
    # A pipe takes each record at once. A file that stdout is would be opened anew, which empties it: what it has stays
    # before the records where they are copied behind it, as `>>` and commands in brackets want it.
    if files.format.name in STREAMED and stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode):
        return write_shard(encoded, files, f"/dev/fd/{sys.stdout.fileno()}")
    with tempfile.TemporaryDirectory(prefix="loaderkit-") as folder:
        written = write_shard(encoded, files, f"{folder}/out")
        with open(f"{folder}/out", "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return written


class _PickledOutputs:
    # Pickled, since a loader makes arrays of numbers.
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, record: Any) -> bytes:
        found = self._function(record)
        if isinstance(found, GeneratorType):
            found = list(found)
        outputs = [] if found is None else found if isinstance(found, list) else [found]
        return pickle.dumps(outputs, protocol=5)


def mapped_records(function: Callable[[Any], Any], source: Any, worker_count: int) -> Iterator[Any]:
    """The function's records, as `lk.offline.map_shards` takes them.

    function: takes a record and gives one, a list of them, or None for none. source: of the records. worker_count:
    processes.

    >>> list(mapped_records(lambda number: [number] * number, range(3), 0))
    [1, 2, 2]
    """
    loader = one_pass(source, [Map(_PickledOutputs(function))], worker_count=worker_count)
    with loader, iter(loader) as found:
        for outputs in found:
            yield from pickle.loads(outputs)
