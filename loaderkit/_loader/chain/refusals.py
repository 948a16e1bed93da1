"""Which step can't stand behind which, and the line to write instead.

A chain goes from records, a finite list, to a stream of their indices, to elements, and never back:

    records   whatever chooses, orders or keeps records is here: shuffle, take, skip, shard, select, [a:b:c], cache
    stream    behind repeat, mix and interleave
    elements  behind flat_map, window, window_shuffle, pack and batch

Steps that make one element of one (map, random_map, map_with_index) and filter run on the elements wherever they are
written, so a step of records behind them is taken before them. Where that would be another list, it is refused.
"""

_CHANGING = "flat_map window window_shuffle pack"
_MADE = "which elements there are is known only once they are made"
_INDEX = "its index is the place in the stream, not in the source"
_OF_RECORD = "let the records say theirs by lk.MapDataSource"
# step, ...: earlier, ... | why | what to write; the first line that applies is raised. Parts have the steps of theirs.
_RULES = f"""
shuffle: repeat | epochs would run into each other | write .shuffle() before .repeat()
shuffle: mix | epochs would run into each other | shuffle the parts: lk.Dataset.mix({{name: part.shuffle()}}, seed=0)
shuffle: interleave | it has the order of its parts | write lk.Dataset.concat(parts).shuffle(seed=0)
shuffle: {_CHANGING} | {_MADE} | write it before, or .window_shuffle(n) behind; lk.plan_packing makes rows to shuffle
shuffle: shuffle | each epoch has its order | write one .shuffle()
repeat: repeat | the stream has its epochs | write one .repeat()
repeat: mix | each part has epochs of its own | write .repeat() behind the parts
repeat: interleave | it has epochs of its own | give num_epochs= to lk.Dataset.interleave
repeat: window window_shuffle pack | they would reach into the next epoch | write .repeat() before EARLIER
repeat: batch | it would reach into the next epoch | write .repeat() before .batch(), or loader.epoch(e)
shuffle repeat take skip slice shard select cache: map_with_index | {_INDEX} | write it behind STEP, or {_OF_RECORD}
take skip slice shard select cache: filter {_CHANGING} | {_MADE} | write STEP before; or lk.offline.filtered
skip slice: batch | it is of records | write .skip() before .batch(), or it.seek(n)
shuffle shard select cache: batch | it is of records | write STEP before .batch()
shard: repeat mix interleave | a host's part is no step | write .loader(shard_options=lk.ShardOptions(i, n))
select cache: repeat | it is of records | write STEP before .repeat()
select cache: mix interleave | it is of records | write STEP behind the parts
cache: random_map | one draw would be kept for all epochs | write .random_map() behind .cache()
window window_shuffle pack: batch | it takes single elements | write STEP before .batch()
filter batch {_CHANGING}: limit | it counts the steps of the loader | write STEP before .take()
mix: filter | weights count what is read | write .filter() behind .mix()
concat zip interleave mix: filter {_CHANGING} batch | {_MADE} | write EARLIER behind STEP
concat zip interleave mix: map_with_index | {_INDEX} | write it behind STEP, or {_OF_RECORD}
interleave: shuffle | it has the order of its parts | write lk.Dataset.concat(parts).shuffle(seed=0)
interleave: repeat | it has epochs of its own | give num_epochs= to lk.Dataset.interleave
concat zip: shuffle repeat | parts are records | write EARLIER behind STEP
concat zip interleave: mix interleave | parts are records | write EARLIER last
concat zip interleave: seed | a stream has one seed | write .seed() behind STEP
mix: seed | a stream has one seed | give seed= to lk.Dataset.mix
"""
_RULES_OF: dict[str, list[tuple[list[str], str, str]]] = {}
for _line in _RULES.strip().splitlines():
    _rule, _why, _instead = _line.split(" | ")
    for _step in _rule.partition(":")[0].split():
        _RULES_OF.setdefault(_step, []).append((_rule.partition(":")[2].split(), _why, _instead))
_SHOWN = {"slice": "[a:b:c]", "limit": ".take()"}


def check_order(step: str, earlier: tuple[str, ...], part: str = "") -> None:
    """Raises ValueError where a step can't stand behind the earlier ones, or a part with these in a step of parts.

    Args:
        step: its name. earlier: those of the steps before it. part: text of the part, for the error.

    >>> check_order("shuffle", ("map", "repeat"))
    Traceback (most recent call last):
    ValueError: .shuffle(): expected it before .repeat(), got it behind: epochs would run into each other; write ...
    """
    for names, why, instead in _RULES_OF.get(step, ()):
        found = next((name for name in earlier if name in names), None)
        if found is None:
            continue
        shown, behind = _SHOWN.get(step, f".{step}()"), _SHOWN.get(found, f".{found}()")
        expected = (
            f"a part without {behind}, got it in {part}" if part else f"it before {behind}, got it behind"
        )
        if step == found:
            expected = "it once, got it again"
        instead = instead.replace("STEP", shown).replace("EARLIER", behind)
        raise ValueError(f"{shown}: expected {expected}: {why}; {instead}")
