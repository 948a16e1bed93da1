"""A script: runs a loader in children of its own, each with one limit of the system at one value, and prints what came.

    limit_scan.py LIMIT KIND VALUES...

LIMIT is "threads" (RLIMIT_NPROC; as root only) or "memory" (RLIMIT_AS), a value is what is left below the limit: tasks,
or bytes. KIND is "inline", "thread" or "process", with "+reads" for threads that read. A line for each value, in JSON:
the value, "right" or the error's text, what was left open, and what a loader gave that was made with the limit lifted.
"""

import ctypes
import gc
import json
import os
import resource
import select
import signal
import sys
import threading
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np

import loaderkit as lk

WITHIN_S = 60.0  # for one value
RECORDS = 40
LIMITS = {"threads": resource.RLIMIT_NPROC, "memory": resource.RLIMIT_AS}
NOBODY_ELSE = 54321  # a user with no other process: the kernel counts them by user
READS_ALL = 1 << 1 | 1 << 2  # the capabilities to read root's files


def row(x):
    return {"key": x, "x": np.full(50, x, np.float32)}


def loader(kind):
    name, _, reads = kind.partition("+")
    return lk.DataLoader(
        data_source=list(range(RECORDS)),
        sampler=lk.SequentialSampler(RECORDS),
        operations=[row, lk.Batch(4)],
        worker_count=0 if name == "inline" else 2,
        worker_kind="process" if name == "inline" else name,
        read_options=lk.ReadOptions(num_threads=3 if reads else 0),
    )


def whole(batches):
    keys = [key for batch in batches for key in batch["key"].tolist()]
    return "right" if keys == [*range(RECORDS)] else f"wrong: {keys}"


def looked():
    return sorted(os.listdir("/proc/self/fd")), threading.active_count()


def as_another_user():
    """Root is above the limit. Its right to read files is kept: the interpreter may lie in its home."""
    libc = ctypes.CDLL(None)
    libc.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
    os.setresgid(NOBODY_ELSE, NOBODY_ELSE, NOBODY_ELSE)
    os.setresuid(NOBODY_ELSE, NOBODY_ELSE, NOBODY_ELSE)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    libc.capset(header, (ctypes.c_uint32 * 6)(READS_ALL, READS_ALL, READS_ALL, 0, 0, 0))
    for capability in (1, 2):
        libc.prctl(47, 2, capability, 0, 0)  # PR_CAP_AMBIENT_RAISE: programs that are started have it too


def used(limit):
    if limit == "threads":
        as_another_user()
        return len(os.listdir("/proc/self/task"))
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def child(limit, kind, left):
    whole(loader("inline"))  # all is imported
    before = looked()
    what = LIMITS[limit]
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (used(limit) + left, hard))
    limited = None
    try:
        limited = loader(kind)
        came = whole(limited)
    except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
        came = "; ".join((str(error), *getattr(error, "__notes__", ())))
    if limited is not None:
        limited.close()
    resource.setrlimit(what, (hard, hard))
    limited = None
    gc.collect()
    after = looked()
    with loader(kind) as again:
        return [left, came, [] if after == before else [before, after], whole(again)]


def line_of(limit, kind, left):
    out, back = os.pipe()
    pid = os.fork()
    if not pid:
        os.setsid()
        try:
            os.write(back, json.dumps(child(limit, kind, left)).encode())
        finally:
            sys.stderr.flush()
            os._exit(0)
    os.close(back)
    watch = os.pidfd_open(pid)
    if not select.select([watch], [], [], WITHIN_S)[0]:
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    line = os.read(out, 1 << 16).decode()
    os.close(out)
    os.close(watch)
    return line or json.dumps([left, "it hung or died", [], ""])


if __name__ == "__main__":
    _, limit, kind, *values = sys.argv
    for value in values:
        print(line_of(limit, kind, int(value)), flush=True)
