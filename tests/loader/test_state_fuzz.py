"""Any bytes, and any change of a sound state, given to set_state: refused by one of two errors, or taken as it says."""

import copy
import json
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import loader_of

import loaderkit as lk
from loaderkit._base.canonical_json import digest

# 10^5 cases in the nightly run. In shards, for what hypothesis keeps of the cases drawn makes each next one dearer.
NIGHTLY = settings().max_examples > 1000
CASES = settings(max_examples=1_000 if NIGHTLY else 300)
SHARDS = pytest.mark.parametrize("shard", range(100 if NIGHTLY else 1))
PLAIN, CHANGING, STREAMS, ELEMENTS, ENDLESS, EPOCH, LOSSY, MIXED, MIXED_STREAMS = KINDS = range(9)
MOST = 12  # elements looked at behind a position that was taken


def not_fives(element: Any) -> Any:
    if element % 5 == 0:
        raise ValueError(element)
    return element


def make(kind: int) -> "lk.DataLoader":
    ten = {"data_source": np.arange(100, 110), "sampler": lk.IndexSampler(10, seed=0, num_epochs=3)}
    endless = {**ten, "sampler": lk.IndexSampler(10, seed=0, shuffle=True)}
    two = {"logical_streams": 2, **endless}
    mixture = lk.samplers.MixedSampler(
        {"even": lk.IndexSampler(6, seed=0, shuffle=True), "odd": lk.IndexSampler(4)},
        weights=[(0, {"even": 1, "odd": 1}), (4, {"even": 0.1, "odd": 3}), (9, {"even": 1})],
    )
    flat_map = lk.FlatMap(lambda x: [x] * (int(x) % 3))
    match kind:
        case 0:
            return loader_of(lk.Batch(2), **ten)
        case 1:
            return loader_of(flat_map, lk.Batch(2), **ten)
        case 2:
            return loader_of(lk.Filter(lambda x: x % 3 > 0), lk.Batch(4), **two)
        case 3:
            return loader_of(lk.RandomMap(lambda x, rng: x), **ten)
        case 4:
            return loader_of(lk.Batch(2), **endless)
        case 5:
            return loader_of(lk.Batch(2), **ten).epoch(2)
        case 7:
            return loader_of(lk.Batch(2), **{**ten, "sampler": mixture})
        case 8:
            return loader_of(flat_map, lk.Batch(4), **{**two, "sampler": mixture})
    return loader_of(not_fives, lk.Batch(4), on_record_error="skip", **two)


LOADERS = [make(kind) for kind in KINDS]


def states_of(loader: "lk.DataLoader") -> list[bytes]:
    it = iter(loader)
    found = [it.get_state()]
    for _ in range(4):
        next(it)
        found.append(it.get_state())
    return found


STATES = [state for loader in LOADERS for state in states_of(loader)]

