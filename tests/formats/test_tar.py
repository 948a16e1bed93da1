"""Tar archives by key: the same records as webdataset and tarfile read, whatever wrote the archive."""

import gzip
import io
import itertools
import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._codecs.scan import Malformed, ShardScan
from loaderkit.formats.tar.record import plain_keys
from loaderkit.formats.tar.scanner import TarFormat

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "pax": tarfile.PAX_FORMAT, "gnu": tarfile.GNU_FORMAT}


def archive_of(members, form="pax", **info):
    """The bytes of an archive by tarfile; members: (name, value) or (TarInfo, value)."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=FORMATS[form], errors="surrogateescape") as archive:
        for name, value in members:
            member = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            for field, given_value in info.items():
                setattr(member, field, given_value)
            if member.isreg():
                member.size = len(value)
            archive.addfile(member, io.BytesIO(value))
    return file.getvalue()


def scan_of(data: bytes, **options) -> ShardScan:
    return TarFormat().scan(lambda offset, length: data[offset : offset + length], len(data), **options)


def records_of(data: bytes) -> list[dict]:
    """The records of an archive, as the scan says where they lie."""
    scan = scan_of(data, keys=True)
    members = scan.members
    assert len(scan.starts) == len(scan.keys) + 1 == len(members.first)
    records = []
    for record, key in enumerate(scan.keys):
        values = {"__key__": key}
        for place in range(members.first[record], members.first[record + 1]):
            begin = int(members.block[place]) * 512
            size = int(members.size[place])
            assert scan.starts[record] * 512 < begin
            assert begin + size <= scan.starts[record + 1] * 512 <= len(data)
            values[scan.fields[members.field[place]]] = data[begin : begin + size]
        records.append(values)
    return records


def webdataset_records(data: bytes) -> tuple[list[dict], list[str]]:
    """The samples, and the keys of all groups, those included that webdataset drops."""
    from webdataset import tariterators  # not above: it imports torch, where tests are only collected, too

    files = list(tariterators.tar_file_expander([{"url": "", "stream": io.BytesIO(data)}]))
    keys = [tariterators.base_plus_ext(file["fname"])[0] for file in files if file]
    groups = [key for key, _ in itertools.groupby(key for key in keys if key is not None)]
    samples = tariterators.group_by_keys(files)
    return [{field: sample[field] for field in sample if field != "__url__"} for sample in samples], groups


def tarfile_members(data: bytes) -> list[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [(member.name, archive.extractfile(member).read()) for member in archive if member.isreg()]


PARTS = st.text(st.sampled_from("ab0./_ é\n\udce9X"), min_size=1, max_size=8)
NAMES = st.one_of(
    st.builds("{}/{}".format, PARTS, PARTS),
    st.builds(
        "{:03d}.{}".format, st.integers(0, 3), st.sampled_from(["jpg", "JPG", "cls", "a.b", "", "__bad__"])
    ),
    st.builds(lambda part, n: part * n, PARTS, st.integers(1, 60)),
)
"""Names with folders, several dots, none, upper case, bytes that aren't UTF-8, and more than 100 characters."""


@given(
    st.lists(st.tuples(NAMES, st.binary(max_size=3)), max_size=8),
    st.sampled_from(["pax", "gnu"]),
    st.booleans(),
)
def test_the_same_records_as_webdataset(members, form, fractional):
    data = archive_of(members, form, **({"mtime": 1.5} if fractional else {}))
    try:
        expected, groups = webdataset_records(data)
    except ValueError:  # a duplicate
        with pytest.raises(Malformed, match=r"each field once|no field|loaderkit convert --by __key__"):
            records_of(data)
        return
    if len(set(groups)) < len(groups):
        with pytest.raises(Malformed, match="loaderkit convert --by __key__"):
            records_of(data)
        return
    assert records_of(data) == expected


