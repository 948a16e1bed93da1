"""Whether a format of files keeps what `lk.open`, `lk.write` and the commands rely on."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any

from loaderkit._source.protocol import read_record
from loaderkit.formats import registry
from loaderkit.formats._writing.shard_stream import write_shard
from loaderkit.formats._writing.write_format import RecordFiles
from loaderkit.formats.format import Format
from loaderkit.formats.open import open as open_records
from loaderkit.formats.write import write

from .conformance import Checks, ConformanceReport, Skip, expect, expect_same, run_checks
from .snapshot import snapshot_of
from .source_checks import check_source

_CHECKS = Checks["_FormatFiles"]()


def check_format(
    format: Format,  # noqa: A002 - the word of `lk.open`
    records: Sequence[Any],
    *,
    skip: Collection[str] = (),
    progress: bool | None = None,
) -> ConformanceReport:
    """Writes records to files of a format, and opens, recognises and scans these files: each must give the records.

    Args:
        format: that `lk.formats.register` or an entry point has made known. TypeError for another object, ValueError
            for a format without a writer.
        records: two or more that the format gives back as they are, with their types; ValueError for fewer.
        skip: names of checks to leave out, such as "first bytes".
        progress: whether a line on stderr says how far it is; None where that is a terminal.

    Returns what was checked, and what wasn't and why. ConformanceError, an AssertionError, for the first that fails.
    The files are in a temporary folder; `check_source`, which starts a worker process, reads them.

    >>> from loaderkit.formats import registry
    >>> report = check_format(registry.of_name("jsonl"), [{"n": 1}, {"n": 2}, {"n": 3}])
    >>> len(report.passed), report.skipped
    (8, ())
    >>> fasta = Format(
    ...     name="fasta", extensions=("fa",), source="bio.fasta:Source", writer="bio.fasta:Writing"
    ... )
    >>> check_format(fasta, [{"sequence": "ACGT"}, {"sequence": "TGCA"}])
    Traceback (most recent call last):
        ...
    loaderkit.errors.ConformanceError: check_format: the format fasta: check 'known': expected the name 'fasta' to ...
    """
    if not isinstance(format, Format):
        raise TypeError(f"format: expected a Format, got {format!r:.80}; write lk.formats.Format(name=...)")
    if format.writer is None:
        raise ValueError(
            f"format: expected one with a writer, got {format.name!r}; for a format that is only read write "
            "check_source(lk.open(path))"
        )
    if len(records) < 2:
        raise ValueError(f"records: expected two or more, got {len(records)}; give some that differ")
    with tempfile.TemporaryDirectory() as folder:
        files = _FormatFiles(format, records, folder)
        return run_checks(_CHECKS, files, name="check_format", skip=skip, progress=progress)


class _FormatFiles:
    """The records in one file, and in a folder of two, or of one where a source of the format reads one."""

    def __init__(self, data_format: Format, records: Sequence[Any], folder: str) -> None:
        self.format, self.records = data_format, records
        self.subject = f"the format {data_format.name}"
        self.pickled_bytes: int | None = None
        self._expected = [snapshot_of(record) for record in records]
        self._folder = folder

    def path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    @cached_property
    def file(self) -> str:
        return self._written(f"one.{self.writer.extension}")[0]

    @cached_property
    def files(self) -> list[str]:
        return self._written("folder", shards=1 if self.format.one_file else 2)

    @cached_property
    def writer(self) -> Any:
        return self.format.make_writer()

    def _written(self, name: str, **options: Any) -> list[str]:
        return write(self.records, self.path(name), format=self.format.name, **options)

    def compare(self, what: Any, when: str) -> None:
        """Mismatch where what is opened hasn't the records."""
        with _opened(what) as source:
            expect(len(source) == len(self.records), f"{len(self.records)} records {when}", str(len(source)))
            for key, expected in enumerate(self._expected):
                expect_same(expected, snapshot_of(read_record(source, key)), f"record_key {key}", when)


