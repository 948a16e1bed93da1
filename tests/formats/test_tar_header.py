"""Numbers and checksums of tar headers: tarfile's, GNU tar's large ones, signed sums; members beyond 8 GiB."""

import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._codecs.scan import Malformed
from loaderkit.formats.tar.header import checksums_hold, number
from loaderkit.formats.tar.scanner import TarFormat

GIB = 1 << 30


@given(st.integers(0, 2**62))
def test_numbers(value):
    """Octal up to 8 GiB, base 256 beyond, as GNU tar writes them."""
    field = tarfile.itn(value, 12, tarfile.GNU_FORMAT)
    assert number(field) == value == tarfile.nti(field)


@pytest.mark.parametrize("field", [b"0000009\0", b"-000001\0", b"\xff" * 8, b"\x81" * 12, b"abc\0\0\0\0\0"])
def test_no_numbers(field):
    with pytest.raises(ValueError):
        number(field)


@given(
    st.binary(min_size=1, max_size=99),
    st.booleans(),
    st.sampled_from([b"%06o\0 ", b"%07o\0", b"%7o ", b"%06o \0"]),
)
def test_checksums(name, signed, written):
    """Sums of unsigned bytes, and of signed ones as old programs made them, in any form of a number."""
    header = bytearray(name.ljust(512, b"\0"))
    header[148:156] = b" " * 8
    total = max(0, sum(header) - (256 * sum(byte > 127 for byte in name) if signed else 0))
    header[148:156] = (written % total).ljust(8, b"\0")
    expected = total in tarfile.calc_chksums(bytes(header))
    assert (
        checksums_hold(np.frombuffer(bytes(header) * 2, np.uint8).reshape(2, 512)).tolist() == [expected] * 2
    )
    header[0] ^= 1
    assert not checksums_hold(np.frombuffer(bytes(header), np.uint8).reshape(1, 512)).all()


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_beyond_8_gib(form):
    """Their values aren't read, and blocks beyond 2**32 are numbered."""
    sizes = [9 * GIB, 3 << 40, 1]
    pieces, at = {}, 0
    for place, size in enumerate(sizes):
        info = tarfile.TarInfo(f"{place}.bin")
        info.size = size
        pieces[at] = info.tobuf(form)
        at += len(pieces[at]) + (size + 511) // 512 * 512
    pieces[at] = bytes(1024)
    asked = []

    def read(offset: int, length: int) -> bytes:
        asked.append(length)
        out = bytearray(min(length, at + 1024 - offset))
        for begin, piece in pieces.items():
            for place, byte in enumerate(piece, begin - offset):
                if 0 <= place < len(out):
                    out[place] = byte
        return bytes(out)

    scan = TarFormat().scan(read, at + 1024, keys=True)
    assert scan.keys == ("0", "1", "2")
    assert scan.members is not None
    assert scan.members.size.tolist() == sizes
    assert int(scan.starts[-1]) * 512 == at
    assert sum(asked) < 1 << 20


def test_a_pax_header_that_never_ends():
    """A header of 8 TiB is an error, and isn't read."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 43
    data = info.tobuf(tarfile.GNU_FORMAT)
    with pytest.raises(Malformed, match=r"extended header of at most"):
        TarFormat().scan(lambda offset, length: data[offset : offset + length].ljust(length, b"\0"), 1 << 44)


def test_a_global_header_with_a_path():
    """It would name every member behind it, of which a record's own bytes say nothing."""
    data = (
        tarfile.TarInfo.create_pax_global_header({"path": "a.jpg"})
        + tarfile.TarInfo("b.jpg").tobuf()
        + bytes(1024)
    )
    with pytest.raises(Malformed, match=r"at byte 0: expected a global header without path"):
        TarFormat().scan(lambda offset, length: data[offset : offset + length], len(data))
