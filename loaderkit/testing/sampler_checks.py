"""Whether a sampler keeps what loaderkit relies on."""

import sys
from collections.abc import Callable, Collection
from functools import cached_property, partial
from types import FrameType
from typing import Any, cast

import numpy as np

from loaderkit._base.notes import text_of
from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._order.sharding import Sharding
from loaderkit._plan.state.strict_json import find_problem
from loaderkit.samplers.optional import (
    batch_of,
    components_of,
    endless_of,
    lanes_of,
    next_uses_of,
    part_lengths_of,
    window_of,
)
from loaderkit.samplers.protocol import (
    ENDLESS,
    Sampler,
    fingerprint_of,
    length_of,
    min_records_of,
    num_records_of,
    record_keys_of,
    seed_of,
)

from .conformance import Checks, ConformanceReport, Mismatch, Skip, expect, run_checks
from .workers import in_another_process, in_threads, pickled_copy

_FAR = 1 << 40  # an index that no run reaches
# Lines of Python for the far index: 78 times the 256 that a shuffling IndexSampler runs, and a replay ends soon.
_MOST_LINES = 20_000
_LINES_OF_RECORD = 20  # more for each record, random.shuffle of an epoch's list runs 11
_MOST_RECORDS = 1_000_000  # that are allowed for: more would let a replay run for minutes
_NEAR = 4096  # the other checks ask below it, so that a sampler that replays answers in time
_CHECKS = Checks["_SamplerSamples"]()


def check_sampler(
    sampler: Sampler,
    *,
    num_records: int | None = None,
    indices: int = 32,
    skip: Collection[str] = (),
    progress: bool | None = None,
) -> ConformanceReport:
    """Asks a sampler for some indices in several ways, and for all else that it may offer: each answer is the same.

    Args:
        sampler: what is to be a DataLoader's sampler. TypeError for what has no `__getitem__`.
        num_records: of the source that it is for, len(source): each record_key must be below it. Not checked, if not
            given.
        indices: how many to ask for, at least 2: the first and others, the same ones in each call.
        skip: names of checks to leave out.
        progress: whether a line on stderr says how far it is; None where that is a terminal.

    Returns what was checked, and what wasn't and why. ConformanceError, an AssertionError, for the first that fails.
    A copy of the sampler is sent to a worker process that is started for it.

    >>> import loaderkit as lk
    >>> class Anything:
    ...     def __getitem__(self, index):
    ...         return lk.RecordMetadata(index=index, record_key=np.random.default_rng().integers(1 << 40))
    >>> try:
    ...     check_sampler(Anything())
    ... except AssertionError as error:
    ...     print(error.check)
    asked again
    """
    if isinstance(sampler, type) or not hasattr(type(sampler), "__getitem__"):
        kind = sampler.__name__ if isinstance(sampler, type) else f"a {type(sampler).__name__}"
        raise TypeError(
            f"sampler: expected an object with __getitem__, which gives RecordMetadata, got {kind}"
        )
    limit = None if num_records is None else at_least("num_records", num_records, 1)
    samples = _SamplerSamples(sampler, limit, at_least("indices", indices, 2))
    return run_checks(_CHECKS, samples, name="check_sampler", skip=skip, progress=progress)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A sampler's answer for an index: the key, and the first draws of its generator."""

    record_key: int
    drawn: tuple[int, ...]

    def __str__(self) -> str:
        drawn = f" with a generator that draws {self.drawn[0]} first" if self.drawn else ""
        return f"record_key {self.record_key}{drawn}"


