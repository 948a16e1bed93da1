"""The blocks of a packing plan made on a cluster: a task makes a run of them, in a file beside the plan's."""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._order.packing.block import FRAME_WORDS, Frame, How, UInt32Array, body_words
from loaderkit.formats._writing.attempts import remove_attempts
from loaderkit.formats._writing.cluster import Cluster, ClusterWork
from loaderkit.formats._writing.run_jobs import run_jobs
from loaderkit.formats._writing.shard_result import ShardResult
from loaderkit.sources.packed.pack_plan import PlanSettings

_RUN = 64  # blocks of a task: a million documents, about two seconds of work
_PREFIX = "blocks-"


@dataclass(frozen=True, slots=True)
class BlockRuns:
    """Makes the file of a run of blocks; a host gets it once.

    blocks: a data source of the words of all blocks. runs: the numbers of the blocks of each file.
    """

    blocks: Any
    runs: Sequence[range]

    def __call__(self, number: int, path: str | None) -> ShardResult:
        assert path is not None
        with open(path, "wb") as file:
            file.writelines(self.blocks[block].data for block in self.runs[number])
        return ShardResult(len(self.runs[number]))


def blocks_of_cluster(
    blocks: Any, settings: PlanSettings, folder: str, cluster: Cluster, first: int
) -> Iterator[UInt32Array]:
    """The words of each block from `first` on; a run of blocks whose file is there isn't made again.

    Args:
        blocks: a data source of the words of all blocks.
        settings: of the plan.
        folder: of the unfinished plan, which this process has locked.
        cluster: does the tasks.
        first: number of a block.
    """
    begins = range(first - first % _RUN, settings.blocks, _RUN)
    runs = [range(begin, min(begin + _RUN, settings.blocks)) for begin in begins]
    paths = [os.path.join(folder, f"{_PREFIX}{run.start:08d}") for run in runs]
    if runs:
        libraries = {"python": "{}.{}".format(*sys.version_info)}
        work = ClusterWork(cluster, blocks, {}, libraries)
        run_jobs(BlockRuns(blocks, runs), settings.as_json(), runs, paths, on_cluster=work)
    for run, path in zip(runs, paths):
        words, begin = np.fromfile(path, "<u4"), 0
        for number in run:
            end = begin + _words_at(words, begin, settings.rules.how)
            if number >= first:
                yield words[begin:end]
            begin = end


def remove_runs(folder: str) -> None:
    """Removes what tasks have left in the folder of a plan that is whole."""
    remove_attempts(folder)
    for name in os.listdir(folder):
        if name.startswith(_PREFIX):
            os.unlink(os.path.join(folder, name))


def _words_at(words: UInt32Array, begin: int, how: How) -> int:
    """How many words the block has that begins there."""
    frame = Frame.unpack(words[begin : begin + FRAME_WORDS].tobytes())
    return FRAME_WORDS + body_words(frame.rows, frame.pieces, how)
