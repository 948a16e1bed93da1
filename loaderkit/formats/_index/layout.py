"""The file that an index is: magic, length, JSON header, sections; little-endian, mapped read-only.

    "LKINDEX1" | u64 length of the header | header | zeros | section | zeros | section ...

Sections begin at multiples of 64 bytes. The header is canonical JSON: what the writer was given, the length of the
file, a list of sections (name, dtype, shape, offset, crc32) and a digest of itself. A checksum is zlib's CRC-32, which
needs no further library. A file is written under another name and renamed, so a reader sees all of it or none.

A section of 1 MiB or more has another one, NAME.blocks: the checksums of its blocks. Older files lack it.
"""

import contextlib
import json
import mmap
import os
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.block_checksums import BLOCK_BYTES, BlockChecksums, CheckedBlocks
from loaderkit._base.canonical_json import canonical, digest
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.file_identity import FileIdentity, WatchedFile
from loaderkit._base.system.limits import above_standard, open_descriptor
from loaderkit.errors import DataFormatError

MAGIC = b"LKINDEX1"
ALIGNMENT = 64  # bytes: a cache line, and a multiple of every item's size
# Sections below this are read and compared with their checksums when a file is opened. Opening then reads some
# megabytes, whatever the number of records; the large ones are mapped, and compared block by block as they are used.
CHECKED_AT_OPENING = 1 << 20
BLOCKS = ".blocks"
_ADVICE = "remove it and make the index again: `loaderkit index` with the names of the data"
_PREFIX = len(MAGIC) + 8
_LONGEST_HEADER = 1 << 26  # bytes; a header has the fields' names, at most 65,536
_NO_DIGEST = "sha256:" + "0" * 64


@dataclass(frozen=True, slots=True)
class SectionShape:
    """A section to be written: its name, the dtype of its items and its shape.

    >>> SectionShape("starts", "<u4", (10,)).nbytes
    40
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Its length in the file."""
        nbytes: int = np.dtype(self.dtype).itemsize
        for length in self.shape:
            nbytes *= length
        return nbytes


class SectionWriter:
    """Writes such a file section by section, each from front to back, in any order between them.

    Args:
        path: the file's name in the end; a file of that name is replaced.
        header: JSON values.
        sections: all of them, with their shapes.
        partial: its name until it is whole; without one, a name beside `path`.
        flushes: whether it is on the disk when the block ends, so that it survives a loss of power.

    In a `with` block: the file is there when the block ends, and nothing is where it ends by an exception.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with SectionWriter(
    ...     folder.name + "/a.lkx", {"kind": "any"}, [SectionShape("x", "<u4", (3,))]
    ... ) as writer:
    ...     writer.append("x", np.array([1, 2]))
    ...     writer.append("x", np.array([3]))
    >>> file = SectionFile(folder.name + "/a.lkx")
    >>> file.header["kind"], file.sections["x"].tolist()
    ('any', [1, 2, 3])
    >>> del file
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str,
        header: Mapping[str, Any],
        sections: Sequence[SectionShape],
        partial: str | None = None,
        *,
        flushes: bool = True,
    ) -> None:
        self._path, self._flushes = path, flushes
        self._partial = partial or f"{path}.{os.getpid()}-{os.urandom(4).hex()}.partial"
        tables = [_table_of(section) for section in sections if section.nbytes >= CHECKED_AT_OPENING]
        sections = [*sections, *tables]
        self._shapes = {section.name: section for section in sections}
        self._blocks = {table.name: BlockChecksums() for table in tables}
        self._header = dict(header)
        self._checksums = dict.fromkeys(self._shapes, 0)
        # The header's length doesn't depend on offsets, checksums and digests: they have a fixed width.
        self._offsets = dict.fromkeys(self._shapes, 0)
        self._file_bytes = 0
        position = _aligned(_PREFIX + len(self._rendered(with_digest=False)))
        for section in sections:
            self._offsets[section.name] = position
            position = _aligned(position + section.nbytes)
        self._file_bytes = position
        self._positions = dict(self._offsets)
        self._fd = -1

    def _rendered(self, *, with_digest: bool) -> bytes:
        sections = [
            {
                "name": section.name,
                "dtype": section.dtype,
                "shape": list(section.shape),
                "offset": f"{self._offsets[section.name]:016x}",
                "crc32": f"{self._checksums[section.name]:08x}",
            }
            for section in self._shapes.values()
        ]
        document = self._header | {"sections": sections, "file_bytes": f"{self._file_bytes:016x}"}
        document["digest"] = digest(document) if with_digest else _NO_DIGEST
        return canonical(document).encode()

    def __enter__(self) -> Self:
        self._fd = open_descriptor(self._partial, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        return self

    @property
    def section_names(self) -> set[str]:
        """The sections' names."""
        return set(self._shapes)

    def append(self, name: str, values: NDArray[Any]) -> None:
        """Writes the next items of a section; values: of the section's shape but for the first axis."""
        section = self._shapes[name]
        content = np.ascontiguousarray(values, dtype=np.dtype(section.dtype)).tobytes()
        if self._positions[name] + len(content) > self._offsets[name] + section.nbytes:
            raise ValueError(f"section {name}: expected {section.nbytes} bytes, got more")
        self._write(content, self._positions[name])
        self._positions[name] += len(content)
        self._checksums[name] = zlib.crc32(content, self._checksums[name])
        if (blocks := self._blocks.get(name + BLOCKS)) is not None:
            blocks.update(content)

    def _write(self, content: bytes, offset: int) -> None:
        left = memoryview(content)
        while left:
            try:
                written = os.pwrite(self._fd, left, offset)
            except OSError as error:  # of a full disk
                error.filename = self._path
                raise
            left, offset = left[written:], offset + written

    def _finish(self) -> None:
        for name, blocks in self._blocks.items():
            self.append(name, blocks.values())
        for name, section in self._shapes.items():
            if self._positions[name] != self._offsets[name] + section.nbytes:
                raise ValueError(f"section {name}: expected {section.nbytes} bytes, got fewer")
        rendered = self._rendered(with_digest=True)
        os.ftruncate(self._fd, self._file_bytes)
        self._write(MAGIC + len(rendered).to_bytes(8, "little") + rendered, 0)
        if self._flushes:
            os.fsync(self._fd)
        os.close(self._fd)
        self._fd = -1
        os.replace(self._partial, self._path)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._partial)