class _SamplerSamples:
    def __init__(self, sampler: Sampler, limit: int | None, indices: int) -> None:
        self.sampler, self.limit, self._indices = sampler, limit, indices
        self.pickled_bytes: int | None = None
        self.far: int | None = None  # the far index, once it is known that it costs little
        self.fingerprint: Any = None

    @property
    def subject(self) -> str:
        return type(self.sampler).__qualname__

    @cached_property
    def length(self) -> int | None:
        return length_of(self.sampler)

    @cached_property
    def places(self) -> list[int]:
        """The first index and others in no order; the same ones each time. Skip where there are none."""
        if self.length == 0:
            raise Skip("the sampler has no indices")
        most = min(_NEAR, ENDLESS if self.length is None else self.length)
        if most <= self._indices:
            return list(range(most))
        others = np.random.Generator(np.random.Philox(key=0)).integers(most, size=self._indices)
        return list(dict.fromkeys([0, 1, *others.tolist()]))[: self._indices]

    @cached_property
    def expected(self) -> dict[int, _Answer]:
        return {index: _asked(self.sampler, index) for index in self.places}

    @cached_property
    def copy(self) -> Any:
        try:
            copy, self.pickled_bytes = pickled_copy(self.sampler)
        except Exception as error:
            raise Skip(
                f"the sampler can't be pickled ({text_of(error)}); it may stay so, for it doesn't travel"
            ) from error
        return copy

    def expect_row(self, index: int, key: int) -> None:
        if self.limit is not None:
            expect(key < self.limit, f"a record_key below {self.limit} for index {index}", str(key))

    def compare(self, index: int, got: _Answer, when: str) -> None:
        expected = self.expected[index]
        expect(got == expected, f"sampler[{index}] to be {expected} {when}", str(got))

    def compare_fingerprint(self, got: Any, when: str, *, of_copy: bool = False) -> None:
        if self.fingerprint is not None:
            before, after = self.fingerprint, got
            if of_copy and set(before) == {"kind", "length", "first_keys"}:  # not the sampler's own
                # kind is the class: the pickle of one that a function defines has not the function's name.
                before, after = ({**each, "kind": None} for each in (before, after))
            expect(after == before, f"the fingerprint {self.fingerprint!r} {when}", repr(got))


def _asked(sampler: Sampler, index: int) -> _Answer:
    metadata = sampler[index]
    generator: Any = getattr(metadata, "rng", None)
    drawn = () if generator is None else tuple(generator.integers(1 << 62, size=4).tolist())
    key = at_least(f"sampler[{index}].record_key", metadata.record_key, 0, below=ENDLESS, advice="give a row")
    return _Answer(key, drawn)


# --- single answers --------------------------------------------------------------------------------------------------


@_CHECKS("length")
def _length(samples: _SamplerSamples) -> None:
    """the number of indices is the same again

    Give the number of indices of all epochs as __len__, or have none for a stream without end.
    """
    length, again = samples.length, length_of(samples.sampler)
    expect(again == length, f"a length of {length} again", str(again))


@_CHECKS("far index")
def _far_index(samples: _SamplerSamples) -> None:
    """a far index costs few lines of Python; what compiled code does isn't counted

    Compute the answer from the index: with a replay of all indices before it, a resume at step 1,000,000 takes as
    long as the run did.
    """
    if sys.gettrace() is not None:
        raise Skip("a debugger or a coverage tool counts lines already")
    far = _FAR if samples.length is None else samples.length - 1
    if far < 0:
        raise Skip("the sampler has no indices")
    records = num_records_of(samples.sampler) or samples.limit or 0
    most = _MOST_LINES + _LINES_OF_RECORD * min(records, _MOST_RECORDS)
    samples.sampler[0]  # what is made once, and what is imported, isn't the index's
    within = within_line_limit(lambda: samples.sampler[far], most)
    expect(within, f"sampler[{far}] within {most:,} lines of Python", "more, and stopped it")
    samples.far = far


@_CHECKS("metadata")
def _metadata(samples: _SamplerSamples) -> None:
    """sampler[i] is a RecordMetadata with index i and a record_key that is a row of the source

    Give RecordMetadata(index=i, record_key=row) with a row from 0 to len(source) - 1.
    """
    for index in samples.places:
        metadata = samples.sampler[index]
        for name in ("index", "record_key"):
            expect(hasattr(metadata, name), f"sampler[{index}] to be a RecordMetadata", repr(metadata))
        expect(
            metadata.index == index, f"sampler[{index}] to have index={index}", f"index={metadata.index!r}"
        )
        key = samples.expected[index].record_key
        samples.expect_row(index, key)
    if samples.far is not None:
        samples.expect_row(samples.far, _asked(samples.sampler, samples.far).record_key)


@_CHECKS("asked again")
def _asked_again(samples: _SamplerSamples) -> None:
    """an index that is asked for again has the same record_key and generator

    The answer has to be a function of the index: no counter, no generator that goes on from answer to answer.
    """
    for index in samples.places:
        for _ in range(2):  # after others, and after itself
            samples.compare(index, _asked(samples.sampler, index), "when it is asked for again")


@_CHECKS("another order")
def _another_order(samples: _SamplerSamples) -> None:
    """answers are the same in another order

    The answer has to be a function of the index, not of those that were asked for before.
    """
    for index in samples.places[::-1]:
        samples.compare(index, _asked(samples.sampler, index), "when it is asked for in another order")


