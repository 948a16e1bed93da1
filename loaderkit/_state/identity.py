"""Which stream a plan is: what states are compared by, and what all processes of a run have to say alike."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loaderkit._base.canonical_json import canonical, digest
from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan

from .data_fingerprint import same_on_all_hosts
from .document import STREAM_VERSION


def operations_fingerprint(plan: SeekablePlan) -> list[dict[str, Any]]:
    """The operations as a state says them: that one is there, and where; what users' functions do isn't compared."""
    said: list[dict[str, Any]] = [{"op": "skip bad records"}] if plan.tolerance.skips else []
    for place, op in enumerate(plan.operations):
        if op.batch is not None:
            size = {} if place == plan.last_batch else {"batch_size": op.batch.batch_size}
            said.append({"op": "Batch", **size, "remainder": op.batch.remainder})
        elif op.changes_rows:
            said.append({"op": "Filter" if op.kind == "filter" else "FlatMap"})
        elif op.draws:
            said.append({"op": "RandomMap"})
    return said


def name_of(plan: SeekablePlan) -> str:
    """The same for all processes of a run, and for no other stream."""
    said = {
        "sampler": plan.sampler_fingerprint,
        "source": same_on_all_hosts(plan.source_fingerprint),
        "operations": operations_fingerprint(plan),
        "streams": plan.logical_streams,
        "rows": plan.batching.rows,
        "epoch": plan.epoch,
    }
    return digest(said).removeprefix("sha256:")[:32]


def agreement_of(plan: SeekablePlan, versions: Mapping[str, str]) -> dict[str, str]:
    """What all processes that load together have to say alike, field to text.

    The algorithms too: another `stream_version` is another shuffle, and numpy may draw other numbers from the same
    words in another minor version. (A state of a newer `stream_version` is refused, and another numpy is told.)

    Args:
        plan: the stream.
        versions: of the libraries that run now, as in a state.
    """
    said = {"stream_version": str(STREAM_VERSION)}
    if any(op.draws for op in plan.operations):
        said["numpy, which draws the random numbers"] = _minor(versions["numpy"])
    said |= {f"sampler.{key}": canonical(value) for key, value in plan.sampler_fingerprint.items()}
    source = same_on_all_hosts(plan.source_fingerprint)
    said |= {f"data source.{key}": canonical(value) for key, value in source.items()}
    return said | {
        "operations": ", ".join(op.label for op in plan.operations),
        "shards": str(plan.shard.shard_count),
        "global batch size": str(plan.batching.rows),
        "logical streams": str(plan.logical_streams),
        "on_record_error": plan.tolerance.policy,
        "epoch": str(plan.epoch),
        "num_steps": str(plan.num_steps),
    }


def notes_of(plan: SeekablePlan, versions: Mapping[str, str]) -> dict[str, str]:
    """What processes mostly have alike and needn't, field to text: where it differs, that is told.

    A parameter may be a path or a device of its host. Versions of loaderkit with the same `stream_version` give the
    same stream, and what users' functions make of it may depend on Python's.
    """
    return {
        **dict(lines_of(plan.parameters)),
        "loaderkit": versions["loaderkit"],
        "python": _minor(versions["python"]),
    }


def lines_of(said: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Each parameter of `parameters_of`, what it is called and its text.

    >>> list(
    ...     lines_of(
    ...         [{"op": "Map", "name": "abs"}, {"op": "Map", "name": "Crop", "parameters": {"size": 64}}]
    ...     )
    ... )
    [('operations[1] Crop.size', '64')]
    """
    for place, entry in enumerate(said):
        for name, value in entry.get("parameters", {}).items():
            yield f"operations[{place}] {entry['name']}.{name}", canonical(value)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def place_of(plan: SeekablePlan, position: Position) -> dict[str, str]:
    """What of a position all processes that load together have to say alike, field to text."""
    if position.cursors is not None:  # each process has streams of its own, and where they go on differs
        return {"step": str(position.step), "q": str(position.q)}
    return {"step": str(position.step), "index": str(plan.index_of(position))}
