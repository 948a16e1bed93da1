"""Trees of Grain's Dataset API as JSON, built with any package that has its names, and random ones.

A tree is a list: the step, its arguments, and the trees before it. Elements are dicts or tuples of them, until a batch.
"""

from typing import Any

import numpy as np
from grain_pipelines import spelled
from hypothesis import strategies as st

from loaderkit.interop.grain._tree import as_sent


def number(element: Any) -> int:
    """Some number of an element, of whatever shape."""
    if isinstance(element, dict):
        return sum(map(number, element.values()))
    if isinstance(element, list | tuple):
        return sum(map(number, element))
    return int(np.sum(np.asarray(element) * 8)) % 1009


def tree(element: Any) -> dict:
    return {"n": number(element), "x": np.float32(number(element) / 3)}


def with_index(index: int, element: Any) -> dict:
    return {"i": index % (1 << 62), "n": number(element)}


def drawn(element: Any, rng: np.random.Generator) -> dict:
    return {
        "n": number(element) + int(rng.integers(1 << 20)),
        "r": rng.random(3),
        "h": rng.integers(9, dtype=np.uint32),
    }


def most(element: Any) -> bool:
    return number(element) % 3 != 0


def total(elements: list) -> dict:
    return {"n": sum(map(number, elements)), "size": len(elements)}


class Select:
    """A selection of the user's: every third of the second data set."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[int, int]:
        return (1, index // 3) if index % 3 == 0 else (0, index - index // 3 - 1)


def transform_of(g: Any, word: str) -> Any:
    """A transform of Grain's kind."""

    class Tree(g.transforms.Map):
        def map(self, element: Any) -> Any:
            return tree(element)

    class Drawn(g.transforms.RandomMap):
        def random_map(self, element: Any, rng: np.random.Generator) -> Any:
            return drawn(element, rng)

    class Fan(g.experimental.FlatMapTransform):
        max_fan_out = 3

        def flat_map(self, element: Any) -> list:
            return [(k, number(element)) for k in range(number(element) % 4 % 3 + 1)]

    class Most(g.transforms.Filter):
        def filter(self, element: Any) -> bool:
            return most(element)

    return {
        "tree": Tree,
        "drawn": Drawn,
        "fan": Fan,
        "most": Most,
        "batch": lambda: g.transforms.Batch(2),
    }[word]()


def built(g: Any, spec: list) -> Any:  # noqa: C901 - a table
    """The tree as a package builds it.

    Args:
        g: grain, or ours.
        spec: of the tree.
    """
    step, *args = spec
    parents = [built(g, each) for each in args.pop()] if isinstance(args[-1], list) else []
    ds = parents[0] if parents else None
    match step:
        case "source":
            return g.MapDataset.source([*range(args[0])])
        case "range":
            return g.MapDataset.range(*args)
        case "mix":
            return g.MapDataset.mix(parents, args[0] and args[0][: len(parents)])
        case "concatenate":
            return g.MapDataset.concatenate(parents)
        case "zip":
            return g.experimental.ZipMapDataset(parents)
        case "select":
            return g.MapDataset.select_from_datasets(parents, Select(args[0]))
        case "window":
            return g.experimental.WindowShuffleMapDataset(ds, window_size=args[0], seed=args[1])
        case "slice":
            return ds[slice(*args)]
        case "repeat":
            return ds.repeat(args[0], reseed_each_epoch=args[1])
        case "map":
            return ds.map(tree)
        case "map_with_index":
            return ds.map_with_index(with_index)
        case "random_map":
            return ds.random_map(drawn, seed=args[0])
        case "filter":
            return ds.filter(most)
        case "batch":
            return ds.batch(args[0], drop_remainder=args[1], batch_fn=total if args[2] else None)
        case "apply":
            return ds.apply([transform_of(g, word) for word in args[0]])
        case "to_iter_dataset":
            return ds.to_iter_dataset(allow_nones=args[0])
        case "iter_mix":
            return g.IterDataset.mix(parents, args[0] and args[0][: len(parents)])
        case "iter_zip":
            return g.experimental.ZipIterDataset(parents, strict=args[0])
        case "limit":
            return g.experimental.LimitIterDataset(ds, args[0])
    return getattr(ds, step)(*args)  # seed, shuffle


def told(g: Any, spec: list, indices: list[int]) -> list[str]:
    """What a package says of a tree: its length, and elements; "error" in place of each that it has none for."""
    try:
        ds = built(g, spec)
    except ValueError:
        return ["no tree"]
    out = [str(len(ds))]
    for index in indices:
        try:
            out.append(spelled(ds[index]))
        except Exception:  # noqa: BLE001 - what functions raise on what they are given
            out.append("error")
    return out


