"""`python tests/formats/mds_fixtures.py` makes tests/formats/mds, where MosaicML Streaming is installed."""

import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "mds"
COLUMNS = {
    "id": "int",
    "text": "str",
    "raw": "bytes",
    "told": "json",
    "any": "ndarray",
    "typed": "ndarray:int32",
    "fixed": "ndarray:float32:2,3",
    "half": "float16",
    "small": "uint8",
    "long": "str_int",
    "real": "str_float",
    "exact": "str_decimal",
}
PACKED = {"plain": None, "zstd": "zstd:7", "gz": "gz"}


def sample(k: int) -> dict[str, Any]:
    """One of the samples."""
    return {
        "id": k - 5,
        "text": f"sämple {k}" * (k % 3),
        "raw": bytes(range(k % 7)),
        "told": {"k": [k, None], "x": k / 4},
        "any": np.arange(k + 1, dtype=[np.uint8, np.int64, np.float16, np.float64][k % 4]).reshape(1, -1),
        "typed": np.full((k % 2 + 1, 300 if k == 3 else 2), k, np.int32),
        "fixed": np.arange(6, dtype=np.float32).reshape(2, 3) * k,
        "half": np.float16(k / 2),
        "small": np.uint8(k),
        "long": 10**30 + k,
        "real": k / 8,
        "exact": Decimal(k) / 8,
    }


def write(folder: Path, how: str | None, count: int = 20, size_limit: int = 2_000) -> None:
    """Writes samples with the library."""
    from streaming import MDSWriter

    with MDSWriter(out=str(folder), columns=COLUMNS, compression=how, size_limit=size_limit) as out:
        for k in range(count):
            out.write(sample(k))


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, how in PACKED.items():
        write(FOLDER / name, how)
        print(name, len(json.loads((FOLDER / name / "index.json").read_text())["shards"]))
