"""`loaderkit state`: shows, compares, checks and edits saved positions."""

import argparse
import json
import os
import re
from pathlib import Path
from typing import Any

from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._base.system.whole_file import whole_file
from loaderkit._order.exclusions import stages_to_json
from loaderkit._plan.state.document import dumps, loads
from loaderkit._plan.state.state import State, merge
from loaderkit.errors import StateError
from loaderkit.samplers import IndexSampler, MixedSampler

from .exit_status import ExitStatus, UsageError
from .output import Output

_MOST = 200  # characters of a value that is shown
_DOCUMENT = re.compile(r"process_(\d+)-of-(\d+)\.json")
HELP = """
Look at saved positions. CKPT is a document, the folder of a checkpoint's item, a checkpoint, or a folder of
checkpoints, of which the newest is taken.
"""
ACTIONS = {  # what each does, and its options
    "show": "what a state says\nCKPT\n--json",
    "diff": "what differs between two states; exit status 1 where something does\nCKPT\nOTHER\n--json",
    "verify": "digests, all files, one step, all streams\nCKPT\n--json",
    "edit": """another position in the same stream, with a new digest
CKPT
one of!:
  --seek N[int]  go to step N
  --skip N[int]  leave out the data of the next N steps
-o --output OUT!  the file to write; not one of CKPT's
--json""",
}


def run(options: argparse.Namespace, out: Output) -> ExitStatus | None:
    """Carries out one of the four actions."""
    saved = find_saved(options.ckpt)
    try:
        act = {"show": _show, "diff": _diff, "verify": _verify, "edit": _edit}[options.action]
        return act(saved, options, out)
    except StateError as error:
        out.document({"error": str(error)})
        out.text(str(error))
        return ExitStatus.FINDINGS if options.action == "verify" else ExitStatus.UNREADABLE


@dataclass(frozen=True, slots=True)
class SavedState:
    """What one save left.

    files: of the documents, in the order of the processes. missing: names of those that aren't there.
    """

    files: tuple[Path, ...]
    missing: tuple[str, ...] = ()

    def documents(self) -> list[bytes]:
        """The contents of the files."""
        return [file.read_bytes() for file in self.files]

    def state(self) -> State:
        """All documents as one state; StateError that names the file where one isn't valid."""
        return merge([loaded(file) for file in self.files])


def loaded(file: Path) -> State:
    """The state in a file; StateError that names the file."""
    try:
        return loads(file.read_bytes())
    except StateError as error:
        raise StateError(f"{file}: {error}") from error


def find_saved(path: str) -> SavedState:
    """The save that a path names.

    Args:
        path: a document; the folder of an item with documents; a checkpoint with one such item; or a folder of
            checkpoints named by their steps, of which the newest is taken.

    Raises UsageError where there is no state, or more than one item has some.
    """
    place = Path(path)
    if place.is_file():
        return SavedState((place,))
    if not place.is_dir():
        raise UsageError(f"CKPT: expected a file or folder, got {path}, which isn't there")
    for folder in _candidates(place):
        found = [*_folders_with_documents(folder)]
        if len(found) > 1:
            names = ", ".join(str(each.relative_to(place)) for each in found)
            raise UsageError(f"CKPT: expected one item with states, got {names}; name one of them")
        if found:
            return _of_folder(found[0])
    raise UsageError(f"CKPT: expected states named process_0-of-1.json in {path} or below, got none")


def _candidates(place: Path) -> list[Path]:
    steps = [
        (int(match[1]), each)
        for each in place.iterdir()
        if (match := re.fullmatch(r"(?:\w+_)?(\d+)", each.name))
    ]
    newest = [each for _, each in sorted(steps, reverse=True) if each.is_dir()]
    direct = any(map(_DOCUMENT.fullmatch, os.listdir(place)))
    return [place] if direct or not newest else newest[:1]


def _folders_with_documents(folder: Path) -> list[Path]:
    return sorted(Path(base) for base, _, files in os.walk(folder) if any(map(_DOCUMENT.fullmatch, files)))


