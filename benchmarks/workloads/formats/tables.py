"""Rows of a table in the page cache: 40,000 of a text of 200 characters, 64 token ids, a number and a label, shuffled.

Calls of 256 dicts at random keys. loaderkit: `ArrowDataSource.__getitems__` and `ParquetDataSource.__getitems__`, whose
decoded row groups all stay in memory. HF datasets: `Dataset.__getitems__`, which torch's loader calls, of the Arrow
file that the library makes of the Parquet file before any clock starts; once as Python lists and numbers, its default,
and once with its format "numpy", which gives arrays as loaderkit does. The Arrow source reads batches of as many rows.
Steady records a second.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import loaderkit as lk
from benchmarks.benchmark import Benchmark, Bound, Size, speedup
from benchmarks.contender import Contender
from benchmarks.workloads.storage.calls import calls, of_source

ARROW = Contender("loaderkit Arrow source", "loaderkit")
PARQUET = Contender("loaderkit Parquet source", "loaderkit")
HF = Contender("HF datasets, keys", "hf")
HF_NUMPY = Contender("HF datasets, keys, numpy", "hf")


def parquet_file(folder: Path, records: int) -> Path:
    """The table, in row groups of 1,000 rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"table-{records}.parquet"
    if not path.exists():
        rng = np.random.default_rng(0)
        folder.mkdir(parents=True, exist_ok=True)
        table = pa.table(
            {
                "text": [f"{row:08d}".ljust(200, "x") for row in range(records)],
                "ids": pa.array([*rng.integers(0, 50_000, (records, 64), np.int32)], pa.list_(pa.int32())),
                "score": rng.random(records),
                "label": rng.integers(0, 10, records),
            }
        )
        pq.write_table(table, path, row_group_size=1_000)
    return path


def arrow_file(path: Path) -> Path:
    """The table as an Arrow file, in batches of 1,000 rows as HF datasets writes them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = path.with_suffix(".arrow")
    if not target.exists():
        table = pq.read_table(path)
        with pa.OSFile(str(target), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=1_000)
    return target


def hf_dataset(path: Path, folder: Path) -> Any:
    """The library's data set of the file, mapped."""
    import datasets

    datasets.disable_progress_bars()
    return datasets.Dataset.from_parquet(str(path), cache_dir=str(folder / "hf"))


@contextmanager
def opened(contender: Contender, size: Size) -> Iterator[Iterator[int]]:
    """The calls of a contender."""
    records = size.pick(40_000, 512)
    folder = size.folder / "tables"
    path = parquet_file(folder, records)
    if contender.name == PARQUET.name:
        source: Any = lk.ParquetDataSource(path)
    elif contender.name == ARROW.name:
        source = lk.formats.ArrowDataSource(arrow_file(path))
    else:
        source = hf_dataset(path, folder)
        if contender.name == HF_NUMPY.name:
            source = source.with_format("numpy")
    yield of_source(source, records)


BENCHMARKS = (
    Benchmark(
        "formats: tables",
        __doc__ or "",
        (ARROW, PARQUET, HF, HF_NUMPY),
        calls(opened),
        (
            speedup(ARROW, HF, bound=Bound(">=", 2)),
            speedup(PARQUET, HF, bound=Bound(">=", 2)),
            speedup(ARROW, HF_NUMPY, bound=Bound(">=", 2)),
            speedup(PARQUET, HF_NUMPY, bound=Bound(">=", 2)),
        ),
    ),
)
