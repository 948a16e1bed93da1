"""One period of an even order: which child each slot of a table reads, by earliest deadline first.

Child i has w of W slots. Its unit j = 1..w is released at slot ceil((j - 1) * W / w) and due by slot ceil(j * W / w):
it runs in a slot from its release on and before it is due. Each slot reads the released unit that is due first, of
several the one of the lower child. All units are in time: those whose windows lie within slots [a, b) are fewer than
sum((b - a + 1) * w / W) = b - a + 1, hence at most b - a, and then earliest deadline first finds room for each (Hall).
So for the count of a child in the first n slots, n * w / W - 1 < count <= (n - 1) * w / W + 1.

The usual windows of P-fair scheduling, with the release rounded down, bound the count by n * w / W + 1 only. The
tighter bound leaves room for a slot that something beside the table takes.
"""

import math
from collections.abc import Sequence
from heapq import heappop, heappush, heappushpop

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]


def fair_slots(counts: Sequence[int]) -> Int32Array:
    """The child of each slot, (W,) int32, for children with `counts` slots each, W = sum(counts) < 2**31.

    >>> fair_slots([3, 1, 1]).tolist()
    [0, 1, 0, 2, 0]
    """
    widths = np.array(counts, np.int64)
    size = int(widths.sum())
    children = np.repeat(np.arange(widths.size), widths)
    units = np.arange(size) - np.repeat(np.cumsum(widths) - widths, widths)
    of_unit = widths[children]
    released = -(-units * size // of_unit)
    # One integer orders by deadline, then by child.
    urgency = -(-(units + 1) * size // of_unit) * widths.size + children
    by_release = np.lexsort((urgency, released))
    waiting: list[int] = []
    chosen = []
    new = iter(urgency[by_release].tolist())
    for count in np.bincount(released, minlength=size).tolist():
        if count == 1:
            chosen.append(heappushpop(waiting, next(new)))
            continue
        for _ in range(count):
            heappush(waiting, next(new))
        chosen.append(heappop(waiting))
    return (np.array(chosen, np.int64) % widths.size).astype(np.int32)


def slot_counts(weights: Sequence[int], size: int) -> list[int]:
    """How many of `size` slots each child has, by largest remainder, in the smallest integers of their ratio.

    weights: positive, each at least 1 / size of their sum. Of equal remainders the first has the slot.

    >>> slot_counts([4, 3, 3], 8)
    [3, 3, 2]
    """
    total = sum(weights)
    counts = [weight * size // total for weight in weights]
    remainders = [weight * size % total for weight in weights]
    rest = size - sum(counts)
    for place in sorted(range(len(weights)), key=lambda place: -remainders[place])[:rest]:
        counts[place] += 1
    divisor = math.gcd(*counts)
    return [count // divisor for count in counts]
