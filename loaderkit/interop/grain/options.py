"""ReadOptions and MultiprocessingOptions: how a worker reads, and how many there are."""

import logging
from dataclasses import dataclass
from typing import Any

from loaderkit._base.numbers import at_least
from loaderkit._runtime.worker import reading

# Of Grain's reading threads, before their number: a source may take its own from `grain-prefetch_3`.
READER_NAME = "grain-prefetch_"
_log = logging.getLogger("loaderkit")


@dataclass(slots=True)
class ReadOptions:
    """How a worker reads.

    Args:
        num_threads: reads in flight in each worker; 0 reads in the thread that transforms.
        prefetch_buffer_size: records read ahead in each worker; 0 reads in the thread that transforms.

    Raises ValueError for a negative number, TypeError for one that isn't an int.

    >>> ReadOptions(0, 0)
    ReadOptions(num_threads=0, prefetch_buffer_size=0)
    """

    num_threads: int = 16
    prefetch_buffer_size: int = 500

    def __post_init__(self) -> None:
        for name in ("num_threads", "prefetch_buffer_size"):
            if getattr(self, name) < 0:  # in Grain's words, which its own tests ask for
                raise ValueError(f"{name} must be non-negative, got {getattr(self, name)}")
            setattr(self, name, at_least(name, getattr(self, name), 0))
        if 0 < self.prefetch_buffer_size < self.num_threads:
            _log.warning(
                "prefetch_buffer_size=%s is smaller than num_threads=%s: no more than that many reads are in flight",
                self.prefetch_buffer_size,
                self.num_threads,
            )


@dataclass(slots=True)
class MultiprocessingOptions:
    """How many worker processes there are.

    Args:
        num_workers: of Grain's, whose elements these are.
        per_worker_buffer_size: elements that each makes ahead.
        enable_profiling: nothing, as in Grain.
        worker_count: of ours, if not num_workers.

    >>> MultiprocessingOptions(num_workers=2).processes, MultiprocessingOptions(2, worker_count=8).processes
    (2, 8)
    """

    num_workers: int = 0
    per_worker_buffer_size: int = 1
    enable_profiling: bool = False
    worker_count: int | None = None

    @property
    def processes(self) -> int:
        """The number of processes."""
        return self.num_workers if self.worker_count is None else self.worker_count


def reads_of(read_options: Any) -> reading.ReadOptions:
    """The engine's options for those of a script; its own default where the script gave none.

    >>> reads_of(None).num_threads is None
    True
    """
    if read_options is None:
        return reading.ReadOptions()
    return reading.ReadOptions(int(read_options.num_threads), int(read_options.prefetch_buffer_size))
