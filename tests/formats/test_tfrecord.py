"""TFRecord: the scan finds the records that were written, and nothing in other bytes."""

import gzip
import struct
import sys
import zlib
from itertools import accumulate, pairwise

import numpy as np
import pytest
from formats.records import read_of, tfrecord
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._codecs.checksums import (
    all_masked,
    crc32c_of_integer,
    crc32c_of_integers,
    data_crc32c,
    masked,
    span_checksums,
)
from loaderkit._codecs.scan import Malformed, ShardScan
from loaderkit.formats.tfrecord import scanner as module
from loaderkit.formats.tfrecord.scanner import TFRecordFormat, data_of

RECORDS = st.lists(st.binary(max_size=40), max_size=30)


def scan(data: bytes, **how: bool) -> ShardScan:
    return TFRecordFormat().scan(read_of(data), len(data), **how)


def spans(data: bytes) -> list[bytes]:
    return [data[begin:end] for begin, end in pairwise(scan(data).starts.tolist())]


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_checksums_of_integers_are_those_of_the_library(values):
    """The tables against google_crc32c, one and many, masked and not."""
    crcs = crc32c_of_integers(np.array(values, np.uint64))
    assert crcs.tolist() == [data_crc32c()(struct.pack("<Q", value)) for value in values]
    assert crcs.tolist() == [crc32c_of_integer(value) for value in values]
    assert all_masked(crcs).tolist() == [masked(crc) for crc in crcs.tolist()]


@given(RECORDS, st.integers(12, 200))
def test_records_come_back(records, window):
    """Any records, windows of any size, with their checksums."""
    data = tfrecord(records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PAGE", window)
        found = scan(data, checksums=True)
        assert [data_of(span, verify=True) for span in spans(data)] == records
    assert found.starts.tolist() == [0, *accumulate(len(record) + 16 for record in records)]
    assert found.checksums.tolist() == [data_crc32c()(span) for span in spans(data)]


def test_large_records_are_jumped_over():
    """The scan reads a page a record of them, and windows where small ones follow."""
    records = [bytes(100_000)] * 20 + [b"small"] * 20_000
    data, read = tfrecord(records), 0

    def counting(at: int, length: int) -> bytes:
        nonlocal read
        read += length
        return data[at : at + length]

    starts = TFRecordFormat().scan(counting, len(data)).starts
    assert np.diff(starts.astype(np.int64)).tolist() == [len(record) + 16 for record in records]
    assert read < 20_000 * 21 + 22 * 4096 + 2**20


@given(RECORDS.filter(len), st.data())
def test_a_truncated_file_is_malformed_at_the_cut_record(records, data):
    """At any byte but the end of a record."""
    whole = tfrecord(records)
    ends = [0, *accumulate(len(record) + 16 for record in records)]
    cut = data.draw(st.integers(0, len(whole)))
    if cut in ends:
        assert scan(whole[:cut]).starts.tolist() == ends[: ends.index(cut) + 1]
        return
    with pytest.raises(Malformed, match="truncated") as raised:
        scan(whole[:cut])
    assert raised.value.offset == max(end for end in ends if end < cut)


@given(RECORDS.filter(len), st.data())
def test_a_damaged_byte_is_found(records, data):
    """In a length or its checksum by the scan, in the data or its checksum with `verify`."""
    whole = bytearray(tfrecord(records))
    starts = scan(bytes(whole)).starts.tolist()
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= 1 << data.draw(st.integers(0, 7))
    record = max(k for k, start in enumerate(starts[:-1]) if start <= place)
    if place - starts[record] < 12:
        with pytest.raises(Malformed) as raised:
            scan(bytes(whole))
        assert raised.value.offset == starts[record]
        return
    assert scan(bytes(whole)).starts.tolist() == starts
    span = bytes(whole[starts[record] : starts[record + 1]])
    assert len(data_of(span)) == len(records[record])
    with pytest.raises(Malformed, match="checksum of the data"):
        data_of(span, verify=True)


@given(st.binary(max_size=300))
def test_any_bytes_are_scanned_or_malformed(data):
    """No other exception, no hang; what is scanned are records."""
    try:
        assert all(len(data_of(span)) == len(span) - 16 for span in spans(data))
    except Malformed as error:
        offset = error.offset
    else:
        offset = 0
    assert 0 <= offset <= len(data)


@given(st.binary(max_size=60))
def test_a_span_of_other_bytes_is_malformed(span):
    """An index that lies doesn't give another record."""
    if len(span) >= 16 and struct.unpack_from("<Q", span)[0] == len(span) - 16:
        assert data_of(span) == span[12:-4]
    else:
        with pytest.raises(Malformed, match="length"):
            data_of(span)


@pytest.mark.parametrize(
    ("compressed", "command"),
    [(gzip.compress(b"x" * 100, mtime=0), "gzip -d"), (zlib.compress(b"x" * 100), "pigz -dz")],
)
def test_compressed_files_are_refused(compressed, command):
    """With the command that unpacks them."""
    with pytest.raises(Malformed, match=command) as raised:
        scan(compressed)
    assert raised.value.offset == 0


def test_a_length_that_begins_like_gzip_is_a_length():
    """35,615 bytes: its first two bytes are gzip's."""
    assert spans(tfrecord([bytes(0x8B1F)]))[0].startswith(b"\x1f\x8b")


def test_without_the_library_only_checksums_of_data_fail(monkeypatch):
    """And the error names the extra."""
    data = tfrecord([b"one", b"two"])
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    assert scan(data).starts.tolist() == [0, 19, 38]
    assert data_of(data[:19]) == b"one"
    for checked in (lambda: data_of(data[:19], verify=True), lambda: scan(data, checksums=True)):
        with pytest.raises(ImportError, match=r"pip install '\.\[tfrecord\]'"):
            checked()


def test_a_record_without_data_is_verified_too():
    damaged = tfrecord([b""])[:-1] + b"\xff"
    with pytest.raises(Malformed, match="the checksum of the data is wrong"):
        data_of(damaged, verify=True)


@given(st.lists(st.binary(max_size=20), max_size=10), st.integers(1, 30), st.sampled_from([1, 4]))
def test_checksums_of_spans(records, window, unit):
    """Windows of any size, spans over several of them, units of more than a byte."""
    records = [record + bytes(-len(record) % unit) for record in records]
    data = bytes(unit) + b"".join(records)
    starts = np.array([1, *accumulate((len(r) // unit for r in records), initial=1)][1:], np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("loaderkit._codecs.checksums._WINDOW", window)
        checksums = span_checksums(read_of(data), starts, unit)
    assert checksums.tolist() == [data_crc32c()(record) for record in records]
