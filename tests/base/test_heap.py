"""Memory that a loader's process frees stays there, so that the next batch costs no page faults."""

import os
import platform
import subprocess
import sys

import pytest

CODE = """
import resource
import loaderkit as lk

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    batch = [b"x" * (100_000 + k) for k in range(256)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults(), faults()
before = faults()
with iter(lk.DataLoader(data_source=[1], sampler=lk.SequentialSampler(1), worker_count=0)) as it:
    next(it)
faults(), faults()
print(before, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_a_batch_is_made_in_the_memory_of_the_one_before():
    plain = {
        name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "LD_PRELOAD"))
    }
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=plain, capture_output=True, text=True, check=True, timeout=60
    )
    before, after = map(int, done.stdout.split())
    assert after < before / 10
