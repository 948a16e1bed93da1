"""Which pipelines are refused, and the two parts that the error has to name."""

from collections.abc import Iterator

from grammar import Pipeline


def refusals(p: Pipeline) -> Iterator[tuple[str, str]]:
    """Patterns of both parts, for each pair of parts that exclude each other; none where the pipeline is accepted."""
    last, rows = p.last, p.rows
    if any(op.remainder not in ("keep", "drop") for op in p.inner):
        yield "remainder='(pad|wrap)'", "before the last Batch"
    if any(op.whole for op in p.inner):
        yield "global_batch_size", "before the last Batch"
    if any(op.kind == "window" for op in p.behind):
        yield "Window", "before the last Batch"
    if rows % p.hosts:
        yield "global_batch_size", "number of shards"
    if p.sampled.word == "buckets":
        yield from _of_buckets(p)
    elif last is not None and last.word == "pad_batch" and len(last.bounds) > 1 and p.hosts > 1:
        yield "boundaries", "shards"
    if p.pads_to_longest and p.policy == "replace" and hasattr(p.sampler, "instead"):
        yield "lengths", "on_record_error='replace'"
    yield from (_of_streams(p) if p.changes else _of_steps(p))


def has_unlike_parts(p: Pipeline) -> bool:
    """Whether elements of several dtypes would enter the first Batch: that is known once some are made."""
    return p.source.word == "unlike" and not any(op.word == "alike" for op in p.ops)


def _of_buckets(p: Pipeline) -> Iterator[tuple[str, str]]:
    last, size = p.last, p.sampler.global_batch_size
    if last is None or not last.whole or last.by != size or p.inner:
        yield "global_batch_size", "LengthBucketSampler"
        return
    if p.pads_to_longest:
        yield "LengthBucketSampler", "the longest"
    if last.remainder == "drop":
        yield "remainder", "LengthBucketSampler"
    if p.changes:
        yield "changes the number of rows", "LengthBucketSampler"
    if p.hosts == 1:
        return
    if any(each % p.hosts for each in p.sampler.sizes):
        yield "batch_sizes", "number of shards"
    left = int(p.sampler.rows_of([p.sampler.epoch_length - size])[0])
    if last.remainder == "keep" and (left < p.hosts if p.drop_remainder else left % p.hosts):
        yield "remainder", "shards"


def _of_steps(p: Pipeline) -> Iterator[tuple[str, str]]:
    if p.last is None or p.last.remainder != "wrap" or p.stop is None:
        return
    if any(op.remainder == "keep" for op in p.inner) and used(p) % p.group:
        yield "remainder='wrap'", "earlier Batch"


def _of_streams(p: Pipeline) -> Iterator[tuple[str, str]]:
    rest = "keep" if p.last is None else p.last.remainder
    if p.streams % p.hosts or p.rows % p.streams:
        yield "logical_streams", "number of shards"
    if p.streams == 1:
        return
    if any(op.kind in ("filter", "flat_map", "window") for op in p.behind):
        yield "after the last Batch", "logical_streams"
    if rest == "keep" and p.stop is not None:
        yield "remainder", "logical streams"
    if rest in ("drop", "wrap") and p.num_steps is None and p.stop is not None:
        yield "num_steps", f"remainder='{rest}'"


def used(p: Pipeline) -> int:
    """How many records are part of a row that an earlier Batch doesn't drop."""
    counts = [p.stop - p.start]
    for op in p.inner:
        counts.append(counts[-1] // op.by if op.remainder == "drop" else -(-counts[-1] // op.by))
    used = counts.pop()
    for op in reversed(p.inner):
        used = min(used * op.by, counts.pop())
    return used
