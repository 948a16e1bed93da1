"""What a sampler gives for one index: the record to read, and the generator of its random operations."""

from dataclasses import dataclass, field, replace

import numpy as np

MOST_INT64 = 2**63 - 1
MOST_INDEX = 2**62  # for indices, steps and counts, and for the end of a stream
MOST_STRIDE = 2**60  # for G, the consecutive indices of one step


@dataclass(slots=True)
class RecordMetadata:
    """The record that one index of the stream reads.

    Args:
        index: its place in the stream of all epochs.
        record_key: its row in the data source, None where several records became one element.
        rng: the generator for its random operations, None where the sampler has no seed.
        name: what the data source calls the record, None where it has no name, and in what a sampler gives.
        component: of a mixture that it is of, where `records(step)` gives it, else None.

    All follow from index and record_key, so two metadata are equal where these are.

    >>> RecordMetadata(index=0, record_key=0, rng=np.random.Generator(np.random.Philox(key=1)))
    RecordMetadata(index=0, record_key=0, rng=Generator(Philox))
    """

    index: int
    record_key: int | None = None
    rng: "np.random.Generator | None" = field(default=None, compare=False)
    name: str | None = field(default=None, compare=False)
    component: str | None = field(default=None, compare=False, kw_only=True)

    def remove_record_key(self) -> "RecordMetadata":
        """The same metadata without a record_key and a name, for an element made of several records.

        >>> RecordMetadata(index=7, record_key=3).remove_record_key()
        RecordMetadata(index=7, record_key=None, rng=None)
        """
        return self if self.record_key is None else replace(self, record_key=None, name=None, component=None)

    def __repr__(self) -> str:
        # str(rng), because a generator's repr ends in a memory address
        name = "" if self.name is None else f", name={self.name!r}"
        name += "" if self.component is None else f", component={self.component!r}"
        return f"RecordMetadata(index={self.index}, record_key={self.record_key}, rng={self.rng}{name})"
