"""Record keys that say in which stage of exclusions a row is read: the row, and in the bits from 44 on the stage.

Stage 0 is that of plain keys: rows that lose no piece have no stage in any.
"""

from .permutation import Int64Array

STAGE_SHIFT = 44
MOST_ROWS = 1 << STAGE_SHIFT


def rows_of_keys(record_keys: Int64Array) -> Int64Array:
    """The rows of record keys, (n,) int64 each.

    >>> import numpy as np
    >>> rows_of_keys(np.array([7, 7 | 3 << STAGE_SHIFT])).tolist()
    [7, 7]
    """
    return record_keys & (MOST_ROWS - 1)