@_CHECKS("threads")
def _threads(samples: _SamplerSamples) -> None:
    """answers are the same when several threads ask at once

    Several iterators of a loader share its sampler: keep nothing on self from one line of an answer to the next, or
    use a lock.
    """
    for index, got in in_threads(partial(_asked, samples.sampler), samples.places, "index"):
        samples.compare(index, got, "when several threads ask at once")


@_CHECKS("beyond the end")
def _beyond_the_end(samples: _SamplerSamples) -> None:
    """the index behind the last one is an IndexError

    Raise IndexError from len(sampler) on; a sampler without end has no __len__.
    """
    if samples.length is None:
        raise Skip("the sampler has no end")
    try:
        metadata = samples.sampler[samples.length]
    except IndexError:
        return
    raise Mismatch(f"an IndexError for index {samples.length}", repr(metadata))


# --- optional methods and attributes ---------------------------------------------------------------------------------


def _compare_bulk(samples: _SamplerSamples, indices: list[int]) -> None:
    if not hasattr(samples.sampler, "record_keys"):
        raise Skip("the sampler has no record_keys(indices)")
    asked = np.array(indices, np.int64)
    got = record_keys_of(samples.sampler, asked).tolist()
    expected = [_asked(samples.sampler, index).record_key for index in indices]
    expect(got == expected, f"record_keys({indices}) to be {expected}, as the single answers are", str(got))
    expect(asked.tolist() == indices, "the array of indices to stay as it was", f"{asked.tolist()}")


