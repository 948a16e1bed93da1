"""Streams of released versions are given again, for ever: the first batches, and those behind a saved state."""

import json

import pytest
from golden_streams import BATCHES, GOLDEN, SAVED_AT, STREAMS, digest, take

FILES = sorted(GOLDEN.glob("stream_*.json"))

# Which numpy and processor saved them is no part of these streams; restoring says so where they are others.
pytestmark = [
    pytest.mark.filterwarnings("ignore:the state was saved with numpy"),
    pytest.mark.filterwarnings("ignore:.*other last bits than where the state was saved"),
]

RUNNINGS = [
    {},
    {"worker_count": 2, "worker_kind": "thread", "prefetch_batches": 4},
    pytest.param({"worker_count": 2, "worker_kind": "process"}, marks=pytest.mark.slow),
]


def stream_of(path):
    return STREAMS[path.stem.split("_", 2)[2]]


def test_every_kind_of_stream_is_kept():
    """There is a golden file of each kind of pipeline."""
    assert {path.stem.split("_", 2)[2] for path in FILES} == set(STREAMS)


@pytest.mark.parametrize("running", RUNNINGS, ids=str)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_kept_state_restores(path, running):
    """A state of then restores now, and the next 100 batches are those of then, byte by byte."""
    kept = json.loads(path.read_text())
    with stream_of(path)(**running) as loader:
        it = iter(loader)
        it.set_state(kept["state"].encode())
        assert it.step == SAVED_AT
        assert digest(take(it, BATCHES)) == kept["rest"]
        it.close()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_kept_stream_begins_the_same(path):
    """From the start on too, the first batches are those of then, and so is the position behind them."""
    kept = json.loads(path.read_text())
    it = iter(stream_of(path)())
    assert digest(take(it, SAVED_AT)) == kept["first"]
    ours, then = (json.loads(state) for state in (it.get_state(), kept["state"]))
    for told in ("versions", "digest", "format_version", "numerics"):
        for state in (ours, then):
            state.pop(told, None)
    if "parameters" not in then:
        del ours["parameters"]
    assert ours == then
