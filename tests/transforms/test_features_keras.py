"""features beside Keras' preprocessing layers, and its look-ups where TensorFlow is installed."""

import os
from typing import Any

import numpy as np
import pytest

from loaderkit import features

os.environ.setdefault("KERAS_BACKEND", "jax")
pytestmark = pytest.mark.slow  # importing Keras alone takes 5 s of one core


@pytest.fixture(scope="module")
def layers() -> Any:
    return pytest.importorskip("keras").layers


def test_numbers_as_keras_has_them(layers):
    """Discretization and Normalization; numbers on an edge too."""
    column = np.array([-1.0, 18, 18.5, 65, 1e6, np.inf], np.float32)
    ids = features.Bucketized("x", [18, 65]).of(column)
    assert ids.tolist() == np.asarray(layers.Discretization([18.0, 65.0])(column)).tolist()
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    mean, variance = table.mean(0), table.var(0)
    theirs = layers.Normalization(mean=mean, variance=variance)(table)
    ours = features.Numeric("x", mean=mean, std=np.sqrt(variance)).of(table)
    np.testing.assert_allclose(ours, np.asarray(theirs), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", ["one_hot", "multi_hot", "count"])
def test_vectors_as_keras_has_them(layers, mode):
    """CategoryEncoding in its three modes."""
    ids = np.array([0, 3, 1]) if mode == "one_hot" else np.array([[0, 3], [1, 1]])
    theirs = np.asarray(layers.CategoryEncoding(num_tokens=4, output_mode=mode)(ids))
    if mode == "one_hot":
        ours = features.OneHot("x", 4).of(ids)
    else:
        ours = features.MultiHot("x", 4, count=mode == "count").of(ids)
    assert theirs.dtype == ours.dtype and theirs.tolist() == ours.tolist()


def test_vocabularies_as_keras_has_them(layers):
    """StringLookup and IntegerLookup have their bucket for others before the vocabulary, loaderkit behind it."""
    pytest.importorskip("tensorflow")
    texts = np.array(["b", "z", "a"])
    theirs = np.asarray(layers.StringLookup(vocabulary=["a", "b"])(texts))
    assert (theirs - 1).tolist() == [1, -1, 0]
    assert features.Vocabulary("x", ["a", "b"], num_oov_buckets=0, default_value=-1).of(texts).tolist() == [
        1,
        -1,
        0,
    ]
    numbers = np.array([7, 9, 5])
    theirs = np.asarray(layers.IntegerLookup(vocabulary=[5, 7])(numbers))
    assert (theirs - 1).tolist() == [1, -1, 0]
    assert features.Vocabulary("x", [5, 7]).of(numbers).tolist() == [1, 2, 0]
