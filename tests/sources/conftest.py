"""What several of the sources' tests need: real ArrayRecord files, and a real second process."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest
from array_record.python.array_record_module import ArrayRecordWriter

from loaderkit._system import shared_memory as _memory

ROOT = Path(__file__).parents[2]

# Reads the pickled (source, function) as a worker does: descriptors were passed on, its folder is another.
CHILD = """
import pickle, sys
from loaderkit._system import shared_memory as _memory
with _memory.receiving([int(fd) for fd in sys.argv[1:]]):
    source, function = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps(function(source)))
"""


@pytest.fixture
def write_records():
    def write(path, records, options="group_size:1"):
        writer = ArrayRecordWriter(str(path), options)
        for record in records:
            writer.write(record)
        writer.close()
        return str(path)

    return write


@pytest.fixture
def in_child():
    """Calls function(source) in another process, to which the source went as it goes to a worker."""

    def call(source, function):
        with _memory.sending() as descriptors:
            content = cloudpickle.dumps((source, function))
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *map(str, descriptors)],
            input=content,
            capture_output=True,
            pass_fds=descriptors,
            cwd="/",
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return pickle.loads(done.stdout)

    return call
