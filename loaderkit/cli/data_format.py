"""Which format data files have: by their names, else by the first bytes of one."""

import re

from loaderkit._storage.names import redacted

from .exit_status import UsageError

FORMATS = ("tar", "tfrecord", "jsonl", "lines", "csv", "tsv", "array_record")

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
}
_COMPRESSED = {"tgz", "gz", "bz2", "xz", "zst", "lz4"}
_PART = re.compile(r"\[\d*:\d*\]$")
_QUERY = re.compile(r"[?#].*$")
_SHARD = re.compile(r"(-(\d{5}|\?{5}|\*)-of-\d{5}|@\d+)(?=\.|$)")
# The first 8 bytes of a Riegeli file are the hash of its first block's header, the same in every file.
_RIEGELI = bytes.fromhex("83af70d10d884a3f")
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
    last = _PART.sub("", name)
    if "://" in last:
        last = _QUERY.sub("", last)
    last = _SHARD.sub("", last.rpartition("/")[2])
    extension = last.rpartition(".")[2].lower() if "." in last else ""
    if extension in _COMPRESSED:
        raise UsageError(compressed_text(name))
    return _BY_EXTENSION.get(extension)


def compressed_text(name: str) -> str:
    """What is said of a compressed file, with what to do.

    >>> print(compressed_text("x.tgz"))
    x.tgz: expected data that can be read from any place, got a compressed file; unpack it first: `gunzip x.tgz`
    """
    name = redacted(name)
    tool = {"zst": "unzstd", "xz": "unxz", "bz2": "bunzip2", "lz4": "unlz4"}.get(
        name.rpartition(".")[2], "gunzip"
    )
    return (
        f"{name}: expected data that can be read from any place, got a compressed file; unpack it first: "
        f"`{tool} {name}`"
    )


def format_by_content(name: str, begin: bytes) -> str:
    """The format of a file that begins with `begin`; UsageError where the bytes say none.

    name: of the file, for the error. begin: its first `SNIFFED_BYTES` bytes, fewer of a short file.

    >>> format_by_content("x", b'{"a": 1}\\n'), format_by_content("x", b"a line\\n")
    ('jsonl', 'lines')
    """
    if begin.startswith((_GZIP, _ZSTD, _XZ, _BZIP2)):
        raise UsageError(compressed_text(name))
    if begin.startswith(_RIEGELI):
        return "array_record"
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
    # The length's own checksum takes an optional library; a length whose high bytes are 0, in a file that isn't text
    # (a text has no zero bytes), is told by its first record alone.
    return len(begin) >= 16 and begin[5:8] == bytes(3)
