"""Which step can't stand behind which, and the line to write instead.

A chain goes from records, a finite list, to a stream of their indices, to elements, and never back:

    records   whatever chooses, orders or keeps records is here: shuffle, take, skip, shard, select, [a:b:c], cache
    stream    behind repeat, mix and interleave
    elements  behind flat_map, window, window_shuffle, pack and batch

Steps that make one element of one (map, random_map, map_with_index) and filter run on the elements wherever they are
written, so a step of records behind them is taken before them. Where that would be another list, it is refused.
"""

from typing import NamedTuple

_CHANGING = "flat_map window window_shuffle pack"
_CHOOSING = "take skip slice shard select"


class _Rule(NamedTuple):
    """steps can't stand behind earlier ones. instead: of {step} and {earlier}."""

    steps: str
    earlier: str
    why: str
    instead: str


# The first that applies is raised.
_RULES = [
    _Rule("shuffle", "repeat", "epochs would run into each other", "write .shuffle() before .repeat()"),
    _Rule(
        "shuffle",
        "mix",
        "epochs of the parts would run into each other",
        "shuffle the parts: lk.Dataset.mix({{name: part.shuffle()}}, seed=0)",
    ),
    _Rule(
        "shuffle",
        "interleave",
        "its order is that of the parts",
        "write lk.Dataset.concat(parts).shuffle(seed=0)",
    ),
    _Rule(
        "shuffle",
        _CHANGING,
        "these elements are made as records come",
        "write .shuffle() before .{earlier}(), or .window_shuffle(n) behind it; lk.plan_packing makes rows that can "
        "be shuffled",
    ),
    _Rule("shuffle", "shuffle", "each epoch has its order", "write one .shuffle()"),
    _Rule("repeat", "repeat", "the stream has its epochs", "write one .repeat()"),
    _Rule("repeat", "mix", "each part has epochs of its own", "write .repeat() behind the parts"),
    _Rule("repeat", "interleave", "it has epochs of its own", "give num_epochs= to lk.Dataset.interleave"),
    _Rule(
        "repeat",
        "window window_shuffle pack",
        "an epoch's last elements would be made with the next one's first",
        "write .repeat() before .{earlier}()",
    ),
    _Rule(
        "repeat",
        "batch",
        "an epoch's last rows would be in a batch with the next one's first",
        "write .repeat() before .batch(), or loader.epoch(e) for epochs that end",
    ),
    _Rule(
        f"shuffle repeat {_CHOOSING} cache",
        "map_with_index",
        "its index is the element's place in the stream, not the record's",
        "write .map_with_index() behind .{step}(), or let the records say theirs by lk.MapDataSource",
    ),
    _Rule(
        f"{_CHOOSING} cache",
        f"filter {_CHANGING}",
        "which elements there are is known only once they are made",
        "write .{step}() before .{earlier}(); lk.offline.filtered chooses record keys once",
    ),
    _Rule("skip slice", "batch", "it is of records", "write .skip() before .batch(), or it.seek(n)"),
    _Rule("shuffle shard select cache", "batch", "it is of records", "write .{step}() before .batch()"),
    _Rule(
        "shard",
        "repeat mix interleave",
        "a host's part of a stream is no step",
        "write .loader(shard_options=lk.ShardOptions(i, n)), or .shard() before .{earlier}()",
    ),
    _Rule("select cache", "repeat", "it is of records", "write .{step}() before .repeat()"),
    _Rule("select cache", "mix interleave", "it is of records", "write .{step}() behind the parts"),
    _Rule(
        "cache", "random_map", "one draw would be kept for all epochs", "write .random_map() behind .cache()"
    ),
    _Rule(
        "window window_shuffle pack", "batch", "it takes single elements", "write .{step}() before .batch()"
    ),
    _Rule(
        f"filter batch {_CHANGING}",
        "limit",
        "it counts the steps of the loader",
        "write .{step}() before .take()",
    ),
    # parts
    _Rule("mix", "filter", "weights count what is read", "write .filter() behind .mix()"),
    _Rule(
        "concat zip interleave mix",
        f"filter {_CHANGING} batch",
        "which elements there are is known only once they are made",
        "write .{earlier}() behind .{step}()",
    ),
    _Rule(
        "concat zip interleave mix",
        "map_with_index",
        "its index is the element's place in the whole stream",
        "write .map_with_index() behind .{step}(), or let the records say theirs by lk.MapDataSource",
    ),
    _Rule(
        "interleave",
        "shuffle",
        "its order is that of the parts",
        "write lk.Dataset.concat(parts).shuffle(seed=0)",
    ),
    _Rule(
        "concat zip",
        "shuffle",
        "parts have the order of their records",
        "write .shuffle() behind .{step}()",
    ),
    _Rule("concat zip", "repeat", "parts are records", "write .repeat() behind .{step}()"),
    _Rule("interleave", "repeat", "parts are records", "give num_epochs= to lk.Dataset.interleave"),
    _Rule("concat zip interleave", "mix interleave", "parts are records", "write .{earlier}() last"),
    _Rule("concat zip interleave", "seed", "a stream has one seed", "write .seed() behind .{step}()"),
    _Rule("mix", "seed", "a stream has one seed", "give seed= to lk.Dataset.mix"),
]
_SHOWN = {"slice": "[a:b:c]", "limit": ".take()"}


def check_order(step: str, earlier: tuple[str, ...], part: str = "") -> None:
    """Raises ValueError where a step can't stand behind the earlier ones, or a part with these in a step of parts.

    Args:
        step: its name. earlier: those of the steps before it. part: text of the part, for the error.

    >>> check_order("shuffle", ("map", "repeat"))
    Traceback (most recent call last):
    ValueError: .shuffle(): expected it before .repeat(), got it behind: epochs would run into each other; write ...
    """
    for rule in _RULES:
        if step not in rule.steps.split():
            continue
        for name in earlier:
            if name in rule.earlier.split():
                raise ValueError(_text(rule, step, name, part))


def _text(rule: _Rule, step: str, earlier: str, part: str) -> str:
    shown, behind = _SHOWN.get(step, f".{step}()"), _SHOWN.get(earlier, f".{earlier}()")
    expected = f"a part without {behind}, got it in {part}" if part else f"it before {behind}, got it behind"
    if step == earlier:
        expected = "it once, got it again"
    instead = rule.instead.format(step=step if step != "slice" else "take", earlier=earlier)
    return f"{shown}: expected {expected}: {rule.why}; {instead}"
