"""Which pipelines are refused, and the two parts that the error has to name."""

from collections.abc import Iterator

from grammar import Pipeline
from reference import changes, parts, sizes


def refusals(p: Pipeline) -> Iterator[tuple[str, str]]:
    """Patterns of both parts, for each pair of parts that exclude each other; none where the pipeline is accepted."""
    (before, last, behind), (rows, _) = parts(p), sizes(p)
    inner = [op for op in before if op.kind == "batch"]
    if any(op.remainder not in ("keep", "drop") for op in inner):
        yield "remainder='(pad|wrap)'", "before the last Batch"
    if any(op.whole for op in inner):
        yield "global_batch_size", "before the last Batch"
    if any(op.kind == "window" for op in behind):
        yield "Window", "before the last Batch"
    if rows % p.hosts:
        yield "global_batch_size", "number of shards"
    if last is not None and last.word == "pad_batch" and len(last.bounds) > 1 and p.hosts > 1:
        yield "boundaries", "shards"
    yield from (_of_streams(p) if changes(p) else _of_steps(p))


def _of_steps(p: Pipeline) -> Iterator[tuple[str, str]]:
    before, last, _ = parts(p)
    inner = [op for op in before if op.kind == "batch"]
    if last is None or last.remainder != "wrap" or p.stop is None:
        return
    if any(op.remainder == "keep" for op in inner) and _used(p, inner) % sizes(p)[1]:
        yield "remainder='wrap'", "earlier Batch"


def _of_streams(p: Pipeline) -> Iterator[tuple[str, str]]:
    (_, last, behind), (rows, _) = parts(p), sizes(p)
    rest = "keep" if last is None else last.remainder
    if p.streams % p.hosts or rows % p.streams:
        yield "logical_streams", "number of shards"
    if p.streams == 1:
        return
    if any(op.kind in ("filter", "flat_map", "window") for op in behind):
        yield "after the last Batch", "logical_streams"
    if rest == "keep" and p.stop is not None:
        yield "remainder", "logical streams"
    if rest in ("drop", "wrap") and p.num_steps is None and p.stop is not None:
        yield "num_steps", f"remainder='{rest}'"


def _used(p: Pipeline, inner: list) -> int:
    """How many records are part of a row that an earlier Batch doesn't drop."""
    counts = [p.stop - p.start]
    for op in inner:
        counts.append(counts[-1] // op.by if op.remainder == "drop" else -(-counts[-1] // op.by))
    used = counts.pop()
    for op in reversed(inner):
        used = min(used * op.by, counts.pop())
    return used
