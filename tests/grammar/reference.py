"""What a pipeline gives, said by a plain loop: one index after the other, one record after the other.

Of loaderkit it has data only: the record key of an index, the generator of an element, and which record is read
instead of a bad one. p is a Pipeline of grammar.py. A pair is (begin, make): begin is the index of an element's first
record and its number in each FlatMap and Window passed; make() is the element.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, count, cycle, islice
from typing import Any

import numpy as np

Pair = tuple[tuple[int, ...], Callable[[], Any]]


class Failed(Exception):  # noqa: N818 - it says the name of the error that is expected
    """What loaderkit itself raises."""


def elements(p: Any, host: int) -> Iterator[Any]:
    """What one host is given, in order; raises where the stream fails."""
    before, last, behind = parts(p)
    pairs = (changed if changes(p) else kept)(p, host, before, last)
    pairs = through(p, behind, pairs, sum(op.draws for op in before))
    return (make() for _, make in islice(pairs, p.num_steps))


def parts(p: Any) -> tuple[list[Any], Any, list[Any]]:
    """The operations before the last Batch, that Batch, and those behind it."""
    places = [place for place, op in enumerate(p.ops) if op.kind == "batch"]
    at = places[-1] if places else len(p.ops)
    return [*p.ops[:at]], p.ops[at] if places else None, [*p.ops[at + 1 :]]


def changes(p: Any) -> bool:
    """Whether the number of rows is known only once they are made."""
    return p.policy == "skip" or any(op.kind in ("filter", "flat_map", "window") for op in p.ops)


def sizes(p: Any) -> tuple[int, int]:
    """The rows of a step over all hosts, and the records of a row."""
    before, last, _ = parts(p)
    rows = p.hosts if last is None else last.by if last.whole else last.by * p.hosts
    return rows, int(np.prod([op.by for op in before if op.kind == "batch"]))


def kept(p: Any, host: int, before: list[Any], last: Any) -> Iterator[Pair]:
    """The batches of a host where rows keep their number."""
    group = sizes(p)[1]

    def row(place: int) -> Any:
        return next(made(p, before, islice(indices_from(p, p.start + place * group), group)))[1]()

    for step in count():
        places = step_rows(p, step)
        each, left = divmod(len(places), p.hosts)
        low = host * each + min(host, left)
        if not (own := places[low : low + each + (host < left)]):
            return
        like = next((place for place, real in own if real), 0)
        rows = [partial(row, place) if real else None for place, real in own]
        make = rows[0] if last is None else partial(batch, last, rows, partial(row, like))
        yield (p.start + like * group,), make  # type: ignore[misc]


def step_rows(p: Any, step: int) -> list[tuple[int, bool]]:
    """The rows of a step over all hosts: their numbers in the stream, and whether each is real; [] past the end."""
    rows, (before, last, _) = sizes(p)[0], parts(p)
    total = rows * (step + 1) if p.stop is None else p.stop - p.start
    for op in before if p.stop is not None else ():
        if op.kind == "batch":
            total = total // op.by if op.remainder == "drop" else -(-total // op.by)
    places = [(place, True) for place in range(step * rows, min(step * rows + rows, total))]
    if not places or (len(places) < rows and last and last.remainder == "drop"):
        return []
    if last and last.remainder == "wrap":
        places += islice(cycle([(place, True) for place in range(total)]), rows - len(places))
    if last and last.remainder == "pad":
        places += [(place, False) for place in range(total, step * rows + rows)]
    return places[: len(places) - len(places) % p.hosts * p.drop_remainder]


def changed(p: Any, host: int, before: list[Any], last: Any) -> Iterator[Pair]:
    """The batches of a host, or its elements, where operations change the number of rows."""
    rows, group = sizes(p)
    each, per_host, rest = rows // p.streams, p.streams // p.hosts, last and last.remainder
    own = range(host * per_host, host * per_host + per_host)

    def of_stream(number: int, passes: int) -> Iterator[Pair]:
        def is_own(index: int) -> bool:
            return index // (rows * group // p.streams) % p.streams == number

        indices = chain.from_iterable(indices_from(p, p.start) for _ in range(passes))
        return made(p, before, filter(is_own, indices))

    numbers = range(p.streams) if rest == "pad" else own  # padded hosts end together
    again = rest == "wrap" and p.num_steps is not None
    streams = [of_stream(number, 9999 if again else 1) for number in numbers]
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
            again_from_the_first = chain.from_iterable(of_stream(0, 1) for _ in range(9999))
            there += islice(again_from_the_first, each - len(there))
        slots = [pair for n in own for pair in [*taken[n], *[None] * (each - len(taken[n]))]]
        like = there[0] if there else next(made(p, before, indices_from(p, p.start)))
        makes = [pair and pair[1] for pair in (slots if rest == "pad" else there)]
        begin = like[0] if there else (p.stop, *[0] * (len(like[0]) - 1))
        yield begin, now(p, partial(batch, last, makes, like[1]))
        if short and rest != "pad":
            return


def indices_from(p: Any, first: int) -> Iterable[int]:
    return count(first) if p.stop is None else range(first, p.stop)


def made(p: Any, ops: list[Any], indices: Iterable[int]) -> Iterator[Pair]:
    """What operations make of the records of indices."""
    first = next((place for place, op in enumerate(ops) if op.kind in ("batch", "window")), len(ops))
    pairs = (pair for index in indices for pair in record(p, ops[:first], index))
    return through(p, ops[first:], pairs, sum(op.draws for op in ops[:first]))


def record(p: Any, ops: list[Any], index: int) -> Iterator[Pair]:
    """What the operations before the first Batch or Window make of one index, or of what is read instead."""

    def of(key: int) -> Iterator[Pair]:
        return through(p, ops, iter([((index,), now(p, partial(p.read, key)))]))

    def good() -> list[tuple[Any, Any]]:
        for instead, key in [(index, p.key(index)), *(p.instead(index) if p.policy == "replace" else [])]:
            try:
                return [(begin, make()) for begin, make in of(key)]
            except Exception:  # noqa: BLE001 - that is what makes a record bad
                p.losses[index] = instead
        if p.policy == "replace":
            raise Failed("BadRecordsError")
        return [] if p.policy == "skip" else [((index,), p.stand_in(index))]

    if p.policy == "raise":
        yield from of(p.key(index))
    elif changes(p):
        yield from ((begin, partial(_it, value)) for begin, value in good())
    else:
        yield (index,), lambda: good()[0][1]


def _it(value: Any) -> Any:
    return value


def now(p: Any, make: Callable[[], Any]) -> Callable[[], Any]:
    """Made at once where the number of rows depends on it, also what no batch takes."""
    return partial(_it, make()) if changes(p) else make


def through(p: Any, ops: list[Any], pairs: Iterator[Pair], drawn: int = 0) -> Iterator[Pair]:
    """Pairs taken through operations; drawn: how many operations before these draw random numbers."""
    for op in ops:
        apply = {"batch": batches, "window": windows}.get(op.kind, singles)
        pairs = apply(p, op, pairs, partial(p.rng, drawn))
        drawn += op.draws
    return pairs


def singles(p: Any, op: Any, pairs: Iterator[Pair], rng: Any) -> Iterator[Pair]:
    for begin, make in pairs:
        if op.kind == "flat_map":
            yield from (((*begin, k), partial(_it, child)) for k, child in enumerate([*op.call(make())]))
        elif op.kind == "index":
            yield begin, now(p, lambda begin=begin, make=make: op.call(begin[0], make()))
        elif op.kind != "filter":
            yield begin, now(p, lambda begin=begin, make=make: op.call(make(), *[rng(begin)] * op.draws))
        elif op.call(make()):
            yield begin, make


def windows(p: Any, op: Any, pairs: Iterator[Pair], rng: Any) -> Iterator[Pair]:
    while window := [*islice(pairs, op.by)]:
        begin, values = window[0][0], [make() for _, make in window]
        children = [*op.call(values, *[rng(begin)] * op.draws)]
        yield from (((*begin, k), partial(_it, child)) for k, child in enumerate(children))


def batches(p: Any, op: Any, pairs: Iterator[Pair], rng: Any) -> Iterator[Pair]:
    while rows := [*islice(pairs, op.by)]:
        if len(rows) == op.by or op.remainder == "keep":
            yield rows[0][0], now(p, partial(batch, op, [make for _, make in rows], rows[0][1]))


def batch(op: Any, rows: list[Any], like: Callable[[], Any]) -> Any:
    """A batch; a row that is None is zeros that look like another one."""
    if op.call:
        whole = op.call([zero(like()) if make is None else make() for make in rows])
    else:
        whole = stacked([(make or like)() for make in rows])
        cleared(whole, [place for place, make in enumerate(rows) if make is None])
    if op.remainder != "pad":
        return whole
    valid = np.array([make is not None for make in rows])
    return {**whole, "valid": valid} if isinstance(whole, dict) else (whole, valid)


def cleared(tree: Any, rows: list[int]) -> None:
    """Puts zeros into some rows of a batch."""
    if isinstance(tree, np.ndarray):
        tree[rows] = zero(tree[rows])
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list | tuple) else ():
        cleared(child, rows)


def zero(tree: Any) -> Any:
    if isinstance(tree, dict | list | tuple):
        made = [zero(child) for child in (tree.values() if isinstance(tree, dict) else tree)]
        return dict(zip(tree, made, strict=True)) if isinstance(tree, dict) else type(tree)(made)
    if isinstance(tree, np.ndarray) and tree.dtype == object and tree.size:
        return np.full_like(tree, zero(tree.flat[0]))
    return np.zeros_like(tree) if isinstance(tree, np.ndarray) else tree and type(tree)()


def stacked(rows: list[Any]) -> Any:
    """np.stack, leaf by leaf; bytes give an array of objects."""
    first = rows[0]
    if isinstance(first, dict):
        return {name: stacked([one[name] for one in rows]) for name in first}
    if isinstance(first, list | tuple) and {*map(len, rows)} == {len(first)}:
        return type(first)(map(stacked, zip(*rows, strict=True)))
    if isinstance(first, list | tuple) or len({*map(np.shape, rows)}) > 1:
        raise Failed("BatchError")
    if first is None:
        return None
    return np.array([*rows, None], object)[:-1] if isinstance(first, bytes) else np.stack(rows)
