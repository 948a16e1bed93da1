"""Whether a run goes on where another one was killed: where what decides the bytes is the same."""

import itertools
import logging
from collections.abc import Collection
from typing import Any

from loaderkit.errors import ResumeMismatchError

ALLOWED = ("source", "function", "tokenizer", "libraries")
_log = logging.getLogger("loaderkit")


def goes_on_from(
    there: dict[str, Any] | None,
    here: dict[str, Any] | None,
    *,
    folder: str,
    overwrite: bool | None = None,
    allow: Collection[str] = (),
) -> bool:
    """True where a run goes on, False where it begins again; ResumeMismatchError with both sides where they differ.

    Args:
        there: what the unfinished files are made of, by name; None where nothing is compared.
        here: what this run makes its files of.
        folder: that has the files, or the file.
        overwrite: whether the run begins again where they differ; None where a caller can't say so.
        allow: names of parts that may differ.

    >>> there, here = ({"function": {"version": number}} for number in (1, 2))
    >>> goes_on_from(there, there, folder="x"), goes_on_from(there, here, folder="x")
    (True, False)
    """
    if isinstance(allow, str) or not {*allow} <= {*ALLOWED}:
        raise ValueError(f"allow: expected a set of {', '.join(map(repr, ALLOWED))}, got {allow!r:.80}")
    if there is None or here is None:
        return there is here
    versions = [each.get("function", {}).get("version") for each in (there, here)]
    differ = [name for name in here if there.get(name) != here[name] and name not in allow]
    if not differ:
        if unseen := here.get("function", {}).get("not compared"):
            _log.warning("%s: goes on; a change of these wouldn't be noticed: %s", folder, "; ".join(unseen))
        return True
    if overwrite or (None not in versions and versions[0] != versions[1]):
        return False
    shown = "; ".join(f"{name}: {_difference(there.get(name), here[name])}" for name in differ)
    again = "delete it" if overwrite is None else "give overwrite=True (--overwrite)"
    advice = [f"{again} to begin again"]
    if {*differ} <= {*ALLOWED}:
        advice.append(f"allow={{{', '.join(map(repr, differ))}}} where the results are the same all the same")
    raise ResumeMismatchError(
        f"{folder}: expected files of this run, which goes on with them, got those of another one: {shown}. "
        f"Please {', or '.join(advice)}"
    )


def _difference(there: Any, here: Any) -> str:
    """The first place where two JSON values differ, and what is there."""
    if isinstance(there, dict) and isinstance(here, dict):
        name = next(
            each for each in [*here, *there] if there.get(each, "nothing") != here.get(each, "nothing")
        )
        return f"{name}: {_difference(there.get(name, 'nothing'), here.get(name, 'nothing'))}"
    if isinstance(there, str) and isinstance(here, str):
        lines = itertools.zip_longest(there.splitlines(), here.splitlines(), fillvalue="nothing")
        there, here = next((pair for pair in lines if pair[0] != pair[1]), (there, here))
    return f"{there!r:.120} there and {here!r:.120} here"
