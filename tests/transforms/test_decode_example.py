"""decode.Example: features by their specs, and errors that name them."""

import pickle

import numpy as np
import pytest
from formats.records import example

import loaderkit as lk
from loaderkit.transforms.decode import Example
from loaderkit.transforms.parameters import parameters_of

RECORD = example(
    {
        "image": [b"\xff\xd8"],
        "label": [7],
        "x": [1.0, 2.0, 4.0],
        "names": [b"a", "é".encode()],
        "m": [1, 2, 3, 4],
    }
)


def test_without_specs_all_features():
    """Numbers as arrays, bytes as lists."""
    found = Example().map(RECORD)
    assert {name: getattr(value, "dtype", list) for name, value in found.items()} == {
        "image": list, "label": np.int64, "x": np.float32, "names": list, "m": np.int64,
    }  # fmt: skip
    assert found["names"] == [b"a", "é".encode()] and found["m"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("spec", "name", "expected"),
    [
        (bytes, "image", b"\xff\xd8"),
        ((bytes, (1,)), "image", [b"\xff\xd8"]),
        ((str, 2), "names", ["a", "é"]),
        ((bytes, None), "names", [b"a", "é".encode()]),
        (np.int64, "label", np.int64(7)),
        (("uint8", ()), "label", np.uint8(7)),
        ((np.float32, (3,)), "x", np.array([1, 2, 4], np.float32)),
        ((np.float64, (None,)), "x", np.array([1.0, 2, 4])),
        ((np.int32, (2, 2)), "m", np.array([[1, 2], [3, 4]], np.int32)),
        ((int, (None, 2)), "m", np.array([[1, 2], [3, 4]])),
        ((np.int64, (), -1), "lacks", np.int64(-1)),
        ((np.float32, (2,), 0.5), "lacks", np.array([0.5, 0.5], np.float32)),
        ((np.float32, (2,), [1, 2]), "lacks", np.array([1, 2], np.float32)),
        ((np.int64, (None,), []), "lacks", np.empty(0, np.int64)),
        ((bytes, (), b""), "lacks", b""),
        ((str, (2,), "?"), "lacks", ["?", "?"]),
        ((str, (None,), []), "lacks", []),
    ],
)  # fmt: skip
def test_specs(spec, name, expected):
    """dtype, shape and default; a copy of the operation in a worker gives the same."""
    for decode in (Example({name: spec}), pickle.loads(pickle.dumps(Example({name: spec})))):
        found = decode.map(RECORD)
        assert [*found] == [name]
        if isinstance(expected, np.ndarray | np.generic):
            assert found[name].dtype == expected.dtype and found[name].shape == expected.shape
            np.testing.assert_array_equal(found[name], expected)
        else:
            assert found[name] == expected


@pytest.mark.parametrize(
    ("spec", "name", "text"),
    [
        (np.int64, "lacks", "feature 'lacks': expected integers, got a record that has"),
        (np.int64, "x", "feature 'x': expected integers, got floats"),
        (np.float32, "image", "feature 'image': expected floats, got bytes"),
        (bytes, "label", "feature 'label': expected bytes, got integers"),
        ((np.float32, (2,)), "x", r"feature 'x': expected 2 floats for the shape \(2,\), got 3"),
        ((np.int64, (None, 3)), "m", r"feature 'm': expected a multiple of 3 integers .*, got 4"),
        (bytes, "names", "feature 'names': expected 1 bytes .*, got 2"),
        (str, "image", "feature 'image': expected text in UTF-8"),
        (bool, "label", "feature 'label': expected integers of bool, got 7"),
    ],
)
def test_a_record_that_differs_is_an_error_that_names_the_feature(spec, name, text):
    """By name, kind and number."""
    with pytest.raises(ValueError, match=text):
        Example({name: spec}).map(RECORD)


def test_integers_that_do_not_fit_their_dtype():
    """They don't wrap."""
    with pytest.raises(ValueError, match="expected integers of uint8, got 300"):
        Example({"x": np.uint8}).map(example({"x": [300]}))
    assert (
        Example({"x": np.uint64}).map(example({"x": [-1]}))["x"] == 2**64 - 1
    )  # as TensorFlow writes uint64


@pytest.mark.parametrize(
    ("features", "error", "text"),
    [
        ([("x", int)], TypeError, "features: expected a dict"),
        ({1: int}, TypeError, "features: expected a dict"),
        ({"x": None}, TypeError, r"features\['x'\]: expected bytes, str, or a dtype"),
        ({"x": "complex64"}, TypeError, r"features\['x'\]: expected bytes, str, or a dtype"),
        ({"x": "nonsense"}, TypeError, r"features\['x'\]: expected bytes, str, or a dtype"),
        ({"x": ()}, TypeError, r"expected dtype, \(dtype, shape\)"),
        ({"x": (int, (), 1, 2)}, TypeError, r"expected dtype, \(dtype, shape\)"),
        ({"x": (int, "ab")}, TypeError, "expected a shape of ints"),
        ({"x": (int, (2, None))}, TypeError, "expected a shape of ints"),
        ({"x": (int, (0,))}, ValueError, "numbers above 0"),
        ({"x": (bytes, (2, 2))}, ValueError, r"the shape \(\) or \(n,\)"),
        ({"x": (int, (), 0.5)}, ValueError, "expected a default of int64"),
        ({"x": (int, (None,), 0)}, ValueError, "expected a default of int64"),
        ({"x": (np.uint8, (), 256)}, ValueError, "expected a default of uint8"),
        ({"x": (int, (2,), [1, 2, 3])}, ValueError, "expected a default of int64"),
        ({"x": (bytes, (), "text")}, ValueError, "expected a default of bytes"),
        ({"x": (str, (2,), ["a"])}, ValueError, "expected a default of str"),
        ({"x": (str, (), 5)}, ValueError, "expected a default of str"),
    ],
)  # fmt: skip
def test_wrong_specs_are_refused_at_once(features, error, text):
    """By the feature's name."""
    with pytest.raises(error, match=text):
        Example(features)


def test_other_elements_are_refused():
    """Bytes that aren't an Example, and what isn't bytes."""
    with pytest.raises(ValueError, match=r"a serialized tf.train.Example, got 3 bytes .* at byte"):
        Example().map(b"abc")
    with pytest.raises(TypeError, match=r"Example: expected the bytes .*, got dict"):
        Example().map({})
    assert Example({"label": int}).map(memoryview(RECORD)) == {"label": 7}


def test_in_a_loader():
    """Batches of it, and its specs in a state."""
    records = [example({"label": [i], "x": [float(i)] * 3}) for i in range(4)]
    decode = lk.transforms.decode.Example({"label": np.int64, "x": (np.float32, (3,))})
    (batch,) = lk.load(records, batch_size=4, num_epochs=1, operations=[decode])
    assert batch["label"].tolist() == [0, 1, 2, 3] and batch["x"].shape == (4, 3)
    (said,) = parameters_of([decode])
    assert said["parameters"]["features"]["x"] == {"FeatureSpec": {"dtype": "float32", "shape": [3]}}
    assert decode == Example({"x": ("float32", 3), "label": (int, ())})
