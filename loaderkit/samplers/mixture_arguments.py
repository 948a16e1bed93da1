"""What a user says of a mixture: checked, and as the repr shows it."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from hashlib import sha256
from reprlib import repr as _short
from typing import Any

import numpy as np

from loaderkit._base.canonical_json import canonical
from loaderkit._base.numbers import at_least
from loaderkit._order.mixture.order import order_of
from loaderkit._order.mixture.shares import Weight, check_component, fractions_of, integer_weights
from loaderkit._order.mixture.stages import MixtureStage, MixtureStages
from loaderkit._order.permutation import MAX_RECORDS

from .chunks import ChunkSampler, checked_batch
from .protocol import ENDLESS, Sampler, length_of, min_records_of, num_records_of, shaped

_SHOWN_NAMES, _SHOWN_STAGES = 10, 2  # of a repr; the order of each shown stage is made
StagedWeights = Mapping[str, Weight] | Sequence[tuple[int, Mapping[str, Weight]]]


def checked_components(components: Any) -> dict[str, Sampler]:
    """{name: sampler}, one or more.

    >>> checked_components({"a": 3})
    Traceback (most recent call last):
    TypeError: components['a']: expected a sampler, such as IndexSampler(len(source)), got 3
    """
    if not isinstance(components, Mapping):
        raise TypeError(
            f"components: expected a mapping of name to sampler, got {_short(components)}; write {{'web': sampler}}"
        )
    if not components:
        raise ValueError("components: expected one or more, got none; write {'web': sampler}")
    for name, sampler in components.items():
        if not isinstance(name, str):
            raise TypeError(f"components: expected names that are strings, got {_short(name)}")
        if isinstance(sampler, type) or not hasattr(type(sampler), "__getitem__"):
            raise TypeError(
                f"components[{name!r}]: expected a sampler, such as IndexSampler(len(source)), got {_short(sampler)}"
            )
        if shaped(sampler) is not None:
            raise ValueError(
                f"components[{name!r}]: expected a sampler of single records, got a {type(sampler).__qualname__}, "
                "which plans whole batches; give an IndexSampler, and let lk.PadBatch(..., boundaries=...) pad what is "
                "mixed, or give one LengthBucketSampler the lengths of all records"
            )
    return dict(components)


def checked_lengths(components: Mapping[str, Sampler], when_exhausted: Any) -> dict[str, int]:
    """{name: number of indices} of the components that end."""
    if when_exhausted not in (None, "stop", "drop"):
        raise ValueError(
            f"when_exhausted: expected 'stop', 'drop' or None, got {_short(when_exhausted)}; write 'stop' to end where "
            "the first component ends, 'drop' to go on with the others"
        )
    lengths: dict[str, int] = {}
    for name, sampler in components.items():
        length = 0 if getattr(sampler, "num_records", None) == 0 else length_of(sampler)
        if length == 0:
            raise ValueError(
                f"components[{name!r}]: expected a record or more, got none; leave this component out"
            )
        if length is not None:
            lengths[name] = length
    if lengths and when_exhausted is None:
        name, length = next(iter(lengths.items()))
        raise ValueError(
            f"when_exhausted: expected 'stop' or 'drop', because component {name!r} ends after {length} indices, got "
            "None; give num_epochs=None for a component without end"
        )
    return lengths


def checked_lanes(
    lanes: Any, batch: Any, components: Mapping[str, Sampler], lengths: Mapping[str, int]
) -> tuple[int, int | None]:
    """The two as ints."""
    lanes = at_least("lanes", lanes, 1, below=MAX_RECORDS, advice="give 1, or the number of hosts")
    batch = checked_batch(batch, lanes)
    if lanes > 1 and lengths:
        name = next(iter(lengths))
        raise ValueError(
            f"lanes: expected 1, because component {name!r} has an end, got {lanes}; give num_epochs=None to it"
        )
    for name, sampler in components.items():
        # Other ones would give each host chunks of the others.
        if (
            lanes > 1
            and isinstance(sampler, ChunkSampler)
            and (sampler.lanes, sampler.batch) != (lanes, lanes)
        ):
            raise ValueError(
                f"components[{name!r}]: expected a ChunkSampler with lanes={lanes} and batch={lanes}, as the mixture "
                f"has so many lanes, got lanes={sampler.lanes} and batch={sampler.batch}"
            )
    return lanes, batch


def checked_offsets(offsets: Any, components: Mapping[str, Sampler]) -> tuple[dict[str, int], bool]:
    """{name: the first record key}, in the order of the components, and whether they differ from a concatenation's.

    They are a concatenation's where none are given.
    """
    if offsets is None:
        return _offsets_of(components), False
    if not isinstance(offsets, Mapping):
        raise TypeError(f"offsets: expected a mapping of name to int, got {_short(offsets)}")
    for name in offsets:
        check_component("offsets", name, components)
    for name in components:
        if name not in offsets:
            raise ValueError(f"offsets: expected one of each component, got none of {name!r}; give it")
    checked = {
        name: at_least(f"offsets[{name!r}]", offsets[name], 0, below=MAX_RECORDS) for name in components
    }
    return checked, checked != consecutive_offsets(components)


def consecutive_offsets(components: Mapping[str, Sampler]) -> dict[str, int] | None:
    """{name: the first record key} of a concatenation; None where a component doesn't say where its source ends.

    >>> from loaderkit.samplers import IndexSampler, KeysSampler
    >>> (
    ...     consecutive_offsets({"a": IndexSampler(3), "b": IndexSampler(4)}),
    ...     consecutive_offsets({"a": KeysSampler([6])}),
    ... )
    ({'a': 0, 'b': 3}, None)
    """
    try:
        return _offsets_of(components)
    except (TypeError, ValueError):
        return None


def checked_pattern(pattern: Any, names: Sequence[str]) -> tuple[str, ...] | None:
    """The names of a pattern of names or numbers."""
    if pattern is None:
        return None
    if isinstance(pattern, str) or (not isinstance(pattern, Sequence) and not hasattr(pattern, "tolist")):
        raise TypeError(
            f"pattern: expected names or numbers of components, got {_short(pattern)}; write ['a', 'a', 'b']"
        )
    known = dict.fromkeys(names)
    said = [_pattern_name(place, entry, names, known) for place, entry in enumerate(pattern)]
    if not said:
        raise ValueError("pattern: expected one or more, got none; write ['a', 'a', 'b']")
    return tuple(said)


def checked_stages(weights: Any, pattern: Sequence[str] | None, names: Sequence[str]) -> MixtureStages:
    """The written stages: of the weights, of the shares of a pattern, or of equal weights.

    >>> checked_stages([(0, {"a": 1}), (8, {"b": 1})], None, ["a", "b"]).place_at(8)
    1
    """
    if pattern is not None:
        weights = Counter(pattern)
    elif weights is None:
        weights = dict.fromkeys(names, 1)
    if isinstance(weights, Mapping):
        if weights and all(isinstance(stage, Mapping) for stage in weights.values()):
            raise TypeError(
                f"weights: expected {{name: weight}} or [(first_index, {{name: weight}}), ...], got {_short(weights)}; "
                "write list(weights.items())"
            )
        weights = [(0, weights)]
    if isinstance(weights, str) or not isinstance(weights, Sequence) or _without_names(weights):
        raise TypeError(
            f"weights: expected {{name: weight}} or [(first_index, {{name: weight}}), ...], got {_short(weights)}; "
            f"write {{{', '.join(f'{name!r}: ...' for name in names[:3])}{', ...' * (len(names) > 3)}}}"
        )
    stages = []
    for place, stage in enumerate(weights):
        if not isinstance(stage, Sequence) or isinstance(stage, str) or len(stage) != 2:
            raise TypeError(
                f"weights[{place}]: expected (first_index, {{name: weight}}), got {_short(stage)}; write "
                "[(0, {...}), (1000, {...})]"
            )
        first = at_least(f"weights[{place}][0]", stage[0], 0, below=ENDLESS)
        stages.append(MixtureStage(first, fractions_of(stage[1], names)))
    return MixtureStages(tuple(stages))


def _without_names(weights: Sequence[Any]) -> bool:
    """Whether this is a list of plain weights, as other libraries take them."""
    return bool(weights) and all(isinstance(weight, int | float | Fraction | np.number) for weight in weights)


def copied_weights(weights: StagedWeights) -> StagedWeights:
    """Checked weights in containers of their own, which can be pickled and which the caller doesn't change.

    >>> copied_weights([(0, {"a": 1}), (8, {"b": 1})])
    [(0, {'a': 1}), (8, {'b': 1})]
    """
    if isinstance(weights, Mapping):
        return dict(weights)
    return [(first, dict(stage)) for first, stage in weights]


def check_stages(stages: MixtureStages, pattern: Sequence[str] | None, batch: int | None) -> None:
    """ValueError for other stages than a pattern's, and for one within a batch of several lanes.

    batch: None where there is one lane.
    """
    if pattern is not None:
        last = stages.entries[-1].weights
        counts, shares = Counter(pattern), sum(last.values())
        if len(stages.entries) > 1 or {n: w / shares * len(pattern) for n, w in last.items()} != counts:
            raise ValueError(
                "weights: expected those of the pattern only; give weights instead of the pattern"
            )
    for stage in stages.entries:
        if batch is not None and stage.first_index % batch:
            raise ValueError(
                f"weights: expected stages that begin at multiples of batch={batch}, as the mixture has lanes, got "
                f"{stage.first_index}"
            )


def digest_of_pattern(pattern: Sequence[str]) -> str:
    """A digest of the names.

    >>> len(digest_of_pattern(["a", "b"]))
    39
    """
    return f"sha256:{sha256(canonical(list(pattern)).encode()).hexdigest()[:32]}"


def _offsets_of(components: Mapping[str, Sampler]) -> dict[str, int]:
    offsets, end = {}, 0
    for name, sampler in components.items():
        records = num_records_of(sampler)
        # Keys that are some of a source, or repeated, don't say where it ends.
        if records is None or min_records_of(sampler) != records:
            raise TypeError(
                f"offsets: expected what is added to the keys of each component, because the sampler of {name!r}, a "
                f"{type(sampler).__qualname__}, doesn't say the length of its source, got None; give "
                "{name: first record key}"
            )
        offsets[name] = end
        end += records
    if end > MAX_RECORDS:
        raise ValueError(f"components: expected at most 2**62 records together, got {end}")
    return offsets


def _pattern_name(place: int, entry: Any, names: Sequence[str], known: Collection[str]) -> str:
    if isinstance(entry, str):
        check_component(f"pattern[{place}]", entry, known)
        return entry
    return names[at_least(f"pattern[{place}]", entry, 0, below=len(names))]


def components_text(components: Mapping[str, Sampler]) -> str:
    """The first ten components, and how many more there are.

    >>> from loaderkit.samplers import KeysSampler
    >>> components_text({"a": KeysSampler([3])})
    "{'a': KeysSampler([3], shuffle=False, num_epochs=None, seed=None, shard_options=None)}"
    """
    shown = {name: repr(components[name]) for name in list(components)[:_SHOWN_NAMES]}
    return _braces(shown, len(components))


def stages_text(stages: MixtureStages) -> str:
    """The weights of the first two stages, in the integers of their orders, which are rounded ones of what was given.

    >>> from loaderkit._order.mixture.stages import MixtureStage
    >>> stages_text(MixtureStages((MixtureStage(0, {"a": Fraction(1, 2), "b": Fraction(1)}),)))
    "{'a': 1, 'b': 2}"
    """
    entries = stages.entries
    if len(entries) == 1:
        return _weights_text(entries[0].weights)
    texts = [f"({stage.first_index}, {_weights_text(stage.weights)})" for stage in entries[:_SHOWN_STAGES]]
    if len(entries) > len(texts):
        texts.append(f"... {len(entries) - len(texts)} more")
    return f"[{', '.join(texts)}]"


def _weights_text(weights: Mapping[str, Fraction]) -> str:
    integers = integer_weights(order_of(weights).weights)
    return _braces({name: str(integers[name]) for name in list(weights)[:_SHOWN_NAMES]}, len(weights))


def _braces(shown: Mapping[str, str], count: int) -> str:
    entries = [f"{name!r}: {value}" for name, value in shown.items()]
    return "{" + ", ".join(entries + ([f"... {count - len(shown)} more"] if count > len(shown) else [])) + "}"
