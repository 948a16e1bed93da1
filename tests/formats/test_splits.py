"""Splits mean what TFDS says that they mean: its own ReadInstruction is the oracle."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderkit.formats._datasets.splits import SplitSlice, check_split, slices_of

LENGTHS = {"train": [4, 0, 3, 5], "test": [3], "a-b_1": [250]}

numbers = st.integers(-14, 14).map(str)
percents = st.floats(-101, 101).map(lambda value: f"{round(value, 2):g}".replace("e", "")) | st.integers(
    -100, 100
).map(str)
bounds = (
    numbers
    | percents.map(lambda text: text + "%")
    | st.integers(-5, 5).map(lambda n: f"{n}shard")
    | st.just("")
)
slices = st.one_of(st.just(""), st.tuples(bounds, bounds).map(":".join), bounds).map(
    lambda text: text and f"[{text}]"
)
parts = st.tuples(st.sampled_from([*LENGTHS, "all", "validation"]), slices).map("".join)
texts = st.lists(parts, min_size=1, max_size=3).flatmap(
    lambda each: st.sampled_from(["+", " + "]).map(lambda plus: plus.join(each))
)


def theirs(splits, text):
    tfds = pytest.importorskip("tensorflow_datasets")
    infos = {
        name: tfds.core.SplitInfo(name=name, shard_lengths=lengths, num_bytes=0)
        for name, lengths in splits.items()
    }
    found = tfds.core.splits._make_absolute_instructions(list(infos.values()), text)
    return [
        SplitSlice(
            each.splitname, each.from_ or 0, sum(splits[each.splitname]) if each.to is None else each.to
        )
        for each in found
    ]


def mixes_units(text):
    return any("%" in part and "shard" in part for part in text.split("+"))


@given(texts)
@settings(deadline=None)
def test_every_text_means_what_tfds_says(text):
    """The same slices, or an error from both. Two units in one slice are an error here only, and TFDS takes
    [:0shard] for the whole split.
    """
    try:
        expected = theirs(LENGTHS, text)
    except (ValueError, NotImplementedError):
        expected = None
    if ":0shard]" in text:
        return
    if expected is None or mixes_units(text):
        with pytest.raises(ValueError, match=r"^split: expected "):
            slices_of(text, LENGTHS)
    else:
        assert slices_of(text, LENGTHS) == expected


@given(st.integers(0, 1000), st.integers(1, 12))
@settings(deadline=None)
def test_even_splits_of_tfds_are_read(records, n):
    """The slices of tfds.even_splits cover the split without gaps."""
    tfds = pytest.importorskip("tensorflow_datasets")
    lengths = {"train": [records]}
    info = tfds.core.SplitInfo(name="train", shard_lengths=[records], num_bytes=0)
    for part in tfds.even_splits("train", n=n):
        (absolute,) = part.to_absolute({"train": info})
        text = f"train[{absolute.from_ or 0}:{records if absolute.to is None else absolute.to}]"
        (mine,) = slices_of(text, lengths)
        assert (mine.start, mine.stop) == (
            absolute.from_ or 0,
            records if absolute.to is None else absolute.to,
        )


def test_no_shard_is_no_record():
    """Up to the first shard, and from a later to an earlier one."""
    lengths = {"train": [3, 4, 5]}
    assert slices_of("train[:0shard]", lengths) == [SplitSlice("train", 0, 0)]
    assert slices_of("train[2shard:1shard]", lengths) == [SplitSlice("train", 7, 3)]
    assert slices_of("train[-1shard]", lengths) == [SplitSlice("train", 7, 12)]
    assert slices_of("train[-2shard]", lengths) == [SplitSlice("train", 3, 7)]


def test_rounding_is_to_the_closest_record_and_ties_to_even():
    """Neighbouring percents share no record and leave out none."""
    of = {"train": [5]}
    assert slices_of("train[:50%]", of) == [SplitSlice("train", 0, 2)]
    assert slices_of("train[50%:]", of) == [SplitSlice("train", 2, 5)]
    assert slices_of("train[:33.3%]", of) == [SplitSlice("train", 0, 2)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("val", r"expected one of 'train', 'test', 'a-b_1', got 'val'"),
        ("train[0]", r"expected start:stop, or one shard as \[0shard\], got 'train\[0\]'"),
        ("train[:13]", r"expected bounds within the 12 records of the split, got 'train\[:13\]'"),
        ("train[:101%]", r"expected -100% to 100%, got 'train\[:101%\]'"),
        ("train[:]", r"expected a slice as \[start:stop\], got 'train\[:\]'"),
        ("train[0:2:1]", r"expected a slice as \[start:stop\]"),
        ("train[1.5:2]", r"expected a whole number, or a number with %, got '1.5' in 'train\[1.5:2\]'"),
        ("train[10%:1shard]", r"expected both bounds in one unit"),
        ("all[:1]", r"expected 'all' without a slice"),
        ("", r"expected a name with an optional slice, got ''"),
    ],
)
def test_what_is_wrong_is_named(text, message):
    """The error has the part of the text that is wrong, and what to write."""
    with pytest.raises(ValueError, match="^split: " + message):
        slices_of(text, LENGTHS)
    with pytest.raises(TypeError, match=r"^split: expected a text, got a list; write 'train'"):
        slices_of(["train"], LENGTHS)
    for nothing in ([], [1], None):
        with pytest.raises(TypeError, match=r"^split: expected a text, got a \w+; write for example"):
            check_split(nothing)
