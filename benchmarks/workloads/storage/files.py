"""The data files of a run, each set made once, in the run's folder; nothing is downloaded."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

SHARDS = 8
TAR_BLOCK = 512


def once(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder, filled by `make` if it doesn't exist yet."""
    if not folder.exists():
        unfinished = folder.with_name(folder.name + ".unfinished")
        unfinished.mkdir(parents=True)
        make(unfinished)
        unfinished.rename(folder)
    return folder


def payloads(records: int, nbytes: int, seed: int) -> list[bytes]:
    """Random bytes, as those of compressed pictures are; every length differs a little."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(nbytes * 3 // 4, nbytes * 5 // 4, records).tolist()
    return [rng.bytes(size) for size in sizes]


def tar_set(folder: Path, records: int, nbytes: int) -> list[Path]:
    """Shards `0.tar`, ...: records of a "jpg" of about `nbytes` and a "cls", in ustar."""

    def make(folder: Path) -> None:
        for shard in range(SHARDS):
            with tarfile.open(folder / f"{shard}.tar", "w", format=tarfile.USTAR_FORMAT) as file:
                for number, payload in enumerate(payloads(records // SHARDS, nbytes, shard)):
                    key = f"{shard:03}/{number:06}"
                    for field, data in (("jpg", payload), ("cls", b"%d" % (number % 1000))):
                        info = tarfile.TarInfo(f"{key}.{field}")
                        info.size = len(data)
                        file.addfile(info, io.BytesIO(data))

    return sorted(once(folder, make).glob("*.tar"))


def tfrecord_set(folder: Path, records: int, nbytes: int) -> list[Path]:
    """Shards `0.tfrecord`, ...: records of about `nbytes` with their checksums."""
    import google_crc32c

    def checksum(data: bytes) -> bytes:
        crc = google_crc32c.value(data)
        return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")

    def make(folder: Path) -> None:
        for shard in range(SHARDS):
            with (folder / f"{shard}.tfrecord").open("wb") as file:
                for data in payloads(records // SHARDS, nbytes, shard):
                    length = len(data).to_bytes(8, "little")
                    file.write(length + checksum(length) + data + checksum(data))

    return sorted(once(folder, make).glob("*.tfrecord"))


def json_lines_set(folder: Path, records: int) -> list[Path]:
    """Shards `0.jsonl`, ...: objects with a text of about 200 characters, a number and a label."""

    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz    ", np.uint8)
        for shard in range(SHARDS):
            with (folder / f"{shard}.jsonl").open("w") as file:
                for number in range(records // SHARDS):
                    text = letters[rng.integers(0, len(letters), rng.integers(150, 250))].tobytes().decode()
                    score = float(rng.random())
                    file.write(json.dumps({"text": text, "score": score, "label": number % 10}) + "\n")

    return sorted(once(folder, make).glob("*.jsonl"))
