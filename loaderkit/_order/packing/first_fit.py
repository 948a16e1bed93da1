"""First fit, in the order of the documents."""

import numpy as np

from loaderkit._order.permutation import Int64Array


def first_fit(tokens: Int64Array, row: Int64Array) -> Int64Array:
    """Puts each piece, in order, into the first row that has room for it in every feature.

    tokens: (n, features) int64, at most the row's. row: (features,) int64, tokens that a row holds. Gives (n,) int64
    the number of the row of each piece.

    >>> first_fit(np.array([[3], [2], [1], [2]]), np.array([4])).tolist()
    [0, 1, 0, 1]
    """
    # Room of rows in a binary tree: leaf `leaves + k` is row k, and a node has the largest room below it. Rows that
    # aren't begun have their whole room, so the search always ends at a leaf.
    leaves = 1 << (_most_rows(tokens, row) - 1).bit_length()
    trees = [[int(length)] * (2 * leaves) for length in row]
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
        node = 1
        while node < leaves:
            node += node
            if tree[node] < need:
                node += 1
        put(node - leaves)
        _take(tree, node, need)
    return rows


def _take(tree: list[int], node: int, need: int) -> None:
    most = tree[node] - need
    tree[node] = most
    while node > 1:
        if (beside := tree[node ^ 1]) > most:
            most = beside
        node >>= 1
        if tree[node] == most:
            return
        tree[node] = most


def _fit_all(trees: list[list[int]], leaves: int, needs: list[tuple[int, ...]]) -> list[int]:
    rows: list[int] = []
    for need in needs:
        # A node with room in each feature may have it in different rows, so the search may come back from below.
        candidates = [1]
        while True:
            node = candidates.pop()
            if all(tree[node] >= tokens for tree, tokens in zip(trees, need)):
                if node >= leaves:
                    break
                candidates += (2 * node + 1, 2 * node)
        rows.append(node - leaves)
        for tree, tokens in zip(trees, need):
            _take(tree, node, tokens)
    return rows
