"""Plans which documents share a row, from their lengths alone."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from reprlib import repr as _short
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from loaderkit._base.canonical_json import canonical
from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._base.system.progress_bar import progress_bar
from loaderkit._loader.one_pass import one_pass
from loaderkit._order.array_digest import digest_of
from loaderkit._order.matches import among
from loaderkit._order.mixing import fold
from loaderkit._order.packing.block import (
    FRAME_WORDS,
    MOST_DOCUMENTS,
    MOST_PIECES,
    UInt32Array,
    checked_rules,
    plan_block,
)
from loaderkit._order.packing.pieces import Long
from loaderkit._order.permutation import Int64Array
from loaderkit._source.block_list import read_block_list
from loaderkit._source.content import content_hash, sampled_keys
from loaderkit._source.fingerprint import same_where_known
from loaderkit.formats._writing.cluster import Cluster, check_cluster
from loaderkit.samplers.chunks import ChunkSampler
from loaderkit.samplers.epochs import IndexSampler, SequentialSampler
from loaderkit.samplers.protocol import (
    SEED_LIMIT,
    Sampler,
    fingerprint_of,
    length_of,
    min_records_of,
    num_records_of,
    record_keys_of,
    shaped,
)
from loaderkit.sources.packed.epoch_plans import EpochPlans
from loaderkit.sources.packed.pack_plan import ALGORITHM, PackPlan, PlanSettings
from loaderkit.sources.shared_arrays import SharedColumns

from .array_file import open_array
from .plan_file import open_plan, write_plan
from .plan_jobs import blocks_of_cluster

# Starting worker processes takes as long as planning about 500,000 documents.
INLINE_DOCUMENTS = 1 << 20

# Chunks in a block of a plan of several epochs. With 16 of 1,024 documents rows were .9998 full, 2.7 % of neighbours in
# a row met again in the next epoch, and 1,024 rows were of 17 chunks; with all documents shuffled 0.4 % met again, and
# the rows were of every chunk.
CHUNKS = 16

_LONGEST = 1 << 47  # so that no sum over a block leaves 64 bits
# By construction each record once in an epoch.
_PERMUTATIONS = (ChunkSampler, IndexSampler, SequentialSampler)
_AT_ONCE = 1 << 18  # lengths or keys looked at at once, 2 MiB of int64; a limit of memory


class _Column(NamedTuple):
    """Lengths of one feature: their name in errors, the array, the source that they were measured of."""

    name: str
    array: npt.NDArray[Any]
    source: dict[str, Any] | None


Lengths = npt.ArrayLike | str | os.PathLike[str]
Excluded = npt.ArrayLike | str | os.PathLike[str]


@refusing_foreign_arguments
def plan_packing(
    lengths: Lengths | Mapping[str, Lengths],
    length: int | Mapping[str, int],
    path: str | os.PathLike[str] | None = None,
    *,
    how: Literal["best_fit", "first_fit", "concat_then_split"] = "best_fit",
    long: Literal["split", "truncate", "drop", "raise"] = "split",
    order: Sampler | None = None,
    block: int = 16_384,
    seed: int = 0,
    epochs: int | None = None,
    exclude: Excluded | Mapping[int, Excluded] | None = None,
    worker_count: int | None = 0,
    cluster: Cluster | None = None,
    algorithm: Literal[1, 2] | None = None,
) -> PackPlan | EpochPlans:
    """Plans rows of `length` tokens out of documents, from their lengths alone; or opens the plan that is there.

    Documents are planned in blocks, each from its own lengths. The plan has the same bytes for any number of processes,
    in memory or in a file, and after a restart. Each document is in it once. An empty one is in no row.

    Args:
        lengths: (n,) ints 0 or more, the tokens of each document; or the path of an array file that
            `lk.offline.measure` wrote. Where features have lengths of their own, a mapping of them by feature.
        length: tokens of a row, 1 to 2**24 - 1; for several features a mapping of them by feature.
        path: of the plan's file. It has its name once it is complete. If there is one of these arguments it is
            opened; an unfinished one is continued. None keeps the plan in memory.
        how: "best_fit" puts long pieces first, each into the row with the least room that it fits in. "first_fit" takes
            the documents in order, each for the first row with room in every feature; only it takes several features.
            "concat_then_split" joins a block's documents and cuts them every `length` tokens.
        long: what becomes of a document longer than a row. "split": as many pieces as it needs. "truncate": its first
            tokens. "drop": it is left out. "raise": a ValueError that names it.
        order: a finite sampler that gives each document once at most; blocks follow it. None is the order of `lengths`.
        block: documents of a block, 1 to 65,536. More fill rows better; fewer are nearer each other in the source.
        seed: of the order of the rows within each block, 0 to 2**64 - 1.
        epochs: how many epochs get a plan of their own, each of the documents in another order: chunks of block / 16
            documents in a shuffled order, 16 of them a block. Then `path` is a folder with a file for each, and the
            rows are numbered through the epochs. `lk.load` and `lk.mix` read one epoch after the other; an own loader
            has `sampler=lk.samplers.SpanSampler(rows.epoch_lengths, shuffle=True, seed=0)`. None: one plan for all.
        exclude: record keys of documents that are in no row, or the path of a list that `lk.offline.block_list` wrote.
            With `epochs` also a mapping of these by the epoch from which on they are left out: a run that stands before
            it goes on with such plans.
        worker_count: processes; 0 plans in the calling thread, None does so for less than a million documents and else
            takes the CPUs that this process may use.
        cluster: `lk.interop.ray.Tasks(...)`: its hosts plan in place of processes here, which all see `path`, and the
            file of lengths; a run may move between it and this machine. ClusterError names the host that fails.
        algorithm: None is that of the file that is there, whole or begun, else 2. 1 makes the rows of earlier versions,
            for a run whose plan was in memory, or whose file is gone.

    A million documents take about a second on one core, and a file of 6 bytes a document.

    >>> import loaderkit as lk
    >>> plan = lk.plan_packing([700, 300, 24, 1500], 1024)
    >>> len(plan), plan.num_tokens
    (3, 2524)
    """
    rows = _checked_rows(length)
    features = None if rows is None else tuple(rows)
    epochs = None if epochs is None else at_least("epochs", epochs, 1, advice="give None for one plan")
    if epochs is not None and order is not None:
        raise ValueError(f"epochs: expected no order beside it, as each epoch has its own, got {order!r:.80}")
    rules = checked_rules(tuple(rows.values()) if rows else (_row("length", length),), how, long)
    block = at_least("block", block, 1, below=MOST_DOCUMENTS + 1)
    columns = _columns(lengths, features)
    arrays = [column.array for column in columns]
    measured = next((column.source for column in columns if column.source is not None), None)
    excluded = _checked_exclusions(exclude, epochs, len(arrays[0]), measured)
    settings = PlanSettings(
        documents=_checked_order(order, len(arrays[0])),
        features=features,
        rules=rules,
        block=block,
        seed=at_least("seed", seed, 0, below=SEED_LIMIT),
        lengths=tuple(
            _checked_digest(column, row, long, excluded[0])
            for column, row in zip(columns, rules.row, strict=True)
        ),
        order=None if order is None else _digest_of(order),
        algorithm=ALGORITHM
        if algorithm is None
        else at_least("algorithm", algorithm, 1, below=ALGORITHM + 1),
    )
    check_cluster(cluster)
    if cluster is not None and path is None:
        raise ValueError("path: expected a file on storage that the hosts of cluster= share, got None")
    file = None if path is None else os.path.abspath(path)
    if worker_count is None and settings.documents < INLINE_DOCUMENTS:
        worker_count = 0
    plans = BlockPlans(settings, SharedColumns(arrays), order)
    each = [plans] if epochs is None else [plans.of_epoch(epoch) for epoch in range(epochs)]
    made = []
    for epoch, keys in enumerate(excluded):
        one = each[epoch].without(keys)
        name = file
        if file is not None and epochs is not None:
            os.makedirs(file, exist_ok=True)
            name = os.path.join(file, _name_of(epoch, one.settings))
        made.append(_planned(one, name, worker_count, cluster, any_algorithm=algorithm is None))
        made[-1].measured_source = measured
    return made[0] if epochs is None else EpochPlans(made)


def _name_of(epoch: int, settings: PlanSettings) -> str:
    """The file of an epoch; another one without other documents, so that both may be there."""
    without = "" if settings.excluded is None else f"-without-{settings.excluded[2][-16:]}"
    return f"epoch-{epoch:02d}{without}.plan"


def _checked_exclusions(
    exclude: Any, epochs: int | None, documents: int, measured: dict[str, Any] | None
) -> list[Int64Array]:
    """The keys that are left out of each epoch's plan, distinct and ascending."""
    stages = exclude if isinstance(exclude, Mapping) else {0: () if exclude is None else exclude}
    if isinstance(exclude, Mapping) and epochs is None:
        raise ValueError("exclude: expected record keys, got a mapping of epochs, but no epochs=")
    found = {
        at_least("exclude: an epoch", epoch, 0, below=epochs or 1): _excluded_keys(given, documents, measured)
        for epoch, given in stages.items()
    }
    nothing = np.empty(0, np.int64)
    return [
        np.unique(np.concatenate([nothing, *(keys for first, keys in found.items() if first <= epoch)]))
        for epoch in range(epochs or 1)
    ]


