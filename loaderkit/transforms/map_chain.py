"""Consecutive Maps: where their functions are cheap, one element goes through all of them before the next.

A list between two Maps costs a third of the call of a cheap function, and so does a loop over functions: the calls are
written out. The clock isn't read between them, so of several pieces one goes Map by Map, which says how they share the
time of the others. What comes out is the same; in which order the calls are made depends on the clock, as with pieces.
"""

import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from loaderkit._order.facts import Cursor

from .run import ElementRun
from .stages import MapStage, RaisedBy, Stage, stopped_iteration

# Fewer Maps gain less than the call around them costs.
_LEAST_MAPS = 4
# Of one element in each Map; with a longer one among them, the whole row gains less than 2%.
_CHEAP_NS = 1_000
# One piece of so many goes Map by Map.
_MEASURED = 16


class MapChain:
    """A stage of several Maps of functions of the element alone.

    Args:
        maps: the Maps, of which none may give None.
        counted: of each the nanoseconds in it, the elements that it took and those that it gave; added to.
    """

    def __init__(self, maps: Sequence[MapStage], counted: Sequence[list[int]]) -> None:
        self._maps, self._counted = maps, counted
        # Its label is for what a signal's handler raises between the calls.
        self._joined = MapStage(maps[0].label, self._written_out())
        self._failed = 0  # the place of the Map that raised last
        self._took: list[int] = []  # nanoseconds in each Map, of the last piece that went Map by Map
        self._cheap = False
        self._pieces = 0

    def apply(self, run: ElementRun, start: Cursor) -> ElementRun:
        """The elements after all Maps, as `apply` of any stage gives them."""
        self._pieces += 1
        if not self._cheap or self._pieces % _MEASURED == 0:
            return self._map_by_map(run, start)
        begun = time.perf_counter_ns()
        made = self._joined.apply(run, start)
        taken, whole, count = time.perf_counter_ns() - begun, sum(self._took), len(made.values)
        last = self._failed if count < len(run.values) else -1  # that took the element that failed
        for place, (counted, part) in enumerate(zip(self._counted, self._took, strict=True)):
            counted[0] += taken * part // whole
            counted[1] += count + (place <= last)
            counted[2] += count + (place < last)
        return made

    def _map_by_map(self, run: ElementRun, start: Cursor) -> ElementRun:
        clock, count, took = time.perf_counter_ns, len(run.values), []
        begun, size = clock(), count
        for stage, counted in zip(self._maps, self._counted, strict=True):
            run = stage.apply(run, start)
            now, given = clock(), len(run.values)
            took.append(now - begun)
            counted[0] += now - begun  # all three behind the calls, which Ctrl-C may fall into
            counted[1] += size
            counted[2] += given
            begun, size = now, given
        if size == count:  # else some took fewer elements than others
            self._took, self._cheap = took, 0 < max(took) < _CHEAP_NS * count
        return run

    def _written_out(self) -> Callable[[Any], Any]:
        """One function that calls those of all Maps, and raises RaisedBy."""
        known: dict[str, Any] = {"raised": self._raised}
        lines = ["def joined(value):", "    try:"]
        for place, each in enumerate(self._maps):
            known[f"call{place}"], known[f"none{place}"] = each.call, each.none
            lines += [
                f"        place = {place}",
                f"        if (value := call{place}(value)) is None:",
                f"            raise raised(place, none{place}())",
            ]
        lines += [
            "    except Exception as error:",
            "        raise raised(place, error) from None",
            "    return value",
        ]
        exec(compile("\n".join(lines), "<loaderkit: consecutive Maps>", "exec"), known)
        call: Callable[[Any], Any] = known["joined"]
        return call

    def _raised(self, place: int, error: Exception) -> RaisedBy:
        self._failed = place
        if isinstance(error, RaisedBy):
            return error
        stopped = stopped_iteration() if isinstance(error, StopIteration) else error
        return RaisedBy(self._maps[place].label, stopped)


def with_chains(
    stages: Sequence[Stage], counted: Sequence[list[int]]
) -> list[tuple[Stage | MapChain, list[int]]]:
    """The stages, each with its counts; consecutive Maps as one, which adds to theirs, and whose own aren't used."""
    made: list[tuple[Stage | MapChain, list[int]]] = []
    for joins, group in groupby(zip(stages, counted, strict=True), lambda each: _joins(each[0])):
        pairs = list(group)
        if joins and len(pairs) >= _LEAST_MAPS:
            maps = [stage for stage, _ in pairs if isinstance(stage, MapStage)]
            made.append((MapChain(maps, [counts for _, counts in pairs]), [0, 0, 0]))
        else:
            made += pairs
    return made


def _joins(stage: Stage) -> bool:
    """Whether it is a Map of a function of the element alone, whose None is an error."""
    if not isinstance(stage, MapStage) or stage.none is None:
        return False
    return not stage.with_index and stage.rng is None and stage.by_column is None
