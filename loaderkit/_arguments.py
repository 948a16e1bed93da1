"""What a user gave, checked: the value to go on with, or an error that names the argument, what came and what to do."""

from typing import Any

import numpy as np

from loaderkit.plan.samplers import Sampler, length_of, num_records_of
from loaderkit.plan.sharding import NoSharding, Sharding


def checked_sampler(sampler: Any, source: Any) -> Sampler:
    if isinstance(sampler, type) or not hasattr(sampler, "__getitem__"):
        raise TypeError(
            f"sampler: expected one that gives RecordMetadata for sampler[i], such as IndexSampler(len(source)), "
            f"got {sampler!r}"
        )
    records, length = num_records_of(sampler), length_of(sampler)
    if records is not None and records > len(source):
        raise ValueError(
            f"sampler: it samples num_records={records} records, the data source has {len(source)}; "
            "use num_records=len(source)"
        )
    if length == 0:
        raise ValueError("sampler: it has no indices (len is 0)")
    checked: Sampler = sampler
    return checked


def sharding_of(sampler: Any, given: Any) -> Sharding:
    own = getattr(sampler, "shard_options", None)
    for name, options in (("shard_options", given), ("the sampler's shard_options", own)):
        if options is not None and not isinstance(options, Sharding):
            raise TypeError(
                f"{name}: expected ShardOptions(...), NoSharding(), ShardByJaxProcess() or ShardBySharding(...), "
                f"got {options!r}"
            )
    if given is not None and own is not None and given != own:
        raise ValueError(
            f"shard_options: the loader was given {given!r} and the sampler has {own!r}; give one of them"
        )
    chosen: Sharding = given or own or NoSharding()
    return chosen


def at_least(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}: expected an int, got {value!r}")
    if value < least:
        raise ValueError(f"{name}: expected {least} or more, got {value}")
    return int(value)