def _excluded_keys(given: Any, documents: int, measured: dict[str, Any] | None) -> Int64Array:
    if isinstance(given, str | os.PathLike):
        listed = read_block_list(os.fspath(given))
        if measured is not None and not same_where_known(dict(listed.source), measured):
            raise ValueError(
                f"exclude: expected a list of the source that the lengths were measured of, got {os.fspath(given)!r} "
                f"of another one: {_short(dict(listed.source))}"
            )
        given = listed.keys
    keys = np.asarray(given)
    if not keys.size:
        return np.empty(0, np.int64)
    if keys.ndim != 1 or keys.dtype.kind not in "iu":
        raise TypeError(
            f"exclude: expected record keys (n,), or the path of one list that lk.offline.block_list wrote, got "
            f"{_short(given)}"
        )
    if not 0 <= keys.min() <= keys.max() < documents:
        strange = keys.min() if keys.min() < 0 else keys.max()
        raise ValueError(f"exclude: expected keys of {documents} documents, got {strange}")
    return keys.astype(np.int64)


def _planned(
    plans: BlockPlans,
    path: str | None,
    worker_count: int | None,
    cluster: Cluster | None,
    *,
    any_algorithm: bool,
) -> PackPlan:
    settings = plans.settings
    # A file keeps its algorithm.
    earlier = range(1, ALGORITHM) if any_algorithm else ()
    known = [settings, *(replace(settings, algorithm=algorithm) for algorithm in earlier)]

    def blocks_from(settings: PlanSettings, first: int) -> Iterable[UInt32Array]:
        blocks = replace(plans, settings=settings)
        if cluster is not None:
            return blocks_of_cluster(blocks, settings, f"{path}.partial", cluster, first)
        return _read_all(replace(blocks, first=first), worker_count)

    if path is None:
        blocks: list[UInt32Array] = []
        with progress_bar("blocks", settings.blocks) as advance:
            for words in blocks_from(settings, 0):
                blocks.append(words)
                advance(1)
        words = np.concatenate(blocks)
        frames = b"".join(words[:FRAME_WORDS].tobytes() for words in blocks)
        plan = PackPlan(settings, words, frames, plans.lengths, plans.order)
    else:
        if not os.path.exists(path):
            with progress_bar("blocks", settings.blocks) as advance:
                write_plan(path, known, blocks_from, advance)
        plan = PackPlan(*open_plan(path, known), plans.lengths, plans.order, path)
    if not len(plan):
        raise ValueError(
            f"lengths: expected a document with tokens for a row, got {plan.empty_documents} empty and "
            f"{plan.long_documents} long documents with long={settings.rules.long!r}"
            + (f", and {plan.excluded_documents} in exclude" if plan.excluded_documents else "")
        )
    return plan


