"""What a user gives as weights, as exact fractions; and fractions as the smallest integers in the same ratio."""

import math
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from fractions import Fraction
from reprlib import repr as _short

import numpy as np

_LEAST_LOG = 62  # a component with less than 2**-62 would be read first beyond the last place

Weight = int | float | Fraction | np.integer | np.floating


def fractions_of(weights: Mapping[str, Weight], names: Collection[str]) -> dict[str, Fraction]:
    """The positive weights as exact fractions, in the order of `names`; weights of 0 are left out.

    weights: {name: int, float, Fraction or numpy number}. A float is the decimal number that its repr shows: 0.1 is
    1/10. names: the components of the mixture. Raises TypeError for what isn't a number, ValueError for a negative
    one, NaN, infinity, a name that isn't a component's, a share below 2**-62, and where no weight is positive.

    >>> fractions_of({"web": 0.7, "code": 1, "old": 0}, ["code", "web", "old"])
    {'code': Fraction(1, 1), 'web': Fraction(7, 10)}
    >>> fractions_of({"wbe": 1}, ["code", "web"])
    Traceback (most recent call last):
    ValueError: weights: expected names of components, got 'wbe'; write 'web'
    """
    if not isinstance(weights, Mapping):
        raise TypeError(
            f"weights: expected a mapping of name to weight, got {_short(weights)}; write {{'a': 0.7, 'b': 0.3}}"
        )
    names = dict.fromkeys(names)  # thousands are looked up
    for name in weights:
        check_component("weights", name, names)
    given = {name: _fraction(name, weight) for name, weight in weights.items()}
    positive = {name: given[name] for name in names if given.get(name)}
    if not positive:
        raise ValueError(
            f"weights: expected a positive weight, got {_short(dict(weights))}; give one component a weight of 1"
        )
    check_shares(positive)
    return positive


def check_shares(weights: Mapping[str, Fraction] | Mapping[str, int]) -> None:
    """ValueError for a positive weight whose share is below 2**-62: it would be read first beyond the last place.

    >>> check_shares({"web": Fraction(1), "rare": Fraction(1, 10**30)})
    Traceback (most recent call last):
    ValueError: weights['rare']: expected a share of 2**-62 or more, got 1e-30; leave it out or give it more
    """
    sizes = [weight.numerator.bit_length() - weight.denominator.bit_length() for weight in weights.values()]
    if max(sizes) - min(sizes) + len(sizes).bit_length() < _LEAST_LOG - 2:  # most are: no sum is needed
        return
    least = min(weights, key=lambda name: weights[name])
    share = weights[least] / Fraction(sum(weights.values()))
    if share * (1 << _LEAST_LOG) < 1:
        raise ValueError(
            f"weights[{least!r}]: expected a share of 2**-{_LEAST_LOG} or more, got {float(share):.3g}; leave it out "
            "or give it more"
        )


def integer_weights(weights: Mapping[str, Fraction]) -> dict[str, int]:
    """The smallest integers in the ratio of positive weights, in the same order.

    >>> integer_weights({"web": Fraction(7, 10), "code": Fraction(1)})
    {'web': 7, 'code': 10}
    """
    scale = math.lcm(*(weight.denominator for weight in weights.values()))
    integers = {name: weight.numerator * (scale // weight.denominator) for name, weight in weights.items()}
    divisor = math.gcd(*integers.values())
    return {name: integer // divisor for name, integer in integers.items()}


def _fraction(name: str, weight: object) -> Fraction:
    if isinstance(weight, bool | np.bool_) or not isinstance(
        weight, int | float | Fraction | np.integer | np.floating
    ):
        raise TypeError(
            f"weights[{name!r}]: expected an int, a float or a Fraction, got {_short(weight)}; "
            f"write {_as_number(weight)}"
        )
    if isinstance(weight, float | np.floating):
        if not math.isfinite(weight):
            raise ValueError(
                f"weights[{name!r}]: expected a finite number, got {weight!r}; write 0 for 'not now'"
            )
        fraction = Fraction(str(weight))  # of a np.float32 as well the decimal number that it shows
    else:
        fraction = weight if isinstance(weight, Fraction) else Fraction(int(weight))
    if fraction < 0:
        raise ValueError(
            f"weights[{name!r}]: expected 0 or more, got {_short(weight)}; write 0 for 'not now'"
        )
    return fraction


def _as_number(weight: object) -> str:
    """What to write instead of a weight of another type: its number, where it has one."""
    try:
        number = float(weight)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    return f"{number:.12g}" if math.isfinite(number) else "0 for 'not now'"


def check_component(argument: str, name: object, names: Collection[str]) -> None:
    """ValueError for a name that no component has; argument: where it was given.

    >>> check_component("weights", "web", ["web", "code"])
    """
    if name not in names:
        close = get_close_matches(str(name), names, n=1)
        advice = f"write {close[0]!r}" if close else f"write one of {_short(list(names))}"
        raise ValueError(f"{argument}: expected names of components, got {_short(name)}; {advice}")
