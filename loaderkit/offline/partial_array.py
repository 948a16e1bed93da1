"""An array file in the making: values are appended, and the progress is kept so that a killed program goes on.

A folder has both until the file is whole:

    values.npy      the array file, without the values that are still to come
    progress.json   the fields of `ArrayProgress`
"""

import contextlib
import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.block_checksums import BlockChecksums, CheckedBlocks, checksums_of_text
from loaderkit._base.canonical_json import check_seal, sealed
from loaderkit._base.system.dataclasses import asdict, dataclass
from loaderkit._base.system.limits import above_standard
from loaderkit._base.system.whole_file import naming, whole_file
from loaderkit.errors import DataFormatError
from loaderkit.formats.npy import array_header

from .array_file import encoded_trailer, mapped_array, trailer_of

OURS = r"values\.npy|progress\.json"  # the names of the two


@dataclass(frozen=True, slots=True)
class ArrayProgress:
    """How far an array file is.

    Args:
        done: values that are in the file.
        dtype: of the values, as numpy writes it; None before the first.
        labels: as in `ArrayTrailer`.
        state: of the loader's iterator behind these values, JSON.
        checksums: of the blocks of the values, as `BlockChecksums` gives them.
    """

    done: int
    dtype: str | None
    labels: list[str] | None
    state: str
    checksums: str | None = None


_NOTHING = ArrayProgress(0, None, None, "")


class PartialArray:
    """The files of an array that is being made; to be closed.

    Args:
        folder: has the files; it is there, and this process holds its lock.
        records: of the whole array.

    progress: as it was saved last. done: values appended in all.
    """

    def __init__(self, folder: str, records: int) -> None:
        self._values, self._saved = f"{folder}/values.npy", f"{folder}/progress.json"
        self._records = records
        self.progress = self._read() or _NOTHING
        self.done = self.progress.done
        self._checksums = BlockChecksums()
        if self.done:
            begin, advice = self._end_of(0), f"delete {folder} to measure from the beginning"
            self._check_head(advice)
            values = self.values().view(np.uint8)
            if self.progress.checksums is not None:
                told = checksums_of_text(self.progress.checksums)
                CheckedBlocks(self._values, values, told, offset=begin, advice=advice).check_all()
            self._checksums.update(values.data)
        with above_standard():
            self._file = open(self._values, "r+b" if self.done else "w+b")  # noqa: SIM115 - for `close`
        if self.done:
            self._file.seek(self._end_of(self.done))

    def _read(self) -> ArrayProgress | None:
        try:
            with above_standard(), open(self._saved, "rb") as file:
                document = check_seal(
                    self._saved, json.load(file), "delete its folder to measure from the beginning"
                )
                progress = ArrayProgress(**document)
        except FileNotFoundError:
            return None
        except (AttributeError, ValueError, TypeError) as error:
            raise DataFormatError(
                f"{self._saved}: expected the progress of lk.offline.measure, got {error}; delete its folder to "
                "measure from the beginning"
            ) from error
        # A process that was killed when the file had its name leaves its progress.
        return progress if os.path.exists(self._values) else None

    def _check_head(self, advice: str) -> None:
        head = array_header(np.dtype(self.progress.dtype), (self._records,))
        with above_standard(), open(self._values, "rb") as file:
            found = file.read(len(head))
        if found != head or os.path.getsize(self._values) < self._end_of(self.done):
            raise DataFormatError(
                f"{self._values}: expected the {self.done} values of progress.json, got another head or fewer bytes; "
                f"{advice}"
            )

    def _end_of(self, done: int) -> int:
        dtype = np.dtype(self.progress.dtype)
        return len(array_header(dtype, (self._records,))) + done * dtype.itemsize

    def values(self) -> NDArray[Any]:
        """The values that were there when it was opened (done,), read-only."""
        if not self.progress.done:
            return np.empty(0)
        dtype = np.dtype(self.progress.dtype)
        return np.memmap(self._values, dtype, "r", self._end_of(0), (self.progress.done,))

    def append(self, values: NDArray[Any]) -> None:
        """The next values (n,), all of one dtype."""
        if not self.done:
            self._file.write(array_header(values.dtype, (self._records,)))
        data = values.tobytes()
        with naming(self._values):
            self._file.write(data)
        self._checksums.update(data)
        self.done += len(values)

    def save(self, dtype: np.dtype[Any] | None, labels: list[str] | None, state: bytes) -> None:
        """Keeps the progress on the disk: all values so far, and the loader's state behind them."""
        with naming(self._values):
            self._file.flush()
            os.fsync(self._file.fileno())
        self.progress = ArrayProgress(
            self.done, None if dtype is None else dtype.str, labels, state.decode(), self._checksums.text()
        )
        with whole_file(self._saved) as file:
            file.write(json.dumps(sealed(asdict(self.progress)), allow_nan=False).encode())

    def finish(self, target: str, **told: Any) -> None:
        """Gives the file its name; its progress was saved behind the last value. told: as in `ArrayTrailer`."""
        self._file.truncate(self._end_of(self.done))  # it may have a trailer already, if it was killed here
        self._file.flush()
        values = np.load(self._values, mmap_mode="r")
        self._file.seek(0, os.SEEK_END)
        trailer = trailer_of(values, checksums=self._checksums.text(), labels=self.progress.labels, **told)
        self._file.write(encoded_trailer(trailer))
        self._file.flush()
        os.fsync(self._file.fileno())
        mapped_array(self._values)  # an error before the name is there, not after
        os.replace(self._values, target)
        # Another process has seen the target, and removed the folder.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._saved)

    def clear(self) -> None:
        """Forgets all values and the progress."""
        os.unlink(self._saved)
        self._file.seek(0)
        self._file.truncate()
        self._checksums = BlockChecksums()
        self.progress, self.done = _NOTHING, 0

    def close(self) -> None:
        """Closes the file, and leaves no folder behind that has no progress."""
        with naming(self._values):
            self._file.close()
        if not os.path.exists(self._saved) and os.path.exists(self._values):
            os.unlink(self._values)
