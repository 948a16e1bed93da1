"""A cursor: a place in the stream of elements, `(index, k1, k2, ...)`.

index       of the record
k1, k2, ... which child it is, of each FlatMap passed: the ordinal, outermost first
"""

Cursor = tuple[int, ...]


def trimmed(cursor: Cursor) -> Cursor:
    """The shortest cursor of the same place: the first child of the first child is where the record begins.

    >>> trimmed((7, 2, 0, 0)), trimmed((0, 0)), trimmed((7,))
    ((7, 2), (0,), (7,))
    """
    while len(cursor) > 1 and cursor[-1] == 0:
        cursor = cursor[:-1]
    return cursor
