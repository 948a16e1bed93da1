"""Hashes of keys in ascending order, for more keys than memory holds."""

import os
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.limits import above_standard

# 4 million pairs of 16 bytes are sorted at a time, which takes some 200 MB.
SORTED_AT_ONCE = 1 << 22
MOST_BUCKETS = 256  # open files
_PAIR = np.dtype([("hash", "<u8"), ("record", "<i8")])


class KeyOrder:
    """Sorts pairs of hash and record by hash, then record, in buckets of equal first bits in files.

    Args:
        folder: for the files, which are gone at the end of the `with` block.
        count: how many pairs there will be.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, KeyOrder(folder, 3) as order:
    ...     order.add(np.array([7, 1, 7], np.uint64), first_record=0)
    ...     [(hashes.tolist(), records.tolist()) for hashes, records in order.ascending()]
    [([1, 7, 7], [1, 0, 2])]
    """

    def __init__(self, folder: str, count: int) -> None:
        wanted = -(-count // SORTED_AT_ONCE)
        self._bits = min((max(wanted, 1) - 1).bit_length(), MOST_BUCKETS.bit_length() - 1)
        stem = os.path.join(folder, f"keys-{os.getpid()}-{os.urandom(4).hex()}")
        self._paths = [f"{stem}-{bucket}.partial" for bucket in range(1 << self._bits)]
        self._files: list[Any] = []

    def __enter__(self) -> Self:
        with above_standard():
            self._files = [open(path, "w+b") for path in self._paths]  # noqa: SIM115 - closed at the end
        return self

    def add(self, hashes: NDArray[np.uint64], *, first_record: int) -> None:
        """Takes the hashes of consecutive records; hashes: (n,) uint64."""
        pairs = np.empty(len(hashes), _PAIR)
        pairs["hash"] = hashes
        pairs["record"] = np.arange(first_record, first_record + len(hashes))
        if not self._bits:
            self._files[0].write(pairs.tobytes())
            return
        buckets = (hashes >> np.uint64(64 - self._bits)).astype(np.int64)
        pairs = pairs[np.argsort(buckets, kind="stable")]
        ends = np.cumsum(np.bincount(buckets, minlength=len(self._files))).tolist()
        begin = 0
        for file, end in zip(self._files, ends):
            file.write(pairs[begin:end].tobytes())
            begin = end

    def ascending(self) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.int64]]]:
        """All pairs in order, a bucket at a time."""
        for file in self._files:
            file.seek(0)
            pairs = np.frombuffer(file.read(), _PAIR)
            # Records were added in ascending order, so a stable sort by hash keeps them so.
            order = np.argsort(pairs["hash"], kind="stable")
            yield pairs["hash"][order], pairs["record"][order]

    def __exit__(self, *_: object) -> None:
        for file, path in zip(self._files, self._paths):
            file.close()
            os.unlink(path)
