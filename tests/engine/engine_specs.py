"""Hypothesis strategies for streams of both kinds, small enough that all their corners are met."""

from dataclasses import replace

from engine_twins import ChainSpec, GridSpec
from hypothesis import strategies as st

WEIGHTS = st.sampled_from([10, 300, 3000, 30000])  # bytes of an element: in and out of the first reserve


def few(of: st.SearchStrategy) -> st.SearchStrategy[frozenset]:
    """Mostly nothing: most streams don't fail."""
    return st.just(frozenset()) | st.just(frozenset()) | st.frozensets(of, max_size=2)


def many(of: st.SearchStrategy) -> st.SearchStrategy[frozenset]:
    """Nothing in every other stream, else several: bad records come singly and in rows."""
    return st.just(frozenset()) | st.frozensets(of, min_size=1, max_size=9)


@st.composite
def bad_records(draw: st.DrawFn, spec: ChainSpec) -> ChainSpec:
    """A stream, perhaps with bad records: left out, or others read for them."""
    begin, length, stride = draw(st.integers(0, 40)), draw(st.integers(0, 5)), spec.streams
    lost = draw(many(st.integers(0, 60))) | {begin + k * stride for k in range(length)}
    left_out = not spec.plain and draw(st.booleans())
    fails = {index for level, index in spec.fails if level == 0}
    tolerance = draw(st.integers(1, 5)) if left_out else None
    patience = spec.patience if tolerance is None else None  # as where a record fails
    return replace(spec, lost=lost - fails, tolerance=tolerance, patience=patience)


@st.composite
def grid_specs(draw: st.DrawFn) -> GridSpec:
    rows, group = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    steps = draw(st.integers(0, 8) | st.integers(20, 50))
    records = max(steps * rows * group, 1)
    finish = draw(st.booleans())
    zeros = draw(st.integers(0, 3))
    unreal = zeros > 0 and draw(st.booleans())
    fails = draw(few(st.integers(0, records)))
    return GridSpec(
        rows=rows,
        steps=steps,
        last_rows=1 if unreal else draw(st.integers(1, rows)),
        zeros=zeros,
        unreal=unreal,
        group=group,
        last_short=draw(st.integers(0, group - 1)),
        finish=finish,
        in_place=draw(st.booleans()) if finish else True,
        prefetch=draw(st.integers(1, 4)),
        fails=fails,
        lost=draw(many(st.integers(0, records))) - fails,
        odd=draw(few(st.integers(0, records))),
        batch_fails=draw(few(st.integers(0, steps))) if finish else frozenset(),  # rows in place make a batch
        feed_fails=draw(st.none() | st.none() | st.none() | st.integers(0, steps)),
        nbytes=draw(WEIGHTS),
    )


@st.composite
def chain_specs(draw: st.DrawFn, most_streams: int = 3) -> ChainSpec:
    count = draw(st.integers(1, most_streams))
    groupings = draw(
        st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=int(count > 1), max_size=3)
    )
    levels = len(groupings) + 1
    plain = not groupings and draw(st.booleans())
    kinds = [draw(st.sampled_from(["none", "none", "filter", "flat"])) for _ in range(levels)]
    if count > 1:
        kinds[-1] = "none"  # what stands behind the last Batch may not change its shards' parts
    if plain:
        kinds = ["none"]
    # Of an endless stream nothing may ever be left.
    fans = [draw(_fans(kind)) for kind in kinds]
    stop = None if count > 1 else draw(st.integers(0, 60))
    owned = range(count) if count == 1 or draw(st.booleans()) else range(1, count)
    fails = draw(few(st.tuples(st.integers(0, levels - 1), st.integers(0, 60))))
    feed_fails = draw(st.none() | st.none() | st.none() | st.integers(0, 60))
    # Which is the error where a record fails that nothing stands before may depend on the cut.
    patient = plain or fails or feed_fails is not None
    spec = ChainSpec(
        groupings=tuple(groupings),
        flats=tuple(kind == "flat" for kind in kinds),
        fans=tuple(fans),
        streams=count,
        owned=tuple(owned),
        stop=stop,
        piece=draw(st.none() | st.integers(1, 5)),
        prefetch=draw(st.integers(1, 4)),
        plain=plain,
        patience=None if patient else draw(st.none() | st.integers(1, 6)),
        fails=fails,
        feed_fails=feed_fails,
        nbytes=draw(WEIGHTS),
    )
    return draw(bad_records(spec))


@st.composite
def ending_specs(draw: st.DrawFn) -> ChainSpec:
    """Streams that end, one of them or several, and are filled up in one of the ways that there are."""
    count = draw(st.integers(1, 3))
    short = draw(st.sampled_from(["pad", "pad", "fail", *(["wrap"] * (count == 1))]))
    groupings = draw(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=3))
    kinds = [draw(st.sampled_from(["none", "none", "filter", "flat"])) for _ in range(len(groupings) + 1)]
    masks = short == "pad" and draw(st.booleans())
    if count > 1 or masks:
        kinds[-1] = "none"
    spec = ChainSpec(
        groupings=tuple(groupings),
        short=short,
        masks=masks,
        flats=tuple(kind == "flat" for kind in kinds),
        fans=tuple(draw(_fans(kind)) for kind in kinds),
        streams=count,
        owned=tuple(range(count) if count == 1 or draw(st.booleans()) else range(1, count)),
        stop=draw(st.integers(0, 30)),
        piece=draw(st.none() | st.integers(1, 5)),
        prefetch=draw(st.integers(1, 4)),
        fails=draw(few(st.tuples(st.integers(0, len(groupings)), st.integers(0, 60)))),
        nbytes=draw(WEIGHTS),
    )
    return draw(bad_records(spec))


def _fans(kind: str) -> st.SearchStrategy[tuple[int, ...]]:
    if kind == "none":
        return st.just((1,))
    most = 1 if kind == "filter" else 3
    return st.lists(st.integers(0, most), min_size=1, max_size=5).map(tuple)
