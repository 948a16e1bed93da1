"""Records of a source are read and encoded by the workers of a loader, in their order."""

import pickle
from collections.abc import Iterator
from typing import Any

from loaderkit._loader.loader import DataLoader
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit._system.progress_bar import progress_bar
from loaderkit.samplers import IndexSampler
from loaderkit.transforms.base import MapWithIndex

from .encoded_pickle import EncodedPickle
from .write_format import RecordEncoder


def encoded_by_workers(
    source: Any,
    encoder: RecordEncoder,
    drop: bool,
    worker_count: int | None,
    worker_kind: str,
    read_options: ReadOptions | None,
) -> Iterator[Any]:
    """What the encoder makes of each record of a source.

    Args:
        source: a data source.
        encoder: of the format.
        drop: whether a record that can't be read or encoded is left out.
        worker_count, worker_kind, read_options: of the loader.
    """
    loader: DataLoader[bytes] = DataLoader(
        data_source=source,
        sampler=IndexSampler(len(source), num_epochs=1),
        operations=[MapWithIndex(EncodedPickle(encoder))],
        worker_count=worker_count,
        worker_kind=worker_kind,
        read_options=read_options,
        on_record_error="skip" if drop else "raise",
        agree=False,
    )
    with progress_bar("records", len(source)) as advance, iter(loader) as found:
        for data in found:
            yield pickle.loads(data)
            advance(1)
