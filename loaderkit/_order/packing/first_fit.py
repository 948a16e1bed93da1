"""First fit, in the order of the documents."""

from collections.abc import Sequence
from operator import ge

import numpy as np

from loaderkit._order.permutation import Int64Array


def first_fit(tokens: Int64Array, row: Int64Array) -> Int64Array:
    """Puts each piece, in order, into the first row that has room for it in every feature.

    tokens: (n, features) int64, at most the row's. row: (features,) int64, tokens that a row holds. Gives (n,) int64
    the number of the row of each piece.

    >>> first_fit(np.array([[3], [2], [1], [2]]), np.array([4])).tolist()
    [0, 1, 0, 1]
    """
    # Rows that aren't begun have their whole room, so there always is one.
    leaves = 1 << (_most_rows(tokens, row) - 1).bit_length()
    trees = [room_tree([int(length)] * leaves) for length in row]
    needs = tokens.T.tolist()
    if len(trees) == 1:
        return np.array(_fit(trees[0], leaves, needs[0]), np.int64)
    return np.array(_fit_all(trees, leaves, list(zip(*needs, strict=True))), np.int64)


def _most_rows(tokens: Int64Array, row: Int64Array) -> int:
    if tokens.shape[1] > 1:
        return max(1, len(tokens))
    # Of two rows the first piece of the later one didn't fit in the earlier one: one at most is not above half full.
    return max(1, min(len(tokens), 2 * int(tokens.sum()) // int(row[0]) + 2))


def _fit(tree: list[int], leaves: int, needs: list[int]) -> list[int]:
    rows: list[int] = []
    put = rows.append
    for need in needs:
        node = first_node(tree, leaves, need)
        put(node - leaves)
        put_in(tree, node, need)
    return rows


def _fit_all(trees: list[list[int]], leaves: int, needs: list[tuple[int, ...]]) -> list[int]:
    rows: list[int] = []
    for need in needs:
        node = first_common_node(trees, leaves, need)
        rows.append(node - leaves)
        for tree, tokens in zip(trees, need):
            put_in(tree, node, tokens)
    return rows


def room_tree(room: list[int]) -> list[int]:
    """The room of rows as a binary tree: leaf `len(room) + k` is row k, and a node has the largest room below it.

    room: of each row; a power of 2 of them.

    >>> room_tree([1, 3])
    [0, 3, 1, 3]
    """
    tree = [0] * len(room) + room
    for node in range(len(room) - 1, 0, -1):
        tree[node] = max(tree[2 * node], tree[2 * node + 1])
    return tree


def first_node(tree: list[int], leaves: int, need: int) -> int:
    """The leaf of the first row that has the room; the root has it.

    >>> first_node(room_tree([1, 3]), 2, 2)
    3
    """
    node = 1
    while node < leaves:
        node += node
        if tree[node] < need:
            node += 1
    return node


def first_common_node(trees: list[list[int]], leaves: int, needs: Sequence[int]) -> int:
    """The leaf of the first row that has the room in each tree; 0 where none has.

    >>> first_common_node([room_tree([1, 3]), room_tree([3, 1])], 2, (1, 2))
    2
    """
    if trees[0][1] < needs[0]:
        return 0
    node = first_node(trees[0], leaves, needs[0])
    if all(map(ge, [tree[node] for tree in trees], needs)):  # mostly so, where one feature is the longest
        return node
    # A node with room in each tree may have it in different rows, so the search may come back from below.
    candidates = [1]
    while candidates:
        node = candidates.pop()
        for tree, need in zip(trees, needs):
            if tree[node] < need:
                break
        else:
            if node >= leaves:
                return node
            candidates += (2 * node + 1, 2 * node)
    return 0


def put_in(tree: list[int], node: int, need: int) -> None:
    """Takes room from the row of a leaf.

    >>> tree = room_tree([1, 3])
    >>> put_in(tree, 3, 3)
    >>> tree
    [0, 1, 1, 0]
    """
    most = tree[node] - need
    tree[node] = most
    while node > 1:
        if (beside := tree[node ^ 1]) > most:
            most = beside
        node >>= 1
        if tree[node] == most:
            return
        tree[node] = most
