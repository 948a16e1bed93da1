"""The steps of a DataLoader guide: a source, a sampler, transforms, batches, and a checkpoint in the middle."""

import hashlib
import sys
import time

import grain.python as grain
import numpy as np
from absl import app


class Scale(grain.MapTransform):
    def map(self, element):
        return np.float32(element) / 1000


class Jitter(grain.RandomMapTransform):
    def random_map(self, element, rng):
        return element + np.float32(rng.normal(0, 0.01))


class Positive(grain.FilterTransform):
    def filter(self, element):
        return bool(element > 0)


def main(argv):
    source = grain.RangeDataSource(0, 20_000, 1)

    def loader():
        return grain.DataLoader(
            data_source=source,
            sampler=grain.IndexSampler(
                len(source), grain.ShardOptions(0, 2), shuffle=True, num_epochs=2, seed=3
            ),
            operations=[Scale(), Jitter(), Positive(), grain.Batch(batch_size=64)],
            worker_count=2,
            worker_buffer_size=2,
        )

    digest, batches, begun = hashlib.sha256(), 0, time.perf_counter()
    iterator = iter(loader())
    for _ in range(40):
        digest.update(next(iterator).tobytes())
        batches += 1
    state = iterator.get_state()
    digest.update(state)
    iterator = iter(loader())
    iterator.set_state(state)
    for batch in iterator:
        digest.update(batch.tobytes())
        batches += 1
    print("result", digest.hexdigest(), batches, time.perf_counter() - begun)


if __name__ == "__main__":
    app.run(main, sys.argv)
