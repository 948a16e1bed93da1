"""The files of a table: how each is opened, whether it is the file that the source began with, which rows are used."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.block_checksums import BLOCK_BYTES
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.file_identity import FileIdentity
from loaderkit._base.system.shared_memory import goes_to_a_worker
from loaderkit._source.content import digest_of
from loaderkit._storage.addresses import is_remote, redacted
from loaderkit._storage.open_ranges import open_ranges
from loaderkit._storage.patterns import file_parts
from loaderkit._storage.range_file import RangeFile
from loaderkit._storage.range_reader import read_range
from loaderkit._storage.versions import versions_of
from loaderkit.errors import DataFormatError, LoaderkitError
from loaderkit.formats._index.check import samples_of
from loaderkit.formats._index.find import find_blocks
from loaderkit.formats._index.shard_set import base_name
from loaderkit.formats.known_files import other_format


class TableFiles:
    """Files in order, each once.

    Args:
        paths: what `file_parts` takes.
        format_name: of the files.
        storage_options: of the server.
        mapped: whether they must be local: ValueError where they are on a server.

    FileNotFoundError where a local file is missing.
    """

    def __init__(
        self,
        paths: Any,
        format_name: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        mapped: bool = False,
    ) -> None:
        self.parts = file_parts(paths, storage_options=storage_options)
        self._paths = list(dict.fromkeys(part.path for part in self.parts))
        self.shown = [redacted(path) for path in self._paths]
        self.remote = is_remote(self._paths[0])
        if mapped and self.remote:
            raise ValueError(
                f"paths: expected local files, which can be mapped, got {self.shown[0]}; copy them first, or write "
                "them as Parquet: lk.ParquetDataSource reads files of servers"
            )
        self._ranges = open_ranges(self._paths, storage_options=storage_options)
        self._identities = [] if self.remote else [FileIdentity.of(path) for path in self._paths]
        self._sizes = [version.size for version in versions_of(self._ranges)]
        samples = samples_of(self._ranges, range(len(self._sizes)), self._sizes)
        self._samples = [sample.hex() if size else "" for sample, size in zip(samples, self._sizes)]
        self._ranges.close()
        self._format_name = format_name
        self._find_blocks()

    def _find_blocks(self) -> None:
        self._blocks = None if self.remote else find_blocks(self._paths, self._format_name)

    def __len__(self) -> int:
        return len(self._paths)

    def check(self, file: int) -> None:
        """FileChangedError where a local file isn't the one that the source began with; a server's is checked when
        it is read.
        """
        if self._identities:
            path = self._paths[file]
            self._identities[file].check(path, FileIdentity.of(path))

    def check_all(self, files: NDArray[np.int64]) -> None:
        """`check` of each of these files, once.

        Args:
            files: (n,), in order.
        """
        if self._identities:
            for file in files[np.flatnonzero(np.diff(files, prepend=-1))].tolist():
                self.check(file)

    def compare(self, file: int, data: memoryview, begin: int, end: int) -> None:
        """Compares the blocks of a range of bytes with the checksums that the writer left; ChecksumError for the first
        wrong one.

        Args:
            file: its number.
            data: all bytes of the file.
            begin, end: of the range.
        """
        if self._blocks is None or self._blocks.exact is None:
            return
        blocks = range(begin // BLOCK_BYTES, -(-end // BLOCK_BYTES))
        spans = (data[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES] for block in blocks)
        keys = self._blocks.records_of(file)[0] + np.array(blocks, np.int64)
        for _ in self._blocks.exact.compared(keys, spans, self.shown, ()):
            pass

    def path(self, file: int) -> str:
        """The whole name of a file."""
        return self._paths[file]

    def open(self, file: int) -> Any:
        """What pyarrow reads: the path of a local file, or an object of a server as a file."""
        self.check(file)
        if not self.remote:
            return self._paths[file]

        def read(begin: int, length: int) -> bytes:
            return read_range(self._ranges, file, begin, begin + length)

        return RangeFile(read, self._sizes[file])

    def damaged(self, file: int, expected: str, error: Exception, source: str = "") -> Exception:
        """The error for a file that can't be read; FileChangedError where it was written to.

        Args:
            file: its number.
            expected: what it should have been.
            error: of the library that read it.
            source: the name of the class that reads the whole file, for advice on a file of another format.
        """
        self.check(file)
        advice = other_format(self.shown[file], source) if source else ""
        text = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        return DataFormatError(
            f"{self.shown[file]}: expected {expected}, got {self._sizes[file]} bytes that pyarrow can't read: "
            f"{text}; " + (advice or "it is truncated or of another format: write it again")
        )

    def sizes(self) -> dict[str, int | None]:
        """The bytes of each, by name as it is shown."""
        return dict(zip(self.shown, self._sizes))

    def told(self) -> dict[str, Any]:
        """What a fingerprint says of them: the same for copied files. `checksums` are those that their writer left."""
        names = [base_name(name) for name in self.shown]
        parts = [[self._paths.index(part.path), part.start, part.stop] for part in self.parts]
        return {
            "files": len(self),
            "bytes": sum(self._sizes),
            "data": digest_of([names, self._sizes, self._samples, parts]),
            **(self._blocks.content if self._blocks is not None else {}),
        }

    def close(self) -> None:
        """Closes connections."""
        self._ranges.close()

    @contextlib.contextmanager
    def naming(self, file: int, expected: str, source: str = "") -> Iterator[None]:
        """Raises `damaged` instead of pyarrow's own errors, which don't name the file.

        Args:
            file, expected, source: as `damaged` takes them.
        """
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, LoaderkitError | FileNotFoundError):
                raise
            raise self.damaged(file, expected, error, source) from error

    def __getstate__(self) -> dict[str, Any]:
        # Inode numbers and times hold on this machine and for this run only.
        identities = self._identities if goes_to_a_worker() else []
        return {**self.__dict__, "_identities": identities, "_blocks": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._find_blocks()  # it may be gone; files that were replaced are an error of their own


@dataclass(frozen=True, slots=True)
class TableChunks:
    """The chunks of rows that a source has: record batches of Arrow files, row groups of Parquet files.

    files, numbers: of each chunk, its file and its number there. begins: the row of the file with which it begins.
    firsts: the first of its rows that the source has. ends: the source's records up to and with it. All are int64
    (chunks,).
    """

    files: NDArray[np.int64]
    numbers: NDArray[np.int64]
    begins: NDArray[np.int64]
    firsts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, files: TableFiles, rows: Sequence[Sequence[int]]) -> Self:
        """The chunks with records of the parts of files.

        Args:
            files: ValueError for a part beyond the end of its file, and where there is no row at all.
            rows: of each chunk of each file.
        """
        found: list[tuple[int, int, int, int, int]] = []
        end = 0
        for part in files.parts:
            file = next(place for place in range(len(files)) if files.path(place) == part.path)
            ends = np.cumsum(rows[file], dtype=np.int64).tolist()
            begin, stop = part.bounds(ends[-1] if ends else 0, "rows")
            for number, (count, upto) in enumerate(zip(rows[file], ends)):
                first, last = max(begin, upto - count), min(stop, upto)
                if first < last:
                    end += last - first
                    found.append((file, number, upto - count, first - (upto - count), end))
        if not found:
            raise ValueError(f"paths: expected one row or more, got none in {files.shown[0]}")
        return cls(*np.array(found, np.int64).T.copy())


def file_mark(path: str) -> bytes:
    """The first 8 bytes of a local file, which say its format."""
    with open(os.fspath(path), "rb") as file:
        return file.read(8)
