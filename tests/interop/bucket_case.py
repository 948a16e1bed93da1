"""Batches of like lengths as arrays over all devices; run by test_jax_buckets.py with four CPU devices."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import loaderkit as lk

LENGTHS = np.arange(90) * 7 % 33
BOUNDS = [8, 16, 32]


def loader(**running):
    return lk.DataLoader(
        data_source=[{"tokens": np.full(length, key, np.int32)} for key, length in enumerate(LENGTHS)],
        sampler=lk.samplers.LengthBucketSampler(
            LENGTHS, BOUNDS, 16, batch_sizes=[16, 8, 4], seed=0, num_epochs=2
        ),
        operations=[lk.PadBatch(global_batch_size=16, boundaries={"tokens": BOUNDS}, remainder="pad")],
        **running,
    )


if __name__ == "__main__":
    split = NamedSharding(Mesh(jax.devices(), "data"), P("data"))
    expected = [batch["tokens"] for batch in loader()]
    with lk.device_iterator(iter(loader(shard_options=lk.ShardBySharding(split))), split) as batches:
        made = [next(batches) for _ in range(5)]
        state = batches.get_state()
        made += list(batches)
        batches.set_state(state)
        again = next(batches)
    assert len(jax.devices()) == 4 and len(made) == len(expected)
    assert np.array_equal(again["tokens"], expected[5])
    for array, batch in zip(made, expected, strict=True):
        assert array["tokens"].sharding == split and np.array_equal(array["tokens"], batch)
    shapes = {array["tokens"].shape for array in made}
    assert shapes == {(16, 8), (8, 16), (4, 32)}, shapes
