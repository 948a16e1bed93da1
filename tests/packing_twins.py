"""The planners as their descriptions say them, by loops over all rows."""

Piece = tuple[int, int, int]  # document, first token, tokens


def naive_cut(lengths: list[int], row: int, long: str) -> list[Piece]:
    pieces = []
    for document, length in enumerate(lengths):
        if length > row and long == "drop":
            continue
        kept = min(length, row) if long == "truncate" else length
        pieces += [(document, start, min(row, kept - start)) for start in range(0, kept, row)]
    return pieces


def naive_best_fit(pieces: list[Piece], row: int) -> list[list[Piece]]:
    rows: list[list[Piece]] = []
    since: list[int] = []  # when the row came to its room
    room: list[int] = []
    for time, piece in enumerate(sorted(pieces, key=lambda piece: -piece[2])):
        fitting = [k for k in range(len(rows)) if room[k] >= piece[2]]
        if fitting:
            chosen = min(fitting, key=lambda k: (room[k], -since[k]))
        else:
            chosen = len(rows)
            rows.append([])
            since.append(0)
            room.append(row)
        rows[chosen].append(piece)
        room[chosen] -= piece[2]
        since[chosen] = time
    return rows


def naive_first_fit(pieces: list[Piece], row: int) -> list[list[Piece]]:
    rows: list[list[Piece]] = []
    for piece in pieces:
        fitting = [kept for kept in rows if sum(tokens for *_, tokens in kept) + piece[2] <= row]
        (fitting[0] if fitting else rows.append([]) or rows[-1]).append(piece)  # type: ignore[func-returns-value]
    return rows


def naive_concat(lengths: list[int], row: int, long: str) -> list[list[Piece]]:
    kept = {"truncate": lambda n: min(n, row), "drop": lambda n: n if n <= row else 0}.get(long, lambda n: n)
    tokens = [(document, token) for document, n in enumerate(lengths) for token in range(kept(n))]
    rows = []
    for begin in range(0, len(tokens), row):
        pieces: list[Piece] = []
        for document, token in tokens[begin : begin + row]:
            if pieces and pieces[-1][0] == document:
                pieces[-1] = (*pieces[-1][:2], pieces[-1][2] + 1)
            else:
                pieces.append((document, token, 1))
        rows.append(pieces)
    return rows


def naive_rows(lengths: list[int], row: int, how: str, long: str) -> list[list[Piece]]:
    """The rows of one block, in the planner's order."""
    if how == "concat_then_split":
        return naive_concat(lengths, row, long)
    return {"best_fit": naive_best_fit, "first_fit": naive_first_fit}[how](naive_cut(lengths, row, long), row)
