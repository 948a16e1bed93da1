"""A format of another package, by its entry point: opened, written, indexed, linted and converted as ours are."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FASTA = '''
"""FASTA: a record is a line with its name, then lines of its sequence."""

import numpy as np

from loaderkit._codecs.checksums import span_checksums
from loaderkit._codecs.scan import Malformed, ShardScan
from loaderkit.formats import Format
from loaderkit.formats.indexed import IndexedDataSource


class Scanner:
    kind, unit = "fasta", 1

    def scan(self, read, size, *, members=True, keys=False, checksums=False):
        data = read(0, size)
        if data[:1] not in (b">", b""):
            raise Malformed(0, f"expected '>', got {data[:1]!r}")
        begins = [k for k in range(size) if data[k : k + 1] == b">" and data[k - 1 : k] in (b"", b"\\n")]
        starts = np.array([*begins, size], np.uint64)
        return ShardScan(starts, checksums=span_checksums(read, starts) if checksums else None)


class FastaDataSource(IndexedDataSource):
    def __init__(self, paths, *, index=None, cache=None, storage_options=None):
        super().__init__(paths, format=Scanner(), index=index, cache=cache, storage_options=storage_options)

    def _decode(self, keys, spans):
        lines = [bytes(span).decode().split() for span in spans]
        return [{"name": first[1:], "sequence": "".join(rest)} for first, *rest in lines]


class Writer:
    def __init__(self, path):
        self.file = open(path, "wb")
        self.nbytes = 0

    def add(self, encoded):
        self.nbytes += self.file.write(encoded)

    def close(self):
        self.file.close()

    abandon = close


class Encoder:
    def encode(self, record, number):
        return f">{record['name']}\\n{record['sequence']}\\n".encode()


class Writing:
    name, extension, libraries = "fasta", "fa", ()

    def encoder(self, first):
        return Encoder()

    def open(self, path, encoder):
        return Writer(path)


FORMAT = Format(
    name="fasta", extensions=("fa", "fasta"), source="bio.fasta:FastaDataSource", scanner="bio.fasta:Scanner",
    writer="bio.fasta:Writing",
)
'''


def install(folder: Path, name: str, module: str, code: str, point: str = "FORMAT") -> None:
    """A package as pip leaves it: its module, and the metadata with an entry point."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / f"{module}.py").write_text(code)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[loaderkit.formats]\n{module} = {name}.{module}:{point}\n")


