"""Bins of a packer: which of them takes the next document.

A bin has a *start* in each feature: the cell where the next document would begin. A document fits where its cells end
within the bin in every feature. The cells that it takes may be more: up to the next multiple of an alignment.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from math import inf

from loaderkit._order.packing.first_fit import first_common_node, put_in, room_tree


class FirstFit:
    """Gives the first bin with room in every feature.

    Args:
        bins: how many.
        cells: of a bin, for each feature.
        most: documents of a bin; None for any number.

    >>> bins = FirstFit(2, [4], None)
    >>> [bins.put([3], [3]), bins.put([2], [2]), bins.put([1], [1]), bins.put([3], [3])]
    [0, 1, 0, None]
    """

    def __init__(self, bins: int, cells: Sequence[int], most: int | None) -> None:
        self._leaves = 1 << (bins - 1).bit_length()
        self._trees = [room_tree([count] * bins + [-1] * (self._leaves - bins)) for count in cells]
        self._left = None if most is None else [most] * bins

    def put(self, needs: Sequence[int], takes: Sequence[int]) -> int | None:
        """The number of the bin that takes a document; None where none has room.

        Args:
            needs: cells of the document, for each feature.
            takes: cells that it takes, for each feature.
        """
        node = first_common_node(self._trees, self._leaves, needs)
        if not node:
            return None
        for tree, taken in zip(self._trees, takes):
            put_in(tree, node, taken)
        chosen = node - self._leaves
        if self._left is not None:
            self._left[chosen] -= 1
            if not self._left[chosen]:
                for tree in self._trees:
                    put_in(tree, node, tree[node] + 1)
        return chosen


class BestFit:
    """Gives the bin with the greatest sum of starts of those with room in every feature, of equal ones the first.

    Args:
        bins: how many.
        cells: of a bin, for each feature.
        most: documents of a bin; None for any number.

    >>> bins = BestFit(2, [4], None)
    >>> [bins.put([1], [1]), bins.put([4], [4]), bins.put([3], [3]), bins.put([1], [1])]
    [0, 1, 0, None]
    """

    def __init__(self, bins: int, cells: Sequence[int], most: int | None) -> None:
        self._cells = cells
        self._starts = [[0] * len(cells) for _ in range(bins)]
        self._left = [inf if most is None else most] * bins  # documents that it may still have
        # (sum of starts, -bin) of those that may have room, in order: from the end on they are tried.
        self._open = [(0, -each) for each in range(bins - 1, -1, -1)]

    def put(self, needs: Sequence[int], takes: Sequence[int]) -> int | None:
        """The number of the bin that takes a document; None where none has room.

        Args:
            needs: cells of the document, for each feature.
            takes: cells that it takes, for each feature.
        """
        for place in range(bisect_right(self._open, (sum(self._cells) - sum(needs), 0)) - 1, -1, -1):
            total, negative = self._open[place]
            starts = self._starts[-negative]
            # As in Grain, empty documents go on into a bin that has nothing but its number of them.
            if (self._left[-negative] > 0 or not any(needs)) and all(
                start + need <= count for start, need, count in zip(starts, needs, self._cells)
            ):
                break
        else:
            return None
        chosen = -negative
        del self._open[place]
        self._starts[chosen] = [start + taken for start, taken in zip(starts, takes)]
        self._left[chosen] -= 1
        if self._left[chosen] > 0 or not any(self._starts[chosen]):
            insort(self._open, (total + sum(takes), negative))
        return chosen
