"""Pack on one window: the rows of the planners' naive twins, Grain's rows, and errors that name what is wrong."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packing_twins import naive_rows

import loaderkit as lk

LENGTHS = st.lists(st.integers(0, 20), min_size=1, max_size=30)
HOW = st.sampled_from(["best_fit", "first_fit", "concat_then_split"])


def documents(lengths: list[int]) -> list[np.ndarray]:
    """Tokens that occur nowhere else, from 1 on."""
    ends = np.cumsum(lengths)
    return [np.arange(end - n, end, dtype=np.int32) + 1 for end, n in zip(ends, lengths)]


@given(LENGTHS, HOW, st.sampled_from(["split", "truncate", "drop"]), st.integers(1, 12))
def test_rows_are_the_planners(lengths, how, long, row):
    """The pieces of each row are those of a loop over all rows; rows and pieces are in the order of the documents."""
    texts = documents(lengths)
    expected = [sorted(pieces) for pieces in naive_rows(lengths, row, how, long)]
    found = lk.Pack(row, how=how, long=long).window(texts)
    for one, pieces in zip(found, sorted(expected), strict=True):
        rows = [texts[document][start : start + tokens] for document, start, tokens in pieces]
        used = sum(map(len, rows))
        assert one["tokens"].dtype == np.int32 and one["tokens"].shape == (row,)
        assert one["tokens"].tolist() == [*np.concatenate(rows), *[0] * (row - used)]
        ids = [number for number, piece in enumerate(rows, start=1) for _ in piece]
        places = [place for piece in rows for place in range(len(piece))]
        assert one["tokens_segment_ids"].tolist() == ids + [0] * (row - used)
        assert one["tokens_positions"].tolist() == places + [0] * (row - used)
        assert one["tokens_segment_ids"].dtype == one["tokens_positions"].dtype == np.int32


LEAVES = st.fixed_dictionaries(
    {
        "names": st.sampled_from([None, "maxtext", {"text": "x", "text_segment_ids": "seg"}]),
        "mask": st.sampled_from([None, "counted"]),
        "targets": st.booleans(),
        "pad": st.integers(-3, 3),
    }
)


@given(LENGTHS.filter(any), HOW, st.integers(1, 12), LEAVES, st.booleans())
def test_the_leaves_are_those_of_packed_data_source(lengths, how, row, leaves, flat):
    """Each row holds what a plan of the pieces of that row gives, leaf by leaf, with every choice of leaves."""
    texts = documents(lengths)
    texts = texts if flat else [np.stack([text, -text], axis=1) for text in texts]
    for one in lk.Pack(row, how=how, feature="text", **leaves).window(texts):
        tokens, ids, *_ = one.values()
        pieces = [tokens[ids == number] for number in range(1, ids.max() + 1)]
        plan = lk.plan_packing([*map(len, pieces)], row, how="first_fit")
        (expected,) = lk.PackedDataSource(pieces, plan, feature="text", **leaves)
        assert [*one] == [*expected]
        for name, leaf in expected.items():
            assert one[name].dtype == leaf.dtype and np.array_equal(one[name], leaf), name


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), min_size=1, max_size=20))
def test_features_of_different_lengths(lengths):
    """First fit by both features; each token of both is in one row, the halves of a document in the same."""
    first, second = (documents([pair[place] for pair in lengths]) for place in (0, 1))
    elements = [{"inputs": one, "targets": other, "name": "x"} for one, other in zip(first, second)]
    rows = lk.Pack({"inputs": 8, "targets": 4}, how="first_fit").window(elements)
    for name, texts, length in (("inputs", first, 8), ("targets", second, 4)):
        tokens = [row[name][row[f"{name}_segment_ids"] > 0] for row in rows]
        assert sorted(np.concatenate([[], *tokens]).tolist()) == sorted(np.concatenate([[], *texts]).tolist())
        assert all(len(row[name]) == length for row in rows)
    assert all("name" not in row for row in rows)


def test_several_features_of_one_length():
    """Tokens and their weights are cut and packed alike; each has three leaves."""
    elements = [{"tokens": np.arange(1, n), "weights": np.arange(1, n) / 2} for n in (4, 6, 3)]
    for row in lk.Pack(7, feature=["tokens", "weights"]).window(elements):
        assert np.array_equal(row["tokens"] / 2, row["weights"])
        assert np.array_equal(row["tokens_positions"], row["weights_positions"])


def test_tokens_of_several_numbers():
    """An array (tokens, 2) makes rows (T, 2)."""
    (row,) = lk.Pack(4).window([np.ones((2, 2), np.float32), np.full((1, 2), 2, np.float32)])
    assert row["tokens"].tolist() == [[1, 1], [1, 1], [2, 2], [0, 0]]


def test_the_feature_of_an_element():
    """An array, `tokens` or the only value; lists become arrays."""
    for element in (np.array([5, 6]), [5, 6], {"tokens": [5, 6], "more": 1}, {"text": [5, 6]}):
        (row,) = lk.Pack(2).window([element])
        assert next(iter(row.values())).tolist() == [5, 6]
    assert list(row) == ["text", "text_segment_ids", "text_positions"]


@pytest.mark.parametrize("how", ["first_fit", "concat_then_split"])
def test_beside_grain(how):
    """With as many bins as rows, unshuffled, Grain's first fit gives these rows; and so does its concatenation."""
    packing = pytest.importorskip("grain.experimental")
    grain = pytest.importorskip("grain")
    lengths = np.random.default_rng(3).integers(1, 13, 60).tolist()
    texts = documents(lengths)
    data = grain.MapDataset.source([{"tokens": text} for text in texts]).to_iter_dataset()
    if how == "first_fit":
        packed = packing.FirstFitPackIterDataset(
            data, length_struct={"tokens": 16}, num_packing_bins=60, shuffle_bins=False
        )
    else:
        packed = packing.ConcatThenSplitIterDataset(
            data, length_struct={"tokens": 16}, split_full_length_features=False
        )
    theirs = list(packed)
    ours = lk.Pack(16, how=how).window(texts)
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            assert np.array_equal(one[name], other[name]), name


