"""Which format data files have: by their names, else by the first bytes of one."""

import re

from loaderkit._formats.checksums import crc32c_of_integer, masked
from loaderkit._storage.names import redacted

from .exit_status import UsageError

FORMATS = ("tar", "tfrecord", "jsonl", "lines", "csv", "tsv", "array_record", "parquet", "arrow")

_BY_EXTENSION = {
    "tar": "tar",
    "tfrecord": "tfrecord",
    "tfrecords": "tfrecord",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "txt": "lines",
    "csv": "csv",
    "tsv": "tsv",
    "array_record": "array_record",
    "arrayrecord": "array_record",
    "riegeli": "array_record",
    "parquet": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
}
COMPRESSED = {  # extensions, and the program that unpacks such files
    "tgz": "gunzip",
    "gz": "gunzip",
    "bz2": "bunzip2",
    "xz": "unxz",
    "zst": "unzstd",
    "lz4": "unlz4",
}
_PART = re.compile(r"\[\d*:\d*\]$")
_QUERY = re.compile(r"[?#].*$")
_SHARD = re.compile(r"(-(\d{5}|\?{5}|\*)-of-\d{5}|@\d+)(?=\.|$)")
# The first 8 bytes of a Riegeli file are the hash of its first block's header, the same in every file.
_RIEGELI = bytes.fromhex("83af70d10d884a3f")
_PARQUET, _ARROW = b"PAR1", b"ARROW1"
_GZIP, _ZSTD, _XZ, _BZIP2 = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh"

SNIFFED_BYTES = 4096  # of the first file, enough for a header of every format and for a line of most texts


def format_by_name(name: str) -> str | None:
    """The format that a file's name says, None where it says none; UsageError for compressed files.

    name: a path, a pattern, a URL, also with a part "[0:10]" or with TFDS's numbers of shards.

    >>> format_by_name("s3://b/train.tfrecord-00000-of-00004"), format_by_name("data.csv[0:10]")
    ('tfrecord', 'csv')
    >>> format_by_name("train-{000..012}.tar"), format_by_name("train@64") is None
    ('tar', True)
    """
    extension = _extension(name)
    if extension in COMPRESSED:
        raise _compressed(name)
    return _BY_EXTENSION.get(extension)


def is_compressed(name: str) -> bool:
    """Whether a file's name says that it is compressed.

    >>> is_compressed("a.tgz"), is_compressed("https://host/a.jsonl.gz?x=1"), is_compressed("a.tar")
    (True, True, False)
    """
    return _extension(name) in COMPRESSED


def unpack_text(name: str) -> str:
    """What to do with a compressed file.

    >>> unpack_text("x.tgz")
    'unpack it once: `gunzip x.tgz`'
    """
    return f"unpack it once: `{COMPRESSED.get(_extension(name), 'gunzip')} {redacted(name)}`"


def _compressed(name: str) -> UsageError:
    return UsageError(
        f"{redacted(name)}: expected data that can be read from any place, got a compressed file; {unpack_text(name)}"
    )


def _extension(name: str) -> str:
    last = _PART.sub("", name)
    if "://" in last:
        last = _QUERY.sub("", last)
    last = _SHARD.sub("", last.rpartition("/")[2])
    return last.rpartition(".")[2].lower() if "." in last else ""


def format_by_content(name: str, begin: bytes) -> str:
    """The format of a file that begins with `begin`; UsageError where the bytes say none.

    name: of the file, for the error. begin: its first `SNIFFED_BYTES` bytes, fewer of a short file.

    >>> format_by_content("x", b'{"a": 1}\\n'), format_by_content("x", b"a line\\n")
    ('jsonl', 'lines')
    """
    if begin.startswith((_GZIP, _ZSTD, _XZ, _BZIP2)):
        raise _compressed(name)
    if begin.startswith(_RIEGELI):
        return "array_record"
    if begin.startswith((_PARQUET, _ARROW)):
        return "parquet" if begin.startswith(_PARQUET) else "arrow"
    if begin[257:262] == b"ustar" or _is_tar_header(begin[:512]):
        return "tar"
    if _is_tfrecord(begin):
        return "tfrecord"
    try:
        text = begin.decode()
    except UnicodeDecodeError as error:
        if error.start < len(begin) - 4:  # else a letter is cut at the end of what was read
            raise _unknown(name, begin) from None
        text = begin[: error.start].decode()
    if not text or any(letter < " " and letter not in "\t\n\r\f" for letter in text):
        raise _unknown(name, begin)
    return "jsonl" if text.lstrip()[:1] in ("{", "[") else "lines"


def _unknown(name: str, begin: bytes) -> UsageError:
    if begin.startswith((b"LKPACK", b"\x93NUMPY")):
        return UsageError(
            f"{redacted(name)}: expected files of records, got a plan, tokens or another array; lk.PackedDataSource, "
            "lk.TokenDataSource and lk.read_array compare theirs with their checksums as they read"
        )
    got = f"{begin[:8]!r}..." if begin else "an empty file"
    return UsageError(
        f"{redacted(name)}: expected a file of a known format, got {got}; give --format, one of {', '.join(FORMATS)}"
    )


def _is_tar_header(block: bytes) -> bool:
    if len(block) < 512 or not block[0]:
        return False
    stored = block[148:156].strip(b" \0")
    computed = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    try:
        return int(stored, 8) == computed
    except ValueError:
        return False


def _is_tfrecord(begin: bytes) -> bool:
    length, checksum = begin[:8], begin[8:12]
    expected = masked(crc32c_of_integer(int.from_bytes(length, "little")))
    return len(checksum) == 4 and int.from_bytes(checksum, "little") == expected
