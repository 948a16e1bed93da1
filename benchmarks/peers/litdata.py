"""LitData as a contender: chunks of its own format, fetched from a web server with obstore, kept in a folder.

LitData reads object stores; for a web server its documents say to register a downloader, which is here.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from litdata import StreamingDataLoader, StreamingDataset, optimize
from litdata.streaming.downloader import Downloader, register_downloader
from litdata.streaming.resolver import Dir


class HttpDownloader(Downloader):
    """Whole chunks by obstore; LitData decides how many are in flight."""

    def _store(self, remote: str) -> tuple[Any, str]:
        from obstore.store import HTTPStore

        folder, _, name = remote.rpartition("/")
        if getattr(self, "_opened", None) is None:
            self._opened: Any = HTTPStore(folder, client_options={"allow_http": True})
        return self._opened, name

    def download_file(self, remote_chunkpath: str, local_chunkpath: str) -> None:
        """The index, and chunks that are needed at once."""
        import obstore

        if os.path.exists(local_chunkpath):
            return
        data = obstore.get(*self._store(remote_chunkpath)).bytes()
        temporary = self._temp_download_path(local_chunkpath)
        Path(temporary).write_bytes(data)
        self._publish_file(temporary, local_chunkpath)

    async def adownload_fileobj(self, remote_filepath: str) -> bytes:
        """Chunks that are needed later."""
        import obstore

        answer = await obstore.get_async(*self._store(remote_filepath))
        return bytes(await answer.bytes_async())


def write(folder: Path, make: Callable[[int], dict[str, Any]], records: int, chunk: str) -> None:
    """The records `make(0)`, `make(1)`, ... in chunks of about that size."""
    optimize(make, list(range(records)), str(folder), chunk_bytes=chunk, num_workers=1, verbose=False)


@contextmanager
def open_epochs(
    address: str, cache: Path, batch: int, workers: int
) -> Iterator[Callable[[], Iterator[list[Any]]]]:
    """A function that begins an epoch: lists of `batch` records, shuffled."""
    register_downloader("http://", HttpDownloader, overwrite=True)
    cache.mkdir(exist_ok=True)
    dataset: Any = StreamingDataset(
        Dir(path=str(cache), url=address.rstrip("/")), shuffle=True, max_cache_size="100GB"
    )
    loader = StreamingDataLoader(dataset, batch_size=batch, num_workers=workers, collate_fn=list)
    yield partial(iter, loader)
