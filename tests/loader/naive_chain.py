"""A chain as a function from an epoch to a list, step by step; nothing is planned.

A row is a function of (index in the stream, seed of the stream, name of its part) that gives a value, DEAD for one that
a filter left out. A pair is (begin, value), as tests/grammar/reference.py says it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, islice
from typing import Any

from loaderkit._order.mixing import component_seed
from loaderkit._order.rng import child_of, generator, named_ordinal
from loaderkit.samplers import IndexSampler

DEAD = object()
FAR = 3000  # rows that are looked at of a stream without end
Row = Callable[[int, int, str], Any]
Pairs = Iterator[tuple[tuple[int, ...], Any]]


@dataclass(frozen=True)
class Chain:
    """epoch: the rows of an epoch, by the seed of an order. runs: what makes pairs of pairs, behind the rows."""

    epoch: Callable[[int, int], list[Row]]
    seed: int | None = None
    stream: Callable[[int], Iterator[Row]] | None = None
    runs: tuple[Callable[[Pairs, int], Pairs], ...] = ()
    drawn: int = 0

    def each(self, function: Callable[..., Any], *, draws: bool = False, index: bool = False) -> "Chain":
        """What a function makes of each value."""

        def of(begin: tuple[int, ...], value: Any, seed: int, part: str = "") -> Any:
            number = named_ordinal(f"{part}{self.drawn}") if part else self.drawn
            rng = [generator(seed, number, begin[0], child_of(begin[1:]))] * draws
            return DEAD if value is DEAD else function(*begin[:index], value, *rng)

        if self.runs:
            return self.run(lambda pairs, seed: ((b, of(b, v, seed)) for b, v in pairs), draws=draws)
        through = lambda row: lambda i, seed, part: of((i,), row(i, seed, part), seed, part)  # noqa: E731
        stream = self.stream and (lambda seed: map(through, self.stream(seed)))
        epoch = lambda e, seed: [*map(through, self.epoch(e, seed))]  # noqa: E731
        return replace(self, epoch=epoch, stream=stream, drawn=self.drawn + draws)

    def run(self, run: Callable[[Pairs, int], Pairs], *, draws: bool = False) -> "Chain":
        return replace(self, runs=(*self.runs, run), drawn=self.drawn + draws)

    def windows(
        self, size: int, function: Callable[..., Any], *, draws: bool = False, whole: bool = False
    ) -> "Chain":
        """What a function makes of so many consecutive ones; whole: one element, of the first one's begin."""

        def run(pairs: Pairs, seed: int) -> Pairs:
            while group := [*islice(pairs, size)]:
                begin = group[0][0]
                rng = [generator(seed, self.drawn, begin[0], child_of(begin[1:]))] * draws
                made = function([value for _, value in group], *rng)
                yield from ((begin if whole else (*begin, k), each) for k, each in enumerate(made))

        return self.run(run, draws=draws)

    def shuffle(self, seed: int | None) -> "Chain":
        def epoch(e: int, seed: int) -> list[Row]:
            rows = self.epoch(e, seed)
            order = IndexSampler(len(rows), shuffle=True, seed=seed)
            return [rows[key] for key in order.record_keys(range(e * len(rows), (e + 1) * len(rows)))]

        return replace(self, epoch=epoch, seed=self.seed if seed is None else seed)

    def repeat(self, epochs: int | None) -> "Chain":
        numbers = count if epochs is None else partial(range, epochs)
        return replace(self, stream=lambda seed: chain.from_iterable(self.epoch(e, seed) for e in numbers()))

    def choose(self, which: slice | list[int]) -> "Chain":
        """Of pairs or of a stream as they come; of records once, of epoch 0, for all epochs."""
        if self.runs:
            assert isinstance(which, slice)
            return self.run(lambda pairs, _: islice(pairs, which.start, which.stop))
        if self.stream is not None:
            assert isinstance(which, slice)
            return replace(self, stream=lambda seed: islice(self.rows(seed), which.start, which.stop))
        rows = self.epoch(0, self.seed or 0)
        rows = rows[which] if isinstance(which, slice) else [rows[place] for place in which]
        return replace(self, epoch=lambda e, seed: rows)

    def rows(self, seed: int) -> Iterator[Row]:
        return iter(self.epoch(0, seed)) if self.stream is None else self.stream(seed)

    def values(self, most: int) -> list[Any]:
        seed = self.seed or 0
        rows = enumerate(islice(self.rows(seed), FAR))
        pairs: Pairs = (((i,), row(i, seed, "")) for i, row in rows)
        for run in self.runs:
            pairs = run((pair for pair in pairs if pair[1] is not DEAD), seed)
        return [*islice((value for _, value in pairs if value is not DEAD), most)]


def in_part(name: str, rows: Iterator[Row]) -> Iterator[Row]:
    return (lambda i, seed, part, row=row: row(i, seed, f"{part}{name}/") for row in rows)


def concat(parts: dict[str, Chain]) -> Chain:
    rows = [row for name, part in parts.items() for row in in_part(name, part.epoch(0, 0))]
    return Chain(lambda e, seed: rows)


def beside(parts: dict[str, Chain]) -> Chain:
    each = [[*in_part(name, part.epoch(0, 0))] for name, part in parts.items()]
    rows = [lambda *of, row=row: tuple(one(*of) for one in row) for row in zip(*each, strict=False)]
    return Chain(lambda e, seed: rows)


def mix(parts: dict[str, Chain], seed: int, numbers: Callable[[], Iterator[int]]) -> Chain:
    """numbers: the part of each index."""

    def stream(seed: int) -> Iterator[Row]:
        seeds = {
            name: component_seed(seed, name) if part.seed is None else part.seed
            for name, part in parts.items()
        }
        each = [in_part(name, part.rows(seeds[name])) for name, part in parts.items()]
        return (next(each[number]) for number in numbers())

    return Chain(lambda e, seed: [], seed=seed, stream=stream)