ERRORS: dict[str, tuple[dict[str, Any], list[Any], str]] = {
    "long": ({"long": "raise"}, [[1] * 4, [1] * 5], "element 1 of the window: expected at most 4 tokens"),
    "several": ({}, [{"a": [1], "b": [2]}], "feature: expected a name where elements have several values"),
    "missing": ({"feature": "b"}, [{"a": [1]}], r"feature: expected one of \['a'\].* got 'b'; write feature='a'"),
    "lengths": ({"feature": ["a", "b"]}, [{"a": [1], "b": [1, 2]}], "expected features of one length, got {'a': 1"),
    "pad": ({"pad": 300}, [np.ones(2, np.uint8)], "pad: expected a number of uint8, as the tokens are, got 300"),
    "names": ({"names": {"text": "x"}}, [{"a": [1]}], r"names: expected some of \['a', .*, got 'text'"),
    "dtypes": ({}, [np.ones(2), np.ones(2, int)], "element 1 of the window: expected .tokens. as in the first"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_elements_that_cant_be_packed(name):
    """A ValueError that names the element and what to write."""
    arguments, elements, text = ERRORS[name]
    with pytest.raises(ValueError, match=text):
        lk.Pack(4, **arguments).window(elements)


def test_elements_that_are_no_arrays():
    """A number, and texts."""
    for element in (3, {"tokens": "abc"}, {"tokens": np.array([None])}):
        with pytest.raises(TypeError, match=r"element 0 of the window: expected an array \(tokens, ...\)"):
            lk.Pack(4).window([element])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"length": 0}, "length: expected an int of 1 or more|length"),
        ({"length": 4, "window": 0}, "window: "),
        (
            {"length": 4, "how": "next_fit"},
            "how: expected one of 'best_fit', 'first_fit', 'concat_then_split'",
        ),
        (
            {"length": 4, "long": "cut"},
            "long: expected one of 'split', 'truncate', 'drop', 'raise', got 'cut'",
        ),
        ({"length": 4, "feature": ["a", "a"]}, "feature: expected a name, or different names"),
        ({"length": {"a": 1, "b": 2}}, 'how: expected "first_fit" for features of different lengths'),
        ({"length": {"a": 1}, "feature": "b"}, r"feature: expected \['a'\], which `length` has, got \['b'\]"),
        ({"length": 4, "pad": 0.5}, "pad: expected an int"),
        ({"length": 4, "mask": "tokens"}, "names: expected another name for each leaf, got 'tokens' for two"),
        ({"length": 4, "names": "t5"}, "names: expected 'maxtext', a mapping of names or None"),
        ({"length": 4, "targets": "next"}, "targets: expected True, False or 'document', got 'next'"),
        ({"length": 4, "loss": "counts"}, "mask: expected a name for the leaf of loss='counts', got None"),
        ({"length": 4, "columns": "weight"}, "columns: expected a list of names, got 'weight'"),
        ({"length": {}}, "feature: expected a name, or different names, got {}"),
    ],
)
def test_arguments_that_are_refused(arguments, text):
    """At construction, by name."""
    with pytest.raises((TypeError, ValueError), match=text):
        lk.Pack(**arguments)


def test_what_is_said_of_it():
    """Its repr, which is in errors, and that an empty window of empty documents makes no row."""
    assert repr(lk.Pack(8)) == "Pack(8, window=1024, how='best_fit', long='split')"
    said = "Pack(8, window=1024, how='best_fit', long='split', names='maxtext', targets=True)"
    assert repr(lk.Pack(8, names="maxtext", targets=True)) == said
    assert lk.Pack(8).window([np.empty(0, int)] * 3) == []
    assert repr(lk.WindowShuffle(3)) == "WindowShuffle(3)"
    assert repr(lk.Window(3, sorted)) == "Window(3, sorted)"
