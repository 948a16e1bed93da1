"""features: columns and single records give the same, as plain loops over the values do; a loader's states say them."""

import pickle
from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit import features
from loaderkit._order.mixing import fold
from loaderkit.transforms.parameters import parameters_of

MASK = (1 << 64) - 1
TEXTS = st.text(max_size=40) | st.sampled_from(["", "a\0", "\0", "ä" * 20, "x" * 300])
INTEGERS = st.integers(-(2**63), 2**63 - 1)


def mixed(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & MASK
    return value ^ value >> 31


def hash_of(value: str | bytes | int, seed: int = 0) -> int:
    """As hashing.py says it, a value at a time."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    if isinstance(data, int):
        data = (data & MASK).to_bytes(8, "little")
    h = fold(seed, len(data))
    for start in range(0, len(data), 8):
        h = mixed(h ^ int.from_bytes(data[start : start + 8], "little"))
    return h


def each(operation: Any, column: Any, **others: Any) -> np.ndarray:
    """The results of single records, stacked."""
    rows = [operation.map({"x": value})["x"] for value in column]
    return np.stack(rows)


def same(one: np.ndarray, two: np.ndarray) -> None:
    assert one.dtype == two.dtype
    np.testing.assert_array_equal(one, two)


@given(st.lists(TEXTS, min_size=1, max_size=8), st.integers(0, MASK), st.sampled_from([1, 7, 2**31, 2**62]))
def test_hashed_texts_as_a_loop_over_their_words_gives(values, seed, num_buckets):
    """Str and bytes, in arrays of objects, in numpy's own arrays and alone."""
    operation = features.Hashed("x", num_buckets, seed=seed, dtype="int64")
    expected = np.array([hash_of(value, seed) % num_buckets for value in values])
    data = [value.encode() for value in values]
    for column in (np.array(values, object), np.array(data, object)):
        same(operation.map({"x": column})["x"], expected)
    same(each(operation, values), expected)
    same(each(operation, data), expected)
    if not any(value.endswith("\0") for value in values):  # which numpy's own arrays of texts don't keep
        same(operation.map({"x": np.array(values)})["x"], expected)


@given(st.lists(INTEGERS, min_size=1, max_size=20))
def test_hashed_integers_do_not_depend_on_their_dtype(values):
    """Those of any width, signed or not, in Python and numpy."""
    operation = features.Hashed("x", 1000)
    expected = np.array([hash_of(value) % 1000 for value in values], np.int32)
    same(operation.map({"x": np.array(values)})["x"], expected)
    same(operation.map({"x": np.array(values, object)})["x"], expected)
    same(each(operation, values), expected)
    small = np.array([value % 100 for value in values])
    for dtype in (np.int8, np.uint16, np.uint64):
        same(operation.of(small.astype(dtype)), operation.of(small))


def test_hashes_of_like_values_are_spread_evenly():
    """By chi-square over 64 buckets: numbers in a row, short texts, words that differ in the last letter."""
    for values in (np.arange(64_000), np.array([f"user{i}" for i in range(64_000)])):
        counts = np.bincount(features.Hashed("x", 64).of(values), minlength=64)
        assert 25 < ((counts - 1000) ** 2 / 1000).sum() < 115  # 63 degrees of freedom: 1 in 10,000 each side
    ids = features.Crossed(["x", "y"], 64).map({"x": np.arange(64_000) % 250, "y": np.arange(64_000) // 250})
    counts = np.bincount(ids["x_X_y"], minlength=64)
    assert 25 < ((counts - 1000) ** 2 / 1000).sum() < 115


@given(st.lists(st.tuples(TEXTS, INTEGERS), min_size=1, max_size=10), st.integers(0, MASK))
def test_crossed_columns_as_a_loop_over_the_rows_gives(rows, seed):
    """Texts and integers; the order of the columns matters."""
    operation = features.Crossed(["x", "y"], 1 << 40, seed=seed, output="both", dtype="int64")
    expected = np.array([fold(seed, hash_of(x), hash_of(y)) % (1 << 40) for x, y in rows])
    batch = {"x": np.array([x for x, _ in rows], object), "y": np.array([y for _, y in rows])}
    made = operation.map(batch)
    same(made["both"], expected)
    assert made.keys() == {"x", "y", "both"} and made["x"] is batch["x"]
    same(np.stack([operation.map({"x": x, "y": y})["both"] for x, y in rows]), expected)


@given(
    st.lists(TEXTS, min_size=1, max_size=20, unique=True),
    st.lists(TEXTS, max_size=20),
    st.integers(0, 3),
)
def test_vocabulary_as_a_dict_gives(vocabulary, others, buckets):
    """Texts of the vocabulary have their place, others a bucket behind it or default_value."""
    default = None if buckets else -1
    operation = features.Vocabulary("x", vocabulary, num_oov_buckets=buckets, default_value=default)
    places = {value: place for place, value in enumerate(vocabulary)}
    values = [*vocabulary, *others]
    expected = [
        places[value] if value in places else len(places) + hash_of(value) % buckets if buckets else -1
        for value in values
    ]
    same(operation.of(np.array(values, object)), np.array(expected, np.int32))
    same(operation.of(np.array([value.encode() for value in values], object)), np.array(expected, np.int32))
    same(each(operation, values), np.array(expected, np.int32))
    assert operation.num_buckets == len(vocabulary) + buckets
    copy = pickle.loads(pickle.dumps(operation))
    assert copy == operation and hash(copy) == hash(operation)
    same(each(copy, values), np.array(expected, np.int32))


@given(st.lists(INTEGERS, min_size=1, max_size=20, unique=True), st.lists(INTEGERS, max_size=20))
def test_vocabulary_of_integers_as_a_dict_gives(vocabulary, others):
    """Of any dtype; uint64 above those of int64 are unknown."""
    operation = features.Vocabulary("x", vocabulary)
    places = {value: place for place, value in enumerate(vocabulary)}
    values = [*vocabulary, *others]
    expected = np.array([places.get(value, len(places)) for value in values], np.int32)
    same(operation.of(np.array(values)), expected)
    same(operation.of(np.array(values, object)), expected)
    same(each(operation, values), expected)
    positive = [value for value in values if value >= 0]
    large = [2**63, *[value + 2**63 for value in positive]]
    same(
        operation.of(np.array(positive + large, np.uint64)),
        np.array([places.get(value, len(places)) for value in positive + large], np.int32),
    )


def test_vocabulary_from_a_file(tmp_path):
    """A line each, with any line ends; the path isn't part of its value, the values are."""
    path = tmp_path / "colours.txt"
    path.write_bytes("röd\r\ngrön\nblå".encode())
    operation = features.Vocabulary("x", path)
    assert (
        operation == features.Vocabulary("x", ["röd", "grön", "blå"]) == features.Vocabulary("x", str(path))
    )
    assert [*operation.vocabulary] == ["röd", "grön", "blå"] and operation.vocabulary[-1] == "blå"
    assert operation.map({"x": None}) == {"x": 3}
    assert operation != features.Vocabulary("x", ["röd", "blå", "grön"])
    assert features.Vocabulary("x", [b"\xff", "a"]).of(np.array([b"\xff", b"a", b"b"], object)).tolist() == [
        0,
        1,
        2,
    ]


@given(
    st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=5, unique=True).map(sorted),
    st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=20),
    st.booleans(),
)
def test_bucketized_as_bisect_gives(boundaries, values, right):
    """Values on an edge too; floats, integers and missing ones."""
    if not np.isfinite(boundaries).all():
        with pytest.raises(ValueError, match="boundaries: expected finite"):
            features.Bucketized("x", boundaries)
        return
    values = [*values, *boundaries]
    operation = features.Bucketized("x", boundaries, right=right, default=0)
    find = bisect_left if right else bisect_right
    expected = np.array([find(boundaries, value) for value in values], np.int32)
    same(operation.of(np.array(values)), expected)
    same(operation.of(np.array(values, np.float32)), expected)
    same(each(operation, values), expected)
    assert operation.of(np.nan) == operation.of(None) == find(boundaries, 0)
    same(operation.of(np.arange(5)), np.array([find(boundaries, value) for value in range(5)], np.int32))


def test_numbers_are_normalised():
    """Each step in its place, in float64; shapes stay, and each place of the last axis may have its own numbers."""
    column = np.array([np.nan, -5.0, 0.0, 3.0, 1e9])
    operation = features.Numeric("x", clip=(0, 99), log1p=True, mean=1, std=2, default=99, dtype="float64")
    clipped = [99, 0, 0, 3, 99]
    expected = (np.log1p(np.array(clipped, float)) - 1) / 2
    same(operation.of(column), expected)
    same(each(operation, [None, *column[1:].tolist()]), expected)
    same(features.Numeric("x").of(np.array([1, 2], np.uint8)), np.array([1, 2], np.float32))
    assert np.isnan(features.Numeric("x", mean=2).of(None))
    images = np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3)
    normal = features.Numeric("x", mean=[1, 2, 3], std=(1, 2, 0), dtype=np.float64).of(images)
    same(normal, (images - [1.0, 2, 3]) / [1.0, 2, 1])
    least = features.Numeric("x", min=np.float32(10), max=20).of(np.array([10, 15, 30]))
    same(least, np.array([0, 0.5, 2], np.float32))
    time = 1.7e9  # which float32 holds to 128 only
    same(features.Numeric("x", mean=time).of(np.array([time + 1])), np.array([1], np.float32))


