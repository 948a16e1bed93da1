"""Against the real tf.data: a loader's elements, their strings and their positions, and Keras' fit over them."""

import numpy as np
import pytest

import loaderkit as lk

tf = pytest.importorskip("tensorflow")
bridge = pytest.importorskip("loaderkit.interop.tf")


def loader_of(**options):
    """Batches of 3 of 10 records with leaves of several types."""
    records = [
        {"x": np.arange(4, dtype=np.uint16) + k, "pair": [k, k / 2], "name": f"r{k}", "raw": b"\xff%d" % k}
        for k in range(10)
    ]
    options = {"batch_size": 3, "shuffle": True, "seed": 0, "num_epochs": 1, **options}
    return lk.load(records, **options)


def as_lists(element):
    """A tree of plain values, strings as bytes, as tf gives them."""
    values = [element["x"], *element["pair"], element["name"], element["raw"]]
    values = [np.asarray(value).tolist() for value in values]
    encode = lambda v: v.encode() if isinstance(v, str) else v  # noqa: E731
    return [[*map(encode, value)] if isinstance(value, list) else encode(value) for value in values]


@pytest.mark.parametrize("batch_size", [3, None])
def test_the_elements_are_the_loaders(batch_size):
    """The last batch with its fewer rows, and elements without a Batch; each iteration gives all of them."""
    expected = [as_lists(element) for element in loader_of(batch_size=batch_size)]
    made = bridge.dataset(loader_of(batch_size=batch_size))
    assert made.cardinality().numpy() == len(expected)
    assert made.element_spec["x"].dtype == tf.uint16
    assert [as_lists(element) for element in made.as_numpy_iterator()] == expected


def test_the_position_comes_with_each_element_and_begins_another_data_set():
    """Although tf.data has taken later elements by then."""
    expected = [as_lists(element) for element in loader_of()]
    pairs = iter(bridge.dataset(loader_of(), with_state=True).prefetch(3))
    for _ in range(2):
        _, state = next(pairs)
    again = bridge.dataset(loader_of(), state=state.numpy())
    assert again.cardinality().numpy() == 2
    assert [as_lists(element) for element in again.as_numpy_iterator()] == expected[2:]


def test_streams_without_end_and_with_rows_in_number_unknown():
    """Their cardinality says so."""
    endless = bridge.dataset(loader_of(num_epochs=None))
    assert endless.cardinality() == tf.data.INFINITE_CARDINALITY
    assert len([*endless.take(7)]) == 7
    filtered = bridge.dataset(loader_of(operations=[lk.Filter(lambda record: True)]))
    assert filtered.cardinality() == tf.data.UNKNOWN_CARDINALITY
    assert len([*filtered]) == 4


def test_a_signature_of_ones_own_has_all_shapes():
    """For elements of several shapes, and for compilers that need them."""
    ragged = lk.load([np.zeros((1, k)) for k in range(3)], num_epochs=1)
    made = bridge.dataset(ragged, output_signature=tf.TensorSpec((1, None), tf.float64))
    assert [element.shape[1] for element in made] == [0, 1, 2]


def test_what_tensorflow_lacks_is_an_error_that_says_what_to_do():
    """Before anything is read."""
    with pytest.raises(TypeError, match="loader: expected a loaderkit DataLoader, got list"):
        bridge.dataset([1])
    with pytest.raises(TypeError, match=r"expected dtypes of TensorFlow, got datetime64\[D\]; lk.Map"):
        bridge.dataset(lk.load([np.zeros(2, "M8[D]")]))
    with pytest.raises(TypeError, match=r"of arrays, numbers, strings and bytes, got range; lk.Map"):
        bridge.dataset(lk.load([range(3)]))
    with pytest.raises(lk.errors.StateError):
        bridge.dataset(loader_of(), state=b"{}")
