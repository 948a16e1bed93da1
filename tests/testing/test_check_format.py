"""`check_format`: formats that are written pass it, and each of its checks finds a format that breaks its rule."""

from dataclasses import replace

import numpy as np
import pytest

import loaderkit as lk
from loaderkit._codecs.checksums import span_checksums
from loaderkit._codecs.scan import ShardScan
from loaderkit.formats import Format, registry
from loaderkit.formats._writing.byte_file import ByteFile
from loaderkit.formats.indexed import IndexedDataSource
from loaderkit.testing import check_format, format_checks

RECORDS = [{"n": k} for k in range(5)]
WHOLE = [{"x": np.arange(k + 1), "t": f"text {k}"} for k in range(5)]
KEPT = {
    "jsonl": [{"n": k, "t": f"text {k}", "x": [k]} for k in range(5)],
    "tar": [{"__key__": f"{k:03d}", "x": np.arange(k, dtype=np.int32)} for k in range(5)],
    "tokens": [{"tokens": np.arange(k + 1, dtype=np.uint16)} for k in range(5)],
}


@pytest.mark.parametrize(
    "name", sorted({*registry.writable()} - {"webdataset", "megatron"})
)  # tar; two files
def test_our_formats_keep_their_rules(name):
    """All that are written; what is skipped is what the format hasn't."""
    form = registry.of_name(name)
    report = check_format(form, KEPT.get(name, WHOLE))
    lacks = {"first bytes": form.begins, "scanner": form.scanner}
    assert {check for check, _ in report.skipped} == {check for check, part in lacks.items() if part is None}
    assert len(report.passed) + len(report.skipped) == len([*format_checks._CHECKS])
    assert report.pickled_bytes


# --- a format of numbers: a record is a line "n=5" -------------------------------------------------------------------


class Scanner:
    kind, unit = "numbers", 1

    def scan(self, read, size, *, members=True, keys=False, checksums=False):
        data = read(0, size)
        starts = np.array([0, *(k + 1 for k in range(size) if data[k : k + 1] == b"\n")], np.uint64)
        return ShardScan(starts, checksums=span_checksums(read, starts) if checksums else None)


class TooFewChecksums(Scanner):
    def scan(self, read, size, *, checksums=False, **options):
        scan = super().scan(read, size, checksums=checksums, **options)
        return replace(scan, checksums=scan.checksums[1:]) if checksums else scan


class OneMore(Scanner):
    def scan(self, read, size, **options):
        return ShardScan(np.array([*super().scan(read, size).starts, size], np.uint64))


class Numbers(IndexedDataSource):
    def __init__(self, paths, **options):
        super().__init__(paths, format=Scanner(), **options)

    def _decode(self, keys, spans):
        return [{"n": int(bytes(span)[2:])} for span in spans]


class Floats(Numbers):
    def _decode(self, keys, spans):
        return [{"n": float(record["n"])} for record in super()._decode(keys, spans)]


class OfFirstFile(Numbers):
    def __init__(self, paths, **options):
        super().__init__(paths if isinstance(paths, str) else paths[:1], **options)


class Unpicklable(Numbers):
    def __reduce__(self):
        raise TypeError("a file is open")


class Encoder:
    def encode(self, record, number):
        return f"n={record['n']}\n".encode()


class Writing:
    name, extension, libraries = "numbers", "num", ()

    def encoder(self, first):
        return Encoder()

    def open(self, path, encoder):
        return ByteFile(path)


class OtherName(Writing):
    name = "digits"


class OtherExtension(Writing):
    extension = "number"


GOOD = Format(
    name="numbers",
    extensions=("num", "number"),
    begins=lambda begin: begin.startswith(b"n="),
    source=Numbers,
    scanner=Scanner,
    writer=Writing,
)


@pytest.fixture(autouse=True)
def formats_as_before(monkeypatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_by_name", dict(registry._by_name))
    monkeypatch.setattr(registry, "_by_extension", dict(registry._by_extension))


def test_a_format_of_a_user_passes():
    """As it is, and without what a format may leave out."""
    bare = replace(GOOD, name="bare", extensions=("bare",), begins=None, scanner=None)
    bare = replace(bare, writer=type("Bare", (Writing,), {"name": "bare", "extension": "bare"}))
    for form, skipped in ((GOOD, []), (bare, ["scanner", "first bytes"])):
        lk.formats.register(form)
        report = check_format(form, RECORDS)
        assert [name for name, _ in report.skipped] == skipped


@pytest.mark.parametrize(
    ("wrong", "check", "text"),
    [
        (
            {"writer": OtherName},
            "writer",
            r"expected a writer of \('numbers', 'num'\), got \('digits', 'num'\)",
        ),
        ({"writer": OtherExtension}, "writer", r"got \('numbers', 'number'\)"),
        (
            {"source": Floats},
            "file",
            r"leaf \['n'\] of record_key 0 to be 0 from the file that was written, got 0\.0",
        ),
        (
            {"source": OfFirstFile},
            "list",
            "expected 5 records from the list of files that were written, got 2",
        ),
        ({"folder": lambda path: True}, "folder", "that a folder of files gives the records"),
        ({"begins": lambda begin: begin.startswith(b"m=")}, "first bytes", "true of a file that was written"),
        ({"begins": lambda begin: True}, "first bytes", "to be false of no bytes, got True"),
        ({"begins": lambda begin: begin != b""}, "first bytes", "to be false of zeros, got True"),
        ({"scanner": OneMore}, "scanner", r"expected 5 records with checksums=False, got \[6\]"),
        ({"scanner": TooFewChecksums}, "scanner", r"expected 5 records with checksums=True, got \[4, 5\]"),
        ({"source": Unpicklable}, "source", "'pickled copy'.* got TypeError: a file is open"),
    ],
)
def test_each_check_finds_a_format_that_breaks_its_rule(wrong, check, text):
    """It is the first that fails, and it says what was expected and what came."""
    form = replace(GOOD, **wrong)
    lk.formats.register(form)
    with pytest.raises(lk.errors.ConformanceError, match=text) as error:
        check_format(form, RECORDS)
    assert error.value.check == check


def test_a_format_that_is_not_known():
    """Neither one that wasn't registered, nor one that differs from the one of its name or extension."""
    for form, text in [
        (GOOD, "expected the name 'numbers' to mean this format, got none"),
        (
            replace(GOOD, name="jsonl"),
            "expected the name 'jsonl' to mean this format, got JsonLinesDataSource",
        ),
    ]:
        with pytest.raises(lk.errors.ConformanceError, match=text) as error:
            check_format(form, RECORDS)
        assert error.value.check == "known"


def test_arguments_that_cannot_be_checked():
    """Each with what to give."""
    for form, records, error, text in [
        ("jsonl", RECORDS, TypeError, r"format: expected a Format, got 'jsonl'"),
        (
            registry.of_name("csv"),
            RECORDS,
            ValueError,
            r"format: expected one with a writer, got 'csv'; for a format",
        ),
        (registry.of_name("jsonl"), RECORDS[:1], ValueError, "records: expected two or more, got 1"),
    ]:
        with pytest.raises(error, match=text):
            check_format(form, records)
