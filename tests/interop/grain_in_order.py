"""Chains of Grain's steps in order as JSON, built with any package that has its names, and random ones.

A chain is a list: the step, its arguments by name, and the chains before it. Elements are documents: {"a": int tokens,
"b": float features, "m": a text}, or rows and batches of them.
"""

import hashlib
import json
from functools import partial
from typing import Any

import numpy as np
from grain_pipelines import spelled
from hypothesis import strategies as st

RowsOf = dict[str, Any]


def documents(seed: int, count: int, longest: int) -> list[RowsOf]:
    """Documents of 0 to `longest` tokens, some of other dtypes."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        tokens, features = rng.integers(0, longest + 1, 2)
        dtype = [np.int32, np.int64][int(rng.integers(8)) == 0]
        made.append(
            {
                "a": (np.arange(tokens) + 100 * number + 1).astype(dtype),
                "b": rng.random(tokens if number % 2 else features, np.float32),
                "m": f"document {number}",
            }
        )
    return made


def added(document: RowsOf) -> RowsOf:
    return {**document, "a": document["a"] + 1}


def drawn(document: RowsOf, rng: np.random.Generator) -> RowsOf:
    half = int(rng.integers(9, dtype=np.uint32))
    return {**document, "a": document["a"] + half + rng.integers(1 << 20)}


def numbered(index: int, document: RowsOf) -> RowsOf:
    return {**document, "a": document["a"] * 3 + index}


def most(document: RowsOf) -> bool:
    return len(document["a"]) % 3 != 0


def two_features(document: RowsOf) -> RowsOf:
    return {"a": document["a"], "b": document["b"]}


def first_names(elements: list[RowsOf]) -> list[list[str]]:
    return [sorted(map(str, element))[:2] for element in elements]


def fan_of(g: Any) -> Any:
    class Fan(g.experimental.FlatMapTransform):
        max_fan_out = 3

        def flat_map(self, document: RowsOf) -> list[RowsOf]:
            return [document] * (len(document["a"]) % 4)

    return Fan()


def built(g: Any, chain: list[Any]) -> Any:  # noqa: C901 - a case for each step
    """The data set of a chain, as a package builds it.

    Args:
        g: grain, or ours.
        chain: as the top says.
    """
    step, arguments, before = chain
    parents = [built(g, each) for each in before]
    ds = parents[0] if parents else None
    of, experimental = dict(arguments), g.experimental
    match step:
        case "documents":
            slow = g.ReadOptions(num_threads=0, prefetch_buffer_size=0)
            return g.MapDataset.source(documents(**of)).to_iter_dataset(slow)
        case "map":
            return ds.map(added)
        case "random_map":
            return ds.random_map(drawn, **of)
        case "map_with_index":
            return ds.map_with_index(numbered)
        case "filter":
            return ds.filter(most)
        case "flat_map":
            return ds.apply(fan_of(g))
        case "seed":
            return ds.seed(**of)
        case "batch":
            if of.pop("names", False):
                of["batch_fn"] = first_names
            if "padded" in of:
                batch_fn = partial(
                    experimental.batch_and_pad, batch_size=of["batch_size"], pad_value=of.pop("padded")
                )
                return ds.batch(**of, batch_fn=batch_fn)
            return ds.batch(**of)
        case "concat_then_split":
            if "bos_token_id" in of:
                of["bos_handling"] = experimental.BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS
                ds = ds.filter(most)  # an empty document behind a full row is an IndexError of Grain's then
            return experimental.ConcatThenSplitIterDataset(ds.map(two_features), **of)
        case "mix":
            by_name = isinstance(of["weights"], dict)
            return g.IterDataset.mix(
                dict(zip(of["weights"], parents, strict=True)) if by_name else parents, **of
            )
        case "zip":
            return experimental.ZipIterDataset(parents, **of)
        case "interleave":
            return experimental.InterleaveIterDataset(parents, **of)
        case "threads":
            return experimental.multithread_prefetch(ds, **of, buffer_size=1)
        case "processes":
            return ds.mp_prefetch(g.MultiprocessingOptions(**of))
        case "text":
            return g.MapDataset.source(documents(**of))
        case "maxtext":
            return maxtext(g, ds, **of)
        case "gemma":
            return gemma(g, ds, **of)
        case "kauldron":
            return kauldron(g, ds, **of)
    kinds = {
        "limit": "LimitIterDataset",
        "window_shuffle": "WindowShuffleIterDataset",
        "repeat": "RepeatIterDataset",
        "rebatch": "RebatchIterDataset",
        "thread": "ThreadPrefetchIterDataset",
        "first_fit": "FirstFitPackIterDataset",
        "best_fit": "BestFitPackIterDataset",
    }
    return getattr(experimental, kinds[step])(ds, **of)


def inputs_and_targets(document: RowsOf) -> RowsOf:
    return {"inputs": document["a"].astype(np.int32), "targets": document["a"].astype(np.int32)}


def shifted(row: RowsOf) -> RowsOf:
    """Targets are the next tokens, within a segment; for a row or a batch of rows."""
    inputs, segments = row["inputs"], row["inputs_segment_ids"]
    moved = np.concatenate([np.zeros_like(inputs[..., :1]), inputs[..., :-1]], axis=-1)
    before = np.concatenate([np.zeros_like(segments[..., :1]), segments[..., :-1]], axis=-1)
    return {**row, "inputs": np.where(before == segments, moved, 0)}


def maxtext(g: Any, ds: Any, **workers: int) -> Any:
    """Host 0 of 2: tokens, packed by first fit, in padded batches, shifted."""
    host, hosts, batch_size = 0, 2, 4
    ds = ds.shuffle(seed=11).repeat(2)[host::hosts].to_iter_dataset()
    ds = ds.map(inputs_and_targets)
    ds = g.experimental.FirstFitPackIterDataset(
        ds, length_struct={"inputs": 32, "targets": 32}, num_packing_bins=batch_size
    )
    ds = ds.batch(batch_size, batch_fn=partial(g.experimental.batch_and_pad, batch_size=batch_size))
    return ds.map(shifted).mp_prefetch(g.MultiprocessingOptions(**workers))


def gemma(g: Any, ds: Any, **workers: int) -> Any:
    """Documents that aren't too long, packed, in whole batches."""
    ds = ds.seed(12).map(inputs_and_targets).filter(short).shuffle().repeat(2).to_iter_dataset()
    ds = g.experimental.FirstFitPackIterDataset(
        ds, length_struct={"inputs": 24, "targets": 24}, num_packing_bins=8, shuffle_bins=True
    )
    return ds.batch(3, drop_remainder=True).mp_prefetch(g.MultiprocessingOptions(**workers))


