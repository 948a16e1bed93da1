"""Planning which of 65,536 documents share a row of 4,096 tokens; lengths are lognormal with a mean of 1,001 tokens.

loaderkit: `plan_packing(lengths, 4096, path, worker_count=0)`, with its file, for each way of packing. Beside it two
loops in Python over lists, as TRL's `pack_dataset` has had them: first fit decreasing that looks at the rows in turn
(before 0.19), and best fit decreasing with a segment tree over the rooms of rows. TRL itself isn't called: it copies
tokens in the same pass, in batches of 1,000 documents. Here each loop gets blocks of 16,384 documents, as here, for
the same fill, and documents longer than a row are cut as loaderkit cuts them. The loop over rows gets one block.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from benchmarks.benchmark import Benchmark, Bound, Metrics, Size, plain, shortening
from benchmarks.contender import Contender

ROW = 4096
MEAN = 1001
BLOCK = 16_384
US, FILL = "CPU us/document", "fill"

BEST = Contender("loaderkit best_fit, 0 workers", "loaderkit", options={"how": "best_fit"})
FIRST = Contender("loaderkit first_fit, 0 workers", "loaderkit", options={"how": "first_fit"})
CONCAT = Contender(
    "loaderkit concat_then_split, 0 workers", "loaderkit", options={"how": "concat_then_split"}
)
LOOP = Contender("first fit decreasing, a loop over rows", "bare", options={"blocks": 1})
TREE = Contender("best fit decreasing, a segment tree", "bare", options={"blocks": 4})

# Gives the number of rows of pieces.
Packer = Callable[[Sequence[int]], int]


def lengths_of(count: int) -> np.ndarray:
    """Lengths of documents, the same in every process."""
    drawn = np.random.default_rng(0).lognormal(np.log(MEAN) - 0.5, 1, count)
    return np.maximum(1, drawn).astype(np.int64)


def measure(contender: Contender, size: Size) -> Metrics:
    """CPU time of one document, and the share of the rows' places that hold a token."""
    block = size.pick(BLOCK, 256)
    lengths = lengths_of(4 * block)
    if contender.peer == "loaderkit":
        return _ours(lengths, block, contender.options["how"], str(size.folder / f"{contender.name}.plan"))
    lengths = lengths[: contender.options["blocks"] * block]
    pack = loop_over_rows if contender.name == LOOP.name else segment_tree
    return _loops(lengths, block, pack)


def _ours(lengths: np.ndarray, block: int, how: str, path: str) -> Metrics:
    from loaderkit import plan_packing

    plan_packing(lengths[:1], ROW)  # imports what it needs
    begin = time.process_time()
    plan = plan_packing(lengths, ROW, path, how=how, block=block, worker_count=0)  # type: ignore[arg-type]
    seconds = time.process_time() - begin
    os.unlink(path)
    return {US: seconds / len(lengths) * 1e6, FILL: plan.fill}


def _loops(lengths: np.ndarray, block: int, pack: Packer) -> Metrics:
    begin = time.process_time()
    rows = sum(
        pack(list(_pieces(lengths[low : low + block].tolist()))) for low in range(0, len(lengths), block)
    )
    seconds = time.process_time() - begin
    return {US: seconds / len(lengths) * 1e6, FILL: float(lengths.sum()) / (rows * ROW)}


def _pieces(lengths: Iterable[int]) -> Iterable[int]:
    for length in lengths:
        whole, rest = divmod(length, ROW)
        yield from [ROW] * whole
        if rest:
            yield rest


def loop_over_rows(pieces: Sequence[int]) -> int:
    """Each piece, longest first, goes to the first row that has room for it.

    >>> loop_over_rows([4000, 96, 4096])
    2
    """
    room: list[int] = []
    rows: list[list[int]] = []
    for place in sorted(range(len(pieces)), key=lambda place: -pieces[place]):
        need = pieces[place]
        for number, left in enumerate(room):
            if left >= need:
                room[number] -= need
                rows[number].append(place)
                break
        else:
            room.append(ROW - need)
            rows.append([place])
    return len(rows)


def segment_tree(pieces: Sequence[int]) -> int:
    """Each piece, longest first, goes to a row with the least room that it fits in, found by a tree of those rooms.

    >>> segment_tree([4000, 96, 4096])
    2
    """
    leaves = 1 << (ROW - 1).bit_length()
    tree = [0] * (2 * leaves)

    def put(room: int, present: int) -> None:
        node = leaves + room - 1
        tree[node] = present
        while node > 1:
            node >>= 1
            tree[node] = max(tree[2 * node], tree[2 * node + 1])

    put(ROW, ROW)
    rows: list[list[int]] = []
    rows_of_room: defaultdict[int, list[list[int]]] = defaultdict(list)
    for place in sorted(range(len(pieces)), key=lambda place: -pieces[place]):
        need = pieces[place]
        node = 1
        while node < leaves:
            node = 2 * node if tree[2 * node] >= need else 2 * node + 1
        room = tree[node]
        if room < ROW:
            row = rows_of_room[room].pop()
            if not rows_of_room[room]:
                put(room, 0)
        else:
            row = []
            rows.append(row)
        row.append(place)
        if left := room - need:
            rows_of_room[left].append(row)
            put(left, left)
    return len(rows)


BENCHMARKS = (
    Benchmark(
        "packing: planning",
        __doc__ or "",
        (BEST, FIRST, CONCAT, LOOP, TREE),
        measure,
        (
            plain(BEST, US, Bound("<=", 2)),
            plain(BEST, FILL, Bound(">=", 0.999)),
            shortening(BEST, LOOP, metric=US, bound=Bound(">=", 40)),
            shortening(BEST, TREE, metric=US),
            plain(FIRST, US),
            plain(FIRST, FILL),
            plain(CONCAT, US),
            plain(CONCAT, FILL),
            plain(TREE, FILL),
        ),
    ),
)
