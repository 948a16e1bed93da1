"""Records of a source are read and encoded by the workers of a loader, in their order."""

import contextlib
import json
import os
import pickle
import tempfile
from collections.abc import Iterator
from typing import Any

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.progress_bar import progress_bar
from loaderkit._loader.one_pass import one_pass
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit.transforms.base import MapWithIndex

from .dropped import ENTRY, Dropped
from .record_stream import encode
from .write_format import RecordEncoder


@dataclass(frozen=True, slots=True)
class EncodedPickle:
    """What an encoder makes of a record, pickled: formats encode to types that a loader doesn't carry.

    Args:
        encoder: of the format.
    """

    encoder: RecordEncoder

    def __call__(self, number: int, record: Any) -> bytes:
        return pickle.dumps(encode(self.encoder, record, number), 5)


def encoded_by_workers(
    source: Any,
    encoder: RecordEncoder,
    dropped: Dropped,
    worker_count: int | None,
    worker_kind: str,
    read_options: ReadOptions | None,
) -> Iterator[Any]:
    """What the encoder makes of each record of a source.

    Args:
        source: a data source.
        encoder: of the format.
        dropped: gets the records that can't be read or encoded; None raises the error.
        worker_count, worker_kind, read_options: of the loader.
    """
    with contextlib.nullcontext() if dropped is None else tempfile.TemporaryDirectory() as folder:
        quarantine = None if folder is None else os.path.join(folder, "dropped")
        loader = one_pass(
            source,
            [MapWithIndex(EncodedPickle(encoder))],
            worker_count=worker_count,
            worker_kind=worker_kind,
            read_options=read_options,
            on_record_error="raise" if dropped is None else "skip",
            quarantine=quarantine,
        )
        with progress_bar("records", len(source)) as advance, iter(loader) as found:
            for data in found:
                yield pickle.loads(data)
                advance(1)
        if dropped is not None and quarantine is not None and os.path.exists(quarantine):
            with open(quarantine, "rb") as file:
                lines = map(json.loads, file)
                dropped += [{name: line[name] for name in ENTRY if name in line} for line in lines]
