"""The arguments of a DataLoader as settings, or an error: the argument, what it expects, what it got, what to do."""

import math
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from loaderkit._base.hints import foreign_attribute
from loaderkit._base.numbers import at_least, number
from loaderkit._base.system.resources import available_cpus
from loaderkit._order.sharding import NoSharding, Sharding, ShardOptions, check_sharding
from loaderkit._plan.bad_records import Tolerance
from loaderkit._plan.stream_shape import batching_of, check_reach
from loaderkit._runtime.remote.remote_workers import RemoteWorkers
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit.samplers import Sampler
from loaderkit.samplers.protocol import length_of, min_records_of, num_records_of, random_parts_of, seed_of
from loaderkit.samplers.spans import epoch_lengths_of, has_spans
from loaderkit.sources.random_reads import check_random_reads
from loaderkit.transforms.base import draws, operation_name, seeds
from loaderkit.transforms.shape import shape_of

from .parts import check_parts
from .settings import LoaderSettings


def check_settings(settings: LoaderSettings) -> None:
    """Raises ValueError for arguments that are wrong together, each of which is right by itself."""
    cpu = settings.cpu
    if cpu is not None and (settings.worker_kind == "thread" or not settings.worker_count):
        raise ValueError(
            f"cpu: expected None without worker processes, got {cpu!r}: numpy has chosen its loops when this process "
            f"loaded it; write cpu={cpu!r}, worker_kind='process', worker_count={settings.worker_count or 1}"
        )
    if settings.remote_workers is not None and (
        settings.worker_kind == "thread" or not settings.worker_count
    ):
        raise ValueError(
            f"remote_workers: expected None without worker processes here, which do what no other machine may, got "
            f"{settings.remote_workers!r}; write worker_kind='process', worker_count={settings.worker_count or 1}"
        )
    _check_operations(settings)
    check_reach(batching_of(shape_of(settings.operations), ShardOptions(0, 1)), length_of(settings.sampler))


def worker_count_of(count: Any) -> int:
    """The number of workers; as many as this process may use CPUs for None, and to begin with for "auto"."""
    if count is None or count == "auto":
        return available_cpus()
    if isinstance(count, str):
        raise ValueError(f'worker_count: expected a number, None or "auto", got {count!r:.80}')
    return at_least("worker_count", count, 0)


def _check_operations(settings: LoaderSettings) -> None:
    threads = settings.worker_kind == "thread" and settings.worker_count > 0
    for place, op in enumerate(settings.operations):
        if draws(op) and seed_of(settings.sampler) is None:
            raise ValueError(
                f"{operation_name(place, op)} draws random numbers, and the sampler has no seed: "
                "give it one, for example IndexSampler(..., seed=0)"
            )
        if seeds(op) and threads:
            raise ValueError(
                f"{operation_name(place, op)} seeds generators that threads share with each other and with the "
                "training loop; use worker_kind='process'"
            )


def remote_workers_of(workers: Any) -> RemoteWorkers | None:
    """Workers of other machines, or None."""
    described = hasattr(workers, "listen") and hasattr(workers, "settings")
    if workers is not None and (isinstance(workers, type) or not described):
        raise TypeError(
            f"remote_workers: expected lk.interop.ray.Workers(count) or None, got {workers!r:.80}"
        )
    checked: RemoteWorkers | None = workers
    return checked


def one_of(name: str, value: str, first: str, second: str) -> str:
    """The value, if it is one of the two."""
    if value not in (first, second):
        raise ValueError(f"{name}: expected {first!r} or {second!r}, got {value!r}")
    return value


def read_options_of(options: Any) -> ReadOptions:
    """How a worker reads; the defaults for None."""
    if options is not None and not isinstance(options, ReadOptions):
        raise TypeError(f"read_options: expected a ReadOptions, got {options!r}")
    return options or ReadOptions()


def checked_sampler(sampler: Any, source: Any) -> Sampler:
    """The sampler, if it reads records of this source, in an order that the source allows."""
    if isinstance(sampler, type) or not hasattr(sampler, "__getitem__"):
        ours = foreign_attribute((sampler if isinstance(sampler, type) else type(sampler)).__name__)
        raise TypeError(
            f"sampler: expected one that gives RecordMetadata for sampler[i], such as IndexSampler(len(source)), "
            f"got {sampler!r}" + ("" if ours is None else f"; write instead: {ours}")
        )
    records, length = min_records_of(sampler), length_of(sampler)
    if records > len(source):
        if records != num_records_of(sampler):
            raise ValueError(
                f"sampler: expected record keys below {len(source)}, the length of the data source, got {records - 1}; "
                "use keys of this source"
            )
        raise ValueError(
            f"sampler: expected num_records of at most {len(source)}, the length of the data source, got {records}; "
            "use num_records=len(source)"
        )
    if length == 0:
        raise ValueError(f"sampler: expected one with indices, got {type(sampler).__qualname__} of length 0")
    check_parts(sampler, source)
    spans = epoch_lengths_of(source)
    mixes = getattr(sampler, "shuffle", False) and not has_spans(sampler)
    if mixes and spans is not None and len(spans) > 1:
        warnings.warn(
            f"sampler: {type(sampler).__qualname__} mixes the rows of all {len(spans)} epochs that were packed; write "
            "lk.samplers.SpanSampler(rows.epoch_lengths, shuffle=True, seed=...), which reads one after the other",
            stacklevel=4,
        )
    checked: Sampler = sampler
    check_random_reads(source, random_parts_of(checked))
    return checked


def sharding_of(sampler: Any, given: Any) -> Sharding:
    """The shards that are given, or the sampler's own; no shards where there are none."""
    own = getattr(sampler, "shard_options", None)
    for name, options in (("shard_options", given), ("the sampler's shard_options", own)):
        check_sharding(options, name)
    if given is not None and own is not None and given != own:
        raise ValueError(
            f"shard_options: expected none or the sampler's own, {own!r}, got {given!r}; give one of them"
        )
    chosen: Sharding = given or own or NoSharding()
    return chosen


def seconds_or_none(name: str, value: Any) -> float | None:
    """A number of seconds above 0, or None for no limit."""
    if value is None:
        return None
    seconds = number(name, value, "a number of seconds or None")
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{name}: expected more than 0 seconds, or None for no limit, got {value}")
    return seconds


def tolerance_of(on_record_error: Any, most: Any, quarantine: Any) -> Tolerance:
    """Which bad records are accepted, and how many."""
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
                f"{name}: expected None where the first bad record is raised, got {value!r}; give "
                "on_record_error='replace' or 'skip' too"
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
    if isinstance(most, str):
        raise TypeError(f"max_bad_records: expected a count, or a share such as 0.01, got {most!r:.80}")
    return at_least("max_bad_records", most, 0)


def _check_quarantine(path: Any) -> None:
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise TypeError(f"quarantine: expected the path of a file, got {path!r}")
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise ValueError(
            f"quarantine: expected a file in a folder that exists, got {os.fspath(path)!r}; make {str(folder)!r} first"
        )
    if Path(path).is_dir():
        raise ValueError(f"quarantine: expected the path of a file, got the folder {os.fspath(path)!r}")
    # The file is made at the first bad record: until then its folder has to be writable.
    where, mode = (path, os.R_OK | os.W_OK) if Path(path).exists() else (folder, os.W_OK | os.X_OK)
    if not os.access(where, mode, effective_ids=True):
        raise ValueError(
            f"quarantine: expected a path that this process may read and write, got {os.fspath(path)!r}: it "
            f"may not read and write {os.fspath(where)!r}; change the permissions or name another file"
        )
