"""The formats of loaderkit."""

import os

from loaderkit._codecs.checksums import crc32c_of_integer, masked

from .format import Format

# The first 8 bytes of a Riegeli file are the hash of its first block's header, the same in every file.
_RIEGELI = bytes.fromhex("83af70d10d884a3f")


def _begins_tar(begin: bytes) -> bool:
    block = begin[:512]
    if block[257:262] == b"ustar":
        return True
    if len(block) < 512 or not block[0]:
        return False
    try:
        stored = int(block[148:156].strip(b" \0"), 8)
    except ValueError:
        return False
    return stored == sum(block) - sum(block[148:156]) + 8 * ord(" ")


def _begins_tfrecord(begin: bytes) -> bool:
    length, checksum = begin[:8], begin[8:12]
    expected = masked(crc32c_of_integer(int.from_bytes(length, "little")))
    return len(checksum) == 4 and int.from_bytes(checksum, "little") == expected


def _begins_text(begin: bytes) -> str:
    """The text of these bytes, "" for other bytes than a text's."""
    try:
        text = begin.decode()
    except UnicodeDecodeError as error:
        if error.start < len(begin) - 4:  # else a letter is cut at the end of what was read
            return ""
        text = begin[: error.start].decode()
    return "" if any(letter < " " and letter not in "\t\n\r\f" for letter in text) else text


def _begins_json_lines(begin: bytes) -> bool:
    return _begins_text(begin).lstrip()[:1] in ("{", "[")


def _of_mds(index: str) -> bool:
    try:
        with open(index, "rb") as file:
            return b'"mds"' in file.read(1 << 16)  # each shard has its format in the first line or two
    except OSError:
        return False


# In the order in which the first bytes of a file are looked at; a text that none of all formats knows is of "lines".
FORMATS = (
    Format(
        name="array_record",
        extensions=("array_record", "arrayrecord", "riegeli"),
        begins=lambda begin: begin.startswith(_RIEGELI),
        source="loaderkit.formats.array_record.source:ArrayRecordDataSource",
        writer="loaderkit.formats.array_record.writer:ArrayRecordWriting",
        by_blocks=True,
        remote=False,
    ),
    Format(
        name="tar",
        extensions=("tar",),
        begins=_begins_tar,
        source="loaderkit.formats.tar.source:TarDataSource",
        scanner="loaderkit.formats.tar.scanner:TarFormat",
        writer="loaderkit.formats.tar.writer:TarWriting",
    ),
    Format(
        name="tfrecord",
        extensions=("tfrecord", "tfrecords"),
        begins=_begins_tfrecord,
        source="loaderkit.formats.tfrecord.source:TFRecordDataSource",
        scanner="loaderkit.formats.tfrecord.scanner:TFRecordFormat",
        writer="loaderkit.formats.tfrecord.writer:TFRecordWriting",
        verify={"verify": True},
        extra="tfrecord",
    ),
    Format(
        name="parquet",
        extensions=("parquet",),
        begins=lambda begin: begin.startswith(b"PAR1"),
        source="loaderkit.formats.tables.parquet:ParquetDataSource",
        writer="loaderkit.formats.tables.writer:ParquetWriting",
        by_blocks=True,
        extra="arrow",
    ),
    Format(
        name="arrow",
        extensions=("arrow", "feather"),
        begins=lambda begin: begin.startswith(b"ARROW1"),
        source="loaderkit.formats.tables.arrow:ArrowDataSource",
        writer="loaderkit.formats.tables.writer:ArrowWriting",
        by_blocks=True,
        remote=False,
        extra="arrow",
    ),
    Format(
        name="jsonl",
        extensions=("jsonl", "ndjson"),
        begins=_begins_json_lines,
        source="loaderkit.formats.text.json_lines:JsonLinesDataSource",
        scanner="loaderkit.formats.text.line_scanner:JsonLinesFormat",
        writer="loaderkit.formats.text.json_lines_writer:JsonLinesWriting",
    ),
    Format(
        name="jsonl.zst",
        extensions=("jsonl.zst", "ndjson.zst"),
        source="loaderkit.formats.text.json_lines:JsonLinesDataSource",
        scanner="loaderkit.formats.text.line_scanner:JsonLinesFormat",
        writer="loaderkit.formats.text.json_lines_writer:CompressedJsonLinesWriting",
    ),
    Format(
        name="jsonl.gz",
        extensions=("jsonl.gz", "ndjson.gz"),
        source="loaderkit.formats.text.json_lines:JsonLinesDataSource",
        scanner="loaderkit.formats.text.line_scanner:JsonLinesFormat",
    ),
    Format(
        name="lines",
        extensions=("txt", "txt.zst", "txt.gz"),
        begins=lambda begin: bool(_begins_text(begin)),
        source="loaderkit.formats.text.lines:LinesDataSource",
        scanner="loaderkit.formats.text.line_scanner:LinesFormat",
    ),
    Format(
        name="csv",
        extensions=("csv", "csv.zst", "csv.gz"),
        source="loaderkit.formats.text.csv:CsvDataSource",
        scanner="loaderkit.formats.text.csv_rows:CsvFormat",
    ),
    Format(
        name="tsv",
        extensions=("tsv", "tsv.zst", "tsv.gz"),
        source="loaderkit.formats.text.csv:CsvDataSource",
        scanner="loaderkit.formats.text.csv_rows:CsvFormat",
        options={"delimiter": "\t"},
    ),
    Format(
        name="tokens",
        extensions=("tokens",),
        source="loaderkit.formats.tokens.source:TokenDataSource",
        writer="loaderkit.formats.tokens.writer:TokensWriting",
    ),
    Format(
        name="megatron",
        extensions=("idx",),
        begins=lambda begin: begin.startswith(b"MMIDIDX\0\0"),
        source="loaderkit.formats.tokens.source:open_megatron",
        writer="loaderkit.formats.tokens.megatron_writer:MegatronWriting",
        beside="bin",
    ),
    Format(
        name="mds",
        extensions=("mds", "mds.zstd", "mds.gz"),
        folder=lambda path: _of_mds(os.path.join(path, "index.json")),
        source="loaderkit.formats.mds:MdsDataSource",
    ),
    Format(
        name="lmdb",
        extensions=("lmdb", "mdb"),
        folder=lambda path: os.path.isfile(os.path.join(path, "data.mdb")),
        source="loaderkit.formats.lmdb:LmdbDataSource",
        one_file=True,
        remote=False,
        extra="lmdb",
    ),
    Format(
        name="webdataset",
        source="loaderkit.formats.tar.source:TarDataSource",
        scanner="loaderkit.formats.tar.scanner:TarFormat",
        writer="loaderkit.formats.tar.webdataset:WebDatasetWriting",
    ),
)
