"""A user's sampler: what it needs, what it may return, and what is an error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._order.metadata import RecordMetadata
from loaderkit.samplers import IndexSampler, Sampler, SequentialSampler
from loaderkit.samplers.protocol import fingerprint_of, length_of, num_records_of, record_keys_of, seed_of


class Backwards:
    """The least that a sampler must have, and a length."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError(index)
        return RecordMetadata(index, self.count - 1 - index)


class Squares:
    """Endless, and fast."""

    def __getitem__(self, index):
        return RecordMetadata(index, index * index)

    def record_keys(self, indices):
        return indices**2


class EveryOther(IndexSampler):
    """Inherits record_keys and fingerprint, which don't know what it changed."""

    def __getitem__(self, index):
        return RecordMetadata(index, 2 * index)


class Wrapper:
    """Hands everything on that it doesn't have, to a sampler that knows nothing of the offset."""

    def __init__(self, inner):
        self.inner = inner

    def __getitem__(self, index):
        return RecordMetadata(index, self.inner[index].record_key + 100)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)


def answering(**answers):
    """A sampler that answers with the given attributes, and each key with its index."""

    def getitem(self, index):
        return RecordMetadata(index, index)

    return type("Answering", (), {"__getitem__": getitem, **answers})()


@pytest.mark.parametrize(
    "sampler", [Backwards(50), Squares(), EveryOther(50), Wrapper(IndexSampler(50)), IndexSampler(50)]
)
@given(indices=st.lists(st.integers(0, 49), max_size=20))
def test_keys_are_those_of_indexing(sampler, indices):
    """With record_keys or without, inherited or wrapped: `sampler[i]` decides."""
    keys = record_keys_of(sampler, np.array(indices, np.int64))
    assert keys.dtype == np.int64
    assert keys.tolist() == [sampler[index].record_key for index in indices]
    assert isinstance(sampler, Sampler)


class NoLength:
    """Says that it is endless as our own does."""

    def __getitem__(self, index):
        return RecordMetadata(index, index)

    def __len__(self):
        raise TypeError("endless")


@pytest.mark.parametrize(
    ("sampler", "length"),
    [
        (Backwards(7), 7),
        (Squares(), None),
        (NoLength(), None),
        (IndexSampler(7), None),
        (IndexSampler(7, num_epochs=3), 21),
        (SequentialSampler(7), 7),
        (answering(num_records=5, num_epochs=4), 20),
        (answering(num_records=5, num_epochs=None), None),
        (answering(num_records=5), None),
        (answering(num_records=5, num_epochs=4, __len__=lambda self: 18), 18),
        (answering(__len__=lambda self: (1 << 63) - 1), None),
    ],
)
def test_the_length_is_what_the_sampler_says(sampler, length):
    """len first, then epochs times records, else endless; the largest len of all means endless too."""
    assert length_of(sampler) == length


@pytest.mark.parametrize(
    ("sampler", "seed", "records"),
    [
        (Backwards(7), None, None),
        (IndexSampler(7, seed=3), 3, 7),
        (SequentialSampler(7), None, 7),
        (answering(seed=np.int64(5), num_records=np.int64(9)), 5, 9),
        (answering(seed=None, num_records=None), None, None),
    ],
)
def test_seed_and_epoch_length_are_optional(sampler, seed, records):
    """An attribute that a sampler lacks is None."""
    assert (seed_of(sampler), num_records_of(sampler)) == (seed, records)


@pytest.mark.parametrize(
    ("ask", "sampler", "error", "text"),
    [
        (seed_of, answering(seed=-1), ValueError, "Answering.seed: expected an int from 0 to .*, got -1"),
        (seed_of, answering(seed="x"), TypeError, "Answering.seed: expected an int, got 'x'"),
        (
            num_records_of,
            answering(num_records=0),
            ValueError,
            "Answering.num_records: expected an int from 1 to",
        ),
        (
            length_of,
            answering(num_records=2, num_epochs=0),
            ValueError,
            "Answering.num_epochs: expected 1 or more",
        ),
        (
            fingerprint_of,
            answering(fingerprint=lambda self: 3),
            TypeError,
            "fingerprint.*: expected a dict of JSON values, .*got 3",
        ),
    ],
)
def test_bad_answers_are_refused_by_name(ask, sampler, error, text):
    """The error names the sampler's class and the attribute."""
    with pytest.raises(error, match=text):
        ask(sampler)


@pytest.mark.parametrize(
    ("keys", "error", "text"),
    [
        ([0.5, 1.5], TypeError, "Answering.record_keys: expected ints, got an array of float64"),
        ([0, 1, 2], ValueError, r"expected a key for each index, \(2,\), got keys of shape \(3,\)"),
        ([3, -4], ValueError, "expected rows of the source, from 0 on, got record key -4 for index 11"),
        (np.array([1 << 63, 0], np.uint64), ValueError, f"got record key {1 << 63} for index 10"),
    ],
)
def test_bad_keys_of_a_fast_sampler_are_refused(keys, error, text):
    """A negative key would read from the end of a list, and a float would be cut."""
    with pytest.raises(error, match=text):
        record_keys_of(answering(record_keys=lambda self, indices: keys), np.array([10, 11]))


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (RecordMetadata(1, None), TypeError, r"Answering\[6\].record_key: expected an int, got None"),
        (RecordMetadata(1, 2.0), TypeError, r"Answering\[6\].record_key: expected an int, got 2.0"),
        (
            RecordMetadata(1, -1),
            ValueError,
            r"Answering\[6\].record_key: expected an int from 0 to .*, got -1",
        ),
        (17, TypeError, r"Answering\[6\]: expected RecordMetadata.*, got 17"),
    ],
)
def test_bad_keys_of_a_slow_sampler_are_refused(answer, error, text):
    """The index is named, so that it can be looked at."""
    with pytest.raises(error, match=text):
        record_keys_of(answering(__getitem__=lambda self, index: answer), np.array([6]))


def test_a_sampler_that_raises_stop_iteration_is_named():
    """It ends neither the stream nor an array of keys."""

    def getitem(self, index):
        raise StopIteration

    with pytest.raises(RuntimeError, match=r"Answering\[6\]: expected RecordMetadata, got StopIteration"):
        record_keys_of(answering(__getitem__=getitem), np.array([6]))


def test_an_end_without_a_length_is_explained():
    """A sampler that ends without saying where keeps its error and gains a note; others gain none."""

    def getitem(self, index):
        raise IndexError("past my end")

    with pytest.raises(IndexError, match="past my end") as unsaid:
        record_keys_of(answering(__getitem__=getitem), np.array([6]))
    assert "without __len__ counts as endless" in unsaid.value.__notes__[0]
    with pytest.raises(IndexError) as said:
        record_keys_of(Backwards(3), np.array([3]))
    assert not hasattr(said.value, "__notes__")


@pytest.mark.parametrize(
    ("sampler", "said"),
    [
        (Backwards(3), {"kind": "Backwards", "length": 3, "first_keys": [2, 1, 0]}),
        (Squares(), {"kind": "Squares", "length": None, "first_keys": [i * i for i in range(64)]}),
        (EveryOther(3), {"kind": "EveryOther", "length": None, "first_keys": list(range(0, 128, 2))}),
        (answering(fingerprint=lambda self: {"my": "own"}), {"my": "own"}),
        (IndexSampler(3, seed=1), IndexSampler(3, seed=1).fingerprint()),
    ],
)
def test_a_fingerprint_is_the_samplers_own_or_its_first_keys(sampler, said):
    """A subclass that overrides `__getitem__` doesn't use the record_keys that it inherits."""
    assert fingerprint_of(sampler) == said