@contextlib.contextmanager
def _opened(what: Any) -> Iterator[Any]:
    source = open_records(what)
    try:
        yield source
    finally:
        getattr(source, "close", bool)()


@_CHECKS("known")
def _known(files: _FormatFiles) -> None:
    """the format is found by its name and by each of its extensions

    Call lk.formats.register(format), or give it an entry point in the group loaderkit.formats.
    """
    name = files.format.name
    found = {f"the name {name!r}": registry.find(name)}
    found |= {f"the extension {each!r}": registry.of_extension(each) for each in files.format.extensions}
    for what, other in found.items():
        expect(
            other == files.format,
            f"{what} to mean this format",
            "none" if other is None else other.source_name,
        )


@_CHECKS("writer")
def _writer(files: _FormatFiles) -> None:
    """the writer has the format's name and its first extension

    lk.write names files by the writer's `extension`, and lk.open knows them by the format's `extensions`.
    """
    said = (files.writer.name, files.writer.extension)
    expected = (files.format.name, *files.format.extensions[:1])
    expect(said == expected, f"a writer of {expected}", str(said))


@_CHECKS("scanner")
def _scanner(files: _FormatFiles) -> None:
    """the scanner finds as many records as were written, and a checksum for each where it is asked for them

    Let scan give the same starts with checksums=True and without, (records + 1,), and checksums (records,), or None
    for a format that can't have them.
    """
    if files.format.scanner is None:
        raise Skip("the format has no scanner")
    # By the writer alone: lk.write has the scanner make an index of what it wrote.
    made, path = RecordFiles(files.writer, files.writer.encoder(files.records[0])), files.path("scanned")
    encoded = (made.encoder.encode(record, number) for number, record in enumerate(files.records))
    write_shard(encoded, made, path)
    with open(path, "rb") as file:
        data = file.read()
    for asked in (False, True):
        scan = files.format.make_scanner().scan(
            lambda offset, length: data[offset : offset + length], len(data), checksums=asked
        )
        found = {len(scan.starts) - 1}
        if asked and scan.checksums is not None:
            found.add(len(scan.checksums))
        expect(
            found == {len(files.records)},
            f"{len(files.records)} records with checksums={asked}",
            f"{sorted(found)}",
        )


@_CHECKS("file")
def _file(files: _FormatFiles) -> None:
    """one file that was written gives the records with their types

    Let the source give back what the encoder took, or give check_format records as the source gives them.
    """
    files.compare(files.file, "from the file that was written")


@_CHECKS("list")
def _list(files: _FormatFiles) -> None:
    """a list of files gives the records of each in order

    Let the source take a list of paths, a pattern or one path; the format of a source of one file has one_file=True.
    """
    files.compare(files.files, "from the list of files that were written")


@_CHECKS("folder")
def _folder(files: _FormatFiles) -> None:
    """a folder of files gives the records of each in order

    Let `folder` be true only for a folder that is one data set, whose path the source takes.
    """
    files.compare(os.path.dirname(files.files[0]), "from the folder that was written")


@_CHECKS("first bytes")
def _first_bytes(files: _FormatFiles) -> None:
    """a file whose name says nothing is known by its first bytes

    Let `begins` look for what each file of the format begins with, and no other; without one leave it None.
    """
    begins = files.format.begins
    if begins is None:
        raise Skip("the format has no begins")
    shutil.copy(files.file, files.path("nameless"))
    with open(files.path("nameless"), "rb") as file:
        begin = file.read(registry.SNIFFED_BYTES)
    expect(bool(begins(begin)), "begins(...) to be true of a file that was written", "False")
    for other, what in ((b"", "of no bytes"), (bytes(len(begin)), "of zeros")):
        expect(not begins(other), f"begins(...) to be false {what}", "True")
    files.compare(files.path("nameless"), "from a file without an extension")


@_CHECKS("source")
def _source(files: _FormatFiles) -> None:
    """the source of these files passes check_source, also in a worker process

    Run check_source(lk.open(path)) alone, until it passes.
    """
    with _opened(files.files) as source:
        files.pickled_bytes = check_source(source, progress=False).pickled_bytes
