"""A made-up index of a billion records, as the format of an index says: a sparse file, with some shards filled in.

It is written by hand, not by loaderkit's writer, so that the tests that read it hold the format.
"""

import json
import os
import time
from dataclasses import dataclass

import numpy as np

from loaderkit._base.canonical_json import canonical, digest
from loaderkit.formats._index.record_index import RecordIndex


@dataclass(frozen=True, slots=True)
class LargeIndex:
    """An index file, and the shards in which a lookup finds something.

    path: the file. records_each: records of a shard. record_bytes: of each record. filled: shards, ascending.
    """

    path: str
    records_each: int
    record_bytes: int
    filled: tuple[int, ...]

    def keys(self, count: int) -> np.ndarray:
        """Random records of the filled shards, (count,) int64."""
        rng = np.random.default_rng(0)
        return rng.choice(self.filled, count) * self.records_each + rng.integers(
            self.records_each, size=count
        )


def make_large_index(
    path: str, *, shards: int = 10**5, records_each: int = 10**4, filled: int = 100
) -> LargeIndex:
    """Writes the file; it takes some megabytes of the disk, whatever its length.

    Args:
        path: its name.
        shards, records_each: how many.
        filled: shards whose records have places. Those of the others are all zeros.
    """
    record_bytes = 1000
    ends = np.arange(1, shards + 1, dtype="<i8") * records_each
    name = np.frombuffer(b"".join(b"train-%06d.tar" % shard for shard in range(shards)), np.uint8)
    small = {
        "shard_end": ends,
        "shard_size": np.full(shards, records_each * record_bytes, "<i8"),
        "shard_sample": np.zeros((shards, 16), "|u1"),
        "shard_name_end": np.arange(1, shards + 1, dtype="<i8") * 16,
        "shard_name": name,
        "shard_tag_end": np.zeros(shards, "<i8"),
        "shard_tag": np.zeros(0, "|u1"),
    }
    shapes = [(name, array.dtype.str, array.shape) for name, array in small.items()]
    shapes.append(("starts", "<u4", (shards * (records_each + 1),)))
    offsets, header = _header(shapes, small, shards, records_each, record_bytes)
    chosen = tuple(sorted(np.random.default_rng(1).choice(shards, filled, replace=False).tolist()))
    with open(path, "wb") as file:
        file.write(b"LKINDEX1" + len(header).to_bytes(8, "little") + header)
        for name, array in small.items():
            file.seek(offsets[name])
            file.write(array.tobytes())
        starts = (np.arange(records_each + 1) * record_bytes).astype("<u4").tobytes()
        for shard in chosen:
            file.seek(offsets["starts"] + shard * len(starts))
            file.write(starts)
        file.truncate(offsets["end"])
    return LargeIndex(path, records_each, record_bytes, chosen)


def _header(shapes, small, shards, records_each, record_bytes) -> tuple[dict[str, int], bytes]:
    import zlib

    document = {
        "kind": "tar",
        "unit": 1,
        "records": shards * records_each,
        "shards": shards,
        "bytes": shards * records_each * record_bytes,
        "chunk_records": 1000,
        "fields": [],
        "members_each": None,
        "counts": False,
        "data_digest": "sha256:" + "0" * 32,
        "file_bytes": "0" * 16,
        "digest": "sha256:" + "0" * 64,
        "sections": [
            {"name": name, "dtype": dtype, "shape": list(shape), "offset": "0" * 16, "crc32": "0" * 8}
            for name, dtype, shape in shapes
        ],
    }
    offsets: dict[str, int] = {}
    position = 16 + len(canonical(document))
    for section in document["sections"]:
        position = -(-position // 64) * 64
        offsets[section["name"]] = position
        section["offset"] = f"{position:016x}"
        if section["name"] in small:
            section["crc32"] = f"{zlib.crc32(small[section['name']].tobytes()):08x}"
        position += int(np.prod(section["shape"])) * np.dtype(section["dtype"]).itemsize
    offsets["end"] = -(-position // 64) * 64
    document["file_bytes"] = f"{offsets['end']:016x}"
    document["digest"] = digest(document)
    return offsets, canonical(document).encode()


def measure_large_index(large: LargeIndex, *, calls: int = 2000, keys_each: int = 256) -> dict[str, float]:
    """Seconds of an opening, microseconds of a key's lookup, and MiB of memory that both took.

    Args:
        large: the index.
        calls: of `locate`.
        keys_each: keys of a call.
    """
    before = _resident_bytes()
    begun = time.perf_counter()
    index = RecordIndex(large.path)
    opening = time.perf_counter() - begun
    keys = large.keys(calls * keys_each).reshape(calls, keys_each)
    begun = time.perf_counter()
    for some in keys:
        index.locate(some)
    lookup = time.perf_counter() - begun
    return {
        "opening_s": opening,
        "lookup_us": lookup / keys.size * 1e6,
        "memory_mib": (_resident_bytes() - before) / 2**20,
    }


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure_large_index(make_large_index(f"{folder}/large.lkx"))))  # noqa: T201
