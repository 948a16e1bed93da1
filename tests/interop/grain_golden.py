"""What the installed Grain gives for sixteen pipelines, for tests that run without it.

    python tests/interop/grain_golden.py

makes tests/golden/grain/pipelines.json again: of each pipeline the sha256 of every element, and the state before some
of them. A program of its own: see grain_child.py.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from grain_pipelines import loader_of, spelled

FILE = Path(__file__).parents[1] / "golden" / "grain" / "pipelines.json"
EVERY = 4  # elements between two states that are kept

# Worker counts, shards, epochs, remainders; Filter, FlatMap, RandomMap before and behind Batch, two Batches, batch_fn.
WHOLE, HALF = [0, 1, False], [1, 2, False]
CONFIGS: list[dict[str, Any]] = [
    {"records": 20, "words": ["tree", "batch3"], "workers": 0, "shard": WHOLE, "epochs": 2, "seed": 3},
    {"records": 20, "words": ["tree", "batch3"], "workers": 1, "shard": WHOLE, "epochs": 2, "seed": 3},
    {"records": 20, "words": ["tree", "batch3"], "workers": 2, "shard": WHOLE, "epochs": 2, "seed": 3},
    {"records": 20, "words": ["tree", "batch3"], "workers": 3, "shard": WHOLE, "epochs": 2, "seed": 3},
    {"records": 31, "words": ["random", "batch2drop"], "workers": 3, "shard": [2, 3, True], "epochs": 2, "seed": 7},
    {"records": 23, "words": ["random", "batch3", "half"], "workers": 2, "shard": HALF, "epochs": 3, "seed": 2**32 - 1},
    {"records": 17, "words": ["half", "random", "batch2", "half"], "workers": 0, "shard": WHOLE, "epochs": 1,
     "seed": 5},
    {"records": 29, "words": ["sieve", "batch2", "random"], "workers": 2, "shard": HALF, "epochs": 2, "seed": 11},
    {"records": 26, "words": ["sieve", "fan", "batch3"], "workers": 2, "shard": WHOLE, "epochs": 1, "seed": 11},
    {"records": 14, "words": ["random", "fan", "batch3"], "workers": 0, "shard": HALF, "epochs": 2, "seed": 1},
    {"records": 25, "words": ["plus", "batch2", "batch3"], "workers": 2, "shard": WHOLE, "epochs": 1, "seed": 2},
    {"records": 15, "words": ["sums", "plus", "random"], "workers": 1, "shard": WHOLE, "epochs": 2, "seed": 9},
    {"records": 5, "words": ["random"], "workers": 3, "shard": WHOLE, "epochs": 3, "seed": 8},
    {"records": 4, "words": ["batch2drop"], "workers": 3, "shard": WHOLE, "epochs": 2, "seed": 8},
    {"records": 9, "words": ["plus", "batch2"], "workers": 0, "shard": HALF, "epochs": 1, "shuffle": False, "seed": 1},
    {"records": 22, "words": ["plus", "held"], "workers": 2, "shard": WHOLE, "epochs": 2, "seed": 4},
]  # fmt: skip


def told_by(g: Any, config: dict[str, Any]) -> dict[str, Any]:
    """What a package gives: the sha256 of each element in order, and some states as {element behind it: fields}."""
    iterator = iter(loader_of(g, {"shuffle": True, **config}))
    digests: list[str] = []
    states: dict[str, Any] = {}
    while True:
        text = iterator.get_state().decode()
        if len(digests) % EVERY == 0:
            states[str(len(digests))] = json.loads(text)
            assert json.dumps(states[str(len(digests))], indent=4) == text
        try:
            element = next(iterator)
        except StopIteration:
            return {"config": config, "sha256": digests, "states": states}
        digests.append(digest(element))


def digest(element: Any) -> str:
    """The sha256 of all that an element is."""
    return hashlib.sha256(spelled(element).encode()).hexdigest()


def main() -> None:
    from absl import flags, logging

    flags.FLAGS.mark_as_parsed()
    logging.set_verbosity(logging.FATAL)
    import grain
    import grain.python

    made = [told_by(grain.python, config) for config in CONFIGS]
    lines = ",\n".join(json.dumps(it) for it in made)
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(f'{{"grain": {json.dumps(grain.__version__)}, "pipelines": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
