"""A state of another stream is an error with everything that differs; other differences are a notice."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._plan.segments import Segments
from loaderkit._plan.state.comparison import ALLOWABLE, compare
from loaderkit._plan.state.state import SavedStreams, State
from loaderkit.errors import CheckpointMismatchError

SAVED = State(
    step=7,
    cursors={0: (56,)},
    segments=Segments(((0, 0, 8),)),
    sampler={"kind": "IndexSampler", "num_records": 100, "seed": 0},
    source={"kind": "ArrayRecord", "files": ["a", "b"]},
    operations=[{"op": "RandomMap", "name": "Augment"}, {"op": "Batch", "inner": []}],
    rows=8,
    stride=8,
    streams=None,
    epoch=None,
    versions={"loaderkit": "0.1.0", "numpy": "2.1.3", "python": "3.11.9"},
)
STREAMED = replace(
    SAVED,
    cursors={0: (56,), 1: (60, 2)},
    segments=Segments(((0, None, 8),)),
    operations=[{"op": "Filter", "name": "keep"}, {"op": "Batch", "inner": []}],
    streams=SavedStreams(2, 4, (0, 0)),
)

# field -> (a loader that differs there, both values as the error shows them, what to do)
DIFFERENCES: dict[str, tuple[dict[str, Any], str, str]] = {
    "sampler": (
        {"sampler": {"kind": "IndexSampler", "num_records": 100, "seed": 1}},
        "sampler.seed: saved 0, this loader 1",
        'allow={"sampler"}.\n.*It goes on at the same index',
    ),
    "source": (
        {"source": {"kind": "ArrayRecord", "files": ["a", "c"]}},
        'source.files[1]: saved "b", this loader "c"',
        'allow={"source"}.\n.*It goes on at the same index',
    ),
    "operations": (
        {"operations": [{"op": "RandomMap", "name": "Augment"}, {"op": "Batch", "inner": [4]}]},
        'operations: saved [{"inner":[],"op":"Batch"}], this loader [{"inner":[4],"op":"Batch"}]',
        'allow={"operations"}',
    ),
    "global_batch_size": (
        {"rows": 16, "stride": 16},
        "global_batch_size: saved 8 rows (8 indices), this loader 16 rows (16 indices)",
        'lk.Batch(global_batch_size=8).\n.*allow={"global_batch_size"}',
    ),
    "epoch": ({"epoch": 3}, "epoch: saved null, this loader 3", "a state of the loader itself"),
    "streams": (
        {"streams": SavedStreams(2, 4, (0, 0))},
        "streams: saved null, this loader 2",
        "no operation that changes the number of rows",
    ),
}


def refusal(saved: State, current: State, allow: set[str]) -> str:
    with pytest.raises(CheckpointMismatchError) as caught:
        compare(saved, current, allow)
    return str(caught.value)


def test_a_loader_of_the_same_stream_takes_the_state() -> None:
    """Step, cursors and segments are the position and not compared; there is no notice."""
    fresh = replace(SAVED, step=0, cursors={0: (0,)}, segments=Segments(((0, 0, 4),)), digest_missing=True)
    assert compare(SAVED, fresh) == []


@pytest.mark.parametrize("field", DIFFERENCES)
def test_each_field_that_differs_is_refused_with_both_values_and_a_way_out(field: str) -> None:
    """The error names the field, the saved value, the loader's, and the line that helps."""
    changes, shown, advice = DIFFERENCES[field]
    text = refusal(SAVED, replace(SAVED, **changes), set())
    assert shown in text
    for line in advice.split("\n.*"):
        assert line in text


@given(st.sets(st.sampled_from(sorted(DIFFERENCES))), st.sets(st.sampled_from(ALLOWABLE)))
def test_all_differences_are_named_but_the_allowed_ones(changed: set[str], allow: set[str]) -> None:
    """Any set of differences, any set of allowed ones: the error names exactly the rest, or there is none."""
    current = SAVED
    for field in changed:
        current = replace(current, **DIFFERENCES[field][0])
    refused = changed - allow
    text = refusal(SAVED, current, allow) if refused else str(compare(SAVED, current, allow))
    assert {field for field, (_, shown, _) in DIFFERENCES.items() if shown in text} == refused


def test_another_epoch_or_number_of_streams_says_where_to_restore() -> None:
    """These differences can't be allowed, since cursors have no meaning elsewhere; the error says what to build."""
    text = refusal(replace(SAVED, epoch=3), replace(SAVED, epoch=4), set(ALLOWABLE))
    assert "epoch: saved 3, this loader 4" in text
    assert "loader.epoch(3)" in text
    text = refusal(STREAMED, replace(STREAMED, streams=SavedStreams(4, 2, (0,) * 4)), set(ALLOWABLE))
    assert "streams: saved 2, this loader 4" in text
    assert "logical_streams=2" in text
    assert "allow=" not in text


def test_q_and_writers_are_no_part_of_the_stream() -> None:
    """q is taken from the state, and any process may have written a cursor, so neither is compared."""
    assert compare(STREAMED, replace(STREAMED, streams=SavedStreams(2, 9, (1, 0)))) == []


