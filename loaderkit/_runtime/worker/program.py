"""What a worker has to know of a loader."""

from dataclasses import dataclass, field
from typing import Any

from loaderkit.sources.file_identity import Files
from loaderkit.transforms.base import Transformation

from .bad_record_handler import OnRecordError
from .reading import ReadOptions


@dataclass(frozen=True, slots=True)
class Program:
    """All that a worker has to know of a loader; travels once.

    Args:
        source: where records come from.
        operations: checked transformations.
        seed: the sampler's, or None.
        read_options: how to read.
        row_changing: whether cursors have to be kept.
        verify: whether what is written for others carries checksums.
        on_record_error: "raise", "replace", "skip", or a function of the error and the RecordMetadata.
        files: that the source opens by name in a worker, which has to find the same ones.
    """

    source: Any
    operations: tuple[Transformation, ...]
    seed: int | None
    read_options: ReadOptions
    row_changing: bool
    verify: bool = False
    on_record_error: OnRecordError = "raise"
    files: Files = field(default_factory=dict)
