"""Plans of several epochs, each of other rows, as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderkit._order.permutation import Int64Array
from loaderkit._source.record_key import check_keys

from .pack_plan import PackPlan, RowPieces


class EpochPlans:
    """The rows of several plans of the same documents, numbered through: `lk.plan_packing(epochs=)` makes it.

    It has the attributes of a PackPlan, summed or in the mean over the epochs.

    Args:
        plans: of each epoch.

    Attributes:
        plans: of each epoch.
        epoch_lengths: the rows of each.

    >>> import loaderkit as lk
    >>> plan = lk.plan_packing([3, 2, 1, 1], 4, epochs=3)
    >>> plan
    EpochPlans(3 epochs of [2, 2, 2] rows of 4 tokens, 4 documents, fill 0.875)
    >>> plan.rows([0, 2, 4]).counts.tolist() == [plan.plans[e].rows([0]).counts.tolist()[0] for e in range(3)]
    True
    """

    def __init__(self, plans: Sequence[PackPlan]) -> None:
        self.plans = tuple(plans)
        first = self.plans[0]
        self.length, self.features = first.length, first.features
        self.measured_source, self.num_documents = first.measured_source, first.num_documents
        self.epoch_lengths: tuple[int, ...] = tuple(map(len, self.plans))
        self._ends = np.cumsum(self.epoch_lengths)
        self.num_tokens = sum(plan.num_tokens for plan in self.plans)
        self.tokens_left_out = sum(plan.tokens_left_out for plan in self.plans)
        self.empty_documents, self.long_documents = first.empty_documents, first.long_documents
        self.block_rows = int(np.median([plan.block_rows for plan in self.plans]))
        self.read_factor = max(plan.read_factor for plan in self.plans)

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def fill(self) -> float:
        """The share of the rows' places that hold a token."""
        return self.num_tokens / sum(plan.num_tokens / plan.fill for plan in self.plans)

    def rows(self, keys: npt.ArrayLike) -> RowPieces:
        """The pieces of many rows at once, as `PackPlan.rows` gives them.

        Args:
            keys: (n,) ints in [0, len(plans)); IndexError naming the first that is out of range.
        """
        wanted = check_keys(keys, len(self), self)
        epochs = self._ends.searchsorted(wanted, "right")
        order = np.argsort(epochs, kind="stable")
        some = np.unique(epochs).tolist() or [0]
        parts: list[RowPieces] = [
            self.plans[epoch].rows(wanted[epochs == epoch] - self._first(epoch)) for epoch in some
        ]
        if len(parts) == 1:
            return parts[0]
        documents, starts, lengths, counts = map(np.concatenate, zip(*parts))
        back = np.argsort(order)
        begins, counts = (counts.cumsum() - counts)[back], counts[back]
        places = np.arange(len(documents)) + (begins - (counts.cumsum() - counts)).repeat(counts)
        return RowPieces(documents[places], starts[places], lengths[places], counts)

    def rows_of(self, documents: npt.ArrayLike) -> tuple[Int64Array, Int64Array]:
        """The rows with pieces of documents in all epochs, as `PackPlan.rows_of` gives them.

        Args:
            documents: record keys, (n,) ints.
        """
        pairs = [plan.rows_of(documents) for plan in self.plans]
        rows = [found + self._first(epoch) for epoch, (_, found) in enumerate(pairs)]
        return np.concatenate([which for which, _ in pairs]), np.concatenate(rows)

    def document_lengths(self, documents: npt.ArrayLike) -> Int64Array:
        """The lengths that documents were planned with, as `PackPlan.document_lengths` gives them.

        Args:
            documents: record keys, (n,) ints.
        """
        return self.plans[0].document_lengths(documents)

    def fingerprint(self) -> dict[str, Any]:
        """What identifies the plans: each one's own; a state compares those of epochs that were begun."""
        return {"type": "EpochPlans", "plans": [plan.fingerprint() for plan in self.plans]}

    def _first(self, epoch: int) -> int:
        return int(self._ends[epoch]) - self.epoch_lengths[epoch]

    def __repr__(self) -> str:
        return (
            f"EpochPlans({len(self.plans)} epochs of {list(self.epoch_lengths)} rows of {self.length} tokens, "
            f"{self.num_documents} documents, fill {self.fill:.3f})"
        )
