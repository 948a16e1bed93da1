"""The loops that a user would write without a loader: the limit of what a loader can reach.

Options of a contender: `loop`, one of

    plain     one record after the other, np.stack of each leaf (the default)
    sharp     as plain, but columns of Python numbers become arrays by one np.array call instead of np.stack
    gather    keys of `loaderkit.IndexSampler` in blocks of 16,384, one numpy gather a column and block, cut in batches
    flight    reads in a pool of `threads` threads, one batch and the next in flight, steps in the calling thread

With workers the plain loop runs in that many processes or threads, each on whole batches of its own share of the order.
Each drops the rows that it makes: no transport, no order, perfect balance.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.contender import Contender
from benchmarks.peers.bare_parallel import RowsMade, open_parallel
from benchmarks.pipeline import Draw, Pipeline
from loaderkit import IndexSampler

GATHERED = 16_384  # records that one gather takes


class _Loop:
    def __init__(self, begin: Callable[[], Iterator[Any]]) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[Any]:
        return self._begin()


@contextmanager
def open_loader(pipeline: Pipeline, contender: Contender) -> Iterator[Any]:
    """The loop that the contender's options name."""
    if contender.workers:
        with open_parallel(pipeline, contender, rows_made(pipeline)) as loader:
            yield loader
        return
    loop = contender.options.get("loop", "plain")
    if loop == "gather":
        yield _Loop(lambda: gathered(pipeline))
    elif loop == "flight":
        with ThreadPoolExecutor(contender.options["threads"]) as pool:
            yield _Loop(lambda: in_flight(pipeline, pool))
    else:
        stack = stacked if loop == "plain" else sharply_stacked
        yield _Loop(lambda: plain(pipeline, stack))


def plain(pipeline: Pipeline, stack: Callable[[list[Any]], Any]) -> Iterator[Any]:
    """Reads (a whole batch in one call if the source can), takes the steps, stacks."""
    source = pipeline.source("bare")
    made = rows_made(pipeline)
    for indices, keys in batches_of_keys(pipeline, len(source)):
        rows = made(read(source, keys), indices)
        yield stack(rows) if pipeline.batch else rows[0]


def batches_of_keys(pipeline: Pipeline, records: int) -> Iterator[tuple[range, list[int]]]:
    """The indices and record keys of one batch after the other, running on across epochs."""
    keys = (key for order in pipeline.orders(records) for key in order.tolist())
    begin = 0
    while True:
        yield range(begin, begin + pipeline.rows), list(islice(keys, pipeline.rows))
        begin += pipeline.rows


def read(source: Any, keys: list[int]) -> Any:
    """The records of these keys, in one call if the source offers it."""
    batched = getattr(source, "__getitems__", None)
    return batched(keys) if batched is not None else [source[key] for key in keys]


def rows_made(pipeline: Pipeline) -> RowsMade:
    """A function from records and their indices to rows; each shape of pipeline as a user would write it by hand."""
    functions = [step.function for step in pipeline.steps]
    draws = [isinstance(step, Draw) for step in pipeline.steps]
    generator_at = one_generator(pipeline.seed)

    def one(records: Iterable[Any], indices: Iterable[int]) -> list[Any]:
        (function,) = functions
        return [function(record) for record in records]

    def one_that_draws(records: Iterable[Any], indices: Iterable[int]) -> list[Any]:
        (function,) = functions
        return [function(record, generator_at(index)) for record, index in zip(records, indices)]

    def several(records: Iterable[Any], indices: Iterable[int]) -> list[Any]:
        rows = []
        for record in records:
            for function in functions:
                record = function(record)
            rows.append(record)
        return rows

    def any_steps(records: Iterable[Any], indices: Iterable[int]) -> list[Any]:
        rows = []
        for record, index in zip(records, indices):
            for function, drawing in zip(functions, draws):
                record = function(record, generator_at(index)) if drawing else function(record)
            rows.append(record)
        return rows

    if not functions:
        return lambda records, indices: list(records)
    if len(functions) == 1:
        return one_that_draws if draws[0] else one
    return any_steps if any(draws) else several


def one_generator(seed: int) -> Callable[[int], np.random.Generator]:
    """One generator that is re-keyed for each index: the cheapest draw that is a function of the record."""
    bits = np.random.Philox(key=0)
    generator = np.random.Generator(bits)
    key = [seed, 0]
    state: Any = {
        "bit_generator": "Philox",
        "state": {"counter": [0, 0, 0, 0], "key": key},
        "buffer": [0, 0, 0, 0],
        "buffer_pos": 4,
        "has_uint32": 0,
        "uinteger": 0,
    }

    def at(index: int) -> np.random.Generator:
        key[1] = index
        bits.state = state
        return generator

    return at


def stacked(rows: list[Any], out: Any = None) -> Any:
    """np.stack of each leaf, into those of an earlier batch if one is given; bytes stay a list."""
    first = rows[0]
    if isinstance(first, dict):
        return {name: stacked([row[name] for row in rows], out and out[name]) for name in first}
    return rows if isinstance(first, bytes) else np.stack(rows, out=out)


def sharply_stacked(rows: list[Any]) -> Any:
    """As `stacked`, with one np.array call for a column of Python numbers."""
    first = rows[0]
    if isinstance(first, dict):
        return {name: sharply_stacked([row[name] for row in rows]) for name in first}
    return np.array(rows) if isinstance(first, int | float) else stacked(rows)


def gathered(pipeline: Pipeline) -> Iterator[Any]:
    """A numpy gather a block, cut in batches."""
    assert pipeline.columns is not None and pipeline.batch is not None
    columns = pipeline.columns()
    records = len(next(iter(columns.values())))
    sampler = IndexSampler(records, shuffle=pipeline.shuffle, seed=pipeline.seed)
    block = max(1, GATHERED // pipeline.batch) * pipeline.batch
    begin = 0
    while True:
        keys = sampler.record_keys(np.arange(begin, begin + block))  # (block,) int64
        begin += block
        taken = {name: column[keys] for name, column in columns.items()}
        for low in range(0, block, pipeline.batch):
            yield {name: column[low : low + pipeline.batch] for name, column in taken.items()}


def in_flight(pipeline: Pipeline, pool: ThreadPoolExecutor) -> Iterator[Any]:
    """Reads of the next batch run while this one is made."""
    source = pipeline.source("bare")
    made = rows_made(pipeline)
    work = (
        (indices, [pool.submit(source.__getitem__, key) for key in keys])
        for indices, keys in batches_of_keys(pipeline, len(source))
    )
    waiting = next(work)
    for following in work:
        indices, reads = waiting
        yield stacked(made([record.result() for record in reads], indices))
        waiting = following
