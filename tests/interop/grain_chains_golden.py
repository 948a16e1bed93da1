"""What the installed Grain gives for chains of its Dataset API, for tests that run without it.

    python tests/interop/grain_chains_golden.py

makes tests/golden/grain/chains.json again: of each chain with each number of worker processes the sha256 of every
element, and the state before some of them. A program of its own: see grain_child.py.
"""

import json
from pathlib import Path
from typing import Any

from grain_golden import digest
from grain_trees import built

FILE = Path(__file__).parents[1] / "golden" / "grain" / "chains.json"
EVERY = 5  # elements between two states that are kept

WEB = [
    "random_map",
    None,
    [["map", [["repeat", 3, True, [["shuffle", None, [["seed", 3, [["source", 30]]]]]]]]]],
]
CODE = [
    "map_with_index",
    [["repeat", 2, False, [["slice", 1, None, 2, [["shuffle", 4, [["range", 5, 90, 3]]]]]]]],
]
MIXED = ["random_map", None, [["seed", 5, [["mix", [0.3, 0.7], [WEB, CODE]]]]]]
SHORT = ["filter", [MIXED]]
ENDLESS = ["shuffle", 2**32 - 1, [["range", 0, 100_003, 1]]]


def rows(tree: list) -> list:
    return ["to_iter_dataset", False, [tree]]


CHAINS: list[tuple[list, list[int]]] = [  # with numbers of workers, 0 for Grain's own process
    (rows(MIXED), [0, 3]),
    (rows(["repeat", None, True, [["batch", 4, False, False, [["map", [ENDLESS]]]]]]), [0, 2]),
    (["map", [["batch", 4, False, False, [rows(SHORT)]]]], [0, 2]),
    (["batch", 7, True, False, [["random_map", None, [["map", [rows(["seed", 9, [CODE]])]]]]]], [1, 2]),
    (["map_with_index", [["random_map", 5, [["batch", 3, False, True, [rows(WEB)]]]]]], [0, 2]),
    (["iter_mix", [1, 2, 1], [rows(WEB), ["batch", 2, False, False, [rows(CODE)]], rows(ENDLESS)]], [2]),
    (["iter_zip", True, [rows(CODE), ["map", [rows(CODE)]]]], [0]),
    (["limit", 9, [["map", [rows(CODE)]]]], [0]),
    (["batch", 3, False, False, [["apply", ["fan"], [["map", [rows(SHORT)]]]]]], [0, 2]),
    (["random_map", 3, [["filter", [rows(WEB)]]]], [2]),
    (["batch", 2, False, False, [["filter", [["apply", ["drawn"], [rows(["seed", 1, [SHORT]])]]]]]], [2]),
    (["to_iter_dataset", True, [SHORT]], [0]),
]  # fmt: skip
MOST = 40  # elements of each


def told_by(g: Any, chain: list, workers: int) -> dict[str, Any]:
    """What a package gives: the sha256 of each element in order, and some states as {element behind it: fields}."""
    ds = built(g, chain)
    iterator = iter(ds.mp_prefetch(g.python.MultiprocessingOptions(workers)) if workers else ds)
    digests: list[str] = []
    states: dict[str, Any] = {}
    while len(digests) < MOST:
        if len(digests) % EVERY == 0:
            states[str(len(digests))] = json.loads(json.dumps(iterator.get_state()))
        try:
            digests.append(digest(next(iterator)))
        except StopIteration:
            digests.append("end")
            break
    iterator.close()
    return {"chain": chain, "workers": workers, "sha256": digests, "states": states}


def main() -> None:
    from absl import flags, logging

    flags.FLAGS.mark_as_parsed()
    logging.set_verbosity(logging.FATAL)
    import grain
    import grain.experimental
    import grain.python

    made = [told_by(grain, chain, workers) for chain, counts in CHAINS for workers in counts]
    lines = ",\n".join(json.dumps(it) for it in made)
    FILE.write_text(f'{{"grain": {json.dumps(grain.__version__)}, "chains": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
