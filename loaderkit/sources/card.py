"""What a source holds, at a glance: `source.card()`."""

from collections.abc import Iterator, Mapping
from reprlib import Repr
from typing import Any

import numpy as np

from loaderkit._base.size_text import size_text
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._source.protocol import read_record, read_records

from .record_features import MIXED, features_of

_SHOWN = Repr()
_SHOWN.maxstring = _SHOWN.maxother = _WIDEST = 60


@dataclass(frozen=True, slots=True)
class SourceCard:
    """What a source holds; printed, it is a page.

    Attributes:
        source: in one line.
        records: their number.
        files: the name of each and its bytes, None where a server or a folder would have to be asked.
        splits: the records of each split of the data set, by name.
        sources: the records of each source that has a name in it.
        fields: dtypes and shapes of the first records, as a data set's card has them.
        sample: the first record.

    >>> from loaderkit.sources import InMemoryDataSource
    >>> print(InMemoryDataSource([{"x": np.zeros((2, 3)), "label": 7}]).card())
    InMemoryDataSource(1 elements, 384 bytes)
      records  1
      fields   x      float64(2, 3)  [[0. 0. 0.] [0. 0. 0.]]
               label  int64()        7
    """

    source: str
    records: int
    files: Mapping[str, int | None]
    splits: Mapping[str, int]
    sources: Mapping[str, int]
    fields: Any
    sample: Any

    def __repr__(self) -> str:
        rows = [("records", f"{self.records:,}")]
        if self.files:
            names, sizes = [*self.files], [size for size in self.files.values() if size is not None]
            last = f" to {names[-1]}" if len(names) > 1 else ""
            rows.append(("shards", f"{len(names):,}: {names[0]}{last}"))
            least = "" if len(sizes) == len(names) else "at least "
            rows.append(("on disk", f"{least}{size_text(sum(sizes))}" if sizes else "unknown"))
        for title, parts in (("splits", self.splits), ("sources", self.sources)):
            if parts:
                rows.append((title, ", ".join(f"{name} {count:,}" for name, count in parts.items())))
        if self.records:
            leaves = [*_leaves(self.fields, self.sample, "")]
            wide = [max(map(len, column)) for column in zip(*leaves)]
            rows += [
                ("" if place else "fields", "  ".join(f"{text:{w}}" for text, w in zip(leaf, wide)).strip())
                for place, leaf in enumerate(leaves)
            ]
        return "\n".join([self.source, *(f"  {title:8} {text}" for title, text in rows)])


def card_of(
    source: Any, keys: list[int], files: Mapping[str, int | None], splits: Mapping[str, int]
) -> SourceCard:
    """The card of a source.

    Args:
        source: one of loaderkit.
        keys: of the records that are looked at.
        files, splits: as the source says them.
    """
    records = read_records(source, keys)
    fields: Any = features_of(records) if records else None
    sample = records[0] if records else None
    # Those that this source is made of, where they have names.
    parts = dict(zip(source.names, source._sources)) if vars(source).get("names") else {}
    if fields == MIXED and parts:
        sample = {name: read_record(part, 0) for name, part in [*parts.items()][: len(keys)] if len(part)}
        fields = features_of([sample])
    return SourceCard(
        repr(source),
        len(source),
        files,
        splits,
        {name: len(part) for name, part in parts.items()},
        fields,
        sample,
    )


def _leaves(features: Any, value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Of each leaf its path, its kind and how its value is shown."""
    if isinstance(features, dict) and isinstance(value, Mapping):
        for (name, kind), each in zip(features.items(), value.values()):
            yield from _leaves(kind, each, f"{path}.{name}" if path else name)
    elif isinstance(features, list) and isinstance(value, list | tuple):
        for place, (kind, each) in enumerate(zip(features, value)):
            yield from _leaves(kind, each, f"{path}[{place}]")
    else:
        yield path, features if isinstance(features, str) else type(value).__name__, _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        text = np.array2string(value, threshold=6, edgeitems=2)
    else:
        text = str(value) if isinstance(value, np.generic) else _SHOWN.repr(value)
    text = " ".join(text.split())
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."