def _of_folder(folder: Path) -> SavedState:
    matches = sorted(
        (int(match[2]), int(match[1]), each)
        for each in folder.iterdir()
        if (match := _DOCUMENT.fullmatch(each.name))
    )
    counts = {count for count, _, _ in matches}
    if len(counts) > 1:
        raise UsageError(
            f"CKPT: expected the states of one save in {folder}, got those of {sorted(counts)} processes"
        )
    (count,) = counts
    there = {number for _, number, _ in matches}
    missing = [f"process_{number}-of-{count}.json" for number in range(count) if number not in there]
    return SavedState(tuple(each for _, _, each in matches), tuple(missing))


def facts_of(state: State) -> dict[str, Any]:
    """What a state says, by name, as JSON values.

    Args:
        state: of all processes.
    """
    length = state.sampler.get("num_records")
    # Where records are left out only their lists say how many indices an epoch has.
    known = length if isinstance(length, int) and not state.exclusions else 0
    epoch = state.index // known if known > 0 else None
    return {
        "step": state.step,
        "index": state.index,
        "epoch": epoch if state.epoch is None else state.epoch,
        "global_batch": state.rows,
        "sampler": dict(state.sampler),
        "source": dict(state.source),
        "operations": list(state.parameters or state.operations),
        "segments": state.segments.to_json(),
        "logical_streams": None if state.streams is None else state.streams.count,
        "mixture": None if state.mixture is None else state.mixture.to_json(),
        "corpora": _corpora(state),
        "exclusions": stages_to_json(state.exclusions) or None,
        "bad_records": state.losses.count,
        "versions": dict(state.versions),
        "numerics": dict(state.numerics),
    }


def _corpora(state: State) -> dict[str, Any] | None:
    """Rows and epochs read of each component of a mixture; None where the state alone doesn't say it."""
    said, stages = state.sampler, state.mixture
    named: Any = said.get("components")
    if stages is None or said.get("pattern") is not None or not named:
        return None
    try:
        components = {
            name: IndexSampler(each["num_records"], num_epochs=each.get("num_epochs"))
            for name, each in named.items()
        }
        how: Any = {name: said[name] for name in ("order", "when_exhausted", "lanes", "batch", "seed")}
        mixed = MixedSampler(components, weights=dict.fromkeys(components, 1), **how).with_stages(stages)
        return {name: each._asdict() for name, each in mixed.taken(state.index).items()}
    except (KeyError, TypeError, ValueError, LookupError):  # components of other kinds
        return None


def _show(saved: SavedState, options: argparse.Namespace, out: Output) -> None:
    facts = facts_of(saved.state())
    out.document({"files": list(map(str, saved.files)), **facts})
    out.text(str(saved.files[0]), style="bold")
    rows: list[tuple[str, str]] = []
    for name, value in facts.items():
        if value is not None:
            rows += zip([name, *[""] * len(lines := _lines(name, value))], map(_text, lines))
    out.facts(rows)


def _lines(name: str, value: Any) -> list[Any]:
    """A fact as what is on lines of its own: the items of a list, and of what has several values each."""
    if name == "segments":
        places = ["" if index is None else f" at index {index:,}" for _, index, _ in value]
        return [
            f"{stride:,} records a step from step {step:,} on{place}"
            for (step, _, stride), place in zip(value, places)
        ]
    if isinstance(value, list):
        return value or ["none"]
    if isinstance(value, dict) and any(isinstance(each, dict | list) for each in value.values()):
        return [f"{key}: {_text(each)}" for key, each in value.items()]
    return [value]


def _text(value: Any) -> str:
    text = _written(value)
    return text if len(text) <= _MOST else text[:_MOST] + " ..."