class SectionFile:
    """Such a file, mapped.

    Args:
        path: its name. FileNotFoundError where there is none; DataFormatError where it isn't a whole file of this
            kind, or its header or a section below 1 MiB doesn't have its checksum.
        mapped: False reads the header and no section.

    header: the JSON values that the writer was given. sections: read-only arrays by name.
    """

    def __init__(self, path: str, *, mapped: bool = True) -> None:
        self.path = path
        with above_standard():
            file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed below
        with file:
            size = os.fstat(file.fileno()).st_size
            try:
                self.header = _read_header(path, file.read, size)
                self._sections = [_section_of(entry, size) for entry in self.header.pop("sections")]
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise torn(path, str(error)) from None
            self.sections: dict[str, NDArray[Any]] = {}
            self._blocks: dict[str, tuple[CheckedBlocks, int]] = {}  # and the bytes of an item
            self._watched: WatchedFile | None = None
            if not mapped:
                return
            content: Any = b""
            if any(not _is_read(shape) for shape, *_ in self._sections):
                with above_standard():
                    content = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
                # A file that is cut off while it is mapped would end the process.
                self._watched = WatchedFile(path, FileIdentity.of(file.fileno(), timed=False))
            for shape, offset, _ in self._sections:
                count = shape.nbytes // np.dtype(shape.dtype).itemsize
                if _is_read(shape):
                    array = np.frombuffer(os.pread(file.fileno(), shape.nbytes, offset), shape.dtype)
                else:
                    # An array of a section keeps the mapping alive, so nothing has to be closed.
                    array = np.frombuffer(content, shape.dtype, count, offset)
                if len(array) != count:
                    raise torn(path, "it was cut off while it was opened")
                self.sections[shape.name] = array.reshape(shape.shape)
        self.check([shape.name for shape, *_ in self._sections if _is_read(shape)])
        self._hold_blocks()

    def _hold_blocks(self) -> None:
        for shape, offset, _ in self._sections:
            if (table := self.sections.get(shape.name + BLOCKS)) is not None:
                data = self.sections[shape.name].reshape(-1).view(np.uint8)
                blocks = CheckedBlocks(self.path, data, table, offset=offset, advice=_ADVICE)
                self._blocks[shape.name] = (blocks, self.sections[shape.name].itemsize)

    def check_items(self, name: str, firsts: NDArray[np.int64], count: int = 1) -> None:
        """Compares the blocks of items of a large section, each once; ChecksumError where one is damaged.

        Args:
            name: of the section.
            firsts: (n,) the first item of each run.
            count: items of a run.
        """
        if self._watched is not None:
            self._watched.check()
        if (held := self._blocks.get(name)) is not None and not held[0].is_checked:
            held[0].check_each(firsts * held[1], (firsts + count) * held[1])

    def check_range(self, name: str, begin: int, end: int) -> None:
        """`check_items` of the items from `begin` up to `end`."""
        self.check_items(name, np.array([begin]), end - begin)

    @property
    def shapes(self) -> list[SectionShape]:
        """The sections' names, dtypes and shapes."""
        return [shape for shape, _, _ in self._sections]

    def check(self, names: Collection[str] | None = None) -> None:
        """Compares sections with their checksums, which reads them whole; DataFormatError for the first wrong.

        Args:
            names: of those; None for all.
        """
        for shape, offset, checksum in self._sections:
            asked = names is None or shape.name in names
            if asked and zlib.crc32(self.sections[shape.name].data) != checksum:
                raise torn(self.path, f"section {shape.name} at byte {offset} doesn't have its checksum")


