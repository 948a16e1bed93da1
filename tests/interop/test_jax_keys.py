"""Keys of rows through a device iterator: of the record, or the child, that a row begins with, in any pipeline.

Every element says itself which record it came of, and which child of it: the keys are compared with those made of that.
"""

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import loaderkit as lk
from loaderkit._order.rng import child_of

ROWS = NamedSharding(Mesh(np.array(jax.devices()[:1]), "data"), PartitionSpec("data"))
SEED = 2**33 + 5
INLINE: dict[str, Any] = {}
THREADS: dict[str, Any] = {"worker_count": 2, "worker_kind": "thread"}


def element_of(index: int, key: int) -> Any:
    return {"key": key, "index": index, "a": -1, "b": -1}


def row_map(batch: Any) -> Any:
    """Of what an earlier Batch made."""
    return {**batch, "sum": batch["key"].sum()}


class Split(lk.FlatMap):
    """Children that say which they are: none, one or two of a record, or of a batch of them."""

    max_fan_out = 2

    def __init__(self, name: str) -> None:
        self.name = name

    def flat_map(self, element: Any) -> list[Any]:
        count = int(np.ravel(element["key"])[0]) % 3
        return [{**element, self.name: np.full_like(element["key"], k)} for k in range(count)]


ODD = lk.Filter(lambda element: element["key"] % 4 > 0)
NAMED = lk.MapWithIndex(element_of)
INNER = lk.Batch(3, remainder="drop")
LAST = lk.Batch(4)


def last(remainder: str) -> lk.Batch:
    return lk.Batch(4, remainder=remainder)


PIPELINES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "wrap": ([NAMED, last("wrap")], {}),
    "wrap, rows change": ([NAMED, ODD, last("wrap")], {}),
    "wrap to a step": ([NAMED, ODD, last("wrap")], {"num_steps": 17}),
    "wrap to a step, children": ([NAMED, Split("a"), last("wrap")], {"num_steps": 17}),
    "inner Batch": ([NAMED, INNER, row_map, last("drop")], {}),
    "inner Batch, wrap": ([NAMED, INNER, row_map, last("wrap")], {}),
    "inner Batch, pad": ([NAMED, INNER, row_map, last("pad")], {}),
    "two inner Batches": ([NAMED, lk.Batch(2), row_map, lk.Batch(3, remainder="drop"), last("drop")], {}),
    "inner Batch, rows change": ([NAMED, ODD, INNER, row_map, last("wrap")], {}),
    "children": ([NAMED, Split("a"), last("drop")], {}),
    "children, pad": ([NAMED, Split("a"), last("pad")], {}),
    "children of children": ([NAMED, Split("a"), Split("b"), last("drop")], {}),
    "children, inner Batch": ([NAMED, Split("a"), INNER, row_map, last("wrap")], {}),
    "children of an inner Batch": ([NAMED, INNER, Split("a"), row_map, last("drop")], {}),
    "children before and behind it": ([NAMED, Split("a"), INNER, Split("b"), last("wrap")], {}),
    "streams": ([NAMED, Split("a"), last("pad")], {"logical_streams": 2}),
}


def loader_of(name: str, **running: Any) -> "lk.DataLoader":
    operations, options = PIPELINES[name]
    return lk.DataLoader(
        data_source=range(50),
        sampler=lk.IndexSampler(50, shuffle=True, seed=SEED, num_epochs=1),
        operations=operations,
        **options,
        **running,
    )


def key_of(index: int, child: int | None) -> jax.Array:
    """The seed, the index and the child are folded in one after the other, each as two words."""
    key = jax.random.key(0)
    for number in (SEED, index) if child is None else (SEED, index, child):
        for word in (number >> 32, number & 0xFFFFFFFF):
            key = jax.random.fold_in(key, np.uint32(word))
    return key


def expected_keys(batch: Any) -> list[Any]:
    """The key of each row by what its first record says of itself; None where a padded row is none."""

    def first(name: str, row: int) -> int:
        return int(np.ravel(batch[name][row])[0])

    keys: list[Any] = []
    for row in range(len(batch["key"])):
        if "valid" in batch and not batch["valid"][row]:
            keys.append(None)
            continue
        children = tuple(k for k in (first("a", row), first("b", row)) if k >= 0)
        key = key_of(first("index", row), child_of(children) if children else None)
        keys.append(np.asarray(jax.random.key_data(key)).tolist())
    return keys


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_each_row_has_the_key_of_what_it_begins_with(name):
    """Batches are the loader's to the last: from the start, and on from a saved position, with any workers."""
    plain = list(loader_of(name))
    assert len(plain) > 1
    for running, prefetch, begin in ((INLINE, 1, 0), (THREADS, 3, 0), (INLINE, 2, len(plain) - 1)):
        with loader_of(name, **running) as loader, iter(loader) as it:
            with loader_of(name) as other, iter(other) as before:
                for _ in range(begin):
                    next(before)
                state = before.get_state()
            with lk.device_iterator(it, ROWS, prefetch=prefetch, keys="rng") as batches:
                batches.set_state(state)
                step = begin
                for batch in batches:
                    step += 1
                    assert batches.step == it.step == step
                    keys = np.asarray(jax.random.key_data(batch.pop("rng"))).tolist()
                    assert batch.keys() == plain[step - 1].keys()
                    for leaf, values in batch.items():
                        assert np.array_equal(values, plain[step - 1][leaf]), leaf
                    for made, wanted in zip(keys, expected_keys(plain[step - 1]), strict=True):
                        assert wanted in (None, made)
        assert step == len(plain)
