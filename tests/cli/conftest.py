"""Data files for the commands, and the command in this process."""

import json

import pytest
from small_archives import tar_of

from loaderkit.cli import main


class Ran:
    """What a command printed, and its exit status."""

    def __init__(self, status, out, err):
        self.status, self.raw, self.err = status, out, err.decode()

    @property
    def out(self):
        """What it wrote to stdout, as text."""
        return self.raw.decode()

    @property
    def documents(self):
        """The lines of --json."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def loaderkit(capfdbinary):
    """Runs `loaderkit ARGUMENTS` in this process."""

    def run(*arguments):
        try:
            status = main([str(each) for each in arguments])
        except SystemExit as left:
            status = left.code
        out, err = capfdbinary.readouterr()
        return Ran(int(status), out, err)

    return run


@pytest.fixture
def records(tmp_path):
    """Two ArrayRecord files with 3 and 5 records."""
    from array_record.python.array_record_module import ArrayRecordWriter

    for shard, count in enumerate((3, 5)):
        writer = ArrayRecordWriter(str(tmp_path / f"x-{shard}.array_record"), "group_size:1")
        for place in range(count):
            writer.write(f"record {shard}.{place}".encode() * (1 + 10 * place))
        writer.close()
    return tmp_path


@pytest.fixture
def tars(tmp_path, monkeypatch):
    """Three archives with 20 records each, in the current folder; gives their names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for shard in range(3):
        keys = range(20 * shard, 20 * shard + 20)
        tar_of(
            f"x-{shard:03d}.tar",
            [(f"{key:06d}", {"cls": b"%d" % (key % 3), "txt": b"t" * (key + 1)}) for key in keys],
        )
    return "x-{000..002}.tar"