def _written(value: Any, *, inside: bool = False) -> str:
    """JSON as a user would write it: a list as its items, an object as pairs."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        text = ", ".join(f"{name}={_written(each, inside=True)}" for name, each in value.items())
    elif isinstance(value, list):
        text = ", ".join(_written(each, inside=True) for each in value)
    else:
        return json.dumps(value) if isinstance(value, bool | float | None) else f"{value:,}"
    return f"({text})" if inside else text


def _diff(saved: SavedState, options: argparse.Namespace, out: Output) -> ExitStatus | None:
    other = find_saved(options.other)
    before, after = facts_of(saved.state()), facts_of(other.state())
    found = [*_differences("", before, after)]
    out.document({"differences": [{"field": name, "first": one, "second": two} for name, one, two in found]})
    if found:
        out.table(["field", "first", "second"], [[name, _text(one), _text(two)] for name, one, two in found])
    else:
        out.text("the same")
    return ExitStatus.FINDINGS if found else None


def _differences(path: str, one: Any, two: Any) -> list[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(two, dict):
        names = [*one, *(name for name in two if name not in one)]
        return [
            found
            for name in names
            for found in _differences(f"{path}.{name}" if path else name, one.get(name), two.get(name))
        ]
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        pairs = enumerate(zip(one, two, strict=True))
        return [found for place, pair in pairs for found in _differences(f"{path}[{place}]", *pair)]
    return [] if one == two else [(path, one, two)]


def _verify(saved: SavedState, options: argparse.Namespace, out: Output) -> ExitStatus | None:
    problems = [f"{name} is missing" for name in saved.missing]
    states: dict[Path, State] = {}
    for file in saved.files:
        try:
            states[file] = loaded(file)
        except StateError as error:
            problems.append(str(error))
        else:
            if states[file].digest_missing:
                problems.append(f"{file}: it has no digest: it was edited by hand")
    if len({state.step for state in states.values()}) > 1:
        steps = ", ".join(f"{file.name} of step {state.step:,}" for file, state in states.items())
        problems.append(f"the files are of different steps: {steps}")
    elif states and not problems:
        state = saved.state()
        lacking = (
            [] if state.streams is None else sorted({*range(state.streams.count)} - state.cursors.keys())
        )
        if lacking:
            problems.append(f"no file has the positions of the logical streams {lacking}")
    out.document({"files": list(map(str, saved.files)), "problems": problems})
    for problem in problems:
        out.text(problem)
    if not problems:
        step = states[saved.files[0]].step
        files = "1 file" if len(states) == 1 else f"{len(states):,} files"
        out.text(f"{files} of step {step:,}: nothing is wrong")
    return ExitStatus.FINDINGS if problems else None


def _edit(saved: SavedState, options: argparse.Namespace, out: Output) -> None:
    target = Path(options.output)
    if target.exists():
        raise UsageError(f"--output: expected a new file, got {target}, which exists")
    if saved.missing:
        raise UsageError(f"CKPT: expected all files of the save, got none named {', '.join(saved.missing)}")
    state = saved.state()
    if state.streams is not None:
        raise UsageError(
            "CKPT: expected a state of a loader whose operations keep the number of rows, got one that has "
            f"{state.streams.count} logical streams, of which no other position can be computed"
        )
    try:
        moved = edited(state, seek=options.seek, skip=options.skip)
    except (ValueError, IndexError) as error:
        raise UsageError(str(error)) from error
    with whole_file(str(target)) as file:
        file.write(dumps(moved))
    out.document({"output": str(target), "step": moved.step, "index": moved.index})
    out.text(f"{target}: step {moved.step:,}, index {moved.index:,}")


def edited(state: State, *, seek: int | None = None, skip: int | None = None) -> State:
    """The state at another step, or with steps left out; only where operations keep the number of rows.

    Args:
        state: a position.
        seek: the step to go to. skip: how many steps to leave out. One of the two is given.

    ValueError or IndexError for a step that can't be.
    """
    if seek is not None:
        index = state.segments.seek(seek, state.stride)
        return replace(state, step=seek, cursors={0: (index,)})
    assert skip is not None
    segments = state.segments.skip(state.step, state.index, skip)
    return replace(state, segments=segments, cursors={0: (segments.index_of(state.step),)})
