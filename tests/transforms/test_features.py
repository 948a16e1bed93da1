"""Features of columns: beside numpy, Keras' layers and twins in plain Python; columns as single values."""

import json
import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit import features

NUMBERS = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=20)


@pytest.fixture(scope="module")
def keras():
    os.environ.setdefault("KERAS_BACKEND", "jax")
    return pytest.importorskip("keras")


def test_buckets_and_scales_are_those_of_keras(keras):
    values = np.array([-3.0, 0.0, 0.5, 2.0, 7.5], np.float32)
    buckets = keras.layers.Discretization(bin_boundaries=[0.0, 2.0, 5.0])(values)
    ours = features.Bucketized("x", boundaries=(0.0, 2.0, 5.0))
    assert ours.map({"x": values})["x"].tolist() == np.asarray(buckets).tolist()
    assert ours.num_buckets == 4
    scaled = keras.layers.Normalization(mean=1.5, variance=4.0)(values)
    np.testing.assert_allclose(
        features.Numeric("x", mean=1.5, std=2.0).map({"x": values})["x"],
        np.asarray(scaled).ravel(),
        rtol=1e-5,
    )
    labels = np.array([2, 0, 1])
    one_hot = keras.layers.CategoryEncoding(num_tokens=3, output_mode="one_hot")(labels)
    assert features.OneHot("y", depth=3).map({"y": labels})["y"].tolist() == np.asarray(one_hot).tolist()


OPERATIONS = [
    features.Numeric("x", minimum=-5, maximum=9, clip=(0, 1)),
    features.Bucketized("x", boundaries=(-1, 0, 10)),
    features.Hashed("x", num_buckets=13),
    features.Vocabulary("x", terms=(1, 5, -7)),
    features.Crossed(("x", "x"), num_buckets=13, output="x"),
]


@given(NUMBERS, st.sampled_from(OPERATIONS))
def test_a_column_is_its_values_one_by_one(values, operation):
    """And in any shape; of a pickled copy, too."""
    column = np.array(values, np.int64)
    made = pickle.loads(pickle.dumps(operation)).map({"x": column})["x"]
    assert made.tolist() == [operation.map({"x": value})["x"].item() for value in values]
    shaped = operation.map({"x": column.reshape(1, -1)})["x"]
    assert shaped.dtype == made.dtype
    assert shaped.tolist() == [made.tolist()]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=4), min_size=1, max_size=20))
def test_words_are_numbered_as_a_dict_does(words):
    terms = ("a", "b", "ab")
    feature = features.Vocabulary("w", terms=terms, oov_buckets=0, default=-1)
    words = [*words, "ab", "a"]
    expected = [terms.index(word) if word in terms else -1 for word in words]
    assert feature.map({"w": np.array(words)})["w"].tolist() == expected
    assert feature.map({"w": np.array([word.encode() for word in words], object)})["w"].tolist() == expected
    with_buckets = features.Vocabulary("w", terms=terms, oov_buckets=3)
    made = with_buckets.map({"w": np.array(words)})["w"]
    assert all(number == known if known >= 0 else 3 <= number < 6 for number, known in zip(made, expected))
    assert len(with_buckets) == 6


def twin_hash(data):
    mask = (1 << 64) - 1
    made = 0xCBF29CE484222325
    for byte in data:
        made = ((made ^ byte) * 0x100000001B3) & mask
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        made = ((made ^ (made >> 33)) * factor) & mask
    return made ^ (made >> 33)


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=9), NUMBERS)
def test_the_hash_is_the_documented_one(words, numbers):
    made = features.Hashed("x", num_buckets=1000).map({"x": np.array(words, object)})["x"]
    assert made.tolist() == [twin_hash(word.encode()) % 1000 for word in words]
    made = features.Hashed("x", num_buckets=1000).map({"x": np.array(numbers)})["x"]
    assert made.tolist() == [
        twin_hash(number.to_bytes(8, "little", signed=True)) % 1000 for number in numbers
    ]