@_CHECKS("record_keys")
def _bulk(samples: _SamplerSamples) -> None:
    """record_keys of consecutive indices gives the keys of single answers, as int64, and leaves the indices alone

    Give an int64 array with one key for each index, as sampler[i].record_key says it.
    """
    most = len(samples.places)
    _compare_bulk(samples, list(range(most)))
    _compare_bulk(samples, list(range(most // 2, most)))


@_CHECKS("record_keys of shards")
def _bulk_of_shards(samples: _SamplerSamples) -> None:
    """record_keys gives them for the rows that one of several shards loads, for repeated indices in any order, and for
    none

    Use each index that is given, not the first of them and their number: a shard loads every batch's rows in part.
    """
    most = len(samples.places)
    for shard in range(2):  # rows of one of two shards, where a batch has four
        _compare_bulk(samples, [index for index in range(most) if index % 4 // 2 == shard])
    _compare_bulk(samples, [*samples.places[::-1], *samples.places[:2]])
    _compare_bulk(samples, [])


@_CHECKS("attributes")
def _attributes(samples: _SamplerSamples) -> None:
    """num_records, seed and shard_options are absent, None, or what a loader takes, and the same again

    num_records is the length of an epoch, an int from 1 on; seed an int in [0, 2**64); shard_options a ShardOptions.
    """
    sampler = samples.sampler
    shards = getattr(sampler, "shard_options", None)
    expect(shards is None or isinstance(shards, Sharding), "shard_options to be a ShardOptions", repr(shards))
    said = {"num_records": num_records_of(sampler), "seed": seed_of(sampler)}
    again = {"num_records": num_records_of(sampler), "seed": seed_of(sampler)}
    expect(again == said, f"{said} again", str(again))
    if samples.limit is not None:
        least = min_records_of(sampler)
        expect(least <= samples.limit, f"num_records of at most {samples.limit}", str(least))


@_CHECKS("fingerprint")
def _saved_fingerprint(samples: _SamplerSamples) -> None:
    """the fingerprint is JSON that a state can hold, and the same when it is asked for again

    Give a dict of what decides the order: numbers of at most 64 bits and strings; no time, no address.
    """
    samples.fingerprint = fingerprint_of(samples.sampler)
    problem = find_problem(samples.fingerprint, "fingerprint", 1)
    expect(problem is None, "JSON values that a state can hold", str(problem))
    samples.compare_fingerprint(fingerprint_of(samples.sampler), "when it is asked for again")


@_CHECKS("endless")
def _endless(samples: _SamplerSamples) -> None:
    """endless() has no end, and the same answers

    Give the sampler as it is, but with epochs without end; or have no endless().
    """
    endless = endless_of(samples.sampler)
    if endless is samples.sampler:
        return
    length = length_of(endless)
    expect(length is None, "endless() without an end", f"a length of {length}")
    for index in samples.places:
        samples.compare(index, _asked(endless, index), "from endless()")


@_CHECKS("how it reads")
def _how_it_reads(samples: _SamplerSamples) -> None:
    """next_uses, window, chunk, lanes, batch, components and part_lengths agree with the keys

    Give them as lk.samplers.Sampler says, or leave them out: they are of use with a cache, and for messages.
    """
    sampler = samples.sampler
    window_of(sampler)  # an error says what it has to be
    lanes, batch = lanes_of(sampler), batch_of(sampler)
    expect((batch or 1) % lanes == 0, f"batch to be a multiple of lanes={lanes}", str(batch))
    indices = np.arange(len(samples.places), dtype=np.int64)  # (n,) int64
    keys = record_keys_of(sampler, indices)
    next_uses, mixed, lengths = next_uses_of(sampler), components_of(sampler), part_lengths_of(sampler)
    if next_uses is not None:
        uses = _ints("next_uses", next_uses(keys, 0), indices.shape)
        late = np.flatnonzero(uses > indices)[:1].tolist()
        expect(not late, "next_uses(keys, 0) at or before the index that reads each key", f"later for {late}")
    if mixed is not None and mixed.numbers is not None:
        numbers = _ints("component_numbers", mixed.numbers(indices), indices.shape)
        known = bool((numbers >= -1).all() and (numbers < len(mixed.names)).all())
        expect(known, f"component_numbers from -1 to {len(mixed.names) - 1}", str(numbers.tolist()))
        least = np.array([*mixed.offsets.values(), 0], np.int64)[numbers]
        expect(bool((keys >= least).all()), "keys from their component's offset on", str(keys.tolist()))
    if lengths is not None:
        counts = _ints("part_lengths", lengths, np.shape(lengths))
        expect(
            bool((keys < counts.sum()).all()),
            f"keys below {counts.sum()}, all of part_lengths",
            str(keys.max()),
        )


def _ints(name: str, given: Any, shape: tuple[int, ...]) -> Any:
    array = np.asarray(given)
    good = array.dtype.kind in "iu" and array.shape == shape
    expect(good, f"{name} to give ints of shape {shape}", f"{array.dtype} of shape {array.shape}")
    return array


# --- in other processes ----------------------------------------------------------------------------------------------


@_CHECKS("pickled copy")
def _pickled_copy(samples: _SamplerSamples) -> None:
    """a pickled copy gives the same answers and fingerprint

    Let __getstate__ keep all that decides an answer. A sampler that can't be pickled is fine, too.
    """
    for index in samples.places:
        samples.compare(index, _asked(samples.copy, index), "from a pickled copy")
    samples.compare_fingerprint(fingerprint_of(samples.copy), "of a pickled copy", of_copy=True)


@_CHECKS("another process")
def _another_process(samples: _SamplerSamples) -> None:
    """another process gets the same answers and fingerprint

    A run goes on in another process: an answer must not depend on hash() of a str, the order of a set, id() or
    os.getpid().
    """
    places = samples.places[::-1]
    assert samples.copy is not None  # or the check is skipped
    *answers, said = in_another_process(partial(_ask_there, samples.sampler, places), len(places) + 1)
    for index, (key, drawn) in zip(places, answers, strict=True):
        samples.compare(index, _Answer(int(key), tuple(map(int, drawn))), "in another process")
    samples.compare_fingerprint(cast(dict[str, Any], said)["fingerprint"], "in another process", of_copy=True)


def _ask_there(sampler: Sampler, places: list[int], at: int) -> Any:
    """Runs in the worker: an answer for each index, and the fingerprint after the last."""
    if at == len(places):
        return {"fingerprint": fingerprint_of(sampler)}
    answer = _asked(sampler, places[at])
    return answer.record_key, list(answer.drawn)


@_CHECKS("unchanged by asking")
def _unchanged(samples: _SamplerSamples) -> None:
    """length and fingerprint are what they were before all these answers

    Let an answer change nothing that the sampler says of itself.
    """
    length = length_of(samples.sampler)
    expect(length == samples.length, f"a length of {samples.length} after all these answers", str(length))
    if samples.fingerprint is not None:
        samples.compare_fingerprint(fingerprint_of(samples.sampler), "after all these answers")


class _LineLimit(BaseException):
    """Passes through an `except Exception` of the call."""


def within_line_limit(call: Callable[[], Any], most: int) -> bool:
    """Whether a call runs at most so many lines and calls of Python in this thread; it is stopped where there are more.

    What compiled code does isn't seen. A trace function of before, such as a debugger's, is not restored.

    >>> (
    ...     within_line_limit(lambda: sum(range(1000)), 100),
    ...     within_line_limit(lambda: sum(n for n in range(1000)), 100),
    ... )
    (True, False)
    """
    lines = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += 1
        if lines > most:
            raise _LineLimit
        return count

    sys.settrace(count)
    try:
        call()
    except _LineLimit:
        return False
    finally:
        sys.settrace(None)
    return True
