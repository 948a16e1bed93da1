"""Children that the user forks: they can't use the iterator, and what ends in them is nothing of ours."""

from pathlib import Path

import pytest
from child_scripts import run

HERE = Path(__file__).parent

FORKED = """
import gc, os, sys, warnings
import numpy as np
import loaderkit as lk

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12's, on any fork with threads

def loader():
    return lk.DataLoader(data_source=lk.RangeDataSource(0, 10**6, 1), sampler=lk.IndexSampler(10**6),
                         operations=[lambda x: {"x": np.full(50, x)}, lk.Batch(10)], worker_count=2,
                         worker_kind=sys.argv[1])

def in_child(function):
    if (pid := os.fork()) == 0:
        try:
            function()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, function.__name__

first = loader()
it = iter(first)
batch = next(it)  # not in the arena: what batches look like isn't known yet
arena = first._shared_executor._executor.state.arena
kept = next(it)
while not arena.leased:
    kept = next(it)
leased, step = arena.leased, it.step
expected = np.arange(10 * step - 10, 10 * step)

def iterates():
    for use in (lambda: next(it), it.peek, lambda: first._shared_executor._executor.next(0)):
        try:
            use()
        except lk.errors.IteratorClosedError as error:
            assert "forked" in str(error) and "iter(loader)" in str(error)
        else:
            raise AssertionError("it went on")

def looks():
    assert it.step == step and len(it.get_state()) > 100
    assert (kept["x"][:, 0] == expected).all()

def leaves():
    global it, first, batch, kept
    with it:
        pass
    first.close()
    del it, first, batch, kept
    gc.collect()

def begins_anew():
    with iter(first) as own:
        assert [next(own)["x"][0, 0] for _ in range(3)] == [0, 10, 20]
    first.close()

def drops_batches():
    global batch, kept
    del batch, kept
    gc.collect()

for function in (iterates, looks, leaves, begins_anew, drops_batches):
    in_child(function)
assert arena.leased == leased and not arena._expired
assert (kept["x"][:, 0] == expected).all()
for step in range(step, step + 200):
    assert (next(it)["x"][:, 0] == np.arange(10 * step, 10 * step + 10)).all()
assert (kept["x"][:, 0] == expected).all()
first.close()
print("all its own")
"""


@pytest.mark.slow
def test_a_forked_child_touches_nothing_of_the_trainer(tmp_path):
    """Process workers: using, closing, collecting and beginning anew in a child leave the trainer's stream as it is."""
    assert run(tmp_path, FORKED, "process") == "all its own\n"


@pytest.mark.slow
def test_a_forked_child_touches_nothing_of_the_trainers_threads(tmp_path):
    """The same with threads, of which the child has none."""
    assert run(tmp_path, FORKED, "thread") == "all its own\n"


ELSEWHERE = """
import gc, os, socket, sys
sys.path[:0] = sys.argv[1:]
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
import loaderkit as lk
from internals import executor_of
from plain_fleet import PlainWorkers

loader = lk.DataLoader(data_source=range(10**6), sampler=lk.SequentialSampler(10**6), operations=[lk.Batch(10)],
                       worker_count=1, remote_workers=PlainWorkers(1))
it = iter(loader)

def elsewhere(it):
    return {worker.number for worker in it.stats().pool.workers if worker.kind == "remote"}

while not (before := elsewhere(it)):
    next(it)
if (pid := os.fork()) == 0:
    try:
        with iter(loader) as own:
            for _ in range(100):
                next(own)
            assert not elsewhere(own)
        loader.close()
        del it, own, loader
        gc.collect()
        os._exit(0)
    finally:
        os._exit(1)
assert os.waitpid(pid, 0)[1] == 0
for _ in range(100):
    next(it)
assert elsewhere(it) == before
with socket.create_connection(executor_of(loader).crew.recruiter._door.address, 10.0) as stranger:
    stranger.sendall(b"not a keeper")
    assert stranger.recv(1) == b""  # the door has heard it, and closed the connection
loader.close()
print("all its own")
"""


@pytest.mark.slow
def test_a_forked_child_touches_no_worker_of_another_machine(tmp_path):
    """It has none of its own; the trainer's stay, and its port goes on to hear."""
    paths = (HERE, HERE.parent, HERE.parents[1])
    assert run(tmp_path, ELSEWHERE, *paths) == "all its own\n"