def torn(path: str, problem: str) -> DataFormatError:
    """The error for an index that can't be used.

    >>> torn("train.lkx", "it is empty")
    DataFormatError('train.lkx: expected a whole index of loaderkit, got a damaged file: it is empty; remove it and make
    the index again: `loaderkit index` with the names of the data')
    """
    return DataFormatError(
        f"{path}: expected a whole index of loaderkit, got a damaged file: {problem}; {_ADVICE}"
    )


def _table_of(section: SectionShape) -> SectionShape:
    return SectionShape(section.name + BLOCKS, "<u4", (-(-section.nbytes // BLOCK_BYTES),))


def _is_read(section: SectionShape) -> bool:
    return section.nbytes < CHECKED_AT_OPENING or section.name.endswith(BLOCKS)


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def _read_header(path: str, read: Any, size: int) -> dict[str, Any]:
    prefix = read(_PREFIX)
    if not prefix:
        raise ValueError("it is empty")
    if prefix[:8] != MAGIC:
        # It may be a file of records, so the advice isn't to remove it.
        raise DataFormatError(
            f"{path}: expected an index of loaderkit, which begins with {MAGIC!r}, got a file that begins with "
            f"{prefix[:8]!r}; give index= the file that `loaderkit index` wrote, or make a new one by this command"
        )
    length = int.from_bytes(prefix[8:], "little")
    if len(prefix) < _PREFIX or not 2 <= length <= min(size - _PREFIX, _LONGEST_HEADER):
        raise ValueError(f"its header should have {length} bytes, and the file has {size}")
    rendered = read(length)
    try:
        header = json.loads(rendered)
    except (ValueError, RecursionError):
        raise ValueError("its header isn't JSON") from None
    if not isinstance(header, dict) or digest(header) != header.get("digest"):
        raise ValueError("its header doesn't have its digest")
    expected = int(header.pop("file_bytes"), 16)
    if size != expected:
        raise ValueError(f"it should have {expected} bytes, and has {size}")
    del header["digest"]
    return header


def _section_of(entry: Mapping[str, Any], size: int) -> tuple[SectionShape, int, int]:
    section = SectionShape(str(entry["name"]), str(entry["dtype"]), tuple(entry["shape"]))
    offset = int(entry["offset"], 16)
    if offset % ALIGNMENT or offset + section.nbytes > size:
        raise ValueError(f"section {section.name} lies outside of the file")
    return section, offset, int(entry["crc32"], 16)


def smallest_unsigned(greatest: int) -> str:
    """The dtype of 4 bytes where it holds `greatest`, else that of 8.

    >>> smallest_unsigned(2**32 - 1), smallest_unsigned(2**32)
    ('<u4', '<u8')
    """
    return "<u4" if greatest < 1 << 32 else "<u8"
