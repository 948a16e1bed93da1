"""A cursor: a place in the stream of elements, `(index, k1, k2, ...)`.

index       the record's index
k1, k2, ... the ordinal of the child in each FlatMap that the element passed, outermost first
"""

Cursor = tuple[int, ...]


def trimmed(cursor: Cursor) -> Cursor:
    """The shortest cursor of the same place: the first child of an element begins where the element begins.

    >>> trimmed((7, 2, 0, 0)), trimmed((0, 0)), trimmed((7,))
    ((7, 2), (0,), (7,))
    """
    while len(cursor) > 1 and cursor[-1] == 0:
        cursor = cursor[:-1]
    return cursor