@given(st.lists(st.lists(st.integers(-1, 4), min_size=3, max_size=3), max_size=6))
def test_vectors_of_ids_as_a_loop_gives(rows):
    """OneHot adds an axis, MultiHot sums over the last; -1 is none."""
    ids = np.array(rows, np.int64).reshape(-1, 3)
    one_hot = features.OneHot("x", 5, output="v").map({"x": ids})["v"]
    expected = np.array([[[float(k == i) for k in range(5)] for i in row] for row in rows], np.float32)
    same(one_hot, expected.reshape(-1, 3, 5))
    same(features.MultiHot("x", 5).of(ids), expected.reshape(-1, 3, 5).max(1, initial=0))
    counts = features.MultiHot("x", 5, count=True, dtype="int64").of(ids)
    same(counts, expected.reshape(-1, 3, 5).sum(1).astype(np.int64))
    for row, count in zip(ids, counts):
        same(features.MultiHot("x", 5, count=True, dtype=np.int64).of(row), count)
    assert features.OneHot("x", 3, dtype=bool).of(2).tolist() == [False, False, True]
    assert features.MultiHot("x", 3).of(np.zeros((2, 0), int)).tolist() == [[0, 0, 0]] * 2


def test_feature_columns_of_a_table_in_a_loader():
    """numeric, buckets, identity, vocabulary, hash, cross: after Batch or before it, in the same batches and states."""
    rows = [
        {
            "age": float(i % 90),
            "city": ["Ulm", "Kiel", "Jena"][i % 3],
            "day": i % 7,
            "user": b"u%d" % (i % 11),
        }
        for i in range(64)
    ]
    columns = [
        features.Bucketized("age", [18, 30, 65], output="age_bucket"),
        features.Numeric("age", mean=45, std=26),
        features.Identity("day", 7),
        features.Crossed(["city", "age_bucket"], 100),
        features.Vocabulary("city", ["Ulm", "Kiel"]),
        features.Hashed("user", 50),
        features.OneHot("day", 7),
    ]
    batches = []
    for operations in ([lk.Batch(16), *columns], [*columns, lk.Batch(16)]):
        loader = lk.load(rows, operations=operations, shuffle=True, seed=1, num_epochs=1)
        batches.append([*loader])
    for one, two in zip(*batches, strict=True):
        assert one.keys() == two.keys() == {"age", "age_bucket", "city", "day", "user", "city_X_age_bucket"}
        for key in one:
            same(one[key], two[key])
    assert {key: (leaf.dtype.name, leaf.shape) for key, leaf in batches[0][0].items()} == {
        "age": ("float32", (16,)),
        "city": ("int32", (16,)),
        "day": ("float32", (16, 7)),
        "user": ("int32", (16,)),
        "age_bucket": ("int32", (16,)),
        "city_X_age_bucket": ("int32", (16,)),
    }


