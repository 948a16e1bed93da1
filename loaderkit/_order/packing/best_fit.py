"""Best fit, longest pieces first."""

from collections import defaultdict

import numpy as np

from loaderkit._order.permutation import Int64Array

_WORD = 6  # 2**6 rooms a word
_IN_WORD = (1 << _WORD) - 1


def best_fit(tokens: Int64Array, row: int) -> tuple[Int64Array, Int64Array]:
    """Puts each piece into the row that has the least room of those it fits in, else into a new one.

    Longer pieces go first, of equal ones the earlier. Of rows with equal room the one that came to it last is taken.

    tokens: (n,) int64, 1 to row each. row: tokens that a row holds. Gives (n,) int64 the pieces in the order in which
    they were put, and (n,) int64 the number of the row of each of these.

    >>> order, rows = best_fit(np.array([2, 3, 2, 1]), 4)
    >>> order.tolist(), rows.tolist()
    ([1, 0, 2, 3], [0, 1, 1, 0])
    """
    order = np.argsort(-tokens, kind="stable")
    # The rows with each room, and as bits which rooms there are: of each in a word, of words with any in `filled`.
    # A dict, as rows may be much longer than a block has pieces: a list took 1.7 times as long for rows of 131,072.
    rows_of_room: defaultdict[int, list[int]] = defaultdict(list)
    words = [0] * ((row >> _WORD) + 1)
    filled = 0
    opened = 0
    rows: list[int] = []
    put = rows.append
    for need in tokens[order].tolist():
        word = need >> _WORD
        if bits := words[word] >> (need & _IN_WORD):
            room = need + (bits & -bits).bit_length() - 1
        elif above := filled >> (word + 1):
            word += (above & -above).bit_length()
            bits = words[word]
            room = (word << _WORD) + (bits & -bits).bit_length() - 1
        else:
            room = 0
        if room:
            having = rows_of_room[room]
            chosen = having.pop()
            if not having:
                words[word] ^= 1 << (room & _IN_WORD)
                if not words[word]:
                    filled ^= 1 << word
            room -= need
        else:
            chosen = opened
            opened += 1
            room = row - need
        put(chosen)
        if room:
            having = rows_of_room[room]
            if not having:
                word = room >> _WORD
                if not words[word]:
                    filled |= 1 << word
                words[word] |= 1 << (room & _IN_WORD)
            having.append(chosen)
    return order, np.array(rows, np.int64)
