"""The records of one source in chosen shares of their classes."""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr as _short
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._order.mixing import component_seed
from loaderkit._order.mixture.shares import Weight
from loaderkit._order.sharding import Sharding
from loaderkit.samplers import KeysSampler, MixedSampler
from loaderkit.samplers.protocol import checked_seed

from .checked import require_methods
from .labels import checked_labels

_Source = TypeVar("_Source")


@former_arguments(removed_in="0.3.0", left_out={"shuffle": True})
@refusing_foreign_arguments
def balance(
    source: _Source,
    labels: npt.ArrayLike,
    target: Mapping[Any, Weight] | None = None,
    *,
    shuffle: bool,
    seed: int | None,
    num_epochs: int | None = None,
    order: Literal["even", "shuffled"] = "even",
    when_exhausted: Literal["stop", "drop"] | None = None,
    shard_options: Sharding | None = None,
) -> tuple[_Source, MixedSampler]:
    """The records of a source in chosen shares of their classes: all equally often, however few a class has.

    Args:
        source: any data source; it is returned as it is.
        labels: (len(source),) ints or strings, the class of each record.
        target: {label: weight} as int, Fraction or float; a class that is left out isn't read. None for equal shares.
        shuffle: whether each epoch of a class has an order of its own, which needs a seed. Say it: without
            it that is True, with a DeprecationWarning, and 0.3 requires it.
        seed: int in [0, 2**64) or None. The seed of a class's shuffle follows from it and from the label.
        num_epochs: how often each class is read, None for an endless stream, in which small classes come again sooner.
            With a number `when_exhausted` is needed: "stop" ends where the first class does.
        order: "even" spreads each class as evenly as can be; "shuffled" permutes blocks of 2,048 indices.
        when_exhausted, shard_options: as MixedSampler has them.

    Returns the source and the sampler for a DataLoader. Its components are KeysSamplers named str(label), in sorted
    order, and its record keys are those of the source. TypeError for labels of another type; ValueError for another
    number of labels than records, and for classes of the target that have no record.

    >>> import loaderkit as lk
    >>> animals, labels = ["Tom", "Kit", "Rex", "Leo", "Ace"], ["cat", "cat", "dog", "cat", "cat"]
    >>> source, sampler = balance(animals, labels, shuffle=True, seed=0)
    >>> sampler.names, [labels[key] for key in sampler.record_keys(range(6))]
    (('cat', 'dog'), ['cat', 'dog', 'cat', 'dog', 'cat', 'dog'])
    """
    source = require_methods(source, argument="source")
    classes, members = _grouped(labels, source)
    seed = checked_seed(seed, shuffle=shuffle)
    by_name = dict(sorted(zip(classes, members, strict=True)))
    sampler = MixedSampler(
        {
            name: KeysSampler(
                keys,
                shuffle=shuffle,
                seed=None if seed is None else component_seed(seed, name),
                num_epochs=num_epochs,
            )
            for name, keys in by_name.items()
        },
        weights=None if target is None else _checked_target(target, by_name),
        order=order,
        when_exhausted=when_exhausted,
        seed=seed,
        offsets=dict.fromkeys(by_name, 0),
        shard_options=shard_options,
    )
    return source, sampler


def _grouped(labels: Any, source: Any) -> tuple[list[str], list[npt.NDArray[np.intp]]]:
    """The names of the classes, and the record keys of each, ascending."""
    array = checked_labels(labels, source)
    classes, numbers, counts = np.unique(array, return_inverse=True, return_counts=True)
    keys = np.argsort(numbers, kind="stable")
    return [str(label) for label in classes.tolist()], np.split(keys, np.cumsum(counts)[:-1])


def _checked_target(target: Any, names: Mapping[str, Any]) -> dict[str, Weight]:
    if not isinstance(target, Mapping):
        raise TypeError(
            f"target: expected a mapping of label to weight, got {_short(target)}; write {{label: 0.7, other: 0.3}}"
        )
    absent = [label for label in target if str(label) not in names]
    if absent:
        raise ValueError(
            f"target: expected labels of records, got {', '.join(map(repr, absent[:10]))}, which no record has; leave "
            f"them out, or write some of {_short(list(names))}"
        )
    named = {str(label): weight for label, weight in target.items()}
    if len(named) < len(target):
        raise ValueError(
            f"target: expected each label once, got {_short(list(target))}; an int and its text are one label"
        )
    return named
