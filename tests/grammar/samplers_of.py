"""The samplers of the grammar: a word, a number, whether it shuffles, and how many epochs it has."""

from dataclasses import dataclass
from typing import Any

import loaderkit as lk

SEED = 11
OTHER_WEIGHTS = {"a": 1, "b": 5}


class Own:
    """A sampler as a user writes it: backwards, and with nothing that it needn't have."""

    seed = SEED

    def __init__(self, count: int, epochs: int | None) -> None:
        self.count, self.epochs = count, epochs

    def __len__(self) -> int:
        if self.epochs is None:
            raise TypeError("without end")
        return self.count * self.epochs

    def __getitem__(self, index: int) -> lk.RecordMetadata:
        if self.epochs is not None and index >= len(self):
            raise IndexError(index)
        return lk.RecordMetadata(index=index, record_key=-1 - index % self.count + self.count)


@dataclass(frozen=True)
class Sampled:
    """How the records of a source are ordered."""

    word: str = "index"
    by: int = 1
    shuffle: bool = False
    epochs: int | None = 1
    changed: int | None = None  # the index from which a mixture has other weights

    def make(self, count: int) -> Any:
        """The sampler, as a user writes it."""
        by, often = self.by, {"num_epochs": self.epochs}
        shuffled = {"shuffle": self.shuffle, "seed": SEED, **often}
        match self.word:
            case "index":
                return lk.IndexSampler(count, **shuffled)
            case "sequential":
                return lk.SequentialSampler(count, seed=SEED)
            case "chunk":
                return lk.ChunkSampler(count, chunk=by, window=2, seed=SEED, **often)
            case "lanes":
                return lk.ChunkSampler(count, chunk=by, window=1, lanes=2, batch=4, seed=SEED, **often)
            case "keys":
                return lk.KeysSampler([(by * k + k * k) % count for k in range(count)], **shuffled)
            case "weighted":
                many = None if self.epochs is None else count * self.epochs
                return lk.WeightedSampler([k % 3 + 0.5 for k in range(count)], seed=SEED, num_samples=many)
            case "interleaved":
                first = (count + 1) // 2
                lengths = [first, count - first] if count > 1 else [1]
                return lk.InterleavedSampler(lengths, cycle_length=2, block_length=by, seed=SEED, **often)
            case "own":
                return Own(count, self.epochs)
        return self._mixed(count, shuffled)

    def _mixed(self, count: int, shuffled: Any) -> Any:
        """Three components of different lengths; where the word says so with weights that change at an index."""
        if count < 3:
            return lk.IndexSampler(count, **shuffled)
        lengths = {"a": count // 3, "b": count // 3, "c": count - 2 * (count // 3)}
        components = {name: lk.IndexSampler(length, **shuffled) for name, length in lengths.items()}
        weights: Any = {"a": 2, "b": 1, "c": self.by}
        if self.word == "staged":
            weights = [(0, weights), (self.by * 3, {"a": 1, "c": 2}), (20, {"b": 1, "c": 1})]
        if self.changed is not None:
            stages = [(0, weights)] if self.word == "mixed" else weights
            others = [(index, stage) for index, stage in stages if index != self.changed]
            weights = sorted([*others, (self.changed, OTHER_WEIGHTS)], key=lambda stage: stage[0])
        ends = None if self.epochs is None else ("drop" if self.by % 2 else "stop")
        order = "shuffled" if self.shuffle else "even"
        return lk.MixedSampler(components, weights=weights, order=order, when_exhausted=ends, seed=SEED)


WORDS = ("index", "sequential", "chunk", "lanes", "keys", "weighted", "interleaved", "own", "mixed", "staged")
OF_EPOCHS = ("index", "chunk", "lanes", "keys")