INTEGERS = st.integers(-3, 40) | st.sampled_from(
    [
        2**31,
        2**53,
        2**62,
        2**62 + 1,
        2**63 - 9,
        2**63 - 1,
        2**63,
        2**64 - 1,
        2**64,
        -(2**63),
        -(2**63) - 1,
        10**30,
    ]
)
LEAVES = INTEGERS | st.none() | st.booleans() | st.floats() | st.text(max_size=4)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | st.just("0"), inner, max_size=3)
    ),
    max_leaves=6,
)


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to each part of a document."""
    inner: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [path, *(place for key, child in inner for place in places_in(child, (*path, key)))]


@st.composite
def changed_states(draw: st.DrawFn) -> bytes:
    """A sound state with up to three parts replaced, removed, or taken from another; signed again, or not."""
    document = json.loads(draw(st.sampled_from(STATES)))
    for _ in range(draw(st.integers(0, 3))):
        *way, last = draw(st.sampled_from(places_in(document)[1:]))
        parent = document
        for key in way:
            parent = parent[key]
        match draw(st.sampled_from(["replace", "replace", "nudge", "remove", "another's"])):
            case "replace":
                parent[last] = draw(VALUES)
            case "nudge":
                if isinstance(parent[last], int):
                    parent[last] += draw(st.integers(-3, 3))
            case "remove":
                del parent[last]
            case "another's":
                other = json.loads(draw(st.sampled_from(STATES)))
                whole = draw(st.sampled_from(sorted(other)))
                document[whole] = copy.deepcopy(other[whole])
    signature = draw(st.sampled_from(["new", "none", "old"]))
    if signature != "old":
        document.pop("digest", None)
    if signature == "new":
        document["digest"] = digest(document)
    return json.dumps(document, indent=draw(st.none() | st.integers(0, 2))).encode()


@st.composite
def damaged_states(draw: st.DrawFn) -> bytes:
    """A sound state with bytes changed, left out, put in or doubled."""
    data = bytearray(draw(st.sampled_from(STATES)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 9))
        match draw(st.sampled_from(["flip", "cut", "insert", "double", "end"])):
            case "flip" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at : at + length]
            case "insert":
                data[at:at] = draw(
                    st.binary(max_size=9) | st.sampled_from([b"NaN", b"-1", b"1e999", b"[", b'"'])
                )
            case "double":
                data[at:at] = data[at : at + 10 * length]
            case "end":
                del data[at:]
    return bytes(data)


def trimmed(cursor: list[int]) -> list[int]:
    """Without the zeros at its end: the first child of the first child begins where its record does."""
    while len(cursor) > 1 and not cursor[-1]:
        cursor = cursor[:-1]
    return cursor


def given_to(loader: "lk.DataLoader", state: bytes, allow: set[str], most: int = MOST) -> None:
    """Sets the state; whatever is taken must be what the document says, and go on as the stream does there."""
    with iter(loader) as it:
        before = it.get_state()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                it.set_state(state, allow)
            except (lk.errors.StateError, lk.CheckpointMismatchError) as error:
                refusal: Exception | None = error
            else:
                refusal = None
        if refusal is not None:
            assert str(refusal) and it.get_state() == before
            return
        said, now = json.loads(state), json.loads(it.get_state())
        assert now["step"] == said["step"] == it.step
        if said["global_batch"] == now["global_batch"]:
            assert now["segments"] == said["segments"]
        if said["streams"] is None and not allow & {"sampler", "source"}:
            (cursor,) = said["cursors"]
            assert now["cursors"] == [cursor] and it.index == cursor[0]
            there = loader in (LOADERS[ENDLESS], LOADERS[MIXED]) or it.index < 30
            keys = [record.record_key for record in it.records(it.step)] if there else []
            found = np.ravel(next(it, np.empty(0))).tolist()
            assert found == [100 + key for key in keys]
        elif said["streams"] is not None:
            assert now["cursors"] == {stream: trimmed(cursor) for stream, cursor in said["cursors"].items()}
        for _ in zip(range(most), it, strict=False):  # comes to an end, or goes on; never something else
            it.get_state()


def numbers_in(document: Any) -> list[tuple[Any, ...]]:
    """The ways to each number that says where an iterator stands, or how many there were."""
    places = places_in(
        {key: part for key, part in document.items() if key not in ("sampler", "source", "digest")}
    )
    return [way for way in places if type(at(document, way)) is int]


def at(document: Any, way: tuple[Any, ...]) -> Any:
    for key in way:
        document = document[key]
    return document


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_number_that_can_not_be_is_refused_with_the_state(kind):
    """Not by next(), a batch too late, nor by the state behind it: what is taken can be gone on from and saved."""
    loader = LOADERS[kind]
    whole = json.loads(states_of(loader)[-1])
    del whole["digest"]
    for way in numbers_in(whole):
        for number in (2**60 + 1, 2**62 + 1, 2**63 - 9, 2**63 - 1):
            document = copy.deepcopy(whole)
            at(document, way[:-1])[way[-1]] = number
            if document["streams"] is None and way[0] == "cursors":  # at odds with the segments otherwise
                document["segments"] = [[0, 0, 2], [document["step"], number, at(whole, ("segments", 0, 2))]]
            elif document["streams"] is None and way[0] == "segments":
                steps = document["step"] - document["segments"][-1][0]
                document["cursors"] = [[document["segments"][-1][1] + steps * document["segments"][-1][2]]]
            for allow in (set(), {"sampler", "source", "mixture", "operations", "global_batch_size"}):
                given_to(loader, json.dumps(document).encode(), allow, most=3)


ALLOWED = st.sets(
    st.sampled_from(["sampler", "source", "mixture", "operations", "global_batch_size", "parameters"])
)


@pytest.mark.slow
@SHARDS
@CASES
@given(st.sampled_from(LOADERS), changed_states(), ALLOWED)
def test_a_changed_state_is_refused_or_taken_as_it_says(shard, loader, state, allow):
    """No other exception, no position but the one in the document, whatever is allowed to differ."""
    given_to(loader, state, allow)


def test_zeros_at_the_end_of_a_cursor_say_nothing():
    """Written by hand they are the same place, and are saved without them."""
    loader = LOADERS[CHANGING]
    document = {**json.loads(states_of(loader)[0]), "cursors": {"0": [0, 0]}}
    given_to(loader, json.dumps({**document, "digest": digest(document)}).encode(), set())


@pytest.mark.slow
@SHARDS
@CASES
@given(st.integers(0, len(STATES) - 1), damaged_states())
def test_a_damaged_state_is_refused_or_means_the_same(shard, place, state):
    """The digest sees every byte that means something."""
    given_to(LOADERS[place // 5], state, set())


@SHARDS
@CASES
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_what_was_never_a_state_is_refused(shard, state):
    """Any bytes."""
    with iter(LOADERS[0]) as it, pytest.raises(lk.errors.StateError):
        it.set_state(state)
