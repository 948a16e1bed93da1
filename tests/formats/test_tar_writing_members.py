"""Members of tar archives as bytes: what Python's tarfile and GNU tar read, and nothing that changes with the run."""

import io
import subprocess
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit.formats.tar.encoding import END_MARK, headers, member

NAMES = [
    b"a.x",
    b"n" * 98 + b".x",
    b"n" * 99 + b".x",
    b"d/" * 70 + b"a.x",
    b"d" * 155 + b"/" + b"n" * 98 + b".x",
    b"d" * 156 + b"/" + b"n" * 98 + b".x",
    b"n" * 200 + b".x",
    "é/ü.x".encode(),
    b"\xff/a.x",
]


def archive(members):
    return b"".join(part for name, data in members for part in member(name, data)) + END_MARK


def opened(data):
    return tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape")


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_as_tarfile_reads_them(name):
    """Short, split at a folder, or in a pax header."""
    with opened(archive([(name, b"value")])) as archived:
        (found,) = archived
    assert found.name.encode("utf-8", "surrogateescape") == name
    assert (found.size, found.mode, found.mtime, found.uid, found.gid) == (5, 0o644, 0, 0, 0)
    assert (found.uname, found.gname) == ("", "")
    assert bool(found.pax_headers) == (name.startswith((b"n" * 99, b"d" * 156)))


def test_gnu_tar_reads_them(tmp_path):
    """The same values, and no word of complaint."""
    members = [(name, b"%d" % place * place) for place, name in enumerate(NAMES[:-1])]
    (tmp_path / "x.tar").write_bytes(archive(members))
    subprocess.run(["tar", "-xf", "x.tar"], cwd=tmp_path, check=True, stderr=subprocess.PIPE)
    for name, data in members:
        assert (tmp_path / name.decode()).read_bytes() == data


@pytest.mark.parametrize("size", [8**11 - 1, 8**11, 1 << 40])
def test_sizes_beyond_8_gib(size):
    """From there on a pax header says the size."""
    with opened(b"".join(headers(b"a.x", size))) as found:
        assert found.firstmember.size == size


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.binary(max_size=1200)), max_size=5))
def test_any_names_and_values(members):
    """As tarfile reads them, but for NULs and slashes at the end, which names of members don't have."""
    members = [(name.replace(b"\0", b"0").rstrip(b"/") or b"x", data) for name, data in members]
    with opened(archive(members)) as found:
        assert [
            (each.name.encode("utf-8", "surrogateescape"), found.extractfile(each).read()) for each in found
        ] == members
