"""The part of a loader that its workers get."""

from typing import Any

from loaderkit._base.system.arithmetic import Arithmetic
from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._base.system.file_identity import Files
from loaderkit.transforms.base import Batch, Transformation, operation_name

from .bad_record_handler import OnRecordError
from .read_ahead import READER_NAME
from .reading import ReadOptions


@dataclass(frozen=True, slots=True)
class Program:
    """All that a worker needs of a loader; sent once.

    Args:
        source: of the records.
        operations: checked transformations.
        seed: the sampler's, or None.
        read_options: how to read.
        reader_name: of the reading threads, before their number.
        row_changing: whether operations or the policy for bad records change the number of rows.
        reads_windows: whether tasks that read end at the ends of windows, and make what the first Window makes.
        verify: whether batches and outputs have checksums.
        on_record_error: "raise", "replace", "skip", or a function of the error and the RecordMetadata.
        files: those that the source opens by name; the worker checks that it finds the same ones.
        arithmetic: of the thread that iterates; a worker takes it over.
    """

    source: Any
    operations: tuple[Transformation, ...]
    seed: int | None
    read_options: ReadOptions
    row_changing: bool
    verify: bool = False
    on_record_error: OnRecordError = "raise"
    reads_windows: bool = False
    reader_name: str = READER_NAME
    files: Files = field(default_factory=dict)
    arithmetic: Arithmetic = field(default_factory=Arithmetic.of_this_thread)

    @property
    def operation_names(self) -> list[str]:
        """The names of all operations but Batches, in order, as errors have them."""
        operations = enumerate(self.operations)
        return [operation_name(place, op) for place, op in operations if not isinstance(op, Batch)]
