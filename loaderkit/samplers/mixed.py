"""A sampler that mixes others by weight.

    component  one of the samplers that are mixed, known by its name
    index      of the mixture's stream
    local      index of a component's own stream
    stage      weights that hold from an index on
    lane       one of `lanes` equal parts of every global batch, with a mixture of its own
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from reprlib import repr as _short
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from loaderkit._base.integers import at_least
from loaderkit._mixture.runs import ABSENT, NO_TURN, MixtureRun, MixtureRuns, RunSettings, runs_of
from loaderkit._mixture.shares import Weight, fractions_of, integer_weights
from loaderkit._mixture.stages import MixtureStage, MixtureStages
from loaderkit._order.mixing import fold
from loaderkit._order.permutation import MAX_RECORDS, Int64Array
from loaderkit._order.sharding import Sharding

from .bulk import BulkSampler
from .epoch_table import EpochTable, has_rows
from .protocol import (
    ENDLESS,
    SEED_LIMIT,
    Sampler,
    fingerprint_of,
    length_of,
    min_records_of,
    num_records_of,
    record_keys_of,
)

IntpArray = npt.NDArray[np.intp]
StagedWeights = Mapping[str, Weight] | Sequence[tuple[int, Mapping[str, Weight]]]

_SHUFFLE = 1 << 63  # a part of the shuffle's key that no epoch is, so that no component of the same seed shares a key
_PIECE = 1 << 14  # indices planned at once; the arrays of more would leave the cache
_SHOWN_NAMES, _SHOWN_STAGES = 10, 4  # in a repr


class Taken(NamedTuple):
    """What was read of a component: its records, and its epochs where its sampler says how long one is."""

    records: int
    epochs: float | None


@dataclass(frozen=True, repr=False)
class MixedSampler(BulkSampler):
    """Components by weight: every component is read in its own order, and as often as its weight says at any time.

    Args:
        components: {name: its sampler}, one or more. The number of a component is its place here.
        weights: {name: weight} as int, Fraction or float, 0 for "not now"; or stages, [(first_index, {name: weight}),
            ...]. Equal ones, if not given.
        pattern: names or numbers of components in the order in which they take turns, again and again; instead of
            weights.
        order: "even" spreads a component as evenly as can be; "shuffled" permutes the indices of each block of 2,048.
        when_exhausted: what happens where a component with an end has been read: "stop" ends the mixture right before
            the index that would read past it, "drop" goes on with the others until all that have a weight are read.
            Needed where a component has an end; without effect where none has.
        seed: int in [0, 2**64), for order="shuffled" and for random operations. The components' shuffles have their
            own seeds.
        offsets: {name: what is added to a component's keys}; one component behind the other by `num_records`, as in a
            ConcatDataSource, if not given.
        lanes: for remote sources: into how many parts each global batch is cut, each a mixture of its own, as many as
            there may be hosts; components are ChunkSamplers with lanes=lanes and batch=lanes, without end.
        batch: how many indices a step of the loader takes over all hosts, a multiple of lanes; needed for more than
            one lane.
        shard_options: used by a loader that gets none of its own; it changes no key.

    After any prefix each component was read as its locals 0 to c-1, and for order="even" c is closer than 1 to
    weight * index; `loaderkit/_mixture/order.py` says the bound for more than 65,536 parts of weight. The shares that
    hold exactly are those of the repr.

    A value of the wrong type is a TypeError; a value out of range, a component without records, an end without
    `when_exhausted`, and a stage that begins behind the mixture's end are ValueErrors.

    >>> from loaderkit.samplers import IndexSampler
    >>> web, code = IndexSampler(700, shuffle=True, seed=0), IndexSampler(300, shuffle=True, seed=1)
    >>> sampler = MixedSampler({"web": web, "code": code}, weights={"web": 0.7, "code": 0.3})
    >>> [key < 700 for key in sampler.record_keys(range(10)).tolist()].count(True)
    7
    >>> sampler.taken(2000)
    {'web': Taken(records=1400, epochs=2.0), 'code': Taken(records=600, epochs=2.0)}
    """

    components: Mapping[str, Sampler]
    weights: InitVar[StagedWeights | None] = field(default=None, kw_only=True)
    pattern: tuple[str, ...] | None = field(default=None, kw_only=True)
    order: Literal["even", "shuffled"] = field(default="even", kw_only=True)
    when_exhausted: Literal["stop", "drop"] | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)
    offsets: Mapping[str, int] = field(default=cast(Any, None), kw_only=True)
    lanes: int = field(default=1, kw_only=True)
    batch: int | None = field(default=None, kw_only=True)
    shard_options: Sharding | None = field(default=None, kw_only=True)
    stages: MixtureStages = field(init=False)

    def __post_init__(self, weights: StagedWeights | None) -> None:
        self._set("components", _checked_components(self.components))
        lengths = {name: length_of(each) for name, each in self.components.items()}
        _check_lengths(lengths)
        self._set("_lengths", {name: length for name, length in lengths.items() if length is not None})
        self._check_settings()
        self._set("offsets", _checked_offsets(self.offsets, self.components))
        self._set("pattern", _checked_pattern(self.pattern, self.names))
        if self.pattern is not None:
            if weights is not None:
                raise ValueError(
                    f"weights: expected none beside a pattern, got {_short(weights)}; give one of them"
                )
            weights = {name: self.pattern.count(name) for name in dict.fromkeys(self.pattern)}
        stages = _stages_of({name: 1 for name in self.names} if weights is None else weights, self.names)
        samplers = tuple(self.components.values())
        self._set("_samplers", samplers)
        self._set("_rows", np.array([has_rows(each) for each in samplers]))
        self._set("_table", EpochTable.of(samplers, [self.offsets[name] for name in self.names]))
        self._stage(stages)
