"""What the folder of a cache holds of one index, without a loader."""

from .chunk_folder import ChunkFolder, lock_within
from .eviction import StoredChunk, delete_chunk, stored_chunks

_LOCK_SECONDS = 10.0  # as an eviction waits for another


class FolderContents:
    """The chunks in the folder of a cache. A folder that isn't there is empty, and isn't made.

    Args:
        folder: the user's, absolute.
        key: 32 bytes, of the index and the size of its chunks.

    >>> FolderContents("/no/such/folder", bytes(32)).chunks()
    {}
    """

    def __init__(self, folder: str, key: bytes) -> None:
        self._folder, self._key = folder, key.hex()

    def _stored(self) -> list[StoredChunk]:
        return list(stored_chunks(ChunkFolder(self._folder))) if ChunkFolder.is_in(self._folder) else []

    def chunks(self) -> dict[int, int]:
        """The bytes of the file of each chunk of the index, by the chunk's number."""
        return {chunk.number: chunk.size for chunk in self._stored() if chunk.key == self._key}

    def of_other_sets(self) -> tuple[int, int]:
        """How many chunks of other indexes there are, and their bytes."""
        sizes = [chunk.size for chunk in self._stored() if chunk.key != self._key]
        return len(sizes), sum(sizes)

    def clear(self) -> None:
        """Deletes the chunks of the index. A loader that has one open reads it to its end."""
        if ChunkFolder.is_in(self._folder):
            with lock_within(ChunkFolder(self._folder).eviction_lock, _LOCK_SECONDS):
                for chunk in self._stored():
                    if chunk.key == self._key:
                        delete_chunk(chunk.path)