def test_states_have_the_parameters_of_features():
    """Of a vocabulary its length and a digest; what is at its default isn't there."""
    words = [f"word{i}" for i in range(20_000)]
    other = [*words[:-2], words[-1], words[-2]]
    one, two = (parameters_of([features.Vocabulary("x", each)])[0]["parameters"] for each in (words, other))
    assert one["key"] == "x" and one["vocabulary"]["VocabularyTable"]["count"] == 20_000
    assert one.keys() == {"key", "vocabulary"} and one != two
    assert parameters_of([features.Bucketized("age", (1, 2.5), right=True)]) == [
        {
            "op": "Map",
            "name": "Bucketized",
            "parameters": {"key": "age", "boundaries": [1, 2.5], "right": True},
        }
    ]
    assert parameters_of([features.Hashed("x", np.int64(5))])[0]["parameters"] == {
        "key": "x",
        "num_buckets": 5,
    }


X = np.array([1, 2])
WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda: features.Hashed([3], 5), TypeError, r"key: expected a dict's key, .* got \[3\]"),  # type: ignore[arg-type]
    (lambda: features.Crossed([0, 1], 5), ValueError, "output: expected a place beside keys"),
    (
        lambda: features.Hashed("x", 0),
        ValueError,
        "num_buckets: expected 1 or more|num_buckets: expected an int from 1",
    ),
    (
        lambda: features.Hashed("x", 2**40),
        ValueError,
        "dtype: expected one with room for 1099511627776 ids, got int32",
    ),
    (lambda: features.Hashed("x", 5, dtype="float32"), TypeError, "dtype: expected a signed integer type"),
    (lambda: features.Hashed("x", 5, dtype="nonsense"), TypeError, "dtype: expected a signed integer type"),
    (lambda: features.Hashed("x", 5, output=[1]), TypeError, "output: expected a dict's key"),  # type: ignore[arg-type]
    (
        lambda: features.Hashed("x", 5).of(np.array([1.5])),
        TypeError,
        "leaf 'x': expected texts, bytes or integers",
    ),
    (
        lambda: features.Hashed("x", 5).of(np.array([2**64], object)),
        TypeError,
        "expected texts, bytes or integers of",
    ),
    (
        lambda: features.Hashed("x", 5).map([1]),
        TypeError,
        "leaf 'x': expected a place in the element, got a list with",
    ),
    (
        lambda: features.Hashed("x", 5).map({"x": [1]}),
        TypeError,
        "leaf 'x': expected an array or a single value",
    ),
    (
        lambda: features.Hashed("x", 5).map({"y": 1}),
        KeyError,
        "leaf 'x': expected a place in the element, got .*'y'",
    ),
    (lambda: features.Crossed("xy", 5), TypeError, "keys: expected a list of the keys of two leaves"),
    (lambda: features.Crossed(["x", "y"], 5, output=[1]), TypeError, "output: expected"),  # type: ignore[arg-type]
    (
        lambda: features.Crossed(["x", "y"], 5).map({"x": X, "y": 1}),
        ValueError,
        "leaf 'y': expected the shape",
    ),
    (lambda: features.Vocabulary("x", []), ValueError, "vocabulary: expected one value or more, got none"),
    (
        lambda: features.Vocabulary("x", ["a", b"a"]),
        ValueError,
        "vocabulary: expected each value once, got b'a'",
    ),
    (
        lambda: features.Vocabulary("x", ["a", 1]),
        TypeError,
        "expected texts, or integers of 64 bits, got 1 beside 'a'",
    ),
    (lambda: features.Vocabulary("x", [1, 2**63]), TypeError, "expected texts, or integers of 64 bits"),
    (lambda: features.Vocabulary("x", {"a"}), TypeError, "vocabulary: expected a list of values or the path"),
    (
        lambda: features.Vocabulary("x", ["a"], default_value=-1),
        ValueError,
        "default_value: expected none beside",
    ),
    (
        lambda: features.Vocabulary("x", ["a"]).of(X),
        TypeError,
        "leaf 'x': expected texts, as the vocabulary has",
    ),
    (
        lambda: features.Vocabulary("x", [1]).of("a"),
        TypeError,
        "leaf 'x': expected integers, as the vocabulary",
    ),
    (
        lambda: features.Vocabulary("x", ["a"], num_oov_buckets=0).of("b"),
        ValueError,
        "expected a value of the voc",
    ),
    (lambda: features.Vocabulary("x", "/no/such/file"), FileNotFoundError, "/no/such/file"),
    (lambda: features.Bucketized("x", []), TypeError, "boundaries: expected a list of numbers, got"),
    (
        lambda: features.Bucketized("x", [2, 1]),
        ValueError,
        "boundaries: expected finite numbers that increase",
    ),
    (lambda: features.Bucketized("x", [1], right=1), TypeError, "right: expected True or False"),  # type: ignore[arg-type]
    (
        lambda: features.Bucketized("x", [1]).of(None),
        ValueError,
        "leaf 'x': expected numbers, got NaN or None; give def",
    ),
    (lambda: features.Bucketized("x", [1]).of(np.array(["a"])), TypeError, "leaf 'x': expected numbers"),
    (
        lambda: features.Bucketized("x", [1]).of(np.array([None, "a"], object)),
        TypeError,
        "leaf 'x': expected numbers",
    ),
    (lambda: features.Numeric("x", mean=1, min=0, max=1), ValueError, "min, max: expected them without mean"),
    (lambda: features.Numeric("x", min=0), ValueError, "min, max: expected both or none"),
    (lambda: features.Numeric("x", min=1, max=0), ValueError, "max: expected at least min, got 0"),
    (lambda: features.Numeric("x", std=-1), ValueError, "std: expected 0 or more, got -1"),
    (lambda: features.Numeric("x", mean=np.nan), ValueError, "mean: expected finite numbers"),
    (lambda: features.Numeric("x", mean="1"), TypeError, "mean: expected a number"),  # type: ignore[arg-type]
    (lambda: features.Numeric("x", mean=[1, 2, 3]).of(X), ValueError, "leaf 'x': expected a last axis of 3"),
    (lambda: features.Numeric("x", clip=3), TypeError, "clip: expected"),  # type: ignore[arg-type]
    (lambda: features.Numeric("x", clip=(3, 1)), ValueError, "clip: expected .low, high. with low <= high"),
    (lambda: features.Numeric("x", log1p=True).of(-1.0), ValueError, "leaf 'x': expected values above -1"),
    (lambda: features.Numeric("x", log1p=1), TypeError, "log1p: expected True or False"),  # type: ignore[arg-type]
    (lambda: features.Numeric("x", dtype="int8"), TypeError, "dtype: expected a float type of numpy"),
    (lambda: features.Identity("x", 2).of(X), ValueError, "leaf 'x': expected ids from 0 to 1, got 2"),
    (
        lambda: features.Identity("x", 2).of(1.0),
        TypeError,
        "expected integers, got float64.*features.Bucketized",
    ),
    (lambda: features.Identity("x", 2).of("a"), TypeError, "expected integers, got .*features.Vocabulary"),
    (lambda: features.OneHot("x", 2).of(X), ValueError, "leaf 'x': expected ids from -1 to 1, got 2"),
    (lambda: features.OneHot("x", 2, dtype="S1"), TypeError, "dtype: expected a type of numbers or bool"),
    (lambda: features.MultiHot("x", 2).of(1), ValueError, r"leaf 'x': expected ids \(..., k\) for MultiHot"),
    (lambda: features.MultiHot("x", 2, count=1), TypeError, "count: expected True or False"),  # type: ignore[arg-type]
    (lambda: features.Numeric.from_stats({"columns": {}}, "x"), KeyError, "stats: expected a column 'x'"),
    (
        lambda: features.Numeric.from_stats({}, "x"),
        ValueError,
        "stats: expected what `loaderkit inspect --values` writes",
    ),
    (lambda: features.Numeric.from_stats(3, "x"), TypeError, "stats: expected a file"),  # type: ignore[arg-type]
    (
        lambda: features.Numeric.from_stats({}, "x", scale="z"),
        ValueError,
        "scale: expected 'mean_std' or 'min_max'",
    ),
]


@pytest.mark.parametrize(
    ("call", "kind", "text"), WRONG, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_is_wrong_is_said(call, kind, text):
    """With the argument or the leaf, what is expected, and what to write."""
    with pytest.raises(kind, match=text):
        call()


def test_values_outside_take_the_default():
    """Of Identity, as of TensorFlow's categorical_column_with_identity."""
    operation = features.Identity("x", 3, default_value=1, dtype="int64")
    same(operation.of(np.array([-1, 0, 2, 3, 2**40])), np.array([1, 0, 2, 1, 1]))
    assert operation.of(True) == 1
