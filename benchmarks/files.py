"""ArrayRecord files of a run, each written by the first contender that needs it, while no clock runs."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.forking import fork, wait_for


def record_file(path: Path, records: Callable[[], Iterable[bytes]]) -> Path:
    """The file, written with one record in each group if it doesn't exist yet."""
    if not path.exists():
        # In a child process: the writer starts threads, and after that a bare loop that forks couldn't read with it.
        wait_for(fork(lambda: _write(path, records())))
    return path


def _write(path: Path, records: Iterable[bytes]) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    unfinished = path.with_suffix(".unfinished")
    writer = ArrayRecordWriter(str(unfinished), "group_size:1")
    for record in records:
        writer.write(record)
    writer.close()
    unfinished.rename(path)


def array_record_reader(path: Path) -> Any:
    """ArrayRecord's own data source: every contender but loaderkit reads through it, with `__getitems__`."""
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    return ArrayRecordDataSource(str(path))


class RawReader:
    """The barest batched read of a file: `ArrayRecordReader.read(list of positions)`."""

    def __init__(self, path: Path) -> None:
        from array_record.python.array_record_module import ArrayRecordReader

        self._reader = ArrayRecordReader(str(path), "readahead_buffer_size:0")

    def __len__(self) -> int:
        return int(self._reader.num_records())

    def __getitem__(self, key: int) -> bytes:
        return bytes(self._reader.read([key])[0])

    def __getitems__(self, keys: list[int]) -> Any:
        return self._reader.read(keys)
