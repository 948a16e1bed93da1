"""The operations of the grammar: for each word its kind, the user's function, and what makes it for a loader."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from packing_twins import naive_rows
from sources_of import HOW, LONGEST, ROW, laid_out, stack, wider

import loaderkit as lk


@dataclass(frozen=True)
class Op:
    """A word with its number; of a batch `by` are its rows, of a window its elements."""

    word: str
    by: int = 1
    remainder: str = "keep"
    whole: bool = False  # whether `by` are the rows of all hosts together
    bucket: int | None = None  # which of its bounds a plan says for tokens, or the longest of a step
    ordinal: int = 0  # its number among the operations that draw

    @property
    def kind(self) -> str:
        return WORDS[self.word][0]

    @property
    def call(self) -> Any:
        if self.bucket is not None:
            longest = self.word == "longest"
            return _pad_batch((self.bucket,) if longest else self.bounds[self.bucket : self.bucket + 1])
        return WORDS[self.word][1](self.by)

    @property
    def draws(self) -> bool:
        return self.kind == "random" or self.word == "shuffle"

    @property
    def bounds(self) -> tuple[int, ...]:
        """Lengths that tokens are padded to: several, or one."""
        return bounds_of(self.by)

    @property
    def multiple(self) -> int:
        """What the longest of a step is rounded up to."""
        return self.by % 3 + 1

    def make(self, lengths: list[int]) -> Any:
        """The operation, as a user writes it, who knows the lengths of all records."""
        match self.kind:
            case "batch" if self.word in PADDED:
                size = {"global_batch_size" if self.whole else "batch_size": self.by}
                how = {"boundaries": {"tokens": self.bounds}}
                if self.word == "longest":
                    how = {
                        "boundaries": {"tokens": "longest"},
                        "lengths": lengths,
                        "multiple_of": self.multiple,
                    }
                return lk.PadBatch(**size, remainder=self.remainder, mask={"tokens": "mask"}, **how)
            case "batch":
                size = {"global_batch_size" if self.whole else "batch_size": self.by}
                return lk.Batch(**size, remainder=self.remainder, batch_fn=self.call)
            case "window" if self.word == "pack":
                return lk.Pack(ROW, window=self.by, how=HOW[self.by % 3])
            case "map" if self.word == "pad_to":
                return lk.PadTo(self.bounds[-1], "tokens", mask="mask")
            case "window":
                return lk.WindowShuffle(self.by) if self.word == "shuffle" else lk.Window(self.by, self.call)
            case "random" if self.word == "legacy":
                return lk.transforms.Seeded(_drawn_from(random, np.random, self.by))
        return CLASSES[self.kind](self.call)


def bounds_of(by: int) -> tuple[int, ...]:
    return (LONGEST,) if by % 4 == 2 else (3, LONGEST)


PADDED = ("pad_batch", "longest")
CLASSES = {
    "map": lk.Map,
    "index": lk.MapWithIndex,
    "random": lk.RandomMap,
    "filter": lk.Filter,
    "flat_map": lk.FlatMap,
}


def on_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with its numbers and numeric arrays changed, all else as it is."""
    if isinstance(tree, dict):
        return {name: on_leaves(function, child) for name, child in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(on_leaves(function, child) for child in tree)
    if isinstance(tree, np.ndarray) and tree.dtype.kind not in "iuf":
        return tree
    return tree if tree is None or isinstance(tree, str | bytes | bool) else function(tree)


def checksum(tree: Any) -> int:
    """A number that depends on all of an element."""
    if isinstance(tree, dict | list | tuple):
        return sum(map(checksum, tree.values() if isinstance(tree, dict) else tree))
    if isinstance(tree, bytes | str):
        return len(tree)
    if isinstance(tree, np.ndarray) and tree.dtype.kind not in "iufb":
        return checksum(tree.tolist())
    return 0 if tree is None else abs(int(2 * np.sum(tree, dtype=np.float64)))


def _add(by: int) -> Any:
    return lambda tree: on_leaves(lambda leaf: leaf + by, tree)


def _wrap(by: int) -> Any:
    return lambda tree: {"in": tree, "by": by} if by % 2 else (tree, None, by)


def _fail(by: int) -> Any:
    def fail(tree: Any) -> Any:
        if checksum(tree) % (11 + by) == 5:
            raise ZeroDivisionError(by)
        return tree

    return fail


def _index(by: int) -> Any:
    return lambda index, tree: on_leaves(lambda leaf: leaf + by * index, tree)


def _draw(by: int) -> Any:
    return lambda tree, rng: (on_leaves(lambda leaf: leaf + rng.integers(by + 1), tree), rng.random())


def _drawn_from(python: Any, legacy: Any, by: int) -> Any:
    """A function that adds what two generators say, which may be the global ones."""
    return lambda tree: on_leaves(lambda leaf: leaf + python.randrange(9) + legacy.randint(by + 1), tree)


def _legacy(by: int) -> Any:
    def call(tree: Any, rng: np.random.Generator) -> Any:
        words = rng.integers(0, 2**32, 4, np.uint64)
        legacy = np.random.RandomState(words[1:3].astype(np.uint32))
        return _drawn_from(random.Random(int(words[0])), legacy, by)(tree)

    return call


def _filter(by: int) -> Any:
    return lambda tree: checksum(tree) % (by + 2) != 1


def _fan(by: int) -> Any:
    def fan(tree: Any) -> Iterator[Any]:
        return (on_leaves(lambda leaf, k=k: leaf + k, tree) for k in range(checksum(tree) % (by + 1)))

    return fan


def _window(by: int) -> Any:
    """Some of each window's elements, in another order, the first of them twice."""

    def some(trees: list[Any]) -> Iterator[Any]:
        there = [tree for tree in reversed(trees) if checksum(tree) % 5]
        return (on_leaves(lambda leaf, k=k: leaf + k, tree) for k, tree in enumerate(there + there[:1]))

    return some


def _shuffle(by: int) -> Any:
    return lambda trees, rng: [trees[place] for place in rng.permutation(len(trees))]


def _summed(by: int) -> Any:
    return lambda rows: {"rows": len(rows), "first": rows[0], "sum": sum(map(checksum, rows))}


def _padded(row: Any, length: int) -> Any:
    tokens = np.concatenate([row["tokens"], np.zeros(length - len(row["tokens"]), row["tokens"].dtype)])
    return {**row, "tokens": tokens, "mask": tokens != 0}


def _pad_to(by: int) -> Any:
    return lambda row: _padded(row, LONGEST)


def _pad_batch(bounds: tuple[int, ...]) -> Any:
    def call(rows: list[Any]) -> Any:
        longest = max(len(row["tokens"]) for row in rows)
        length = min(bound for bound in bounds if bound >= longest)
        return stack([_padded(row, length) for row in rows])

    return call


def _pack(by: int) -> Any:
    def call(rows: list[Any]) -> Any:
        documents = [row["tokens"] for row in rows]
        rows = naive_rows([*map(len, documents)], ROW, HOW[by % 3], "split")
        planned = sorted(map(sorted, rows))  # rows, and pieces in them, are in the order of the documents
        return [laid_out([documents[d][start : start + n] for d, start, n in pieces]) for pieces in planned]

    return call


WORDS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "add": ("map", _add),
    "wrap": ("map", _wrap),
    "fail": ("map", _fail),
    "alike": ("map", lambda by: wider),
    "index": ("index", _index),
    "draw": ("random", _draw),
    "legacy": ("random", _legacy),
    "filter": ("filter", _filter),
    "fan": ("flat_map", _fan),
    "window": ("window", _window),
    "shuffle": ("window", _shuffle),
    "batch": ("batch", lambda by: None),
    "summed": ("batch", _summed),
    "pad_to": ("map", _pad_to),
    "pack": ("window", _pack),
    "pad_batch": ("batch", lambda by: _pad_batch(bounds_of(by))),
    "longest": ("batch", lambda by: None),
}
