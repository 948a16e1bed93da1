"""Compares a saved state with this loader's stream, field by field.

Differences in these are errors: sampler, source, the operations that decide the set of rows (Filter, FlatMap, Window,
Batch), the global batch size, the logical streams, the epoch, and a mixture's weights at the saved index. A component
of a mixture that only one side has is a difference of the source. Other differences are reported and not refused,
because they leave the set of rows as it is: a RandomMap, or numpy's version where there is one, changes random numbers;
operations of other names or parameters change the contents of rows.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import chain, zip_longest
from typing import Any

from loaderkit._base.canonical_json import canonical
from loaderkit.errors import CheckpointMismatchError

from .components import Sides, sides_of
from .data_fingerprint import may_be_unknown
from .mixture import agreed_index, shares_of
from .state import State

# A different number of streams or epoch can't be allowed: the cursors would have no meaning there.
ALLOWABLE = ("sampler", "source", "mixture", "exclude", "operations", "global_batch_size", "parameters")
# These decide the set of rows; a difference in them was refused, or allowed, before parameters are compared.
_DECIDING = ("Filter", "FlatMap", "Window", "Batch")

_SINGLE = "sampler.components."  # before the name of a component that only one side has

_NUMBER = re.compile(r"source\.(.*\.)?sources\.[^.]*\.id: ")  # of a component under id_key

_MAX_LINES = 8  # differences shown of each field
_MAX_SHOWN = 200  # characters of each value


def compare(
    saved: State, current: State, allow: Collection[str] = (), behind: int | None = None
) -> list[str]:
    """Raises CheckpointMismatchError for a state of another stream; returns warnings for the user, a sentence each.

    current: a state, at any step, of the loader into which `saved` is restored. allow: names of fields that may
    differ, of ALLOWABLE; others raise ValueError. behind: the first index that no stream of the state has read; its
    index if not given. The error names every field that differs, both values, and what to
    do.

    >>> from loaderkit._plan.segments import Segments
    >>> state = State(0, {0: (0,)}, Segments(((0, 0, 4),)), {}, {}, [], 4, 4, None, None, {"numpy": "2.0"})
    >>> compare(state, state)
    []
    """
    if isinstance(allow, str):
        raise TypeError(f"allow: expected a set of field names, got {allow!r}; write allow={{{allow!r}}}")
    unknown = sorted(map(str, set(allow) - set(ALLOWABLE)))
    if unknown:
        raise ValueError(f"allow: expected names among {', '.join(ALLOWABLE)}, got {', '.join(unknown)}")
    behind = saved.index if behind is None else behind
    mismatches = _mismatches(saved, current, behind)
    found = {name: list(lines) for name, lines in mismatches.items() if name not in allow}
    found = {name: lines for name, lines in found.items() if lines}
    if found:
        raise CheckpointMismatchError(_mismatch_text(found, saved, current, behind))
    return list(_notices(saved, current, tell_parameters="parameters" not in allow))


def same_data(saved: State, sampler: Mapping[str, Any], source: Mapping[str, Any]) -> bool:
    """Whether a state's indices read the same records with this sampler and source, by their fingerprints.

    Components of a mixture that only one side has don't change what the indices of the others read.

    >>> from loaderkit._plan.segments import Segments
    >>> state = State(0, {0: (0,)}, Segments(((0, 0, 4),)), {}, {"n": 3}, [], 4, 4, None, None, {})
    >>> same_data(state, {}, {"n": 3}), same_data(state, {}, {"n": 4})
    (True, False)
    """
    sides = sides_of((saved.sampler, saved.source), (sampler, source))
    return not [*_of_samplers(sides), *_field("source", *sides.source)]


def _mismatches(saved: State, current: State, behind: int) -> dict[str, Iterator[str]]:
    sides = (saved, current)
    parts = sides_of((saved.sampler, saved.source), (current.sampler, current.source))
    return {
        "sampler": chain(_of_kinds(saved, current), _of_samplers(parts)),
        "source": chain(_of_single(parts), _field("source", *parts.source)),
        "mixture": _of_weights(saved, current, behind),
        "operations": _difference("operations", *(canonical(_shape_of(side.operations)) for side in sides)),
        "global_batch_size": _difference(
            "global_batch_size", *(f"{side.rows} rows ({side.stride} indices)" for side in sides)
        ),
        "streams": _differences(
            "streams", saved.streams and saved.streams.count, current.streams and current.streams.count
        ),
        "epoch": _differences("epoch", saved.epoch, current.epoch),
    }


def _of_samplers(sides: Sides) -> Iterator[str]:
    yield from _field("sampler", *sides.sampler)
    if sides.reordered:
        yield from _difference("sampler.components", *map(canonical, sides.reordered))


def _of_kinds(saved: State, current: State) -> Iterator[str]:
    if (saved.mixture is None) != (current.mixture is None):
        texts = ("one without weights" if side.mixture is None else "a mixture" for side in (saved, current))
        yield from _difference("sampler", *texts)


def _of_single(sides: Sides) -> Iterator[str]:
    for name, value in sides.single[0].items():
        yield from _difference(f"{_SINGLE}{name}", canonical(value), "nothing")
    for name, value in sides.single[1].items():
        yield from _difference(f"{_SINGLE}{name}", "nothing", canonical(value))


def _of_weights(saved: State, current: State, behind: int) -> Iterator[str]:
    if saved.mixture is None or current.mixture is None:
        return
    if agreed_index(saved, current.mixture, behind) is None:
        one, other = (shares_of(side.written_at(saved.index)) for side in (saved.mixture, current.mixture))
        for name in sorted(one.keys() | other.keys()):
            yield from _difference(f"mixture.{name}", one.get(name, "0"), other.get(name, "0"))


def _field(path: str, saved: Any, current: Any) -> Iterator[str]:
    # Most are equal as a whole: of a thousand components that takes a twentieth of the time.
    if canonical(saved) != canonical(current):
        yield from _differences(path, saved, current)


def _differences(path: str, saved: Any, current: Any) -> Iterator[str]:
    if isinstance(saved, Mapping) and isinstance(current, Mapping):
        for key in [*saved, *(key for key in current if key not in saved)]:
            if key not in saved or key not in current:
                if may_be_unknown(key, saved, current):
                    continue
                texts = (canonical(side[key]) if key in side else "nothing" for side in (saved, current))
                yield from _difference(f"{path}.{key}", *texts)
            else:
                yield from _differences(f"{path}.{key}", saved[key], current[key])
    elif isinstance(saved, list | tuple) and isinstance(current, list | tuple) and len(saved) == len(current):
        for place, (before, after) in enumerate(zip(saved, current, strict=True)):
            yield from _differences(f"{path}[{place}]", before, after)
    else:
        yield from _difference(path, canonical(saved), canonical(current))


def _difference(path: str, saved: str, current: str) -> Iterator[str]:
    if saved != current:
        yield f"{path}: saved {_shorten(saved)}, this loader {_shorten(current)}"


def _shorten(text: str) -> str:
    half = _MAX_SHOWN // 2
    return text if len(text) <= _MAX_SHOWN else f"{text[:half]} ... {text[-half:]}"


def _mismatch_text(found: dict[str, list[str]], saved: State, current: State, behind: int) -> str:
    lines = ["the state belongs to another stream than this loader's:"]
    for differences in found.values():
        lines += [f"  {line}" for line in differences[:_MAX_LINES]]
        if len(differences) > _MAX_LINES:
            lines.append(f"  and {len(differences) - _MAX_LINES} more")
    if "streams" in found:
        lines.append(_streams_advice(saved, current))
    if "epoch" in found:
        owner = "the loader itself" if saved.epoch is None else f"loader.epoch({saved.epoch})"
        lines.append(f"It is a state of {owner}; restore it there.")
    if "global_batch_size" in found and saved.rows != current.rows:
        batched = any(_name_of(operation) == "Batch" for operation in current.operations)
        keep = f"lk.Batch(global_batch_size={saved.rows})" if batched else f"{saved.rows} shards"
        lines.append(f"To keep the saved batch size, use {keep}.")
    lines += _what_was_compared(found.get("source", []))
    allowable = [name for name in found if name in ALLOWABLE]
    if allowable:
        names = ", ".join(f'"{name}"' for name in allowable)
        lines.append(f"To go on from the saved position in this loader's stream, pass allow={{{names}}}.")
        lines_of_source = found.get("source", ())
        numbers = [line for line in lines_of_source if _NUMBER.match(line)]
        others = [line for line in lines_of_source if not line.startswith(_SINGLE) and line not in numbers]
        if "sampler" in found or others:
            lines.append(
                "It goes on at the same index of this loader's stream: records may occur twice, or not at all."
            )
        elif "source" in found:
            lines.append("Components that both have go on where they are.")
        if numbers:
            lines.append(
                "The numbers that records get under id_key change; to keep them, give the components in the saved "
                "order, with a weight of 0 for one that isn't read any more."
            )
        if "mixture" in found:
            lines += _reweighed(saved)
            lines.append(f'With "mixture" this loader\'s weights hold from index {behind:,} on.')
    return "\n".join(lines)


def _what_was_compared(differences: Sequence[str]) -> Iterator[str]:
    if any(".data: " in line for line in differences):
        yield "`data` stands for names, sizes and samples of the files, and the places of the records."
    if any(".checksums: " in line for line in differences):
        yield "`checksums` are those of all records: bytes between the samples differ."


def _reweighed(saved: State) -> list[str]:
    """The weights at the saved index, where they are other than those of the script that saved the state."""
    if saved.mixture is None:
        return []
    stage = saved.mixture.entries[saved.mixture.place_at(saved.index)]
    if not stage.live:
        return []
    shares = ", ".join(f"{name} {share}" for name, share in sorted(shares_of(stage.weights).items()))
    return [f"There the saved run has the weights of a reweigh: {_shorten(shares)}."]


def _streams_advice(saved: State, current: State) -> str:
    skips, skips_here = (
        any(_name_of(operation) == "skip bad records" for operation in state.operations)
        for state in (saved, current)
    )
    if skips != skips_here:
        how = "with" if skips else "without"
        return f'To go on with the saved stream, build the loader {how} on_record_error="skip".'
    if saved.streams is None:
        return "The saved stream has no operation that changes the number of rows; restore it without one."
    return f"To go on with the saved streams, build the loader with logical_streams={saved.streams.count}."


def _notices(saved: State, current: State, *, tell_parameters: bool) -> Iterator[str]:
    if tell_parameters:
        yield from _changed_operations(saved, current)
    yield from other_bits(saved, current.parameters, current.numerics)
    draws = any(_name_of(operation) in ("RandomMap", "WindowShuffle") for operation in current.operations)
    before, after = (state.versions.get("numpy", "unknown") for state in (saved, current))
    if draws and before.split(".")[:2] != after.split(".")[:2]:
        yield (
            f"the state was saved with numpy {before} and this is numpy {after}; "
            "numpy may draw other random numbers in another minor version"
        )


def other_bits(saved: State, parameters: Sequence[Any] | None, numerics: Mapping[str, str]) -> Iterator[str]:
    """A warning where a library computes other last bits than where a state was saved, and operations may use it.

    Args:
        saved: the state.
        parameters: of this loader's operations.
        numerics: digests of the libraries here, by name.

    >>> from loaderkit._plan.segments import Segments
    >>> state = State(
    ...     0, {0: (0,)}, Segments(((0, 0, 4),)), {}, {}, [], 4, 4, None, None, {}, numerics={"cv2": "1"}
    ... )
    >>> [text[:16] for text in other_bits(state, [{"op": "Map"}], {"cv2": "2"})]
    ['cv2 of this proc']
    """
    computes = any(entry["op"] != "Batch" for entry in parameters or ())
    others = [name for name, bits in sorted(saved.numerics.items()) if numerics.get(name, bits) != bits]
    named = [f"cpu={numerics[name]!r}" if name == "cpu" else name for name in others]
    if computes and others:
        level = saved.numerics.get("cpu")
        yield (
            f"{', '.join(named)} of this process computes other last bits than where the state was saved, as on "
            "another kind of processor or from another build; exp, products or resized pictures may differ from here "
            + (
                f"on. It was saved with cpu={level!r}: give it to this loader, too"
                if level
                else "on. With cpu='x86-64-v3' from its start a run has the same ones on all processors of that level"
            )
        )


def _changed_operations(saved: State, current: State) -> Iterator[str]:
    sides = (saved, current)
    same_shape = canonical(_shape_of(saved.operations)) == canonical(_shape_of(current.operations))
    drawing = _difference("operations", *(canonical(side.operations) for side in sides)) if same_shape else ()
    random = next(iter(drawing), None)
    lines: list[str] = []
    if saved.parameters is not None and current.parameters is not None:
        lines = list(_changes(saved.parameters, current.parameters, same_shape=same_shape))
    if not random and not lines:
        return
    what = (
        "the RandomMaps changed, so random numbers" if random else "the operations changed, so elements may"
    )
    more = len(lines) - _MAX_LINES
    shown = [*lines[:_MAX_LINES], *([f"and {more} more"] if more > 0 else [])] or [str(random)]
    yield "\n  ".join(
        [f"{what} differ from here on:", *shown, 'If that is meant, pass allow={"parameters"}.']
    )


def _changes(saved: Sequence[Any], current: Sequence[Any], *, same_shape: bool) -> Iterator[str]:
    """A line for each operation that was added, removed or renamed, and for each parameter that differs.

    same_shape: False where Filter, FlatMap and Batch were allowed to differ; their differences aren't listed again.
    """
    before, after = ([_label(entry) for entry in side] for side in (saved, current))
    for tag, low, high, new_low, new_high in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        for one, other in zip_longest(range(low, high), range(new_low, new_high)):
            where = f"operations[{one if other is None else other}]"
            if tag == "equal":
                sides = (entry.get("parameters", {}) for entry in (saved[one], current[other]))
                yield from _differences(f"{where} {after[other]}", *sides)
                continue
            entries = [side[at] for side, at in ((saved, one), (current, other)) if at is not None]
            if same_shape or not all(entry["op"] in _DECIDING for entry in entries):
                yield from _difference(where, _text(saved, one), _text(current, other))


def _label(entry: Any) -> str:
    return " ".join([entry["op"], *([entry["name"]] if "name" in entry else [])])


def _text(entries: Sequence[Any], place: int | None) -> str:
    if place is None:
        return "nothing"
    entry = entries[place]
    return _label(entry) + (f" {canonical(entry['parameters'])}" if "parameters" in entry else "")


def _shape_of(operations: Sequence[Any]) -> list[Any]:
    return [operation for operation in operations if _name_of(operation) != "RandomMap"]


def _name_of(operation: Any) -> str:
    return str(operation["op"]) if isinstance(operation, Mapping) else str(operation).partition("(")[0]
