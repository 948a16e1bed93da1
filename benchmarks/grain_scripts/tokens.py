"""A language model's tokens: windows of a memory-mapped file, some words masked at random, in batches of 16."""

import hashlib
import sys
import time

import grain.python as grain
import numpy as np
from absl import app

WINDOW = 512
MASK = 0


class Windows:
    """Windows of a file of 16-bit tokens."""

    def __init__(self, file):
        self.file = file
        self.tokens = np.memmap(file, np.uint16, mode="r")

    def __len__(self):
        return (len(self.tokens) - 1) // WINDOW

    def __getitem__(self, key):
        return np.array(self.tokens[key * WINDOW : (key + 1) * WINDOW + 1], np.int32)

    def __reduce__(self):
        return Windows, (self.file,)

    def __repr__(self):
        return f"Windows({len(self)})"


class NotTooRepetitive(grain.FilterTransform):
    def filter(self, tokens):
        return len(np.unique(tokens)) > 190


class InputsAndTargets(grain.MapTransform):
    def map(self, tokens):
        return {"inputs": tokens[:-1], "targets": tokens[1:]}


class MaskSome(grain.RandomMapTransform):
    def random_map(self, element, rng):
        masked = rng.random(WINDOW) < 0.15
        return {
            **element,
            "inputs": np.where(masked, MASK, element["inputs"]),
            "weights": masked.astype(np.float32),
        }


def main(argv):
    source = Windows(argv[1])
    loader = grain.load(
        source,
        shuffle=True,
        seed=7,
        num_epochs=2,
        transformations=[NotTooRepetitive(), InputsAndTargets(), MaskSome()],
        batch_size=16,
        drop_remainder=True,
        worker_count=2,
    )
    digest, batches, begun = hashlib.sha256(), 0, time.perf_counter()
    for batch in loader:
        for name in sorted(batch):
            digest.update(batch[name].tobytes())
        batches += 1
    print("result", digest.hexdigest(), batches, time.perf_counter() - begun)


if __name__ == "__main__":
    app.run(main, sys.argv)
