"""Whether the labels of neighbouring records are as in a shuffled set."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# In a shuffled set the number of equal neighbours is this many standard deviations above its mean by chance in one set
# of 10^9.
DEVIATIONS = 6.0
# A lesser excess harms no training, however sure it is in a large set.
LEAST_EXCESS = 0.05
FEWEST_PAIRS = 32
CHUNK = 64  # records: 1 MiB of 16 KiB each, what a chunk of lk.ChunkSampler may have


@dataclass(frozen=True, slots=True)
class LabelRuns:
    """How often neighbours have the same label.

    pairs: of neighbours. equal: the pairs with one label. expected: the share of equal pairs in a shuffled set with
    these labels. pure: the share of chunks of 64 records with one label only.
    """

    pairs: int
    equal: int
    expected: float
    pure: float

    @property
    def share(self) -> float:
        """Of the pairs with one label."""
        return self.equal / self.pairs if self.pairs else 0.0

    @property
    def deviations(self) -> float:
        """How many standard deviations the number of equal pairs is above its mean in a shuffled set."""
        spread = (self.pairs * self.expected * (1 - self.expected)) ** 0.5
        return float((self.equal - self.pairs * self.expected) / max(spread, 1e-9))

    @property
    def unshuffled(self) -> bool:
        """Whether chance is excluded and the excess is worth a word."""
        return (
            self.pairs >= FEWEST_PAIRS
            and self.deviations > DEVIATIONS
            and self.share > self.expected + LEAST_EXCESS
        )


def label_runs(labels: NDArray[np.int64], keys: NDArray[np.int64]) -> LabelRuns:
    """Counts equal neighbours: records with keys that follow each other.

    labels: (n,) numbers of the labels, -1 for a record without one. keys: (n,) of the records, rising.

    >>> label_runs(np.array([0, 0, 0, 1, 1, 1]), np.arange(6))
    LabelRuns(pairs=5, equal=4, expected=0.4, pure=0.0)
    >>> label_runs(np.repeat([0, 1], CHUNK), np.arange(2 * CHUNK)).pure
    1.0
    """
    labels, keys = labels[labels >= 0], keys[labels >= 0]
    neighbours = np.diff(keys) == 1
    equal = (np.diff(labels) == 0) & neighbours
    counts = np.bincount(labels) if len(labels) else np.zeros(0, np.int64)
    n = len(labels)
    expected = float((counts * (counts - 1)).sum() / (n * (n - 1))) if n > 1 else 0.0
    chunks = np.split(labels, np.flatnonzero(np.diff(keys // CHUNK)) + 1)
    pure = [bool((chunk == chunk[0]).all()) for chunk in chunks if len(chunk) > 1]
    return LabelRuns(int(neighbours.sum()), int(equal.sum()), expected, float(np.mean(pure)) if pure else 0.0)
