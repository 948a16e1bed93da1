"""Documents joined one after the other and cut every `length_struct` tokens.

A *piece* is a part of one document: for each feature its cells from `first` to `end`. A row is made of pieces until
one feature is full; what is left of the last document, the *rest*, begins the next row. A state is taken where a row
begins: it has the parent's state before the rest's document, and the rest's cells; rows given since are made again.
"""

import warnings
from collections import deque
from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass

from .step import State, Step, StepIterator

_WHOLE = (-1, -1)  # in a state: all cells of a feature
_OTHER_CELLS = (
    "ConcatThenSplitIterDataset: a document was cut twice in one feature while another fits, and rows lose or repeat "
    "tokens of that one, as in Grain; give features of one length, or pack each by itself"
)


class BOSHandling(Enum):
    """What becomes of the first token of each piece in a row: it stays, or `bos_token_id` takes its place."""

    DO_NOTHING = auto()
    REPLACE_FIRST_TOKEN_WITH_BOS = auto()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a document.

    before: the parent's state before it. document: by feature. cells: (first, end) of each feature that can be cut, or
    _WHOLE.
    """

    before: State
    document: Mapping[str, Any]
    cells: dict[str, tuple[int, int]]

    def of(self, name: str) -> Any:
        value, cells = self.document[name], self.cells.get(name, _WHOLE)
        return value if cells == _WHOLE or not np.ndim(value) else value[cells[0] : cells[1]]

    def length(self, name: str) -> int:
        value = self.of(name)
        return len(value) if np.ndim(value) else 1

    def cut(self, at: dict[str, int]) -> "tuple[_Piece | None, _Piece]":
        """The part before the given cells, None if it has none, and the part from them on."""
        if not any(at.values()):
            return None, self
        first, rest = {}, {}
        for name, cell in at.items():
            begin, end = self.cells[name]
            if (begin, end) == _WHOLE:
                begin, end = 0, self.length(name)
            first[name], rest[name] = (begin, cell), (cell, end)
        return _Piece(self.before, self.document, first), _Piece(self.before, self.document, rest)


class _ConcatThenSplitIterator(StepIterator):
    def __init__(self, node: Any, *parents: Any) -> None:
        super().__init__(node, *parents)
        longest = max(node._length.values())
        self._places = np.arange(longest, dtype=np.int32)
        self._go(None)

    def _go(self, rest: _Piece | None) -> None:
        self._rest = rest
        self._rows = deque[dict[str, Any]]()  # that are made and not given
        self._ended = False
        self._take_state()

    def _take_state(self) -> None:
        """Takes the state here, where no row is made."""
        rest = self._rest
        self._before: State = self._parent.get_state() if rest is None else rest.before
        self._cells = self._node._whole if rest is None else rest.cells
        self._given = 0  # rows since

    def __next__(self) -> dict[str, Any]:
        if not self._rows and not self._ended:
            self._take_state()
            self._make()
            if not self._rows:
                self._take_state()
        if not self._rows:
            raise StopIteration
        self._given += 1
        return self._rows.popleft()

    def _make(self) -> None:
        """Reads documents until a row is full. Documents that are a row by themselves wait behind it."""
        node, parent = self._node, self._parent
        pieces: list[_Piece] = []
        used = dict.fromkeys(node._length, 0)
        while True:
            if self._rest is not None:
                self._rest = node._put(self._rest, pieces, used)
                if self._rest is not None:
                    break
            before = parent.get_state()
            try:
                document = next(parent)
            except StopIteration:
                self._ended = True
                break
            if not isinstance(document, Mapping) or document.keys() != node._length.keys():
                raise ValueError(
                    f"expected documents with the features {[*node._length]} of length_struct, got {document!r:.80}"
                )
            piece = _Piece(before, document, node._whole)
            if node._is_row(piece):
                self._rows.append(self._row([piece]))
            else:
                self._rest = piece
        if pieces:
            self._rows.appendleft(self._row(pieces))
        elif self._rest is not None and not self._rows:
            raise ValueError(
                "meta_features: expected at most the tokens that length_struct says, got a document with "
                f"{ {name: self._rest.length(name) for name in node._length} }"
            )

    def _row(self, pieces: list[_Piece]) -> dict[str, Any]:
        node, row = self._node, dict[str, Any]()
        for name, cells in node._length.items():
            like = np.asarray(pieces[0].document[name])
            values = row[name] = np.zeros((cells, *like.shape[1:]), like.dtype)
            described = name not in node._meta
            segment_ids, positions = np.zeros((2, cells), np.int32)
            if described:
                row[f"{name}_segment_ids"], row[f"{name}_positions"] = segment_ids, positions
            end = 0
            for number, piece in enumerate(pieces, 1):
                begin, end = end, end + piece.length(name)
                values[begin:end] = piece.of(name)
                if name in node._bos:
                    values[begin : begin + 1] = node._bos_token
                segment_ids[begin:end] = number
                positions[begin:end] = self._places[: end - begin]
        return row

    def get_state(self) -> State:
        return {
            "parent_state": self._before,
            "remainder_slices": {**self._cells},
            "elements_from_buffer_after_checkpoint": self._given,
        }

    def set_state(self, state: State) -> None:
        before = state["parent_state"]
        self._parent.set_state(before)
        cells = {name: (first, end) for name, (first, end) in state["remainder_slices"].items()}
        is_rest = any(each != _WHOLE for each in cells.values())
        document = next(self._parent, None) if is_rest else None
        if is_rest and document is None:
            raise ValueError(
                "expected a state of this data set, got one after a document that it doesn't have"
            )
        self._go(None if document is None else _Piece(before, document, cells))
        for _ in range(state["elements_from_buffer_after_checkpoint"]):
            next(self)


class ConcatThenSplitIterDataset(Step):
    """Rows of documents joined one after the other, which are cut where a row ends.

    Args:
        parent: the data set before, of documents: dicts of arrays (tokens, ...), or of numbers, which are one token.
        length_struct: for each feature the tokens of a row; a row is full when one feature is.
        meta_features: features that are never cut; they have no segment ids and positions.
        split_full_length_features: whether a document of a row's length is cut like others; else it is a row by itself.
        bos_handling: what becomes of the first token of each piece.
        bos_features: whose first tokens.
        bos_token_id: what takes their place.
    """

    _iterator = _ConcatThenSplitIterator

    def __init__(
        self,
        parent: Any,
        *,
        length_struct: Mapping[str, int],
        meta_features: Collection[str] = (),
        split_full_length_features: bool = True,
        bos_handling: BOSHandling = BOSHandling.DO_NOTHING,
        bos_features: Collection[str] = (),
        bos_token_id: int | None = None,
    ) -> None:
        super().__init__(parent)
        # The installed Grain's, too.
        replaces = bos_handling.name == BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS.name
        if replaces == (bos_token_id is None) or (bos_features and not replaces):
            raise ValueError(
                "bos_token_id, bos_features: expected with bos_handling=REPLACE_FIRST_TOKEN_WITH_BOS, and only then, "
                f"got {bos_token_id} and {[*bos_features]} with {bos_handling.name}"
            )
        if both := {*bos_features} & {*meta_features}:
            raise ValueError(
                f"bos_features: expected other features than meta_features, got {sorted(both)} in both"
            )
        self._length = {
            name: at_least(f"length_struct[{name!r}]", cells, 1) for name, cells in length_struct.items()
        }
        self._meta = frozenset(meta_features)
        self._whole = {name: _WHOLE for name in self._length if name not in self._meta}
        self._splits_full = split_full_length_features
        self._bos, self._bos_token = frozenset(bos_features if replaces else ()), bos_token_id

    def _is_row(self, piece: _Piece) -> bool:
        """Whether a document is a row by itself."""
        if self._splits_full:
            return False
        left = [cells - piece.length(name) for name, cells in self._length.items()]
        return min(left) == 0

    def _put(self, piece: _Piece, pieces: list[_Piece], used: dict[str, int]) -> _Piece | None:
        """Adds what a row has room for of a piece to its pieces; gives the rest of it, if there is one."""
        at, more, fits, cuts = {}, {}, [], False
        for name, cells in self._length.items():
            length, room = piece.length(name), cells - used[name]
            more[name] = min(length, room)
            if name in self._meta:
                if length > room:
                    return piece
            elif length > room:
                at[name], cuts = max(piece.cells[name][0], 0) + room, True
            else:
                at[name] = length
                fits.append(name)
        first, rest = piece.cut(at) if cuts else (piece, None)
        # As in Grain, a feature that fits is cut behind so many cells of the document, also where the piece begins
        # further behind: the row may have other cells of it then, and the rest too.
        if cuts and any(piece.cells[name][0] > 0 and at[name] != piece.cells[name][1] for name in fits):
            warnings.warn(_OTHER_CELLS, stacklevel=2)
        if first is not None:
            pieces.append(first)
        for name, count in more.items():
            used[name] += count
        return rest
