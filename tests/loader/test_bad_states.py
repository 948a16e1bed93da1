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
    "not UTF-8": (b"\xff\xfe", lk.errors.StateError, "UTF-8"),
    "not JSON": (b"step 3", lk.errors.StateError, "JSON"),
    "empty": (b"", lk.errors.StateError, "JSON"),
    "another format": (
        edited(format="grain"),
        lk.errors.StateError,
        "format: expected 'loaderkit', got 'grain'",
    ),
    "newer format": (
        edited(format_version=99),
        lk.errors.StateError,
        "format_version: expected at most .*, got 99.*upgrade",
    ),
    "newer stream": (
        edited(stream_version=99),
        lk.errors.StateError,
        "stream_version: expected at most .*, got 99.*upgrade",
    ),
    "altered": (edited(step=1), lk.errors.StateError, "digest.*altered"),
    "no documents": ([], lk.errors.StateError, "one document or more"),
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


def changed(loader: "lk.DataLoader", **fields: Any) -> bytes:
    """The state at the start, with other fields and no digest."""
    document = json.loads(iter(loader).get_state())
    del document["digest"]
    return json.dumps(document | fields).encode()


def twice(element: Any) -> list[Any]:
    return [element, element]


ENDLESS = {"sampler": lk.IndexSampler(10, seed=0)}
STREAMED = loader_of(lk.FlatMap(twice), lk.Batch(4), logical_streams=2, **ENDLESS)
FINITE = loader_of(lk.FlatMap(twice), lk.Batch(4))
SECOND = loader_of(lk.Batch(2), sampler=lk.IndexSampler(10, seed=0, num_epochs=3)).epoch(2)
SECOND_STREAM = loader_of(lk.Filter(bool), lk.Batch(2), sampler=lk.IndexSampler(10, seed=0)).epoch(2)
LOSSY = loader_of(lk.Batch(2), on_record_error="replace")
SECOND_LOSSY = loader_of(lk.Batch(2), on_record_error="replace", sampler=lk.IndexSampler(10, seed=0)).epoch(2)
SKIPPING = loader_of(lk.Batch(2), on_record_error="skip", **ENDLESS)


def streams(q: int) -> dict[str, Any]:
    return {"count": 2, "q": q, "writers": [0, 0]}


def lost(ledger: Any, skipped: Any) -> dict[str, Any]:
    return {"ledger": ledger, "skipped": skipped}


# loader, what the state says, the error
IMPOSSIBLE: dict[str, tuple[lk.DataLoader, dict[str, Any], str]] = {
    "a block past every index": (
        STREAMED,
        {"streams": streams(2**59 + 1)},
        r"streams.q: expected at most 2\*\*60 indices for all 2 streams, got 576460752303423489 for each",
    ),
    "a step": (STREAMED, {"step": 2**62 + 1}, r"step: expected a number up to 2\*\*62"),
    "a child": (STREAMED, {"cursors": {"0": [0, 2**62 + 1], "1": [2]}}, r"cursors.0: .* up to 2\*\*62, got"),
    "a child of a child": (
        STREAMED,
        {"cursors": {"0": [0, 1, 1], "1": [2]}},
        r"cursors.0: expected an index and at most 1 ordinals, one for each FlatMap and Window, got \(0, 1, 1\)",
    ),
    "a cursor behind the end": (
        FINITE,
        {"cursors": {"0": [11]}},
        "cursors.0: expected an index up to 10, the stream's end, got 11",
    ),
    "an index of another epoch": (
        SECOND,
        {"cursors": [[18]], "segments": [[0, 18, 2]]},
        "cursors.0: expected an index from 20 on, where this stream begins, got 18",
    ),
    "a cursor of another epoch": (
        SECOND_STREAM,
        {"cursors": {"0": [19]}},
        "cursors.0: expected an index from 20 on, where this stream begins, got 19",
    ),
    "a record read instead that isn't there": (
        LOSSY,
        {"bad_records": lost([[3, 10]], {})},
        r"bad_records.ledger: expected indices of this stream, from 0 to below 10, got \[3, 10\]",
    ),
    "a lost record behind the end": (
        LOSSY,
        {"bad_records": lost([[10, 3]], {})},
        r"bad_records.ledger: expected indices of this stream, from 0 to below 10, got \[10, 3\]",
    ),
    "a lost record of another epoch": (
        SECOND_LOSSY,
        {"bad_records": lost([[19, 20]], {})},
        r"bad_records.ledger: expected indices of this stream, from 20 to below 30, got \[19, 20\]",
    ),
    "a record of another epoch read instead": (
        SECOND_LOSSY,
        {"bad_records": lost([[20, 19]], {})},
        r"bad_records.ledger: expected indices of this stream, from 20 to below 30, got \[20, 19\]",
    ),
    "more records than there are numbers": (
        SKIPPING,
        {"bad_records": lost([], {"0": 2**63 - 1})},
        r"bad_records.skipped.0: expected a number up to 2\*\*62",
    ),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_number_that_no_position_has_is_refused_by_name(name):
    """When it is restored, and not by a next() later; the iterator stays where it is."""
    loader, fields, says = IMPOSSIBLE[name]
    it = iter(loader)
    before = it.get_state()
    refused(lambda: it.set_state(changed(loader, **fields)), lk.errors.StateError, says)
    assert it.get_state() == before


def test_a_seek_goes_to_no_step_before_the_epoch():
    """Of a state that was taken over from another sampler, whose epoch began earlier."""
    saved = iter(loader_of(lk.Batch(5), data_source=range(10), sampler=lk.IndexSampler(10, seed=0)).epoch(2))
    saved.seek(2)  # index 30, the end
    larger = iter(loader_of(lk.Batch(5), data_source=range(14), sampler=lk.IndexSampler(14, seed=0)).epoch(2))
    larger.set_state(saved.get_state(), allow={"sampler", "source"})
    with pytest.raises(IndexError, match="step: 0 doesn't exist, the stream begins at index 28"):
        larger.seek(0)
    assert (larger.step, larger.index) == (2, 30)
    assert next(larger).tolist() == [2, 3, 4, 5, 6]


def test_streams_and_rows_cant_be_allowed():
    """A state of a pipeline with a Filter doesn't fit one without, nor the other way round, whatever is allowed."""
    plain, changing = iter(loader_of(lk.Batch(2))), iter(loader_of(lk.Filter(bool), lk.Batch(2)))
    for one, other in ((plain, changing), (changing, plain)):
        refused(
            lambda one=one, other=other: one.set_state(other.get_state(), allow={"operations"}),
            lk.CheckpointMismatchError,
            "streams: saved",
        )
