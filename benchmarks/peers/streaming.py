"""MosaicML Streaming as a contender: shards of its own format in a local folder, as they lie after the first epoch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from streaming import MDSWriter, StreamingDataLoader, StreamingDataset


def write(folder: Path, make: Callable[[int], dict[str, Any]], records: int, shard_bytes: int) -> None:
    """The records `make(0)`, `make(1)`, ... in shards of at most that size."""
    with MDSWriter(out=str(folder), columns={"jpg": "bytes", "cls": "int"}, size_limit=shard_bytes) as writer:
        for number in range(records):
            writer.write(make(number))


@contextmanager
def open_epochs(folder: Path, batch: int, workers: int) -> Iterator[Callable[[], Iterator[list[Any]]]]:
    """A function that begins an epoch: lists of `batch` records, shuffled."""
    dataset = StreamingDataset(local=str(folder), shuffle=True, batch_size=batch)
    loader = StreamingDataLoader(dataset, batch_size=batch, num_workers=workers, collate_fn=list)
    yield partial(iter, loader)
