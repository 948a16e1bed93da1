"""The identity of a stream: the fields that states are compared by, and those that must be equal in all processes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loaderkit._base.canonical_json import canonical, digest
from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan

from .data_fingerprint import said_by_some, same_on_all_hosts
from .document import STREAM_VERSION
from .exclusions import exclusion_fields
from .mixture import mixture_fields


def operations_fingerprint(plan: SeekablePlan) -> list[dict[str, Any]]:
    """The operations as a state has them: their kinds and order; users' functions aren't compared."""
    entries: list[dict[str, Any]] = [{"op": "skip bad records"}] if plan.tolerance.skips else []
    for place, op in enumerate(plan.operations):
        if op.batch is not None:
            size = {} if place == plan.last_batch else {"batch_size": op.batch.batch_size}
            entries.append({"op": "Batch", **size, "remainder": op.batch.remainder})
        elif op.window is not None:
            entries.append(dict(op.window.identity))
        elif op.changes_rows:
            entries.append({"op": "Filter" if op.kind == "filter" else "FlatMap"})
        elif op.draws:
            entries.append({"op": "RandomMap"})
    return entries


def name_of(plan: SeekablePlan) -> str:
    """A name for the stream: equal in all processes of a run, and different for any other stream."""
    fields = {
        "sampler": plan.sampler_fingerprint,
        "source": same_on_all_hosts(plan.source_fingerprint),
        "operations": operations_fingerprint(plan),
        "streams": plan.logical_streams,
        "rows": plan.batching.rows,
        "epoch": plan.epoch,
        **mixture_fields(plan),
        **exclusion_fields(plan),
    }
    return digest(fields).removeprefix("sha256:")[:32]


def agreement_of(plan: SeekablePlan, versions: Mapping[str, str]) -> dict[str, str]:
    """The fields that must be equal in all processes that load together, {field: text}.

    They include versions: another `stream_version` shuffles in another way, and another minor version of numpy may
    draw other numbers from the same seed.

    Args:
        plan: the stream.
        versions: of the libraries in this process, as in a state.
    """
    fields = {"stream_version": str(STREAM_VERSION)}
    if any(op.draws for op in plan.operations):
        fields["numpy, which draws the random numbers"] = _minor(versions["numpy"])
    fields |= {f"sampler.{key}": canonical(value) for key, value in plan.sampler_fingerprint.items()}
    fields |= mixture_fields(plan, written_only=True) | exclusion_fields(plan)
    source = same_on_all_hosts(plan.source_fingerprint)
    fields |= {f"data source.{key}": canonical(value) for key, value in source.items()}
    fields |= said_by_some(plan.source_fingerprint)
    return fields | {
        "operations": ", ".join(op.label for op in plan.operations),
        "shards": str(plan.shard.shard_count),
        "global batch size": str(plan.batching.rows),
        "logical streams": str(plan.logical_streams),
        "on_record_error": plan.tolerance.policy,
        "epoch": str(plan.epoch),
        "num_steps": str(plan.num_steps),
    }


def notes_of(plan: SeekablePlan, versions: Mapping[str, str]) -> dict[str, str]:
    """The fields in which processes may differ, {field: text}; a difference is reported.

    A parameter may be a path or a device of its host. Versions of loaderkit with the same `stream_version` make the
    same stream; the results of users' functions may depend on Python's version.
    """
    return {
        **dict(lines_of(plan.parameters)),
        "loaderkit": versions["loaderkit"],
        "python": _minor(versions["python"]),
    }


def lines_of(parameters: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The name and the text of each parameter that `parameters_of` returned.

    >>> list(
    ...     lines_of(
    ...         [{"op": "Map", "name": "abs"}, {"op": "Map", "name": "Crop", "parameters": {"size": 64}}]
    ...     )
    ... )
    [('operations[1] Crop.size', '64')]
    """
    for place, entry in enumerate(parameters):
        for name, value in entry.get("parameters", {}).items():
            yield f"operations[{place}] {entry['name']}.{name}", canonical(value)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def place_of(plan: SeekablePlan, position: Position) -> dict[str, str]:
    """The fields of a position that must be equal in all processes that load together, {field: text}."""
    if position.cursors is not None:  # each process has streams of its own, at cursors of their own
        place = {"step": str(position.step), "q": str(position.q)}
    else:
        place = {"step": str(position.step), "index": str(plan.index_of(position))}
    return {**place, **mixture_fields(plan), **exclusion_fields(plan)}
