"""Which records of which split a text such as "train[10%:20%]+test" means, as TFDS has it.

train                      the whole split
train[100:200]             records 100 to 199; negative numbers count from the end
train[10%:20.5%]           percent of the split, rounded to the closest record
train[2shard:4shard]       the records of shards 2 and 3; train[0shard] is one shard
train[:10%]+test           one after the other
all                        all splits, in their order
"""

import re
from collections.abc import Mapping, Sequence

from loaderkit._base.system.dataclasses import dataclass

_PART = re.compile(r"(?P<name>[\w-]+)(\[(?P<slice>[^\]]+)\])?", re.ASCII)
_BOUND = re.compile(r"((?P<value>-?[\d_.]+)(?P<unit>%|shard)?)?", re.ASCII)
_FORMS = 'write for example "train", "train[:100]", "train[10%:20%]+test" or "train[0shard]"'
PERCENT, SHARD = "%", "shard"


@dataclass(frozen=True, slots=True)
class SplitSlice:
    """The records from `start` up to, not including, `stop` of one split."""

    split: str
    start: int
    stop: int


def slices_of(text: str, shard_lengths: Mapping[str, Sequence[int]]) -> list[SplitSlice]:
    """The slices that a text means, in its order; a slice may be empty.

    Args:
        text: names of splits with optional slices, joined by "+".
        shard_lengths: for each split the records of each of its files. TypeError for a text of another type, ValueError
            that names the part of the text for an unknown split, a form or a bound that isn't one.

    >>> slices_of("train[-10%:] + test[:2]", {"train": [60, 45], "test": [7]})
    [SplitSlice(split='train', start=95, stop=105), SplitSlice(split='test', start=0, stop=2)]
    """
    check_split(text)
    return [
        each for part in re.split(r"\s*\+\s*", text.strip()) for each in _slices_of_part(part, shard_lengths)
    ]


def check_split(text: object) -> None:
    """TypeError for what isn't a text, with what to write instead of a list.

    Args:
        text: given as a split.
    """
    if isinstance(text, str):
        return
    several = isinstance(text, list | tuple) and text and all(isinstance(each, str) for each in text)
    advice = f"write {'+'.join(text)!r}, or open each by itself" if several else _FORMS  # type: ignore[arg-type]
    raise TypeError(f"split: expected a text, got a {type(text).__name__}; {advice}")


def _slices_of_part(part: str, shard_lengths: Mapping[str, Sequence[int]]) -> list[SplitSlice]:
    found = _PART.fullmatch(part)
    if found is None:
        raise ValueError(f"split: expected a name with an optional slice, got {part!r}; {_FORMS}")
    name, bounds = found["name"], found["slice"]
    if name == "all":
        if bounds is not None:
            raise ValueError(
                f"split: expected 'all' without a slice, got {part!r}; slice each split by itself"
            )
        return [SplitSlice(each, 0, sum(lengths)) for each, lengths in shard_lengths.items()]
    if name not in shard_lengths:
        names = ", ".join(map(repr, shard_lengths))
        raise ValueError(f"split: expected one of {names}, got {name!r}")
    lengths = shard_lengths[name]
    if bounds is None:
        return [SplitSlice(name, 0, sum(lengths))]
    return [SplitSlice(name, *_range_of(part, bounds, lengths))]


def _range_of(part: str, bounds: str, lengths: Sequence[int]) -> tuple[int, int]:
    matches = [_BOUND.fullmatch(bound) for bound in bounds.split(":")]
    found = [match for match in matches if match is not None]
    if len(found) != len(matches) or len(found) > 2 or not any(match[0] for match in found):
        raise ValueError(f"split: expected a slice as [start:stop], got {part!r}; {_FORMS}")
    units = {match["unit"] for match in found if match["unit"] is not None}
    if len(units) > 1:
        raise ValueError(f"split: expected both bounds in one unit, got {part!r}")
    unit = units.pop() if units else ""
    if len(found) == 1 and unit != SHARD:
        raise ValueError(f"split: expected start:stop, or one shard as [0shard], got {part!r}; {_FORMS}")
    values = [_number(part, match["value"], unit) for match in found]
    if len(values) == 1:
        values.append(None if values[0] == -1 else (values[0] or 0) + 1)
    start, stop = _in_records(part, values, unit, lengths)
    records = sum(lengths)
    if abs(start) > records or abs(stop) > records:
        raise ValueError(f"split: expected bounds within the {records} records of the split, got {part!r}")
    return start + records if start < 0 else start, stop + records if stop < 0 else stop


def _in_records(
    part: str, values: Sequence[float | None], unit: str, lengths: Sequence[int]
) -> tuple[int, int]:
    start, stop = values
    records = sum(lengths)
    if unit == SHARD:
        # Slices of the list of shards, so that negative numbers count from its end.
        first = 0 if start is None else sum(lengths[: int(start)])
        if stop is None:
            return first, records
        return first, sum(lengths[: int(stop)])
    if unit == PERCENT:
        if any(value is not None and abs(value) > 100 for value in values):
            raise ValueError(f"split: expected -100% to 100%, got {part!r}")
        start, stop = (None if value is None else round(value * records / 100) for value in values)
    return 0 if start is None else int(start), records if stop is None else int(stop)


def _number(part: str, text: str | None, unit: str) -> float | None:
    if text is None:
        return None
    try:
        return float(text) if unit == PERCENT else int(text)
    except ValueError:
        raise ValueError(
            f"split: expected a whole number, or a number with %, got {text!r} in {part!r}; {_FORMS}"
        ) from None
