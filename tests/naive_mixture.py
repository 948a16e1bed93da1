"""A mixture index by index, with Python's integers."""

from collections import Counter
from itertools import count
from math import gcd, lcm

import numpy as np

from loaderkit._order.mixing import fold
from loaderkit._order.mixture.order import order_of, shuffled


def even_names(weights):
    """The names of an even order without end: of the released units the one due first, ties to the lower name."""
    scale = lcm(*(weight.denominator for weight in weights.values()))
    weights = {name: int(weight * scale) for name, weight in weights.items()}
    weights = {name: weight // gcd(*weights.values()) for name, weight in weights.items()}
    total = sum(weights.values())
    period, used = [], Counter()
    for slot in range(total):
        due = {
            name: -(-(used[name] + 1) * total // weight)
            for name, weight in sorted(weights.items())
            if used[name] < weight and -(-used[name] * total // weight) <= slot
        }
        period.append(min(due, key=due.get))
        used[period[-1]] += 1
    for place in count():
        yield period[place % total]


def shuffled_names(weights, key):
    """The names of the shuffled order, which has tests of its own."""
    order = shuffled(order_of(weights), key)
    for place in count():
        yield order.names[int(order.of(np.array([place]))[0][0])]


def simulated(lengths, entries, rule, most, *, key=None, pattern=None):
    """[(name, ordinal)] of the first indices, up to `most`; entries: of MixtureStages."""
    stream, taken, run, names, turn = [], Counter(), None, None, 0
    for index in range(most):
        place = max(place for place, stage in enumerate(entries) if stage.first_index <= index)
        weights = {
            name: weight
            for name, weight in entries[place].weights.items()
            if rule != "drop" or taken[name] != lengths.get(name)
        }
        if not weights:
            break
        if pattern is not None:
            while pattern[turn % len(pattern)] not in weights:
                turn += 1
            name = pattern[turn % len(pattern)]
            turn += 1
        else:
            if run != (place, set(weights)):
                run = (place, set(weights))
                names = even_names(weights) if key is None else shuffled_names(weights, fold(key, index))
            name = next(names)
        if rule == "stop" and taken[name] == lengths.get(name):
            break
        stream.append((name, taken[name]))
        taken[name] += 1
    return stream


def counts_of(stream):
    """{name: how often it occurs}."""
    return dict(Counter(name for name, _ in stream))