def short(document: RowsOf) -> bool:
    return len(document["inputs"]) < 14


def drawn_pair(document: RowsOf, rng: np.random.Generator) -> RowsOf:
    return {"x": rng.random(2, np.float32), "n": int(document["a"].sum()), "name": document["m"]}


def kauldron(g: Any, ds: Any, **workers: int) -> Any:
    """A mixture of two, each with maps of its own, over some epochs."""
    first = ds.seed(13).shuffle().random_map(drawn_pair)
    second = ds[:50].seed(14).shuffle().repeat(2).random_map(drawn_pair)
    mixed = g.MapDataset.mix([first, second], weights=[0.7, 0.3]).repeat(2)
    return mixed.to_iter_dataset().batch(8).mp_prefetch(g.MultiprocessingOptions(**workers))


def steps_in(chain: list[Any]) -> set[str]:
    """The names of all steps of a chain."""
    step, _, before = chain
    return {step}.union(*map(steps_in, before))


# --- random chains ---------------------------------------------------------------------------------------------------

rarely = st.sampled_from([False, False, True])
small, seeds = st.integers(1, 4), st.integers(0, 2**31)


def arguments(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[RowsOf]:
    return st.fixed_dictionaries(strategies)


def some(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[RowsOf]:
    return st.fixed_dictionaries({}, optional=strategies)


SIMPLE = {
    "map": arguments(),
    "random_map": arguments(seed=seeds),
    "map_with_index": arguments(),
    "filter": arguments(),
    "flat_map": arguments(),
    "limit": arguments(count=st.integers(1, 20)),
    "window_shuffle": arguments(window_size=st.integers(1, 9), seed=seeds),
    "repeat": arguments(num_epochs=small),
    "thread": arguments(prefetch_buffer_size=st.integers(0, 2)),
}
PACKED = st.builds(
    lambda given, more: {**given, **more},
    arguments(
        length_struct=arguments(a=st.just(8), b=st.sampled_from([8, 10])),
        num_packing_bins=st.integers(1, 9),
        shuffle_bins=st.booleans(),
        seed=seeds,
    ),
    some(
        meta_features=st.sampled_from([["m"], ["b"], ["b", "m"]]),
        pack_alignment_struct=arguments(a=small, b=small),
        padding_struct=arguments(a=st.just(-1), b=st.sampled_from([None, 2.5])),
        max_sequences_per_bin=small,
        shuffle_bins_group_by_feature=st.just("a"),
    ),
)
CONCATENATED = st.builds(
    lambda given, more: {**given, **more},
    arguments(
        length_struct=arguments(b=st.sampled_from([8, 9]), a=st.sampled_from([3, 5, 8])),
        split_full_length_features=st.booleans(),
    ),
    st.one_of(
        arguments(),
        arguments(meta_features=st.just(["b"])),
        arguments(bos_features=st.just(["a"]), bos_token_id=small),
    ),
)
LEAVES = st.builds(
    lambda of: ["documents", of, []], arguments(seed=seeds, count=st.integers(0, 24), longest=st.just(8))
)


def after(chains: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Chains with one step more."""
    simple = st.sampled_from([*SIMPLE]).flatmap(lambda step: st.tuples(st.just(step), SIMPLE[step]))
    return st.builds(lambda step, chain: [*step, [chain]], simple, chains)


def joined(chains: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Chains of several."""
    weights = st.sampled_from([1, 2, 0.5, 0.3])
    parts = st.lists(chains, min_size=1, max_size=3)
    return st.one_of(
        st.builds(
            lambda parents, strict: ["zip", {"strict": strict}, parents],
            parts,
            st.sampled_from([False, False, True]),
        ),
        st.builds(lambda parents, length: ["interleave", {"cycle_length": length}, parents], parts, small),
        parts.flatmap(
            lambda parents: st.builds(
                lambda given, by_name: [
                    "mix",
                    {"weights": dict(zip("cab", given, strict=False)) if by_name else given},
                    parents,
                ],
                st.lists(weights, min_size=len(parents), max_size=len(parents)),
                st.booleans(),
            )
        ),
    )


def last(chains: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Chains with a step that makes other elements, or W streams of them."""
    sizes = st.integers(1, 5)
    packed = st.builds(
        lambda step, of, chain: [step, of, [chain]],
        st.sampled_from(["first_fit", "best_fit"]),
        PACKED,
        chains,
    )
    batched = st.builds(
        lambda chain, size, drop, names: [
            "batch",
            {"batch_size": size, "drop_remainder": drop, "names": names},
            [chain],
        ],
        packed,
        sizes,
        st.booleans(),
        st.booleans(),
    )
    rebatched = st.builds(
        lambda chain, size, again, drop: [
            "rebatch",
            {"batch_size": again, "drop_remainder": drop},
            [["batch", {"batch_size": size}, [chain]]],
        ],
        # Lists of several lengths in the batches: leaves that Grain loses or takes for others, an error here.
        packed.filter(lambda chain: "m" not in chain[1].get("meta_features", [])),
        sizes,
        sizes,
        st.booleans(),
    )
    concatenated = st.builds(lambda of, chain: ["concat_then_split", of, [chain]], CONCATENATED, chains)
    streams = st.builds(
        lambda chain, count: ["threads", {"num_threads": count}, [chain]],
        st.one_of(packed, chains),
        st.integers(1, 3),
    )
    return st.one_of(packed, concatenated, batched, rebatched, streams)


singles = st.one_of(LEAVES, after(LEAVES), after(after(LEAVES)))
several = joined(singles)
# Grain's states of a repeated interleave say in a later epoch that data sets are exhausted.
repeated = after(several).filter(lambda chain: chain[0] != "repeat" or "interleave" not in steps_in(chain))
some_chains = st.one_of(last(singles), several, last(several), repeated, singles)


# --- what a chain gives ----------------------------------------------------------------------------------------------


def told(iterator: Any, limit: int) -> tuple[list[str], list[Any]]:
    """The elements as text, and the states before each and after the last; "error" for what is raised."""
    elements: list[str] = []
    states = [iterator.get_state()]
    while len(elements) < limit:
        try:
            elements.append(spelled(next(iterator)))
        except StopIteration:
            break
        except Exception as error:  # noqa: BLE001 - both packages must fail alike
            elements.append("error")
            del error
            break
        states.append(iterator.get_state())
    return elements, states


def as_json(state: Any) -> Any:
    """A state as a checkpoint has it."""
    return json.loads(json.dumps(state))


def digest(elements: list[str]) -> str:
    return hashlib.sha256("\n".join(elements).encode()).hexdigest()
