"""What a keeper says of its host, and whether a trainer lets it in: the same program must make the same bytes there."""

import contextlib
import os
import socket
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from loaderkit._base.system.numerics import other_numerics, present_versions

from .frames import fast_checksum

PROTOCOL = 1
# Of distributions whose versions must agree where both hosts have them.
_LIBRARIES = ("opencv-python-headless", "opencv-python", "pillow", "pyarrow")


@cache
def _libraries() -> dict[str, str]:
    found = {}
    for library in _LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[library] = version(library)
    return found


def host_facts() -> dict[str, Any]:
    """Of this host: its name, the protocol, the versions of what makes bytes, the byte order, the best checksum.

    >>> why_refused(host_facts(), host_facts()) is None
    True
    """
    return {
        "host": socket.gethostname(),
        "protocol": PROTOCOL,
        "versions": present_versions() | _libraries(),
        "byte order": sys.byteorder,
        "checksum": fast_checksum(),
    }


def why_refused(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str | None:
    """Why a host can't do this trainer's work; None where it can.

    Args:
        ours, theirs: facts of the trainer's host and of the other one.
    """
    for name in ("protocol", "byte order"):
        if ours[name] != theirs[name]:
            return f"it has {name} {theirs[name]!r}, and the trainer {ours[name]!r}"
    here, there = ours["versions"], theirs["versions"]
    differ = [
        f"{name} {there.get(name, 'missing')}, and the trainer {here[name]}"
        for name in here
        if _differ(name, here[name], there.get(name))
    ]
    if differ:
        return f"it has {'; '.join(differ)}. Install the trainer's versions there"
    return None


def _differ(name: str, here: str, there: str | None) -> bool:
    if name in _LIBRARIES:  # its own error names it where the program needs it
        return there is not None and here != there
    if name == "python" and there is not None:  # byte code of functions that are sent
        return here.split(".")[:2] != there.split(".")[:2]
    return here != there


def why_other_data(ours: Mapping[str, Any], theirs: Mapping[str, Any], *, numerics: bool) -> str | None:
    """Why what a host's worker set up isn't what the trainer has; None where it is.

    Args:
        ours, theirs: `described` of the source, with the `numerics` of the host; the other host's also with the file
            that is `missing` there, or only its `error`.
        numerics: whether it matters that libraries compute the same last bits.
    """
    if "error" in theirs:
        return (
            f"its worker can't be set up: {theirs['error']}. A path must lead to the same data on every host: use "
            "shared storage or a URL, and install the modules that the program imports"
        )
    missing = theirs["missing"]
    if missing is not None and os.path.exists(missing):
        return f"it can't open {missing}, which is there at the trainer. Put it on shared storage, or open it by a URL"
    for name, what in (("records", "records"), ("source", "data, by the fingerprint")):
        if ours[name] != theirs[name]:
            shown = "records" if name == "records" else "shown"
            return f"it finds other {what}: {theirs[shown]} there, {ours[shown]} at the trainer"
    differ = other_numerics(ours["numerics"], theirs["numerics"])
    if numerics and differ:
        return (
            f"its {', '.join(differ)} computes other last bits than the trainer's, as another processor does"
        )
    return None