@pytest.mark.parametrize(("mark", "kept"), [(b"", True), (b"no", False)])
def test_a_record_that_its_writer_called_bad_is_left_out(mark, kept):
    """As webdataset does, where the mark isn't empty."""
    records = records_of(archive_of([("0.jpg", b"x"), ("0.__bad__", mark), ("1.jpg", b"y")]))
    assert [record["__key__"] for record in records] == (["0", "1"] if kept else ["1"])


SHARD = archive_of(
    [("0.jpg", b"x" * 700), ("0.cls", b"7"), ("folder/" * 20 + "1.jpg", b"y" * 3), ("2.jpg", b"")], mtime=1.5
)


@given(st.integers(0, len(SHARD) - 1))
def test_a_truncated_archive(length):
    """An error with a place in the file, or the whole archive where only zeros behind its end mark are gone."""
    end = len(SHARD.rstrip(b"\0"))
    end += -end % 512 + 512
    if length >= end:
        assert records_of(SHARD[:length]) == records_of(SHARD)
        return
    with pytest.raises(Malformed, match=r"truncated|tar header") as caught:
        records_of(SHARD[:length])
    assert 0 <= caught.value.offset <= length
    assert caught.value.remedy


@given(st.lists(st.tuples(st.integers(0, len(SHARD) - 1), st.integers(0, 255)), max_size=4), st.booleans())
def test_a_damaged_archive(changes, sums_kept):
    """Any bytes end in Malformed or in the records that tarfile finds, never in another exception."""
    data = bytearray(SHARD)
    for place, value in changes:
        data[place] = value
    if sums_kept:
        for at in range(0, len(data), 512):
            if data[at + 257 : at + 262] == b"ustar":
                data[at + 148 : at + 156] = b" " * 8
                data[at + 148 : at + 155] = b"%06o\0" % sum(data[at : at + 512])
    try:
        records = records_of(bytes(data))
    except Malformed:
        return
    try:
        expected = webdataset_records(bytes(data))[0]
    except tarfile.TarError:  # of a header's other fields, which we don't read
        assert sums_kept
        return
    if sums_kept and len(expected) < len(records):  # tarfile stops at such a header without a word
        expected.pop()
        del records[len(expected) :]
    assert records == expected


@given(st.binary(max_size=2000))
def test_bytes_that_are_no_archive(data):
    with pytest.raises(Malformed):
        records_of(data) if data.strip(b"\0") else records_of(b"")


def test_joined_by_cat():
    with pytest.raises(Malformed, match=r"behind the end mark.*tar --concatenate"):
        records_of(archive_of([("0.jpg", b"")]) + archive_of([("1.jpg", b"")]))


def test_another_format():
    with pytest.raises(
        Malformed, match=r"got b'<html>404</h'; if it is a tar archive at all, .*; else use the source"
    ):
        records_of(b"<html>404</html>" * 64)


def test_compressed():
    with pytest.raises(Malformed, match=r"compressed by gzip; unpack it once: `gzip -dc SHARD > NEW.tar`"):
        records_of(gzip.compress(SHARD))


def test_names_that_hold_no_key():
    """Alone and beside others: the record's bytes are parsed then."""
    heads = []
    for name in (b"./.jpg", b"./a.jpg"):
        header = tarfile.TarInfo(name.decode()).tobuf(tarfile.USTAR_FORMAT)
        heads.append(header)
    sizes = np.zeros(2, np.int64)
    assert plain_keys(heads, [0, 1], sizes, [b"jpg"] * 2, 2) == [None, "./a"]
    assert plain_keys(heads[:1] * 2, [0, 1], sizes, [b"jpg"] * 2, 2) == [None, None]


def test_an_extended_header_without_a_member():
    """The end mark behind it is an error at its place."""
    header = tarfile.TarInfo("k" * 150 + ".jpg").tobuf(tarfile.PAX_FORMAT)
    whole = archive_of([("a.jpg", b"1")])
    data = whole[:1024] + header[:-512] + bytes(1024)
    with pytest.raises(
        Malformed, match="at byte 1024: expected a member behind the extended header, got none"
    ):
        scan_of(data)
