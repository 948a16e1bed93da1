"""What the repr of a mixture shows of its components and its weights."""

from collections.abc import Mapping
from fractions import Fraction

from loaderkit._order.mixture.order import order_of
from loaderkit._order.mixture.shares import integer_weights
from loaderkit._order.mixture.stages import MixtureStages

from .protocol import Sampler

_SHOWN_NAMES, _SHOWN_STAGES = 10, 2  # the order of each shown stage is made


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
