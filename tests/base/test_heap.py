"""Memory that is freed stays in the process, so that the next batch costs no page faults."""

import platform
import subprocess
import sys

import pytest

CODE = """
import resource
from loaderkit._base.system.heap import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    batch = [b'x' * (100_000 + k) for k in range(256)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults(), faults()
before = faults()
keep_freed_memory()
faults(), faults()
print(before, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_a_batch_is_made_in_the_memory_of_the_one_before():
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60
    )
    before, after = map(int, done.stdout.split())
    assert after < before / 10