def run(site: Path, folder: Path, *arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """A Python with this package: the command's arguments, or code."""
    command = ["-c", code] if code else ["-m", "loaderkit", *arguments]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{site}",
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    return subprocess.run(
        [sys.executable, *command],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=120,
    )


def test_commands_read_a_source_with_two_methods(tmp_path):
    """Of a package whose source is no more than a data source has to be, as `lk.open` takes it."""
    code = """
from loaderkit.formats import Format
class Words:
    def __init__(self, paths, storage_options=None):
        self.words = [word for path in paths for word in open(path).read().split()]
    def __len__(self):
        return len(self.words)
    def __getitem__(self, key):
        return {"word": self.words[key]}
FORMAT = Format(name="words", extensions=("words",), source=Words)
"""
    install(tmp_path / "site", "texts", "words", code)
    (tmp_path / "x.words").write_text("one two three")
    commands = [["show", "-n1"], ["inspect"], ["check"]]
    script = f"from loaderkit.cli import main\nassert [main([*each, 'x.words']) for each in {commands}] == [0, 0, 0]"
    ran = run(tmp_path / "site", tmp_path, code=script)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "one" in ran.stdout and "records  3" in ran.stdout


def test_a_format_of_another_package(tmp_path):
    """All that a format of ours does: two files written and opened, read by a worker, indexed, linted, converted."""
    install(tmp_path / "site", "bio", "fasta", FASTA)
    script = """
import loaderkit as lk
records = [{"name": f"r{k}", "sequence": "ACGT" * (k + 1)} for k in range(5)]
assert __name__ == "__main__"
lk.write(records, "one.fa")
files = lk.write(records, "folder", format="fasta", shards=2)
for what in ("one.fa", "folder", files, "folder/*.fa"):
    with lk.open(what) as source:
        assert list(source) == records, what
with lk.DataLoader(data_source=lk.open("folder"), sampler=lk.SequentialSampler(5), worker_count=1) as loader:
    assert list(loader) == records
assert "fasta" in lk.formats.registry.names()
"""
    ran = run(tmp_path / "site", tmp_path, code=script)
    assert (ran.returncode, ran.stderr) == (0, "")
    for arguments, expected in [
        (["index", "--json", "one.fa"], {"records": 5, "format": "fasta"}),
        (["inspect", "--json", "one.fa"], {"records": 5, "format": "fasta"}),
        (["check", "--json", "one.fa"], {"records": 5}),
        (["convert", "--json", "one.fa", "x.jsonl"], {"records_read": 5, "format": "jsonl"}),
        (["convert", "--json", "x.jsonl", "back.fasta"], {"records_read": 5, "format": "fasta"}),
    ]:
        ran = run(tmp_path / "site", tmp_path, *arguments)
        assert ran.returncode == 0, (arguments, ran.stdout, ran.stderr)
        said = json.loads(ran.stdout)
        assert {key: said.get(key) for key in expected} == expected, (arguments, said)
    assert (tmp_path / "back.fasta").read_bytes() == (tmp_path / "one.fa").read_bytes()


OPEN = """
import warnings
import loaderkit as lk
open("x.fa", "w").write(">a\\nACGT\\n")
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    try:
        print(type(lk.open("x.fa")).__name__)
    except Exception as error:
        print(type(error).__name__, error)
print(*(each.message for each in found))
"""


@pytest.mark.parametrize(
    ("code", "point", "text"),
    [
        ("raise RuntimeError('no GPU')", "FORMAT", "importing bio.fasta:FORMAT raised RuntimeError: no GPU"),
        ("import nothing_of_this_name", "FORMAT", "raised ModuleNotFoundError: No module named"),
        ("FORMAT = 'fasta'", "FORMAT", "expected a Format or a tuple of them at bio.fasta:FORMAT, got a str"),
        ("", "FORMAT", "raised AttributeError"),
    ],
)
def test_a_package_that_cannot_be_used_is_a_warning(tmp_path, code, point, text):
    """It names the package and what to do; files of our formats open without asking it."""
    install(tmp_path / "site", "bio", "fasta", code, point)
    ran = run(tmp_path / "site", tmp_path, code=OPEN)
    assert ran.returncode == 0, ran.stderr
    # A text file by its bytes: its extension is no format's.
    assert ran.stdout.startswith("FileNotFoundError") or "DataSource" in ran.stdout.splitlines()[0]
    assert "the format fasta of the package bio can't be used" in ran.stdout and text in ran.stdout


def test_two_packages_with_one_format(tmp_path):
    """Neither is taken for its files: the error names both. Other files open as without the packages."""
    install(tmp_path / "site", "bio", "fasta", FASTA)
    install(tmp_path / "site", "genes", "fasta", FASTA.replace("bio.fasta", "genes.fasta"))
    ran = run(tmp_path / "site", tmp_path, code=OPEN)
    assert ran.stdout.startswith("ValueError format: expected a new name, got 'fasta' of the package"), (
        ran.stdout
    )
    assert "bio" in ran.stdout and "genes" in ran.stdout and "or remove one of the packages" in ran.stdout
    (tmp_path / "readme").write_text("a line\n")
    for what in ("lk.open('readme')[0]", "len(registry.names()) > 9"):
        ran = run(
            tmp_path / "site",
            tmp_path,
            code=f"import loaderkit as lk\nfrom loaderkit.formats import registry\nprint({what})",
        )
        assert (ran.stdout.strip(), ran.stderr) in (("a line", ""), ("True", "")), ran


def test_a_slow_package_is_named(tmp_path):
    """In the log, while the import goes on: a program that seems to hang says what it waits for."""
    slow = "import time\n" + "ended = time.monotonic() + 1.0\nwhile time.monotonic() < ended: pass\n" + FASTA
    install(tmp_path / "site", "bio", "fasta", slow)
    code = "import loaderkit.formats.registry as r\nr._SLOW_SECONDS = 0.2\n" + OPEN
    ran = run(tmp_path / "site", tmp_path, code=code)
    assert "FastaDataSource" in ran.stdout
    assert "importing the format fasta of the package bio has taken" in ran.stderr


def test_our_formats_ask_no_package(tmp_path):
    """A package that can't be imported costs a user of our formats nothing."""
    install(tmp_path / "site", "bio", "fasta", "raise SystemExit('asked')")
    code = """
import loaderkit as lk
lk.write([{"a": 1}], "x.jsonl")
print(len(lk.open("x.jsonl")), len(lk.load([{"text": "a.b"}, {"text": "c.d"}], num_epochs=1, batch_size=2)))
lk.load(["a sentence. another"])
"""
    ran = run(tmp_path / "site", tmp_path, code=code)
    assert (ran.stdout, ran.returncode) == ("1 1\n", 0), ran.stderr
