"""Array files: a value for each record of a source, and what the values are of, in one file.

The file is a `.npy` file that numpy reads by itself. Behind the bytes of the array, which numpy ignores, are

    JSON        the fields of `ArrayTrailer`, utf-8
    8 bytes     the length of the JSON in bytes, little-endian
    8 bytes     MAGIC
"""

from __future__ import annotations

import dataclasses
import json
import os
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.block_checksums import CheckedBlocks, checksums_of_text, damaged
from loaderkit._base.canonical_json import check_seal, sealed
from loaderkit._base.system.limits import above_standard
from loaderkit._base.system.numerics import present_versions
from loaderkit._order.array_digest import digest_of
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.record_key import short_repr
from loaderkit.errors import DataFormatError

MAGIC = b"LKARRAY1"
_END = struct.Struct("<Q8s")  # length of the JSON, magic
_SEAL = "trailer digest"
_ADVICE = "delete it to measure again"


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayTrailer:
    """What the values of an array file are of.

    Args:
        function: name of the function that gave the values.
        source: fingerprint of the source.
        digest: of the values, as `digest_of` gives it.
        labels: the label of each code where the function gave labels, else None.
        versions: of loaderkit, numpy and Python that made the file.
        checksums: of the blocks of the values, as `BlockChecksums` gives them; None in files of version 0.1.
        made: what the values are made of, as `made_of` gives it; None likewise.
    """

    function: str
    source: dict[str, Any]
    digest: str
    labels: list[str] | None
    versions: dict[str, str]
    checksums: str | None = None
    made: dict[str, Any] | None = None


def read_array(path: str | os.PathLike[str], source: Any = None) -> NDArray[Any]:
    """The values of an array file as a mapped array (records,), read-only; all are compared with their checksums.

    Args:
        path: of a file that `lk.offline.measure` wrote. DataFormatError for another file, ChecksumError for a damaged
            one.
        source: the data source that the values must be of; ValueError naming both where they are of another. None
            compares nothing.

    >>> import tempfile
    >>> import loaderkit as lk
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = lk.offline.measure(["a", "abc"], len, f"{folder}/lengths.npy")
    ...     lengths = lk.offline.read_array(f"{folder}/lengths.npy", source=["a", "abc"])
    >>> lengths.tolist()
    [1, 3]
    """
    array, trailer = open_array(path)
    if source is not None:
        check_of_source(os.path.abspath(path), trailer.source, len(array), source)
    return array


def read_labels(path: str | os.PathLike[str]) -> list[str]:
    """The labels of an array file in the order of their codes: a record's label is `labels[array[record_key]]`.

    Args:
        path: of a file that `lk.offline.measure` wrote. ValueError where its function gave numbers.

    >>> import tempfile
    >>> import loaderkit as lk
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     codes = lk.offline.measure(
    ...         ["en hi", "de ja", "en no"], lambda text: text[:2], f"{folder}/languages.npy"
    ...     )
    ...     labels = lk.offline.read_labels(f"{folder}/languages.npy")
    >>> codes.tolist(), labels
    ([0, 1, 0], ['en', 'de'])
    """
    _, trailer = mapped_array(path)
    if trailer.labels is None:
        raise ValueError(
            f"{os.fspath(path)}: expected values of a function that gives labels, got numbers of {trailer.function}; "
            "lk.offline.read_array(path) gives them"
        )
    return trailer.labels


def open_array(path: str | os.PathLike[str]) -> tuple[NDArray[Any], ArrayTrailer]:
    """`mapped_array` whose values were all compared with their checksums: an array is used without a word to us.

    Args:
        path: of an array file. ChecksumError for a damaged one.
    """
    array, trailer = mapped_array(path)
    name, begin = os.path.abspath(path), array.offset
    if trailer.checksums is not None:
        checksums = checksums_of_text(trailer.checksums)
        CheckedBlocks(name, array.view(np.uint8), checksums, offset=begin, advice=_ADVICE).check_all()
    elif digest_of(array) != trailer.digest:
        raise damaged(name, begin, begin + array.nbytes, _ADVICE)
    return array, trailer


def mapped_array(path: str | os.PathLike[str]) -> tuple[np.memmap[Any, Any], ArrayTrailer]:
    """The values (records,), mapped, read-only and not compared, and what they are of; opened in any size at once.

    Args:
        path: of an array file. DataFormatError for another file, ChecksumError where what they are of was damaged,
            FileNotFoundError where there is none.
    """
    name = os.path.abspath(path)
    try:
        with above_standard():
            array = np.load(name, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # numpy parses a head as Python: a tokenizer's errors, too
        raise _no_array_file(name, str(error)) from error
    if not isinstance(array, np.memmap) or array.ndim != 1:
        raise _no_array_file(
            name, f"an array of shape {array.shape}" if hasattr(array, "shape") else "an archive"
        )
    if array.dtype.kind not in "biuf" or not array.dtype.isnative:  # the head has no checksum
        raise _no_array_file(name, f"values of {array.dtype.str}")
    return array, _read_trailer(name, array.offset + array.nbytes)


def _read_trailer(name: str, begin: int) -> ArrayTrailer:
    with above_standard(), open(name, "rb") as file:
        file.seek(begin)
        behind = file.read()
    if not behind:
        raise _no_array_file(name, "a .npy file without the end that lk.offline.measure writes")
    try:
        length, magic = _END.unpack(behind[-_END.size :])
        document = json.loads(behind[: -_END.size])
        if magic == MAGIC and length == len(behind) - _END.size:
            check_seal(name, document, _ADVICE, _SEAL)
            fields = dataclasses.fields(ArrayTrailer)
            # Fields that a later version adds are left out.
            known = {field.name: document[field.name] for field in fields if field.name in document}
            return ArrayTrailer(**known)
    except (struct.error, ValueError, KeyError, TypeError):
        pass
    raise _no_array_file(name, f"{len(behind)} other bytes behind the array; it was truncated or written to")


def _no_array_file(name: str, got: str) -> DataFormatError:
    return DataFormatError(
        f"{name}: expected an array file of lk.offline.measure, got {got}; measure the source again, or where an "
        "array is taken give np.load(path)"
    )


def encoded_trailer(trailer: ArrayTrailer) -> bytes:
    """The bytes behind the array."""
    document = json.dumps(sealed(dataclasses.asdict(trailer), _SEAL), allow_nan=False).encode()
    return document + _END.pack(len(document), MAGIC)


def trailer_of(values: NDArray[Any], **told: Any) -> ArrayTrailer:
    """What is written behind values (records,); told: the other fields."""
    return ArrayTrailer(digest=digest_of(values), versions=present_versions(), **told)


def check_of_source(path: str, written: dict[str, Any], records: int, source: Any) -> None:
    """ValueError naming both where a file's values aren't of a source.

    Args:
        path: of the file.
        written: the fingerprint of the source that it is of.
        records: of that source.
        source: any data source.
    """
    here = fingerprint_of(source)
    if here == written:
        return
    differ = sorted(key for key in {*written, *here} if written.get(key) != here.get(key))
    shown = "; ".join(
        f"{key} is {_cut(written.get(key))} there and {_cut(here.get(key))} here" for key in differ
    )
    raise ValueError(
        f"{path}: expected values of {short_repr(source)}, got values of another source with {records} records: "
        f"{shown}. Delete it to measure this source, or give another path"
    )


def _cut(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:60]}..."
