"""Written files, and indexes of files, are byte by byte what they were: tests/golden/files/written.json has the sha256.

An index has the absolute names of its files, which differ here: of an index it is the sha256 of the rest of its header,
with the checksum of each other section.

To add a format, extend `_written` or `_TEXTS` and run this file as a program: it adds what is missing, and changes no
entry that is there.
"""

import hashlib
import json
import os
import sys
import tempfile
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk
from loaderkit import cli
from loaderkit.formats import registry
from loaderkit.formats._writing.write_format import write_format

GOLDEN = Path(__file__).parents[1] / "golden" / "files" / "written.json"
RECORDS = [
    {
        "__key__": f"r{k:03d}",
        "x": np.arange(k, k + 4, dtype=np.int32),
        "y": k / 8,
        "cls": k % 3,
        "txt": f"line {k}\n",
    }
    for k in range(7)
]
TOKENS = [{"tokens": np.arange(k % 5 + 1, dtype=np.uint16)} for k in range(7)]
# Without pictures, which another version of Pillow may encode in another way.
BY_EXTENSION = [
    {"npy": np.arange(k, k + 4), "cls": k, "txt": "é", "json": [k], "bin": b"\0"} for k in range(7)
]
OTHERS = {"tokens": TOKENS, "webdataset": BY_EXTENSION}


def _frame(text: bytes) -> bytes:
    """A frame of zstd with the text as it is, the same in all versions of the library."""
    return b"\x28\xb5\x2f\xfd\x20" + bytes([len(text)]) + (len(text) << 3 | 1).to_bytes(3, "little") + text


# Files of formats that are read and not written.
_TEXTS = {
    "plain.txt": b"one\ntwo\n\nfour",
    "table.csv": b'a,b\n1,"x\ny"\n2,z\n',
    "table.tsv": b"a\tb\n1\tx\n",
    "frames.txt.zst": _frame(b"one\ntw") + _frame(b"o\n\nfour"),
}
_INDEXED = ("tar", "tfrecord", "jsonl", "jsonl.zst")


def _write(name: str, folder: Path) -> None:
    """Writes two shards, and the indexes of formats that have them: of places alone, and of all an index may have."""
    if name == "megatron":
        lk.write(TOKENS, folder / name / "of.idx")
        return
    lk.write(OTHERS.get(name, RECORDS), folder / name, format=name, shards=2)
    for index in (folder / name).glob("*.lkx"):  # has the times of the files
        index.unlink()
    shards = sorted(path for path in (folder / name).iterdir() if path.name != "made.json")
    _index(name, shards, folder / name)


def _write_texts(folder: Path) -> None:
    folder.mkdir()
    for name, text in _TEXTS.items():
        path = folder / name
        path.write_bytes(text)
        _index("", [path], folder, path.name)


def _index(name: str, shards: list[Path], folder: Path, prefix: str = "of") -> None:
    for path in shards:
        os.utime(path, ns=(10**18, 10**18))
    if name in _INDEXED or not name:
        for kind, options in {"plain": [], "full": ["--keys", "--crc"]}.items():
            if kind == "full" and name != "tar":
                options = ["--crc"]
            output = str(folder / f"{prefix}.{kind}.lkx")
            assert cli.main(["index", *options, "-p", "0", "-o", output, *map(str, shards)]) == 0


def _version(library: str) -> str:
    module = import_module(library)
    return getattr(module, "zstd_version", None) or version(library)


def _digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(
            _without_names(path) if path.suffix == ".lkx" else path.read_bytes()
        ).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "made.json"
    }


def _without_names(path: Path) -> bytes:
    content = path.read_bytes()
    assert content[:8] == b"LKINDEX1"
    header = json.loads(content[16 : 16 + int.from_bytes(content[8:16], "little")])
    for field in ("digest", "file_bytes"):
        del header[field]
    for section in header["sections"]:
        del section["offset"]
    header["sections"] = [each for each in header["sections"] if not each["name"].startswith("shard_name")]
    assert {"starts", "shard_end"} <= {each["name"] for each in header["sections"]}, header["sections"]
    return json.dumps(header, sort_keys=True).encode()


@pytest.mark.parametrize("name", sorted(registry.writable()))
def test_files_and_indexes_have_the_bytes_they_had(name: str, tmp_path: Path) -> None:
    """A write of the same records gives the same bytes in every release, and so does the index of its files."""
    golden = json.loads(GOLDEN.read_text())
    for library in write_format(name).libraries:
        if _version(library) != golden["libraries"].get(library):
            pytest.skip(f"the bytes are those of {library} {golden['libraries'].get(library)}")
    _write(name, tmp_path)
    assert _digests(tmp_path) == {k: v for k, v in golden["sha256"].items() if k.startswith(f"{name}/")}


def test_indexes_of_texts_have_the_bytes_they_had(tmp_path: Path) -> None:
    """Indexes of lines and of tables, quoted newlines included, are the same bytes in every release."""
    golden = json.loads(GOLDEN.read_text())
    _write_texts(tmp_path / "texts")
    assert _digests(tmp_path) == {k: v for k, v in golden["sha256"].items() if k.startswith("texts/")}


def _main() -> None:
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {"libraries": {}, "sha256": {}}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in registry.writable():
            _write(name, folder)
            for library in write_format(name).libraries:
                golden["libraries"].setdefault(library, _version(library))
        _write_texts(folder / "texts")
        golden["sha256"] = _digests(folder) | golden["sha256"]
    GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(_main())
