"""`loader.describe()`: what a loader does, part by part, as text and HTML."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._engine.stats.text import html_of, lines_of
from loaderkit._order.sharding import Shard, ShardBlocks
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._runtime.worker.program import Program
from loaderkit.transforms.base import operation_name

from .follow import Followed, follow, spec_text

if TYPE_CHECKING:
    from loaderkit._loader.settings import LoaderSettings

_MOST = 400  # characters of a repr
_TRIED = 32  # records, until one comes through all operations


@dataclass(frozen=True, slots=True)
class Description:
    """What a loader does: rows of a name and a text, in the order of the data's way."""

    rows: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "\n".join(lines_of(self.rows))

    def _repr_html_(self) -> str:
        return html_of(self.rows)


def describe(
    settings: "LoaderSettings", plan: SeekablePlan, program: Program, first_element: Callable[[], Any]
) -> Description:
    """What a loader does: source, order, shards, each operation with what an element looks like behind it, and how.

    The first record that no operation drops or refuses, of some, and the first step where there is a Batch, are made
    for it in this process.

    Args:
        settings: the loader's.
        plan: of its stream.
        program: what its workers run.
        first_element: makes the first element, in this process.

    >>> import loaderkit as lk
    >>> print(
    ...     lk.load([5, 6, 7], num_epochs=1, operations=[float], batch_size=2).describe()
    ... )  # doctest: +ELLIPSIS
    source                             list: 3 records, int
    sampler                            IndexSampler(...)
    operations[0] Map(float)           float
    operations[1] Batch(batch_size=2)  float64(2,)
    steps                              2, of 2 records in all shards
    shard                              0 of 1
    workers                            none: the thread that calls next() works
    """
    followed = _first(program, plan)
    specs = {} if followed is None else {step.name: step.outcome for step in followed.steps}
    source = settings.source
    looks = (
        ""
        if followed is None or not followed.steps[0].values
        else f", {spec_text(followed.steps[0].values[0])}"
    )
    rows = [
        ("source", f"{type(source).__qualname__}: {len(source):,} records{looks}"),
        ("sampler", f"{settings.sampler!r:.{_MOST}}"),
    ]
    names = _names(settings)
    if names and names[-1] not in specs:
        specs[names[-1]] = _first_element(first_element)
    rows += [(name, specs.get(name, "unknown")) for name in names]
    rows += [("steps", _steps(plan)), ("shard", _shard(plan.shard)), ("workers", _workers(settings))]
    if settings.on_record_error != "raise":
        rows.append(("bad records", f"on_record_error={settings.on_record_error!r:.60}"))
    return Description(tuple(rows))


def _first(program: Program, plan: SeekablePlan) -> Followed | None:
    first: Followed | None = None
    for index in range(plan.start, plan.start + _TRIED):
        try:
            followed = follow(program, plan, index)
        except Exception:  # noqa: BLE001 - a source may raise anything, and the rest can still be said
            break
        if followed.steps[-1].values:
            return followed
        first = first or followed
    return first


def _first_element(make: Callable[[], Any]) -> str:
    try:
        return spec_text(make())
    except Exception:  # noqa: BLE001 - as above
        return "unknown"


def _steps(plan: SeekablePlan) -> str:
    steps = plan.steps()
    if steps is None:
        text = "endless" if plan.stop is None else "unknown beforehand"
    else:
        text = f"{steps:,}"
    return text if plan.row_changing else f"{text}, of {plan.batching.stride:,} records in all shards"


def _names(settings: "LoaderSettings") -> list[str]:
    return [operation_name(place, op) for place, op in enumerate(settings.operations)]


def _shard(shard: Shard) -> str:
    if isinstance(shard, ShardBlocks):
        return f"blocks {', '.join(map(str, shard.blocks))} of {shard.shard_count}"
    return f"{shard.shard_index} of {shard.shard_count}"


def _workers(settings: "LoaderSettings") -> str:
    if not settings.worker_count:
        return "none: the thread that calls next() works"
    plural = {"process": "es", "thread": "s"}[settings.worker_kind] if settings.worker_count > 1 else ""
    count = f"1 to {settings.worker_count}" if settings.tuned else settings.worker_count
    return f"{count} {settings.worker_kind}{plural}, {settings.prefetch} elements ahead"
