"""States that are none, or another stream's, are refused by the field that is wrong."""

import json
from typing import Any

import pytest
from refusals import loader_of, refused

import loaderkit as lk


def edited(**fields: Any) -> bytes:
    document = json.loads(iter(loader_of(lk.Batch(2))).get_state())
    return json.dumps(document | fields).encode()


STATES = {
    "a str": ("{}", TypeError, r"expected the bytes that .*, got str; .*text\.encode\(\)"),
    "a dict": ({"step": 0}, TypeError, r"got dict; .*json\.dumps\(document\)\.encode\(\)"),
    "None": (None, TypeError, "bytes"),
    "not UTF-8": (b"\xff\xfe", lk.StateError, "UTF-8"),
    "not JSON": (b"step 3", lk.StateError, "JSON"),
    "empty": (b"", lk.StateError, "JSON"),
    "another format": (edited(format="grain"), lk.StateError, "format: expected 'loaderkit', got 'grain'"),
    "newer format": (edited(format_version=99), lk.StateError, "format_version: at most .*, got 99.*upgrade"),
    "newer stream": (edited(stream_version=99), lk.StateError, "stream_version: at most .*, got 99.*upgrade"),
    "altered": (edited(step=1), lk.StateError, "digest.*altered"),
    "no documents": ([], lk.StateError, "one document or more"),
}


@pytest.mark.parametrize("name", STATES)
def test_what_is_no_state(name):
    """What can't be read is refused by the field that is wrong, and the iterator stays where it is."""
    state, error, pattern = STATES[name]
    it = iter(loader_of(lk.Batch(2)))
    next(it)
    before = it.get_state()
    refused(lambda: it.set_state(state), error, pattern)
    assert it.get_state() == before


OTHERS = {
    "data": ({"data_source": range(1, 11)}, "source", "source"),
    "longer data": ({"data_source": range(11)}, "source", "source"),
    "seed": (
        {"sampler": lk.IndexSampler(10, seed=1, num_epochs=1)},
        "sampler.seed: saved 0, this loader 1",
        "sampler",
    ),
    "epochs": (
        {"sampler": lk.IndexSampler(10, seed=0)},
        "sampler.num_epochs: saved 1, this loader null",
        "sampler",
    ),
    "shuffle": (
        {"sampler": lk.IndexSampler(10, seed=0, num_epochs=1, shuffle=True)},
        "sampler.shuffle: saved false, this loader true",
        "sampler",
    ),
    "batch size": ({"size": 4}, r"global_batch_size: saved 2 rows.*this loader 4 rows", "global_batch_size"),
    "operations": ({"more": [lk.Batch(1)]}, "operations: saved .*Batch.*this loader .*Batch", "operations"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_state_of_another_stream(name):
    """The field and both values are named, with the text of how to allow it; allowed, it is taken."""
    options, says, field = OTHERS[name]
    options = dict(options)
    saved = iter(loader_of(lk.Batch(2)))
    next(saved)
    size, more = options.pop("size", 2), options.pop("more", [])
    other = iter(loader_of(*more, lk.Batch(size), **options))
    refused(
        lambda: other.set_state(saved.get_state()), lk.CheckpointMismatchError, says, f'allow=.*"{field}"'
    )
    assert other.step == 0
    refused(lambda: other.set_state(saved.get_state(), allow={"colour"}), ValueError, "allow.*colour")
    refused(lambda: other.set_state(saved.get_state(), allow=field), TypeError, "allow.*write allow=")
    other.set_state(saved.get_state(), allow={field})
    assert (other.step, other.index) == (1, 2)
    assert len(next(other)) == size


def test_streams_and_rows_cant_be_allowed():
    """A state of a pipeline with a Filter doesn't fit one without, nor the other way round, whatever is allowed."""
    plain, changing = iter(loader_of(lk.Batch(2))), iter(loader_of(lk.Filter(bool), lk.Batch(2)))
    for one, other in ((plain, changing), (changing, plain)):
        refused(
            lambda one=one, other=other: one.set_state(other.get_state(), allow={"operations"}),
            lk.CheckpointMismatchError,
            "streams: saved",
        )
