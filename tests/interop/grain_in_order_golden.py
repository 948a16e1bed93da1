"""What the installed Grain gives for chains of steps in order, for tests that run without it.

    python tests/interop/grain_in_order_golden.py

makes tests/golden/grain/in_order.json again: of each chain the sha256 of its elements, and some states, the number of
elements before each with the sha256 of those behind it. A program of its own: see grain_child.py.
"""

import json
from pathlib import Path
from typing import Any

from grain_in_order import as_json, built, digest, told

FILE = Path(__file__).parents[1] / "golden" / "grain" / "in_order.json"
MOST = 200  # elements of a chain
LEAF = ["documents", {"seed": 1, "count": 40, "longest": 8}, []]
OTHER = ["documents", {"seed": 2, "count": 17, "longest": 8}, []]
DRAWN = ["random_map", {"seed": 9}, [["filter", {}, [LEAF]]]]
FIRST_FIT = {"length_struct": {"a": 16, "b": 16}, "num_packing_bins": 4, "seed": 3}
CHAINS: dict[str, Any] = {
    "draws behind a filter": DRAWN,
    "numbers behind a filter": ["map_with_index", {}, [["filter", {}, [LEAF]]]],
    "default seed": ["random_map", {}, [["filter", {}, [["seed", {"seed": 4}, [LEAF]]]]]],
    "limit of children": ["limit", {"count": 21}, [["flat_map", {}, [DRAWN]]]],
    "window shuffle": ["window_shuffle", {"window_size": 7, "seed": 5}, [["flat_map", {}, [LEAF]]]],
    "repeat": ["repeat", {"num_epochs": 3}, [DRAWN]],
    "zip": ["zip", {"strict": False}, [DRAWN, OTHER]],
    "mix": ["mix", {"weights": {"b": 0.3, "a": 1}}, [DRAWN, ["filter", {}, [OTHER]]]],
    "interleave": ["interleave", {"cycle_length": 2}, [OTHER, DRAWN, ["filter", {}, [OTHER]], LEAF]],
    "first fit": ["first_fit", {**FIRST_FIT, "meta_features": ["m"]}, [LEAF]],
    "first fit, aligned": [
        "first_fit",
        {
            **FIRST_FIT,
            "pack_alignment_struct": {"a": 4, "b": 1},
            "padding_struct": {"a": -1, "b": None},
            "max_sequences_per_bin": 3,
            "shuffle_bins_group_by_feature": "a",
        },
        [LEAF],
    ],
    "best fit": ["best_fit", {**FIRST_FIT, "shuffle_bins": False}, [DRAWN]],
    "concat then split": ["concat_then_split", {"length_struct": {"b": 99, "a": 7}}, [LEAF]],
    "concat then split, first tokens": [
        "concat_then_split",
        {
            "length_struct": {"b": 8, "a": 8},
            "meta_features": ["b"],
            "split_full_length_features": False,
            "bos_features": ["a"],
            "bos_token_id": 77,
        },
        [LEAF],
    ],
    "rebatch": [
        "rebatch",
        {"batch_size": 5},
        [["batch", {"batch_size": 3}, [["first_fit", FIRST_FIT, [LEAF]]]]],
    ],
}
# Input pipelines as trainers write them, in small: the shapes of MaxText, Gemma's examples and Kauldron.
MAP_SIDE = {"seed": 7, "count": 120, "longest": 16}
PIPELINES: dict[str, Any] = {
    f"{trainer}, {workers} workers": [trainer, {"num_workers": workers}, [["text", MAP_SIDE, []]]]
    for trainer in ("maxtext", "gemma", "kauldron")
    for workers in (1, 2)
}


def told_by(g: Any, chain: list[Any]) -> dict[str, Any]:
    """What a package gives."""
    iterator = iter(built(g, chain))
    elements, states = told(iterator, MOST)
    iterator.close()
    places = {0, len(elements) // 3, 2 * len(elements) // 3}
    return {
        "chain": chain,
        "elements": len(elements),
        "sha256": digest(elements),
        "states": [[place, as_json(states[place]), digest(elements[place:])] for place in sorted(places)],
    }


def main() -> None:
    from absl import flags, logging

    flags.FLAGS.mark_as_parsed()
    logging.set_verbosity(logging.FATAL)
    import grain

    made = {name: told_by(grain, chain) for name, chain in {**CHAINS, **PIPELINES}.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in made.items())
    FILE.write_text(f'{{"grain": {json.dumps(grain.__version__)}, "chains": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main()
