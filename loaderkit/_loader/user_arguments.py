"""What a user gave, checked: the value to go on with, or an error that names the argument, what came and what to do."""

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from loaderkit._base.integers import at_least
from loaderkit._order.sharding import NoSharding, Sharding
from loaderkit._plan.bad_records import Tolerance
from loaderkit.samplers import Sampler
from loaderkit.samplers.protocol import length_of, num_records_of


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


def seconds_or_none(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name}: expected a number of seconds or None, got {value!r}")
    if not 0 < value < float("inf"):
        raise ValueError(f"{name}: expected more than 0 seconds, or None for no limit, got {value}")
    return float(value)


def tolerance_of(on_record_error: Any, most: Any, quarantine: Any) -> Tolerance:
    policies = ("raise", "replace", "skip")
    policy = "call" if callable(on_record_error) else on_record_error
    if policy != "call" and (not isinstance(policy, str) or policy not in policies):
        raise ValueError(
            "on_record_error: expected 'raise', 'replace', 'skip' or a function of (error, metadata), "
            f"got {on_record_error!r}"
        )
    for name, value in (("max_bad_records", most), ("quarantine", quarantine)):
        if policy == "raise" and value is not None:
            raise ValueError(
                f"{name}: the first bad record is raised; give on_record_error='replace' or 'skip' too"
            )
    if quarantine is not None:
        _check_quarantine(quarantine)
    if most is not None:
        most = _count_or_share(most)
    return Tolerance(policy, most)


def _count_or_share(most: Any) -> int | float:
    if isinstance(most, float | np.floating):
        share = float(most)
        if not 0 <= share <= 1 or math.isnan(share):
            raise ValueError(f"max_bad_records: expected a share from 0.0 to 1.0, or a count, got {most!r}")
        return share
    return at_least("max_bad_records", most, 0)


def _check_quarantine(path: Any) -> None:
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise TypeError(f"quarantine: expected the path of a file, got {path!r}")
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise ValueError(
            f"quarantine: the folder {str(folder)!r} of {os.fspath(path)!r} doesn't exist; make it first"
        )
    if Path(path).is_dir():
        raise ValueError(f"quarantine: {os.fspath(path)!r} is a folder, expected the path of a file in one")
    # The file itself is made with the first bad record: until then its folder has to be writable.
    where, mode = (path, os.R_OK | os.W_OK) if Path(path).exists() else (folder, os.W_OK | os.X_OK)
    if not os.access(where, mode, effective_ids=True):
        raise ValueError(
            f"quarantine: this process may not read and write {os.fspath(where)!r}, where {os.fspath(path)!r} belongs; "
            "change the permissions or name another file"
        )
