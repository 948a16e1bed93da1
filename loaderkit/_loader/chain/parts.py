"""Chains as parts of one: their sources side by side or one behind the other, and their operations on all elements.

Where no part draws, a part's maps are a MapDataSource. Else each element has the name of its part, operations from the
first that draws on are wrapped to leave other parts alone, and a last Map takes the names off. What a part draws
follows from its name, the operation's number in it and the index, so other parts change none of it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from loaderkit._order.mixing import component_seed
from loaderkit._source.optional import advised_chunk
from loaderkit.samplers import InterleavedSampler, MixedSampler, Sampler
from loaderkit.sources import ConcatDataSource, MapDataSource, ZipDataSource
from loaderkit.sources.id_column import IdColumnDataSource
from loaderkit.transforms.base import Transformation, draws
from loaderkit.transforms.of_part import WithoutPart, of_part

from .form import Form, mapped
from .refusals import check_order


class JoinedParts:
    """Parts that are joined by a step.

    step: mix, interleave, concat or zip. forms: of the parts. names: theirs; None in a sequence.
    """

    def __init__(self, step: str, forms: list[Form], names: tuple[str, ...] | None, texts: list[str]) -> None:
        for form, text in zip(forms, texts, strict=True):
            check_order(step, form.steps, text)
        self._step, self._forms, self._names = step, forms, names
        self._draw = any(form.draws for form in forms)

    def _labels(self) -> list[str | int]:
        return [*(range(len(self._forms)) if self._names is None else self._names)]

    def _each(self, *, beside: bool) -> tuple[list[Any], list[Transformation]]:
        """The sources, and the operations on elements that have their part."""
        sources, operations = [], []
        for label, form in zip(self._labels(), self._forms, strict=True):
            first = next((at for at, op in enumerate(form.operations) if draws(op)), len(form.operations))
            sources.append(mapped(form.source, form.operations[:first]))
            drawn = 0
            for op in form.operations[first:]:
                operations.append(of_part(op, label, drawn, beside=beside))
                drawn += draws(op) and op._drawn_as is None
        return sources, operations

    def _joined(self, sources: list[Any]) -> Any:
        return sources if self._names is None else dict(zip(self._names, sources, strict=True))

    def _form(self, source: Any, operations: list[Transformation], **changes: Any) -> Form:
        return Form(
            source=source,
            lengths=tuple(pair for form in self._forms for pair in form.lengths),
            steps=(self._step, *["random_map"] * self._draw),
            operations=tuple(operations),
            **changes,
        )

    def _in_turn(self, id_key: str | None = None, **changes: Any) -> Form:
        sources, operations = self._each(beside=False)
        if not self._draw:
            joined = self._joined(sources)
            source = ConcatDataSource(joined) if id_key is None else IdColumnDataSource(joined, id_key)
            return self._form(source, [], **changes)
        named = [
            MapDataSource(one, partial(_named, part))
            for one, part in zip(sources, self._labels(), strict=True)
        ]
        operations.append(WithoutPart(id_key, self._names or ()))
        return self._form(ConcatDataSource(self._joined(named)), operations, **changes)

    def concatenated(self) -> Form:
        """One behind the other."""
        return self._in_turn()

    def zipped(self, *, strict: bool) -> Form:
        """Side by side."""
        sources, operations = self._each(beside=True)
        return self._form(ZipDataSource(self._joined(sources), strict=strict), operations)

    def interleaved(self, *, seed: int | None, **options: Any) -> Form:
        """In turn, as tf.data's `interleave` reads them."""
        sampler = partial(_interleaved, [len(form.source) for form in self._forms], options)
        sampler(seed, None)
        return self._in_turn(mixed=sampler, seed=seed)

    def by_weight(self, *, seed: int | None, id_key: str | None, lanes: int, **options: Any) -> Form:
        """A mixture of the parts, each in its own order."""
        assert self._names is not None
        parts = dict(zip(self._names, self._forms, strict=True))
        starts = [0]
        for name, form in [*parts.items()]:
            starts.append(starts[-1] + len(form.source))
            _check_part(name, form, seed, lanes, options["when_exhausted"])
            parts[name] = replace(form, lanes=lanes)
        options |= {"offsets": dict(zip(parts, starts)), "lanes": lanes}
        sampler = partial(_mixed, parts, options)
        sampler(seed, lanes)
        return self._in_turn(id_key, mixed=sampler, seed=seed, lanes=lanes)


def _interleaved(lengths: list[int], options: dict[str, Any], seed: int | None, batch: int | None) -> Sampler:
    return InterleavedSampler(lengths, seed=seed, **options)


def _mixed(parts: dict[str, Form], options: dict[str, Any], seed: int | None, batch: int | None) -> Sampler:
    own = {name: None if seed is None else component_seed(seed, name) for name in parts}
    samplers = {name: form.sampler(own[name], options["lanes"]) for name, form in parts.items()}
    return MixedSampler(samplers, seed=seed, batch=batch, **options)


def _named(part: str | int, record: Any) -> tuple[str | int, Any]:
    return part, record


def _check_part(name: str, form: Form, seed: int | None, lanes: int, when_exhausted: Any) -> None:
    chunk = advised_chunk(form.source)
    if form.shuffle and seed is None and form.seed is None:
        raise ValueError(
            f".mix(): expected a seed, as {name!r} has .shuffle(), got none; give for example seed=0: each part has a "
            "seed of its own by it and by its name"
        )
    if form.lanes > 1:
        raise ValueError(
            f".mix(): expected {name!r} without lanes, got {form.lanes}; give lanes= to lk.Dataset.mix"
        )
    if lanes > 1 and not form.shuffle:
        raise ValueError(
            f".mix(): expected .shuffle() of {name!r}, as lanes={lanes} is of a shuffle by chunks, got none; write "
            ".shuffle(window=8) behind the part"
        )
    if lanes > 1 and form.window is None and chunk is not None:
        raise ValueError(
            f".mix(): expected window= in .shuffle() of {name!r}, as lanes={lanes} and it is read by chunks of {chunk} "
            "records, got none; give for example window=8"
        )
    if when_exhausted is None and (length := form.length()) is not None:
        raise ValueError(
            f".mix(): expected when_exhausted='stop' or 'drop', as {name!r} ends after {length} records, got None; "
            "write .repeat() behind the part for one without end"
        )