def test_without_a_batch_the_advice_is_a_number_of_shards() -> None:
    """Without Batch the global batch is one element for each shard, so the error asks for the same number of shards."""
    saved = replace(SAVED, operations=[], rows=2, stride=2)
    assert "To keep the saved batch size, use 2 shards." in refusal(
        saved, replace(saved, rows=4, stride=4), set()
    )


def test_a_random_map_that_differs_is_told_and_not_refused() -> None:
    """The rows stay the same, so a new, changed or moved RandomMap is a notice that shows both lists."""
    others: list[list[object]] = [
        [{"op": "Batch", "inner": []}],
        [{"op": "RandomMap", "name": "Other"}, {"op": "Batch", "inner": []}],
        [{"op": "Batch", "inner": []}, {"op": "RandomMap", "name": "Augment"}],
        ["RandomMap(Augment)", {"op": "Batch", "inner": []}],
    ]
    for operations in others:
        (notice,) = compare(SAVED, replace(SAVED, operations=operations))
        assert "the RandomMaps changed" in notice
        assert '"name":"Augment"' in notice


DECODE = {"op": "Map", "name": "decode"}
CROP = {"op": "RandomMap", "name": "Crop", "parameters": {"size": 64, "scale": [0.08, 1.0]}}
LARGER = {**CROP, "parameters": {"size": 96, "scale": [0.08, 1.0]}}
LONG = {"op": "Filter", "name": "long_enough"}
BATCH = {"op": "Batch"}
ELEMENTS = "the operations changed, so elements may differ from here on:"
NUMBERS = "the RandomMaps changed, so random numbers differ from here on:"
SHAPE = [{"op": "RandomMap"}, {"op": "Filter"}, {"op": "Batch"}]