@dataclass(frozen=True)
class BlockPlans:
    """A data source with a record for each block from one on: reading it plans the block.

    Args:
        settings: of the plan.
        lengths: of the documents, a column for each feature.
        order: of the documents; None for their own.
        first: number of the block that is record 0.
        excluded: keys of documents that are left out, ascending; None for none.
    """

    settings: PlanSettings
    lengths: SharedColumns
    order: Sampler | None
    first: int = 0
    excluded: SharedColumns | None = None

    def of_epoch(self, epoch: int) -> BlockPlans:
        """The plans of one of several epochs."""
        settings = self.settings
        seed = fold(settings.seed, epoch)
        order = ChunkSampler(
            settings.documents, chunk=max(1, settings.block // CHUNKS), window=CHUNKS, num_epochs=1, seed=seed
        )
        return replace(self, settings=replace(settings, seed=seed, order=_digest_of(order)), order=order)

    def without(self, keys: Int64Array) -> BlockPlans:
        """The plans without documents: distinct keys, (n,) int64 ascending."""
        if not keys.size:
            return self
        tokens = np.zeros(keys.shape, np.bool_)
        for column in self.lengths.arrays:
            tokens |= column[keys] > 0
        excluded = (keys.size, int(np.count_nonzero(tokens)), digest_of(keys))
        return replace(
            self, settings=replace(self.settings, excluded=excluded), excluded=SharedColumns([keys])
        )

    def __len__(self) -> int:
        return self.settings.blocks - self.first

    def __getitem__(self, record_key: int) -> UInt32Array:
        settings, number = self.settings, self.first + record_key
        begin = number * settings.block
        documents = np.arange(begin, min(begin + settings.block, settings.documents))
        if self.order is not None:
            documents = record_keys_of(self.order, documents)
        columns = [column[documents] for column in self.lengths.arrays]
        lengths = np.stack(columns, axis=-1, dtype=np.int64, casting="unsafe")
        if self.excluded is not None:
            lengths[among(documents, self.excluded.arrays[0])] = 0  # as an empty document is in no row
        return plan_block(lengths, settings.rules, settings.key_of(number))

    def fingerprint(self) -> dict[str, Any]:
        """For the loader, and for hosts of a cluster, which see whether they have other lengths."""
        some = sampled_keys(len(self.lengths.arrays[0]))
        lengths = [content_hash(column[key] for key in some) for column in self.lengths.arrays]
        return {"blocks": len(self), "lengths": lengths}


def _read_all(blocks: BlockPlans, worker_count: int | None) -> Iterator[UInt32Array]:
    if worker_count == 0 or not len(blocks):
        yield from map(blocks.__getitem__, range(len(blocks)))
        return
    with iter(one_pass(blocks, worker_count=worker_count)) as plans:
        yield from plans


def _checked_rows(length: int | Mapping[str, int]) -> dict[str, int] | None:
    if not isinstance(length, Mapping):
        return None
    if not length or not all(isinstance(name, str) for name in length):
        raise ValueError(f"length: expected an int or ints by the names of features, got {_short(length)}")
    return {name: _row(f"length[{name!r}]", value) for name, value in length.items()}


def _row(name: str, value: object) -> int:
    return at_least(name, value, 1, below=1 << 24, advice="give the tokens of a row")


def _columns(lengths: Any, features: tuple[str, ...] | None) -> list[_Column]:
    if isinstance(lengths, Mapping) == (features is None):
        raise TypeError(
            f"lengths: expected lengths by the names of features exactly where `length` is, got {_short(lengths)}; "
            'write lengths={"inputs": ..., "targets": ...}, length={"inputs": 512, "targets": 128}'
        )
    if isinstance(measured := getattr(lengths, "lengths", None), np.ndarray):
        raise TypeError(
            f"lengths: expected the tokens of each document, got a {type(lengths).__name__}; give its lengths, such as "
            f"source.lengths, here {len(measured)} documents"
        )
    if features is None:
        return [_column("lengths", lengths)]
    if {*lengths} != {*features}:
        raise ValueError(f"lengths: expected those of the features {list(features)}, got {list(lengths)}")
    columns = [_column(f"lengths[{feature!r}]", lengths[feature]) for feature in features]
    sizes = {feature: len(column.array) for feature, column in zip(features, columns, strict=True)}
    if len({*sizes.values()}) > 1:
        raise ValueError(f"lengths: expected as many documents for each feature, got {sizes}")
    measured = [column.source for column in columns if column.source is not None]
    if any(source != measured[0] for source in measured):
        raise ValueError(
            "lengths: expected files that lk.offline.measure wrote of one source, got files of several"
        )
    return columns


def _column(name: str, given: Any) -> _Column:
    source = None
    if isinstance(given, str | os.PathLike):
        array, trailer = open_array(given)
        source = trailer.source
    else:
        try:
            array = np.asanyarray(given)
        except ValueError:  # rows of different lengths
            raise ValueError(f"{name}: expected one dimension, got {_short(given)}; {_ADVICE}") from None
    if array.ndim != 1:
        raise ValueError(f"{name}: expected one dimension, got shape {array.shape}; {_ADVICE}")
    if not len(array):
        raise ValueError(f"{name}: expected one document or more, got none; {_ADVICE}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected ints, got an array of {array.dtype}; {_ADVICE}")
    return _Column(name, array, source)


_ADVICE = "give the number of tokens of each document, as lk.offline.measure(source, fn, path) writes them"


def _checked_order(order: Sampler | None, documents: int) -> int:
    if order is None:
        return documents
    if shaped(order) is not None:
        raise ValueError(
            f"order: expected a sampler of single records, got a {type(order).__qualname__}, which plans whole "
            f"batches; give IndexSampler({documents}, shuffle=True, seed=0, num_epochs=1)"
        )
    count = length_of(order)
    if count is None:
        raise ValueError(f"order: expected a finite sampler, got {order!r}; give num_epochs=1")
    if not count:
        raise ValueError(f"order: expected one document or more, got none of {order!r}")
    if (needed := min_records_of(order)) > documents:
        raise ValueError(
            f"order: expected a sampler over {documents} documents, got {order!r}, over {needed}"
        )
    if type(order) not in _PERMUTATIONS or count != num_records_of(order):
        _check_keys(order, count, documents)
    return count


def _keys_of(order: Sampler, count: int) -> Iterator[tuple[int, Int64Array]]:
    for begin in range(0, count, _AT_ONCE):
        yield begin, record_keys_of(order, np.arange(begin, min(begin + _AT_ONCE, count)))


def _check_keys(order: Sampler, count: int, documents: int) -> None:
    """ValueError for a key that no document has, and for one that stands there twice."""
    seen = np.zeros(documents, np.bool_)
    for begin, keys in _keys_of(order, count):
        if keys.max() >= documents:
            place = int(keys.argmax())
            got = f"record key {keys[place]} for index {begin + place}"
            raise ValueError(f"order: expected keys of {documents} documents, got {got}")
        distinct, firsts = np.unique(keys, return_index=True)
        again = np.ones(keys.shape, np.bool_)
        again[firsts] = seen[distinct]
        if again.any():
            place = int(again.argmax())
            raise ValueError(
                f"order: expected each document once at most, got document {keys[place]} again at index "
                f"{begin + place} of {order!r}; give num_epochs=1, and repeat the rows of the plan instead"
            )
        seen[distinct] = True


def _digest_of(order: Sampler) -> str:
    if hasattr(order, "fingerprint"):
        return f"sha256:{hashlib.sha256(canonical(fingerprint_of(order)).encode()).hexdigest()[:32]}"
    digest = hashlib.sha256()
    for _, keys in _keys_of(order, length_of(order) or 0):
        digest.update(np.ascontiguousarray(keys, "<i8").data)
    return f"sha256:{digest.hexdigest()[:32]}"


def _checked_digest(column: _Column, row: int, long: Long, excluded: Int64Array) -> str:
    """The digest of a column's values, whatever its dtype is, in the one pass that checks those not excluded."""
    most, advice = _LONGEST, ""
    if long == "raise":
        most, advice = row, 'give long="split", "truncate" or "drop", or longer rows'
    elif long == "split":
        # One piece fewer, as a document of "concat_then_split" may begin within a row.
        most, advice = row * (MOST_PIECES - 1), 'give long="truncate" or "drop", or longer rows'
    digest = hashlib.sha256()
    for begin in range(0, len(column.array), _AT_ONCE):
        part = column.array[begin : begin + _AT_ONCE]
        greatest = part.max()
        if part.min() < 0 or greatest > most:
            bad = np.flatnonzero((part < 0) | (part > most))
            for place in bad[~among(bad + begin, excluded)][:1].tolist():
                end = _ADVICE if part[place] < 0 else advice
                raise ValueError(
                    f"{column.name}[{begin + place}]: expected 0 to {most} tokens, got {part[place]}"
                    f"{end and f'; {end}'}"
                )
        # Half the bytes where no document is huge: opening a plan of 10**9 documents waits for this hash.
        digest.update(np.ascontiguousarray(part, "<u4" if greatest < 1 << 32 else "<u8").data)
    return f"sha256:{digest.hexdigest()[:32]}"
