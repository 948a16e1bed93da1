"""Several sources by weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from reprlib import repr as _short
from typing import Any, Literal

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import at_least
from loaderkit._order.mixing import component_seed
from loaderkit._order.sharding import Sharding
from loaderkit._source.optional import advised_chunk
from loaderkit.samplers import ChunkSampler, MixedSampler, Sampler
from loaderkit.samplers.mixture_arguments import StagedWeights
from loaderkit.samplers.protocol import checked_epochs, checked_seed
from loaderkit.samplers.spans import epoch_lengths_of, sampler_over

from . import ConcatDataSource
from .checked import require_source
from .id_column import IdColumnDataSource
from .parts import parts_of


@refusing_foreign_arguments
def mix(
    sources: Mapping[str, Any],
    weights: StagedWeights | None = None,
    *,
    shuffle: bool = False,
    seed: int | None = None,
    num_epochs: int | Mapping[str, int] | None = None,
    order: Literal["even", "shuffled"] = "even",
    when_exhausted: Literal["stop", "drop"] | None = None,
    pattern: Sequence[str | int] | None = None,
    id_key: str | None = None,
    lanes: int = 1,
    batch: int | None = None,
    window: int | None = None,
    shard_options: Sharding | None = None,
) -> tuple[ConcatDataSource, MixedSampler]:
    """Several sources as one, whose records come by weight: each source in its own order, shuffled anew in its epochs.

    Args:
        sources: {name: data source}, each with a record or more.
        weights: {name: weight} as int, Fraction or float, 0 for "not now"; or stages, [(first_index, {name: weight}),
            ...]. Equal ones, if not given.
        shuffle: whether each epoch of a source has an order of its own, which needs a seed.
        seed: int in [0, 2**64). The seed of a source's shuffle follows from it and from the source's name, so a source
            that is added or dropped changes the order of no other one.
        num_epochs: how often each source is read, None for an endless stream; or {name: number}, a name that is left
            out without end. Sources that end need `when_exhausted`.
        order, when_exhausted, pattern: as MixedSampler has them.
        id_key: a key that records, which are dicts then, get: the number of their source in `sampler.names`, as int32.
        lanes: for sources on servers: into how many parts each global batch is cut, each with chunks of its own, as
            many as there may be hosts. It needs `shuffle`, `batch`, and no `num_epochs`.
        batch: how many indices a step of the loader takes over all hosts, a multiple of lanes.
        window: how many chunks of a source each lane mixes at a time, for sources that say their `chunk_records`, such
            as files on a server; needed for these with lanes. None with one lane shuffles all records of an epoch.
        shard_options: used by a loader that gets none of its own.

    Sources of tokens have one dtype; ValueError that names those of others.

    Returns the source and the sampler for a DataLoader. A value of the wrong type is a TypeError; an empty source, a
    name that isn't among the sources, and what doesn't fit together are ValueErrors that say what to write.

    >>> import loaderkit as lk
    >>> web, code = [{"x": k} for k in range(700)], [{"x": -k} for k in range(300)]
    >>> source, sampler = mix(
    ...     {"web": web, "code": code}, {"web": 0.7, "code": 0.3}, shuffle=True, seed=0, id_key="of"
    ... )
    >>> loader = lk.DataLoader(data_source=source, sampler=sampler, operations=[lk.Batch(10)])
    >>> batch = next(iter(loader))
    >>> [sampler.names[number] for number in batch["of"]].count("web")
    7
    """
    if not isinstance(sources, Mapping):
        raise TypeError(
            f"sources: expected a mapping of name to data source, got {_short(sources)}; give names, such as "
            '{"web": ..., "code": ...}'
        )
    sources = dict(zip(sources, parts_of(sources)[1], strict=True))  # before their lengths are asked for
    for name, source in sources.items():
        require_source(source, argument=f"sources[{name!r}]")
        if not len(source):
            raise ValueError(
                f"sources[{name!r}]: expected one record or more, got none; leave this source out"
            )
    _check_dtypes(sources)
    seed = checked_seed(seed, shuffle=shuffle)
    lanes = at_least("lanes", lanes, 1, advice="give 1, or the number of hosts")
    advice = "give how many chunks are mixed at a time"
    window = None if window is None else at_least("window", window, 1, advice=advice)
    if not shuffle and (lanes > 1 or window is not None):
        needs = f"lanes={lanes}" if lanes > 1 else f"window={_short(window)}"
        raise ValueError(
            f"shuffle: expected True, as {needs} is of a shuffle by chunks, got False; give shuffle=True and a seed"
        )
    epochs = _epochs_of(num_epochs, sources)
    samplers: dict[str, Sampler] = {}
    for name, source in sources.items():
        own = None if seed is None else component_seed(seed, name)
        chunk = advised_chunk(source)
        if (lanes == 1 and (window is None or chunk is None)) or epoch_lengths_of(source) is not None:
            samplers[name] = sampler_over(
                source, shuffle=shuffle, seed=own, num_epochs=epochs[name], lanes=lanes
            )
            continue
        if window is None and chunk is not None:
            raise ValueError(
                f"window: expected how many chunks a lane mixes at a time, as lanes={lanes} and sources[{name!r}] is "
                f"read by chunks of {chunk} records, got None; give for example window=8"
            )
        if own is None:
            raise AssertionError("a shuffle has a seed")
        samplers[name] = ChunkSampler(
            len(source),
            # Windows of one record where there are no chunks: the order is then a shuffle of all records.
            chunk=1 if chunk is None else min(chunk, len(source)),
            window=1 if chunk is None or window is None else window,
            lanes=lanes,
            batch=lanes,
            num_epochs=epochs[name],
            seed=own,
        )
    sampler = MixedSampler(
        samplers,
        weights=weights,
        pattern=pattern,
        order=order,
        when_exhausted=when_exhausted,
        seed=seed,
        lanes=lanes,
        batch=batch,
        shard_options=shard_options,
    )
    return ConcatDataSource(sources) if id_key is None else IdColumnDataSource(sources, id_key), sampler


def _check_dtypes(sources: Mapping[str, Any]) -> None:
    of_tokens = {name: source for name, source in sources.items() if hasattr(source, "feature")}
    dtypes = {name: source.dtype for name, source in of_tokens.items() if hasattr(source, "dtype")}
    if len({*dtypes.values()}) > 1:
        told = ", ".join(f"{name!r} of {dtype}" for name, dtype in dtypes.items())
        raise ValueError(
            f"sources: expected tokens of one dtype, got {told}: the dtype of a batch would depend on its step; write "
            "all corpora with one dtype"
        )


def _epochs_of(num_epochs: Any, sources: Mapping[str, Any]) -> dict[str, int | None]:
    if not isinstance(num_epochs, Mapping):
        return dict.fromkeys(sources, checked_epochs(num_epochs))
    for name in num_epochs:
        if name not in sources:
            raise ValueError(
                f"num_epochs: expected names of sources, got {_short(name)}; write one of {_short(list(sources))}"
            )
    return {name: num_epochs.get(name) for name in sources}
