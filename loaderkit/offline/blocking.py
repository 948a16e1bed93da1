"""`lk.offline.block_list`: the records of a source that are to be left out from now on, as a file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.system.progress_bar import progress_bar
from loaderkit._loader.one_pass import one_pass
from loaderkit._source.block_list import BlockList, write_block_list
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.record_key import check_keys
from loaderkit.sources.checked import check_source
from loaderkit.transforms.base import Batch, Map

_BATCH = 1024  # records of an element of the pass
_SHOWN = 5  # ids of an error


@refusing_foreign_arguments
def block_list(
    source: Any,
    folder: str | os.PathLike[str],
    *,
    ids: Iterable[str | int] | str | os.PathLike[str] | None = None,
    keys: Iterable[int] | None = None,
    where: Callable[[Any], bool] | None = None,
    reason: str,
    id_field: str = "id",
    worker_count: int | None = 0,
) -> str:
    """Writes a list of records that are to be left out, and returns the path of its file.

    `DataLoader(exclude=folder)` leaves them out from its beginning, `it.exclude()` from a step on. The file is never
    changed: its name is its sha256. It has the keys, the ids asked for, the source's fingerprint, the reason and the
    time. Ids and functions take one pass over the source, with a progress bar on a terminal.

    Args:
        source: any data source: that of the loader, of a mixture that of the component.
        folder: where the file is put; it is made if it isn't there.
        ids: of the records, texts or ints as the field `id_field` of a record has them, or the path of a file with one
            in each line.
        keys: their record keys.
        where: takes a record, gives True for one to leave out.
        reason: in your words, for those who read the file later.
        id_field: the field of a record that has its id.
        worker_count: worker processes of the pass.

    One of ids, keys and where has to be given. ValueError for ids that no record has, or that two have; for a key that
    isn't in the source, and where no record is listed.

    >>> import tempfile
    >>> texts = [{"id": "a", "text": "to be"}, {"id": "b", "text": "or not"}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = block_list(texts, folder, ids=["b"], reason="a request of its author")
    ...     import loaderkit as lk
    ...
    ...     [record["id"] for record in lk.load(texts, num_epochs=1, exclude=folder)]
    ['a']
    """
    source = check_source(source, "source")
    if sum(each is not None for each in (ids, keys, where)) != 1:
        raise ValueError("ids: expected one of ids, keys and where, got none or several of them")
    said: Any = reason
    if not isinstance(said, str) or not said.strip():
        raise ValueError(f"reason: expected a text that says why, got {said!r:.80}")
    asked: list[Any] = []
    if keys is not None:
        listed = check_keys(np.array([*keys]), len(source), source)
    elif where is not None:
        listed = _where(source, where, worker_count)
    else:
        asked = _ids_of(ids)
        listed = _of_ids(source, asked, id_field, worker_count)
    listed = np.unique(np.asarray(listed, np.int64))
    if not listed.size:
        raise ValueError("block_list: expected one record or more to leave out, got none")
    os.makedirs(folder, exist_ok=True)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    return write_block_list(os.fspath(folder), BlockList(listed, fingerprint_of(source), asked, reason, time))


def _ids_of(given: Any) -> list[str | int]:
    if isinstance(given, str | os.PathLike):
        with open(given, encoding="utf-8") as file:
            given = [line.rstrip("\r\n") for line in file if line.strip()]
    ids = [*given]
    for each in ids:
        if isinstance(each, bool) or not isinstance(each, str | int):
            raise TypeError(f"ids: expected texts or ints, got {each!r:.80}")
    twice = [text for text, count in Counter(map(str, ids)).items() if count > 1]
    if twice:
        raise ValueError(f"ids: expected each once, got {twice[0]!r:.80} several times")
    return ids


def _of_ids(source: Any, ids: list[str | int], id_field: str, worker_count: int | None) -> NDArray[np.int64]:
    """The keys of the records that have the ids; each id is of one record."""
    of_id = {str(each): each for each in ids}  # a number in a file of ids is a text
    found: dict[str | int, list[int]] = {}
    for first, there in _pass(source, Map(partial(_field_of, id_field)), worker_count):
        for place, value in enumerate(there):
            if (wanted := of_id.get(str(value))) is not None:
                found.setdefault(wanted, []).append(first + place)
    missing = [each for each in ids if each not in found]
    several = [each for each in ids if len(found.get(each, ())) > 1]
    for what, wrong in (("that a record has", missing), ("of one record each", several)):
        if wrong:
            of = f", such as records {found[wrong[0]][:2]}" if wrong is several else ""
            raise ValueError(
                f"ids: expected ids {what}, got {len(wrong):,} others{of}: {', '.join(map(repr, wrong[:_SHOWN]))}; "
                f"compare the field {id_field!r} of a record, or give keys="
            )
    return np.array([each[0] for each in found.values()], np.int64)


def _where(source: Any, where: Callable[[Any], bool], worker_count: int | None) -> NDArray[np.int64]:
    if not callable(where):
        raise TypeError(f"where: expected a function of a record, got {where!r:.80}")
    listed = [np.empty(0, np.int64)]
    for first, answers in _pass(source, Map(where), worker_count):
        if (flags := np.asarray(answers)).dtype != np.bool_:
            raise TypeError(f"where: expected True or False for each record, got {answers[0]!r:.80}")
        listed.append(first + np.flatnonzero(flags))
    return np.concatenate(listed)


def _pass(source: Any, of_record: Map, worker_count: int | None) -> Iterator[tuple[int, list[Any]]]:
    """The values of all records in order, many at a time, each with the key of the first."""
    loader = one_pass(source, [of_record, Batch(_BATCH, batch_fn=list)], worker_count=worker_count)
    done = 0
    with loader, closing(iter(loader)) as batches, progress_bar("records", len(source)) as advance:
        for values in batches:
            yield done, values
            done += len(values)
            advance(len(values))


def _field_of(name: str, record: Any) -> str | int:
    """A field of a record, as a text or an int."""
    if not isinstance(record, dict) or name not in record:
        kind = sorted(map(str, record)) if isinstance(record, dict) else type(record).__qualname__
        raise ValueError(
            f"id_field: expected records that are dicts with a field {name!r}, got {kind}; name their field, or give "
            "keys="
        )
    value = record[name]
    value = value.item() if isinstance(value, np.generic | np.ndarray) else value
    return value.decode() if isinstance(value, bytes) else value
