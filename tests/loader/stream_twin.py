"""What a loader must give, said slowly: one Python generator an operation, one element at a time.

Written from the documents and of nothing in loaderkit but its classes of operations, whose functions it calls. An
element is a pair (begin, value): begin is the index of its first record and the ordinal of each FlatMap passed.
"""

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

import loaderkit as lk
from loaderkit.transforms.base import function_of

WORD = 2**64

Pair = tuple[tuple[int, ...], Any]


def mixed(value: int) -> int:
    """SplitMix64's finalizer."""
    value = (value + 0x9E3779B97F4A7C15) % WORD
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % WORD
    return value ^ (value >> 31)


def folded(seed: int, *parts: int) -> int:
    key = mixed(seed)
    for part in parts:
        key = mixed(key ^ mixed(part ^ 0xD1B54A32D192ED03))
    return key


def rng_of(seed: int, ordinal: int, begin: tuple[int, ...]) -> np.random.Generator:
    """Philox with key (fold(seed, ordinal), index) and counter (0, 0, 0, child)."""
    index, *children = begin
    child = children[0] + 1 if children else 0
    for k in children[1:]:
        child = folded(child, k)
    key = np.array([folded(seed, ordinal), index], np.uint64)
    counter = np.array([0, 0, 0, child], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def stacked(rows: list[Any]) -> Any:
    """np.stack, leaf by leaf; bytes give an array of objects."""
    first = rows[0]
    if isinstance(first, dict):
        return {name: stacked([row[name] for row in rows]) for name in first}
    if isinstance(first, list | tuple):
        if len({len(row) for row in rows}) > 1:
            raise ValueError("another structure")
        return type(first)(stacked([row[place] for row in rows]) for place in range(len(first)))
    if first is None:
        return None
    if isinstance(first, bytes):
        array = np.empty(len(rows), object)
        array[:] = rows
        return array
    return np.stack([np.asarray(row) for row in rows])


def elements(
    operations: list[Any], keys: Any, source: Any, seed: int | None, indices: range
) -> Iterator[Any]:
    """The elements of one process that loads everything, in order; raises where the stream fails.

    operations: as a loader takes them. keys: index -> record key. indices: of the stream.
    """
    pairs: Iterator[Pair] = (((index,), source[keys(index)]) for index in indices)
    return (value for _, value in through(operations, pairs, seed))


def through(operations: list[Any], pairs: Iterator[Pair], seed: int | None, drawn: int = 0) -> Iterator[Pair]:
    """Elements taken through operations; `drawn`: how many before these draw random numbers."""
    for op in operations:
        if isinstance(op, lk.Batch):
            pairs = _batched(pairs, op)
            continue
        if isinstance(op, lk.Window):
            shuffles = isinstance(op, lk.WindowShuffle)
            call = op.window if type(op) is not lk.Window else function_of(op)
            pairs = _windowed(pairs, op.size, call, (seed, drawn) if shuffles else None)
            drawn += shuffles
            continue
        call = function_of(op) if isinstance(op, lk.transforms.Transformation) else op
        draws = isinstance(op, lk.RandomMap | lk.transforms.Seeded)
        if isinstance(op, lk.Filter):
            pairs = _filtered(pairs, call)
        elif isinstance(op, lk.FlatMap):
            pairs = _flattened(pairs, call)
        elif isinstance(op, lk.MapWithIndex):
            pairs = _mapped(pairs, lambda begin, value, f=call: f(begin[0], value))
        elif draws:
            made = call if isinstance(op, lk.RandomMap) else _seeded(call)
            pairs = _mapped(pairs, lambda begin, value, f=made, k=drawn: f(value, rng_of(seed, k, begin)))
        else:
            pairs = _mapped(pairs, lambda begin, value, f=call: f(value))
        drawn += draws
    return pairs


def outcomes(stream: Iterator[Any], most: int = 10_000) -> tuple[list[Any], type[Exception] | None]:
    """The first elements of any iterator, and the type of the error that ended them, if one did."""
    values: list[Any] = []
    try:
        while len(values) < most:
            values.append(next(stream))
    except StopIteration:
        return values, None
    except Exception as error:  # noqa: BLE001 - which one it is, is what is compared
        return values, type(error)
    return values, None


def _mapped(pairs: Iterator[Pair], function: Any) -> Iterator[Pair]:
    for begin, value in pairs:
        yield begin, function(begin, value)


def _filtered(pairs: Iterator[Pair], function: Any) -> Iterator[Pair]:
    for begin, value in pairs:
        if function(value):
            yield begin, value


def _flattened(pairs: Iterator[Pair], function: Any) -> Iterator[Pair]:
    for begin, value in pairs:
        for k, child in enumerate(list(function(value))):
            yield (*begin, k), child


def _batched(pairs: Iterator[Pair], batch: lk.Batch) -> Iterator[Pair]:
    size = batch.batch_size or batch.global_batch_size
    rows: list[Pair] = []
    for pair in pairs:
        rows.append(pair)
        if len(rows) == size:
            yield _batch_of(rows, batch)
            rows = []
    if rows and batch.remainder == "keep":
        yield _batch_of(rows, batch)


def _windowed(
    pairs: Iterator[Pair], size: int, call: Any, random_of: tuple[Any, int] | None
) -> Iterator[Pair]:
    while window := list(islice(pairs, size)):
        begin, values = window[0][0], [value for _, value in window]
        made = call(values) if random_of is None else call(values, rng_of(*random_of, begin))
        for k, child in enumerate(list(made)):
            yield (*begin, k), child


def _batch_of(rows: list[Pair], batch: lk.Batch) -> Pair:
    values = [value for _, value in rows]
    if batch.batch_fn is not None:
        return rows[0][0], batch.batch_fn(values)
    try:
        return rows[0][0], stacked(values)
    except ValueError as error:
        raise lk.errors.BatchError(str(error)) from error


def _seeded(function: Any) -> Any:
    def call(value: Any, rng: np.random.Generator) -> Any:
        before = random.getstate(), np.random.get_state()
        words = rng.integers(0, 2**32, size=4, dtype=np.uint64)
        random.seed(int(words[0]))
        np.random.seed(words[1:3].astype(np.uint32))
        try:
            return function(value)
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])

    return call


def difference(found: Any, expected: Any, path: str = "element") -> str | None:
    """Where two elements differ in type, dtype, shape, layout or value; None where they don't."""
    if type(found) is not type(expected):
        return f"{path}: {type(found)} instead of {type(expected)}"
    if isinstance(expected, dict):
        if list(found) != list(expected):
            return f"{path}: keys {list(found)} instead of {list(expected)}"
        return next(
            filter(None, (difference(found[k], expected[k], f"{path}[{k!r}]") for k in expected)), None
        )
    if isinstance(expected, list | tuple):
        if len(found) != len(expected):
            return f"{path}: {len(found)} items instead of {len(expected)}"
        places = range(len(expected))
        return next(filter(None, (difference(found[k], expected[k], f"{path}[{k}]") for k in places)), None)
    if isinstance(expected, np.ndarray):
        if (found.dtype, found.shape) != (expected.dtype, expected.shape):
            return f"{path}: {found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
        if not found.flags.c_contiguous:
            return f"{path}: not C-contiguous"
        if expected.dtype == object:
            return difference(found.tolist(), expected.tolist(), path)
        return None if found.tobytes() == expected.tobytes() else f"{path}: {found} instead of {expected}"
    return None if found == expected else f"{path}: {found!r} instead of {expected!r}"


def assert_same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for step, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert (said := difference(one, other)) is None, f"step {step}: {said}"
