"""Data files for the commands, and the command in this process."""

import json

import pytest

from loaderkit.cli import main


class Ran:
    """What a command printed, and its exit status."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

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
        return Ran(int(status), out.decode(), err.decode())

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
