"""The samplers of the grammar: a word, a number, whether it shuffles, and how many epochs it has."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

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
    bounds: tuple[int, ...] = ()  # of lengths

    def pair(self, source: Any, lengths: list[int]) -> tuple[Any, Any]:
        """The source as the sampler needs it, and the sampler, as a user writes them; of lengths one is a record's."""
        by, often, count = self.by, {"num_epochs": self.epochs}, len(lengths)
        shuffled = {"shuffle": self.shuffle, "seed": SEED, **often}
        match self.word:
            case "sequential":
                return source, lk.SequentialSampler(count, seed=SEED)
            case "chunk" | "lanes":
                how = {"window": 2} if self.word == "chunk" else {"window": 1, "lanes": 2, "batch": 4}
                return source, lk.ChunkSampler(count, chunk=by, seed=SEED, **how, **often)
            case "sliced":
                stop = None if self.epochs is None else by + count * self.epochs
                return source, lk.samplers.SliceSampler(
                    lk.IndexSampler(count, shuffle=self.shuffle, seed=SEED), by, stop
                )
            case "keys":
                return source, lk.samplers.KeysSampler(
                    [(by * k + k * k) % count for k in range(count)], **shuffled
                )
            case "weighted":
                many = None if self.epochs is None else count * self.epochs
                weights = [k % 3 + 0.5 for k in range(count)]
                return source, lk.samplers.WeightedSampler(weights, seed=SEED, num_samples=many)
            case "interleaved" if count > 1:
                return lk.interleave(parts(source, count, 2), block_length=by, seed=SEED, **often)
            case "balanced":
                labels, ends = np.arange(count) % 3 // 2, None if self.epochs is None else "stop"
                target = {0: by, 1: 1} if count > 2 else None
                return lk.balance(source, labels, target, when_exhausted=ends, **shuffled)
            case "buckets":
                sizes = [by, by // 2] if by % 4 == 0 else None
                dropped = count >= by and self.shuffle
                return source, lk.samplers.LengthBucketSampler(
                    lengths, self.bounds, by, batch_sizes=sizes, drop_remainder=dropped, **shuffled
                )
            case "own":
                return source, Own(count, self.epochs)
            case "mixed" | "staged" | "of_lanes" | "named" if count > 2:
                return self._mixed(source, count, shuffled)
        if self.word == "spans" and count > by:
            return source, lk.samplers.SpanSampler([by, count - by], **shuffled)
        return source, lk.IndexSampler(count, **shuffled)

    def _mixed(self, source: Any, count: int, shuffled: Any) -> tuple[Any, Any]:
        """Three components of different lengths; where the word says so with weights that change at an index."""
        each = dict(zip("abc", parts(source, count, 3), strict=True))
        weights: Any = {"a": 2, "b": 1, "c": self.by}
        if self.word == "of_lanes":
            return lk.mix(each, weights, shuffle=True, seed=SEED, lanes=2, batch=4, window=2, num_epochs=None)
        if self.word == "staged":
            weights = [(0, weights), (self.by * 3, {"a": 1, "c": 2}), (20, {"b": 1, "c": 1})]
        if self.changed is not None:
            stages = [(0, weights)] if self.word != "staged" else weights
            others = [(index, stage) for index, stage in stages if index != self.changed]
            weights = sorted([*others, (self.changed, OTHER_WEIGHTS)], key=lambda stage: stage[0])
        ends = None if self.epochs is None else ("drop" if self.by % 2 else "stop")
        how = {"order": "shuffled" if self.shuffle else "even", "when_exhausted": ends}
        if self.word == "named":
            return lk.mix(each, weights, id_key="of", **how, **shuffled)
        components = {name: lk.IndexSampler(len(part), **shuffled) for name, part in each.items()}
        return source, lk.samplers.MixedSampler(components, weights=weights, seed=SEED, **how)


def parts(source: Any, count: int, many: int) -> list[Any]:
    """A source cut into so many."""
    ends = [count * k // many for k in range(many + 1)]
    return [lk.SubsetDataSource(source, range(low, high)) for low, high in pairwise(ends)]


WORDS = (
    "index",
    "sequential",
    "chunk",
    "lanes",
    "sliced",
    "keys",
    "spans",
    "weighted",
    "interleaved",
    "balanced",
    "own",
    "mixed",
)
WORDS += ("staged", "of_lanes", "named", "buckets")
MIXED = ("mixed", "staged", "named")  # of which the weights may change
TO_THE_END = ("index", "sequential", "chunk", "lanes", "interleaved", "own", "mixed")  # they read all parts
OF_EPOCHS = ("index", "chunk", "lanes", "keys", "spans", "buckets")
WITH_LISTS = ("index", "sequential", "chunk", "lanes")  # of which the grammar leaves records out