SEEDS = st.integers(0, 2**32 - 1)
BATCHES = st.tuples(st.integers(1, 5), st.booleans(), st.booleans())
WEIGHTS = st.none() | st.lists(st.sampled_from([0.1, 0.3, 1, 2, 7.5, 40]), min_size=3, max_size=3)


def _further(trees: st.SearchStrategy[list]) -> st.SearchStrategy[list]:
    one = trees.map(lambda each: [each])
    few = st.lists(trees, min_size=1, max_size=3)
    ends = st.none() | st.integers(-9, 30)
    return st.one_of(
        st.builds(lambda seed, ds: ["seed", seed, ds], SEEDS, one),
        st.builds(lambda seed, ds: ["shuffle", seed, ds], st.none() | SEEDS, one),
        st.builds(lambda seed, ds: ["random_map", seed, ds], st.none() | SEEDS, one),
        st.builds(
            lambda a, b, by, ds: ["slice", a, b, by, ds], ends, ends, st.sampled_from([None, 2, 3, -1]), one
        ),
        st.builds(
            lambda n, again, ds: ["repeat", n, again, ds],
            st.sampled_from([1, 2, 5, None]),
            st.booleans(),
            one,
        ),
        st.builds(lambda step, ds: [step, ds], st.sampled_from(["map", "map_with_index", "filter"]), one),
        st.builds(
            lambda n, drop, fn, ds: ["batch", n, drop, fn, ds],
            st.integers(1, 5),
            st.booleans(),
            st.booleans(),
            one,
        ),
        st.builds(lambda n, seed, ds: ["window", n, seed, ds], st.integers(1, 9), st.integers(0, 99), one),
        st.builds(lambda weights, ds: ["mix", weights, ds], WEIGHTS, few),
        st.builds(lambda ds: ["concatenate", ds], few),
        st.builds(lambda ds: ["zip", ds], few),
        st.builds(lambda n, a, b: ["select", n, [a, b]], st.integers(1, 20), trees, trees),
        st.builds(
            lambda words, ds: ["apply", words, ds],
            st.lists(st.sampled_from(["tree", "drawn", "fan", "most", "batch"]), max_size=2),
            one,
        ),
    )


TREES = st.recursive(
    st.one_of(
        st.integers(1, 40).map(lambda n: ["source", n]),
        st.builds(
            lambda a, n, by: ["range", a, a + n, by],
            st.integers(-5, 50),
            st.integers(0, 60),
            st.integers(1, 4),
        ),
    ),
    _further,
    max_leaves=6,
)


def _chain_further(chains: st.SearchStrategy[list]) -> st.SearchStrategy[list]:
    one = chains.map(lambda each: [each])
    few = st.lists(chains, min_size=1, max_size=3)
    return st.one_of(
        st.builds(lambda step, ds: [step, ds], st.sampled_from(["map", "map_with_index", "filter"]), one),
        st.builds(lambda seed, ds: ["random_map", seed, ds], st.none() | SEEDS, one),
        st.builds(lambda seed, ds: ["seed", seed, ds], SEEDS, one),
        st.builds(
            lambda n, drop, fn, ds: ["batch", n, drop, fn, ds],
            st.integers(1, 5),
            st.booleans(),
            st.booleans(),
            one,
        ),
        st.builds(lambda n, ds: ["limit", n, ds], st.integers(1, 9), one),
        st.builds(lambda words, ds: ["apply", words, ds], st.just(["fan"]) | st.just(["batch"]), one),
        st.builds(lambda weights, ds: ["iter_mix", weights, ds], WEIGHTS, few),
        st.builds(lambda strict, ds: ["iter_zip", strict, ds], st.booleans(), few),
    )


_LEAVES = TREES.flatmap(lambda tree: st.booleans().map(lambda nones: ["to_iter_dataset", nones, [tree]]))
CHAINS = st.recursive(_LEAVES, _chain_further, max_leaves=4)


def passed(iterator: Any, most: int, *, sent: bool = False) -> tuple[list[str], list[Any]]:
    """The elements that an iterator gives, up to a number, with "end" or "error" behind them, and the states before.

    Args:
        iterator: of either package.
        most: the number.
        sent: whether elements are spelled as worker processes of Grain would send them.
    """
    elements, states = [], []
    for _ in range(most):
        states.append(iterator.get_state())
        try:
            element = next(iterator)
            elements.append(spelled(as_sent(element) if sent else element))
        except StopIteration:
            elements.append("end")
            break
        except Exception:  # noqa: BLE001 - what functions raise on what they are given
            elements.append("error")
            break
    return elements, states
