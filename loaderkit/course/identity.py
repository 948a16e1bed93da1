"""Which stream a course is: what states are compared by, and what all processes of a run have to say alike."""

from typing import Any

from loaderkit.plan.data_fingerprint import same_on_all_hosts
from loaderkit.plan.document import canonical, digest
from loaderkit.transforms.base import Batch, Filter, FlatMap, draws, label_of

from .course import Course
from .position import Position


def operations_fingerprint(course: Course) -> list[dict[str, Any]]:
    """The operations as a state says them: that one is there, and where; what users' functions do isn't compared."""
    said: list[dict[str, Any]] = [{"op": "skip bad records"}] if course.tolerance.skips else []
    for place, op in enumerate(course.operations):
        if isinstance(op, Batch):
            size = {} if place == course.last_batch else {"batch_size": op.batch_size}
            said.append({"op": "Batch", **size, "remainder": op.remainder})
        elif isinstance(op, Filter | FlatMap):
            said.append({"op": "Filter" if isinstance(op, Filter) else "FlatMap"})
        elif draws(op):
            said.append({"op": "RandomMap"})
    return said


def name_of(course: Course) -> str:
    """The same for all processes of a run, and for no other stream."""
    said = {
        "sampler": course.sampler_fingerprint,
        "source": same_on_all_hosts(course.source_fingerprint),
        "operations": operations_fingerprint(course),
        "streams": course.logical_streams,
        "rows": course.batching.rows,
        "epoch": course.epoch,
    }
    return digest(said).removeprefix("sha256:")[:32]


def agreement_of(course: Course) -> dict[str, str]:
    """What all processes that load together have to say alike, field to text."""
    said = {f"sampler.{key}": canonical(value) for key, value in course.sampler_fingerprint.items()}
    source = same_on_all_hosts(course.source_fingerprint)
    said |= {f"data source.{key}": canonical(value) for key, value in source.items()}
    return said | {
        "operations": ", ".join(map(label_of, course.operations)),
        "shards": str(course.shard.shard_count),
        "global batch size": str(course.batching.rows),
        "logical streams": str(course.logical_streams),
        "on_record_error": course.tolerance.policy,
        "epoch": str(course.epoch),
        "num_steps": str(course.num_steps),
    }


def place_of(course: Course, position: Position, q: int) -> dict[str, str]:
    """What of a position all processes that load together have to say alike, field to text."""
    if position.cursors is not None:  # each process has streams of its own, and where they go on differs
        return {"step": str(position.step), "q": str(q)}
    return {"step": str(position.step), "index": str(course.index_of(position))}
