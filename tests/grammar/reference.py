"""What a pipeline gives, said by a plain loop: one index after the other, one record after the other.

Of loaderkit it has data only: the record key of an index, the generator of an element, which record is read instead of
a bad one, and the sizes of batches that a sampler plans. p is a Pipeline of grammar.py. A pair is (begin, make): begin
is the index of an element's first record and its number in each FlatMap and Window passed; make() is the element.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, count, cycle, islice, repeat
from typing import Any

import numpy as np

Pair = tuple[tuple[int, ...], Callable[[], Any]]


class Failed(Exception):  # noqa: N818 - it says the name of the error that is expected
    """What loaderkit itself raises."""


class Reference:
    """The stream of one host of a pipeline."""

    def __init__(self, p: Any, host: int) -> None:
        self.p, self.host = p, host

    def elements(self) -> Iterator[Any]:
        """What the host is given, in order; raises where the stream fails."""
        pairs = self.through(self.p.behind, self.changed() if self.p.changes else self.kept())
        return (make() for _, make in islice(pairs, self.p.num_steps))

    def kept(self) -> Iterator[Pair]:
        """The batches where rows keep their number."""
        p = self.p
        for step in count():
            places = self.step_rows(step)
            each, left = divmod(len(places), p.hosts)
            low = self.host * each + min(self.host, left)
            if not (own := places[low : low + each + (self.host < left)]):
                return
            like = next((place for place, real in own if real), step * p.rows if p.planned(step) else 0)
            rows = [partial(self.row, place) if real else None for place, real in own]
            whole = p.last and partial(batch, p.of_step(p.last, step), rows, partial(self.row, like))
            yield (p.start + like * p.group,), whole or rows[0]

    def row(self, place: int) -> Any:
        return next(self.made(islice(self.p.indices(self.p.start + place * self.p.group), self.p.group)))[1]()

    def step_rows(self, step: int) -> list[tuple[int, bool]]:
        """The rows of a step over all hosts: their numbers, and whether each is real; [] past the end."""
        p, rest = self.p, self.p.last and self.p.last.remainder
        _, there, rows = p.planned(step) or (0, p.rows, p.rows)
        total = p.rows * (step + 1) if p.stop is None else p.stop - p.start
        for op in p.inner if p.stop is not None else ():
            total = total // op.by if op.remainder == "drop" else -(-total // op.by)
        places = [(place, True) for place in range(step * p.rows, min(step * p.rows + there, total))]
        if not places or (len(places) < rows and rest == "drop"):
            return []
        if rest == "wrap":
            again = places if p.planned(step) else [(place, True) for place in range(total)]
            places += islice(cycle(again), rows - len(places))
        if rest == "pad":
            places += [(0, False)] * (rows - len(places))
        return places[: len(places) - len(places) % p.hosts * p.drop_remainder]

    def changed(self) -> Iterator[Pair]:
        """The batches, or the elements, where operations change the number of rows."""
        p, last, rest = self.p, self.p.last, self.p.last and self.p.last.remainder
        each, per_host = p.rows // p.streams, p.streams // p.hosts
        own = range(self.host * per_host, self.host * per_host + per_host)

        def of_stream(number: int, passes: int) -> Iterator[Pair]:
            indices = chain.from_iterable(p.indices(p.start) for _ in range(passes))
            block = p.rows * p.group // p.streams
            return self.made(index for index in indices if index // block % p.streams == number)

        numbers = range(p.streams) if rest == "pad" and p.stop is not None else own  # such hosts end together
        streams = [of_stream(n, 9999 if rest == "wrap" and p.num_steps is not None else 1) for n in numbers]
        if last is None:
            yield from streams[0]
            return
        while True:
            taken = dict(zip(numbers, [[*islice(one, each)] for one in streams], strict=True))
            there = [*chain.from_iterable(taken[number] for number in own)]
            short = any(len(taken[number]) < each for number in own)
            if short and rest in ("drop", "wrap") and p.num_steps is not None:
                raise Failed("ValueError")
            if not any(taken.values()) or (short and rest == "drop"):
                return
            if short and rest == "wrap":
                there += islice((pair for _ in count() for pair in of_stream(0, 1)), each - len(there))
            slots = [pair for n in own for pair in [*taken[n], *[None] * (each - len(taken[n]))]]
            like = there[0] if there else next(self.made(p.indices(p.start)))
            makes = [pair and pair[1] for pair in (slots if rest == "pad" else there)]
            begin = like[0] if there else (p.stop, *[0] * (len(like[0]) - 1))
            yield begin, self.now(partial(batch, last, makes, like[1]))
            if short and rest != "pad":
                return

    def made(self, indices: Iterable[int]) -> Iterator[Pair]:
        """What the operations before the last Batch make of the records of indices."""
        return self.through(self.p.of_rows, (pair for index in indices for pair in self.record(index)))

    def record(self, index: int) -> Iterator[Pair]:
        """What the operations before the first Batch or Window make of one index, or of what is read instead."""
        if self.p.policy == "raise":
            yield from self.of_key(index, self.p.key(index))
        elif self.p.changes:
            yield from ((begin, repeat(value).__next__) for begin, value in self.good(index))
        else:
            yield (index,), lambda: self.good(index)[0][1]

    def of_key(self, index: int, key: int) -> Iterator[Pair]:
        return self.through(self.p.of_records, iter([((index,), self.now(partial(self.p.read, key)))]))

    def good(self, index: int) -> list[tuple[Any, Any]]:
        others = self.p.instead(index) if self.p.policy == "replace" else []
        for instead, key in chain([(index, self.p.key(index))], others):
            try:
                return [(begin, make()) for begin, make in self.of_key(index, key)]
            except Exception:  # noqa: BLE001 - that is what makes a record bad
                self.p.losses[index] = instead
        if self.p.policy == "replace":
            raise Failed("BadRecordsError")
        first = [0 for op in self.p.of_records if op.kind == "flat_map"]  # a stand-in is a first child
        return [] if self.p.policy == "skip" else [((index, *first), self.p.stand_in(index))]

    def now(self, make: Callable[[], Any]) -> Callable[[], Any]:
        """Made at once where the number of rows depends on it, also what no batch takes."""
        return repeat(make()).__next__ if self.p.changes else make

    def through(self, ops: list[Any], pairs: Iterator[Pair]) -> Iterator[Pair]:
        """Pairs taken through operations."""
        for op in ops:
            pairs = {"batch": self.batches, "window": self.windows}.get(op.kind, self.singles)(op, pairs)
        return pairs

    def singles(self, op: Any, pairs: Iterator[Pair]) -> Iterator[Pair]:
        for begin, make in pairs:
            first, rng = [begin[0]] * (op.kind == "index"), self.p.rng(op, begin)
            if op.kind == "flat_map":
                yield from (((*begin, k), repeat(it).__next__) for k, it in enumerate([*op.call(make())]))
            elif op.kind != "filter":
                yield begin, self.now(lambda make=make, first=first, rng=rng: op.call(*first, make(), *rng()))
            elif op.call(make()):
                yield begin, make

    def windows(self, op: Any, pairs: Iterator[Pair]) -> Iterator[Pair]:
        while window := [*islice(pairs, op.by)]:
            begin = window[0][0]
            children = [*op.call([make() for _, make in window], *self.p.rng(op, begin)())]
            yield from (((*begin, k), repeat(child).__next__) for k, child in enumerate(children))

    def batches(self, op: Any, pairs: Iterator[Pair]) -> Iterator[Pair]:
        while rows := [*islice(pairs, op.by)]:
            if len(rows) == op.by or op.remainder == "keep":
                yield rows[0][0], self.now(partial(batch, op, [make for _, make in rows], rows[0][1]))


def batch(op: Any, rows: list[Any], like: Callable[[], Any]) -> Any:
    """A batch; a row that is None is zeros that look like another one."""
    valid = np.array([make is not None for make in rows])
    if op.call:
        whole = op.call([make() if make else leaves(zero, like()) for make in rows])
    else:
        whole = leaves(partial(stacked, valid), *[(make or like)() for make in rows])
    if op.remainder != "pad":
        return whole
    return {**whole, "valid": valid} if isinstance(whole, dict) else (whole, valid)


def leaves(function: Any, *trees: Any) -> Any:
    """The tree of what a function gives for the leaves of trees."""
    first = trees[0]
    if isinstance(first, dict):
        return {name: leaves(function, *[tree[name] for tree in trees]) for name in first}
    if not isinstance(first, list | tuple):
        return function(*trees)
    if {*map(len, trees)} != {len(first)}:
        raise Failed("BatchError")
    return type(first)(leaves(function, *children) for children in zip(*trees, strict=True))


def zero(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return np.full_like(leaf, b"") if leaf.dtype == object else np.zeros_like(leaf)
    return leaf and type(leaf)()


def stacked(real: Any, *leaves: Any) -> Any:
    """np.stack with zeros for rows that aren't real; bytes give an array of objects."""
    if len({*map(np.shape, leaves)}) > 1:
        raise Failed("BatchError")
    if leaves[0] is None:
        return None
    whole = np.array([*leaves, None], object)[:-1] if isinstance(leaves[0], bytes) else np.stack(leaves)
    whole[~real] = zero(whole[~real])
    return whole