def test_a_pipeline_of_features_gives_the_same_for_workers(tmp_path):
    (tmp_path / "pets.txt").write_text("cat\ndog\n")
    rows = [{"age": age, "pet": pet} for age, pet in zip(range(40), ["cat", "dog", "cow", "cat"] * 10)]
    operations = [
        lk.Batch(8),
        features.Numeric("age", mean=20, std=10, output="scaled"),
        features.Bucketized("age", boundaries=(10, 20), output="bucket"),
        features.Vocabulary("pet", terms=tmp_path / "pets.txt"),
        features.Crossed(("bucket", "pet"), num_buckets=50, output="cross"),
        features.OneHot("bucket", depth=3),
    ]
    made = [list(lk.load(rows, num_epochs=1, transformations=operations, worker_count=n)) for n in (0, 1)]
    assert [batch["cross"].tolist() for batch in made[0]] == [batch["cross"].tolist() for batch in made[1]]
    assert made[0][0]["bucket"].shape == (8, 3)
    assert made[0][0]["scaled"].dtype == np.float32
    state = iter(lk.load(rows, transformations=operations)).get_state()
    assert b'"name": "Bucketized"' in state


def test_many_hot_rows():
    feature = features.MultiHot("tags", depth=4, dtype="uint8")
    assert feature.map({"tags": np.array([0, 2, -1])})["tags"].tolist() == [1, 0, 1, 0]
    with pytest.raises(ValueError, match=r"tags: expected integers in \[0, 4\), got 4"):
        feature.map({"tags": np.array([4])})
    with pytest.raises(ValueError, match="use OneHot"):
        feature.map({"tags": 3})


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: features.Numeric("x", std=0), "std: expected a number above 0"),
        (lambda: features.Numeric("x", mean=1, minimum=0, maximum=1), "got both"),
        (lambda: features.Bucketized("x", boundaries=(2, 1)), "boundaries: expected ascending numbers"),
        (lambda: features.Vocabulary("x", terms=("a", "a")), "got 'a' twice"),
        (lambda: features.Vocabulary("x", terms=("a", 1)), "terms: expected words, or integers"),
        (lambda: features.Hashed("x"), "num_buckets: expected 1 or more"),
        (lambda: features.OneHot("x"), "depth: expected 1 or more"),
        (lambda: features.Crossed("x", 3, "y"), "keys: expected two names"),
    ],
)
def test_arguments_that_cannot_be(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize(
    ("feature", "element", "text"),
    [
        (features.Numeric("x"), {"y": 1}, "expected the column 'x', got 'y'"),
        (features.Numeric("x"), {"x": "a"}, "expected numbers"),
        (features.Hashed("x", num_buckets=3), {"x": 1.5}, "expected text, bytes or integers"),
        (features.Vocabulary("x", terms=("a",), oov_buckets=0), {"x": "b"}, "give oov_buckets= or default="),
        (features.Vocabulary("x", terms=("a",)), {"x": 3}, "expected words"),
        (features.OneHot("x", depth=2), {"x": np.array([0, 2])}, r"expected integers in \[0, 2\), got 2"),
    ],
)
def test_values_that_cannot_be(feature, element, text):
    with pytest.raises(ValueError, match=text):
        feature.map(element)
    with pytest.raises(TypeError, match="expected a dict of columns, got int"):
        feature.map(3)


def test_features_of_statistics(tmp_path):
    found = {
        "columns": {
            "age": {"mean": 2.0, "std": 4.0, "quantiles": [1, 2, 2, 3], "vocabulary": [["b", 3], ["a", 1]]}
        }
    }
    (tmp_path / "stats.json").write_text(json.dumps(found))
    assert features.Numeric.from_stats(tmp_path / "stats.json", "age").mean == 2.0
    assert features.Bucketized.from_stats(found, "age").boundaries == (1, 2, 3)
    assert features.Vocabulary.from_stats(found, "age", oov_buckets=2).terms == ("b", "a")
    with pytest.raises(ValueError, match="key: expected one of 'age', got 'x'"):
        features.Numeric.from_stats(found, "x")