# what this loader has in place of [DECODE, CROP, LONG, BATCH] -> the lines
TOLD: dict[str, tuple[list[Any], list[str]]] = {
    "a parameter": (
        [DECODE, LARGER, LONG, BATCH],
        ["operations[1] RandomMap Crop.size: saved 64, this loader 96"],
    ),
    "a part of one": (
        [DECODE, {**CROP, "parameters": {"size": 64, "scale": [0.2, 1.0]}}, LONG, BATCH],
        ["operations[1] RandomMap Crop.scale[0]: saved 0.08, this loader 0.2"],
    ),
    "a new parameter": (
        [DECODE, {**CROP, "parameters": {**CROP["parameters"], "fill": 0}}, LONG, BATCH],
        ["operations[1] RandomMap Crop.fill: saved nothing, this loader 0"],
    ),
    "no parameters any more": (
        [DECODE, {"op": "RandomMap", "name": "Crop"}, LONG, BATCH],
        [
            "operations[1] RandomMap Crop.size: saved 64, this loader nothing",
            "operations[1] RandomMap Crop.scale: saved [0.08,1.0], this loader nothing",
        ],
    ),
    "another function": (
        [{"op": "Map", "name": "decode_fast"}, CROP, LONG, BATCH],
        ["operations[0]: saved Map decode, this loader Map decode_fast"],
    ),
    "another filter": (
        [DECODE, CROP, {"op": "Filter", "name": "short_enough"}, BATCH],
        ["operations[2]: saved Filter long_enough, this loader Filter short_enough"],
    ),
    "a new one in front": (
        [{"op": "Map", "name": "log"}, DECODE, LARGER, LONG, BATCH],
        [
            "operations[0]: saved nothing, this loader Map log",
            "operations[2] RandomMap Crop.size: saved 64, this loader 96",
        ],
    ),
    "one fewer": ([CROP, LONG, BATCH], ["operations[0]: saved Map decode, this loader nothing"]),
    "another order": (
        [CROP, DECODE, LONG, BATCH],
        [
            'operations[0]: saved nothing, this loader RandomMap Crop {"scale":[0.08,1.0],"size":64}',
            'operations[1]: saved RandomMap Crop {"scale":[0.08,1.0],"size":64}, this loader nothing',
        ],
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_other_names_and_parameters_of_operations_are_told(name: str) -> None:
    """One notice shows both sides of each, in order, and how to silence it; silenced, there is none."""
    parameters, lines = TOLD[name]
    saved = replace(SAVED, operations=SHAPE, parameters=[DECODE, CROP, LONG, BATCH])
    current = replace(saved, parameters=parameters)
    (notice,) = compare(saved, current)
    assert notice.split("\n  ") == [ELEMENTS, *lines, 'If that is meant, pass allow={"parameters"}.']
    assert compare(saved, current, {"parameters"}) == []
    assert compare(saved, replace(saved, parameters=copy.deepcopy(saved.parameters))) == []


def test_a_random_map_that_differs_is_named() -> None:
    """One notice says that random numbers differ, and of which operation; it can be silenced."""
    saved = replace(SAVED, operations=SHAPE, parameters=[DECODE, CROP, LONG, BATCH])
    flip = {"op": "RandomMap", "name": "flip"}
    current = replace(saved, operations=[SHAPE[0], *SHAPE], parameters=[DECODE, CROP, flip, LONG, BATCH])
    (notice,) = compare(saved, current)
    assert notice.split("\n  ")[:2] == [NUMBERS, "operations[2]: saved nothing, this loader RandomMap flip"]
    assert compare(saved, current, {"parameters"}) == []


def test_a_state_without_names_is_compared_as_it_was() -> None:
    """For a state of an earlier version the only notice is about an added or removed RandomMap."""
    current = replace(SAVED, parameters=[DECODE, CROP])
    assert compare(SAVED, current) == []
    (notice,) = compare(SAVED, replace(current, operations=SAVED.operations[1:]))
    assert "the RandomMaps changed" in notice
    assert '"name":"Augment"' in notice


def test_what_was_allowed_to_differ_is_not_told_again() -> None:
    """allow={"operations"} accepts another Filter, FlatMap or Batch; what else changed with it is told all the same."""
    saved = replace(SAVED, operations=SHAPE[1:], parameters=[DECODE, LONG, BATCH])
    current = replace(saved, operations=SHAPE[2:], parameters=[DECODE, BATCH])
    refusal(saved, current, {"parameters"})
    assert compare(saved, current, {"operations"}) == []
    (notice,) = compare(saved, replace(current, parameters=[BATCH]), {"operations"})
    assert "operations[0]: saved Map decode, this loader nothing" in notice
    assert "Filter" not in notice


def test_many_other_operations_are_cut_short() -> None:
    """A notice has at most eight lines, and says how many more there are."""
    saved = replace(SAVED, parameters=[{"op": "Map", "name": f"f{place}"} for place in range(20)])
    current = replace(saved, parameters=[{"op": "Map", "name": f"g{place}"} for place in range(20)])
    (notice,) = compare(saved, current)
    assert notice.split("\n  ")[8:10] == ["operations[7]: saved Map f7, this loader Map g7", "and 12 more"]


@pytest.mark.parametrize(
    ("numpy", "told"), [("2.1.3", False), ("2.1.9", False), ("2.2.0", True), ("3.1.3", True)]
)
def test_another_numpy_minor_under_a_random_map_is_told(numpy: str, told: bool) -> None:
    """numpy may change its distributions between minor versions; only a RandomMap depends on it."""
    versions = {"loaderkit": "9", "numpy": numpy, "python": "3.14.0"}
    notices = compare(SAVED, replace(SAVED, versions=versions))
    assert [f"numpy 2.1.3 and this is numpy {numpy}" in notice for notice in notices] == [True] * told
    plain = replace(SAVED, operations=[{"op": "Batch", "inner": []}])
    assert compare(plain, replace(plain, versions=versions)) == []


def test_values_of_another_type_differ() -> None:
    """True, 1 and 1.0 are equal in Python, but different values of a fingerprint."""
    for value in (True, 1.0, "1", [1], None):
        text = refusal(replace(SAVED, sampler={"n": 1}), replace(SAVED, sampler={"n": value}), set())
        assert "sampler.n: saved 1, this loader " in text


def test_a_missing_part_of_a_fingerprint_is_named() -> None:
    """A field that only one side has shows as nothing on the other."""
    text = refusal(replace(SAVED, sampler={"a": 1}), replace(SAVED, sampler={"b": 2}), set())
    assert "sampler.a: saved 1, this loader nothing" in text
    assert "sampler.b: saved nothing, this loader 2" in text


def test_a_long_difference_is_cut_short() -> None:
    """Thousands of other keys, or a value of thousands of characters, don't fill the screen."""
    saved = replace(SAVED, sampler={"keys": list(range(1000))}, source={"files": "a" * 9000})
    current = replace(SAVED, sampler={"keys": list(range(1, 1001))}, source={"files": "b" * 9000})
    text = refusal(saved, current, set())
    assert "sampler.keys[0]: saved 0, this loader 1" in text
    assert "and 992 more" in text
    assert len(text) < 2000
    sides = [replace(SAVED, source=letter * 198) for letter in "ab"]  # 200 characters with their quotes
    assert f'"{"a" * 198}", this loader "{"b" * 198}"' in refusal(*sides, set())


@pytest.mark.parametrize("name", ["seed", "batch_size", "streams", "epoch"])
def test_an_unknown_name_in_allow_is_an_error(name: str) -> None:
    """A misspelt field isn't silently ignored; the error lists the names there are."""
    with pytest.raises(
        ValueError,
        match=f"sampler, source, mixture, exclude, operations, global_batch_size, parameters, got {name}",
    ):
        compare(SAVED, SAVED, {name, "sampler"})


def test_a_bare_string_in_allow_is_an_error() -> None:
    """allow="sampler" would be a set of letters; the error gives the line to write."""
    with pytest.raises(TypeError, match=r"write allow=\{'sampler'\}"):
        compare(SAVED, SAVED, "sampler")
