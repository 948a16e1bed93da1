"""What the metadata of a record shows and compares."""

import numpy as np
import pytest

from loaderkit._order.metadata import RecordMetadata


def a_generator() -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=1))


@pytest.mark.parametrize("show", [str, repr])
def test_it_prints_without_an_address(show):
    """Two runs print the same text."""
    metadata = RecordMetadata(index=0, record_key=0, rng=a_generator())
    assert show(metadata) == "RecordMetadata(index=0, record_key=0, rng=Generator(Philox))"


def test_removing_the_key_keeps_the_rest():
    """The index and the very same generator stay; where there is no key nothing is made."""
    metadata = RecordMetadata(index=4, record_key=2, rng=a_generator())
    without = metadata.remove_record_key()
    assert (without.index, without.record_key) == (4, None)
    assert without.rng is metadata.rng
    assert without.remove_record_key() is without


def test_equality_is_that_of_index_and_key():
    """The generator follows from the seed and the index, and two of them never compare equal."""
    assert RecordMetadata(4, 2, a_generator()) == RecordMetadata(4, 2, a_generator())
    assert RecordMetadata(4, 2) != RecordMetadata(4, 3)
    assert RecordMetadata(4, 2) != RecordMetadata(5, 2)
