"""The cost of an order of chunks; what it gives is tested as ChunkSampler's."""

import numpy as np

from loaderkit._order import chunk_order
from loaderkit.samplers import ChunkSampler


def test_a_piece_of_a_call_looks_at_its_own_epochs_only(monkeypatch):
    """With all of them in each piece, a call over short epochs would cost the square of their number."""
    sizes = []
    made = chunk_order._EpochSteps.of

    def counting(order, epochs, keys):
        sizes.append(epochs.size)
        return made(order, epochs, keys)

    monkeypatch.setattr(chunk_order._EpochSteps, "of", counting)
    ChunkSampler(64, chunk=4, window=2, seed=3).record_keys(np.arange(64 * 4096))
    assert len(sizes) > 4 and max(sizes) <= 1 + 4096 // len(sizes)
