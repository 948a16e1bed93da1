"""JSON Lines in the page cache: 40,000 objects with a text of 200 characters, a number and a label, shuffled.

Each contender gives 256 dicts a call. bare loop: `os.pread` and `json.loads`, from places that are known. loaderkit:
`JsonLinesDataSource.__getitems__`. HF datasets: the files are converted to Arrow before any clock starts, then
`Dataset.__getitems__`, which torch's loader calls, and `Dataset.shuffle` with `iter(256)`, which gives dicts of lists.
Steady records a second.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import loaderkit as lk
from benchmarks.benchmark import Benchmark, Bound, Size, speedup
from benchmarks.contender import Contender
from benchmarks.workloads.storage.calls import CALL, calls, of_source, pread_calls
from benchmarks.workloads.storage.files import json_lines_set

PREAD = Contender("bare loop of pread and json.loads", "bare")
SOURCE = Contender("loaderkit source", "loaderkit")
HF = Contender("HF datasets, keys", "hf")
HF_SHUFFLE = Contender("HF datasets, shuffle and iter", "hf")


def line_places(paths: list[Path]) -> list[tuple[int, int, int]]:
    """Of each line its file's number, its bytes and where they begin."""
    places = []
    for shard, path in enumerate(paths):
        at = 0
        for line in path.read_bytes().splitlines(keepends=True):
            places.append((shard, len(line), at))
            at += len(line)
    return places


def hf_dataset(paths: list[Path], folder: Path) -> Any:
    """The Arrow file that the library makes of the lines, mapped."""
    import datasets

    datasets.disable_progress_bars()
    return datasets.Dataset.from_json([str(path) for path in paths], cache_dir=str(folder / "hf"))


def shuffled_batches(dataset: Any) -> Iterator[int]:
    """Epochs without end."""
    epoch = 0
    while True:
        for batch in dataset.shuffle(seed=epoch).iter(CALL):
            yield len(batch["label"])
        epoch += 1


@contextmanager
def opened(contender: Contender, size: Size) -> Iterator[Iterator[int]]:
    """The calls of a contender."""
    records = size.pick(40_000, 64)
    paths = json_lines_set(size.folder / "json-lines", records)
    if contender.name == PREAD.name:
        with pread_calls(paths, line_places(paths), json.loads) as reads:
            yield reads
    elif contender.name == HF.name:
        yield of_source(hf_dataset(paths, size.folder), records)
    elif contender.name == HF_SHUFFLE.name:
        yield shuffled_batches(hf_dataset(paths, size.folder))
    else:
        yield of_source(lk.JsonLinesDataSource([str(path) for path in paths]), records)


BENCHMARKS = (
    Benchmark(
        "storage: JSON Lines",
        __doc__ or "",
        (PREAD, SOURCE, HF, HF_SHUFFLE),
        calls(opened),
        (
            speedup(SOURCE, PREAD),
            speedup(SOURCE, HF, bound=Bound(">=", 2)),
            speedup(SOURCE, HF_SHUFFLE),
        ),
    ),
)
