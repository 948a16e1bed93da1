"""A mixture reads each component in its own order, by weight, and any index costs the same."""

import pickle

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.testing import check_sampler


def mixed(**said):
    """Two shuffled components, 7 to 3."""
    components = {
        "web": lk.IndexSampler(70, shuffle=True, seed=0),
        "code": lk.IndexSampler(30, shuffle=True, seed=1),
    }
    return lk.MixedSampler(components, **{"weights": {"web": 0.7, "code": 0.3}, **said})


@pytest.mark.parametrize("order", ["even", "shuffled"])
def test_check_sampler_passes(order):
    check_sampler(mixed(order=order, seed=3), num_records=100)


def test_a_pickled_copy_is_equal():
    sampler = mixed().reweighed(20, {"code": 1})
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy == sampler
    assert np.array_equal(copy.record_keys(range(90)), sampler.record_keys(range(90)))


def test_an_epoch_is_a_components():
    loader = lk.DataLoader(data_source=range(100), sampler=mixed(), operations=[lk.Batch(10)])
    with pytest.raises(
        TypeError, match=r"^epoch\(e\): expected .* got a MixedSampler, of which each component"
    ):
        loader.epoch(1)
