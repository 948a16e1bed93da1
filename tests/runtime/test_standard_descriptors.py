"""Programs whose stdin, stdout or stderr is closed: no file of ours gets their numbers, in trainer or worker.

What such a program prints would be written into that file: into batches, messages, states.
"""

import hashlib
import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordWriter
from child_scripts import ENDS_WITHIN, ROOT

import loaderkit as lk

SUBSETS = [subset for size in range(1, 4) for subset in combinations(range(3), size)]
EVERY_CASE = [*((subset, ()) for subset in SUBSETS), *(((), subset) for subset in SUBSETS)]
BY_DAY = [((1,), ()), ((0, 1, 2), ()), ((), (1,))]

# It prints wherever a program can, at each record and at each batch, and writes what it found to a file.
SCRIPT = """
import contextlib, hashlib, json, os, pathlib, sys, traceback
import numpy as np
import loaderkit as lk
from loaderkit._loader.state_files import write_document
from loaderkit._base.system.limits import above_standard

NOISE = "noise " * 700
closed_later = [int(digit) for digit in sys.argv[1]]
written_to = []
sys.excepthook = lambda *error: pathlib.Path("failed").write_text("".join(traceback.format_exception(*error)))
os_write, os_fsync = os.write, os.fsync
os.fsync = lambda file: (written_to.append(file), os_fsync(file))
os.write = lambda file, content: (written_to.append(file), os_write(file, content))[1]

def noisy():
    for noise in (lambda: print(NOISE, flush=True), lambda: print(NOISE, file=sys.stderr, flush=True),
                  lambda: os_write(1, NOISE.encode()), lambda: os_write(2, NOISE.encode()), lambda: os.read(0, 100)):
        with contextlib.suppress(OSError):  # it is closed
            noise()

def links():
    return [os.readlink(f"/proc/self/fd/{n}") for n in range(3) if os.path.lexists(f"/proc/self/fd/{n}")]

def decode(record):
    noisy()
    row = np.frombuffer(record, np.float32)
    if row[0] == 7:
        raise ValueError("seven")
    return {"row": row, "more": np.repeat(row, 5000), "links": str(links())}

def stream(source, close=(), **how):
    loader = lk.DataLoader(data_source=source, sampler=lk.IndexSampler(len(source), shuffle=True, seed=3, num_epochs=1),
                           operations=[decode, lk.Batch(4)], on_record_error="replace", quarantine="quarantine", **how)
    digest, seen = hashlib.sha256(), set()
    with loader, iter(loader) as it:
        for descriptor in close:
            os.close(descriptor)
        for batch in it:
            noisy()
            digest.update(batch["row"].tobytes() + batch["more"].tobytes())
            seen |= {*batch["links"].tolist(), str(links())}
            write_document(pathlib.Path(), it.get_state())
            json.loads(pathlib.Path("process_0-of-1.json").read_bytes())
    told = [json.loads(line)["index"] for line in open("quarantine")]
    os.unlink("quarantine")
    return {"told": told, "digest": digest.hexdigest(), "seen": [*seen]}

files = lk.ArrayRecordDataSource(sys.argv[2] + "/*.array_record")
memory = lk.InMemoryDataSource([np.full(5, k, np.float32).tobytes() for k in range(10)])
mapped = lk.ArrayDataSource(np.load(sys.argv[2] + "/array.npy", mmap_mode="r"))
source = lk.ConcatDataSource([files, memory, mapped])
found = [stream(source, closed_later, worker_count=1), stream(source, worker_count=1, worker_kind="thread"),
         stream(source)]
assert written_to and min(written_to) > 2, written_to  # states and the quarantine file
passing = os.open(os.devnull, os.O_RDONLY)  # as another thread does, which closes it while ours is opened
with above_standard():
    os.close(passing)
    ours = os.open(os.devnull, os.O_RDONLY)
assert ours > 2, ours
pathlib.Path("found").write_text(json.dumps(found))
sys.stdout = sys.stderr = None  # they can't be flushed
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder of a file of records and a file of an array."""
    folder = tmp_path_factory.mktemp("data")
    writer = ArrayRecordWriter(str(folder / "a.array_record"), "group_size:1")
    for k in range(10):
        writer.write(np.full(5, 10 + k, np.float32).tobytes())
    writer.close()
    np.save(folder / "array.npy", np.arange(50, dtype=np.float32).reshape(10, 5))
    return folder


def found(folder: Path, data: Path, cases: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> list[Any]:
    """What the script found in each case, all at once: descriptors closed before its start, and by itself."""
    running = []
    for number, (closed, later) in enumerate(cases):
        (place := folder / str(number)).mkdir()
        (place / "script.py").write_text(SCRIPT)
        closing = " ".join(f"{n}>&-" for n in closed)
        command = ["sh", "-c", f'exec "$0" "$@" {closing}', sys.executable, "script.py"]
        nowhere = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = {"PYTHONPATH": str(ROOT)}
        running.append(
            subprocess.Popen(
                [*command, "".join(map(str, later)), str(data)], cwd=place, env=environment, **nowhere
            )
        )
    try:
        codes = [process.wait(ENDS_WITHIN * 3) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    why = "".join(file.read_text() for file in folder.glob("*/failed"))
    assert codes == [0] * len(cases), f"{cases}\n{why}"
    return [json.loads((folder / str(number) / "found").read_text()) for number in range(len(cases))]


def undisturbed(data: Path) -> str:
    """The digest of the script's batches, made here."""
    kept = [
        *(np.full(5, k, np.float32) for k in range(10, 20)),
        *(np.full(5, k, np.float32) for k in range(10)),
    ]
    records = [*kept, *np.load(data / "array.npy")]

    def decode(row: Any) -> dict[str, Any]:
        if row[0] == 7:
            raise ValueError("seven")
        return {"row": row, "more": np.repeat(row, 5000)}

    loader = lk.DataLoader(
        data_source=records,
        sampler=lk.IndexSampler(len(records), shuffle=True, seed=3, num_epochs=1),
        operations=[decode, lk.Batch(4)],
        on_record_error="replace",
    )
    digest = hashlib.sha256()
    for batch in loader:
        digest.update(batch["row"].tobytes() + batch["more"].tobytes())
    return digest.hexdigest()


@pytest.mark.slow
def test_a_closed_standard_descriptor_changes_no_batch(tmp_path, data, nightly):
    """Closed by a daemon or a shell, or later by the program; with processes, threads and without: the same bytes."""
    cases = EVERY_CASE if nightly else BY_DAY
    expected = undisturbed(data)
    for case, streams in zip(cases, found(tmp_path, data, cases), strict=True):
        assert [stream["digest"] for stream in streams] == [expected] * 3, case
        assert [len(stream["told"]) for stream in streams] == [1] * 3, case
        seen = " ".join(link for stream in streams for link in stream["seen"])
        assert not any(ours in seen for ours in ("memfd", "socket", "anon_inode", "array_record")), seen
