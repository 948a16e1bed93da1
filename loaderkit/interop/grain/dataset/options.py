"""Options and small functions of Grain's Dataset API."""

import enum
import os
from dataclasses import dataclass, fields
from typing import Any, Protocol, runtime_checkable

from loaderkit.interop.grain.options import MultiprocessingOptions, ReadOptions


@enum.unique
class ExecutionTrackingMode(enum.Enum):
    """How Grain keeps times; here neither changes anything."""

    DISABLED = enum.auto()
    STAGE_TIMING = enum.auto()


@dataclass(kw_only=True, frozen=True)
class DatasetOptions:
    """Options for WithOptionsIterDataset. None changes an element, and here none changes anything.

    Args:
        filter_warn_threshold_ratio, filter_raise_threshold_ratio: of dropped elements, as Grain has them.
        execution_tracking_mode: as Grain has it.
        min_shm_size: in bytes, as Grain has it.

    >>> DatasetOptions(min_shm_size=3).merge(DatasetOptions(min_shm_size=2)).min_shm_size
    3
    """

    filter_warn_threshold_ratio: float | None = 0.9
    filter_raise_threshold_ratio: float | None = None
    execution_tracking_mode: ExecutionTrackingMode = ExecutionTrackingMode.DISABLED
    min_shm_size: int = 0

    def merge(self, other: "DatasetOptions | None") -> "DatasetOptions":
        """These, and where they are the default those of another.

        Args:
            other: more options; None for none.
        """
        if other is None:
            return self
        chosen = {
            each.name: getattr(self if getattr(self, each.name) != each.default else other, each.name)
            for each in fields(self)
        }
        return DatasetOptions(**chosen)


@dataclass(slots=True)
class PerformanceConfig:
    """What `pick_performance_config` gives.

    Args:
        multiprocessing_options: how many worker processes; None where none were picked.
        read_options: how elements are read ahead; None likewise.
    """

    multiprocessing_options: MultiprocessingOptions | None = None
    read_options: ReadOptions | None = None


def pick_performance_config(
    ds: Any,
    *,
    ram_budget_mb: int | None,
    max_workers: int | None,
    max_buffer_size: int | None,
    samples_to_check: int = 5,
) -> PerformanceConfig:
    """One stream, made by all CPUs: elements then don't depend on the machine, as they do with what Grain picks.

    Args:
        ds: the data set.
        max_workers: the most processes; None for no limit.
        ram_budget_mb, max_buffer_size, samples_to_check: nothing.

    >>> config = pick_performance_config(None, ram_budget_mb=1024, max_workers=2, max_buffer_size=None)
    >>> config.multiprocessing_options.num_workers
    1
    """
    cpus = os.cpu_count() or 1
    processes = cpus if max_workers is None else min(cpus, max_workers)
    return PerformanceConfig(MultiprocessingOptions(num_workers=1, worker_count=processes), ReadOptions())


@runtime_checkable
class ShapeDtypeStructProtocol(Protocol):
    """Anything with a shape and a dtype."""

    @property
    def shape(self) -> tuple[int | None, ...]: ...

    @property
    def dtype(self) -> Any: ...


@dataclass(slots=True, frozen=True)
class ShapeDtypeStruct:
    """The shape and the dtype of an array.

    Args:
        shape: its lengths; None for one that isn't known.
        dtype: as numpy has it.
    """

    shape: tuple[int | None, ...]
    dtype: Any
