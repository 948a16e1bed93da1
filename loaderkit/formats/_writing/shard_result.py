"""What came of one shard of `lk.offline.map_shards`, as its `.done` file says it."""

import dataclasses
import json
import os
from typing import Any

from loaderkit._base.canonical_json import check_seal, sealed
from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._base.system.whole_file import whole_file
from loaderkit.errors import ChecksumError


@dataclass(frozen=True, slots=True)
class ShardResult:
    """A finished shard.

    records: written, or folded. dropped: the bad records, as `dropped_record` has them. value: with `reduce`. job:
    digest of what was asked for, which `ShardJobs` adds. nbytes, sha256: of the file, None without one.
    """

    records: int
    dropped: list[dict[str, Any]] = field(default_factory=list)
    value: Any = None
    job: str = ""
    nbytes: int | None = None
    sha256: str | None = None

    def write(self, path: str) -> None:
        """Writes the `.done` file, whole or not at all."""
        with whole_file(path) as file:
            file.write(json.dumps(sealed(dataclasses.asdict(self)), sort_keys=True, allow_nan=False).encode())


def read_result(path: str, job: str, data: str | None) -> ShardResult | None:
    """The result of a shard where it is finished and of this job; None otherwise.

    Args:
        path: of the `.done` file.
        job: as `ShardResult` has it.
        data: the shard's file, None without one.
    """
    try:
        with open(path, "rb") as file:
            result = ShardResult(**check_seal(path, json.loads(file.read()), ""))
        if result.job != job or (data is not None and os.stat(data).st_size != result.nbytes):
            return None
    except (FileNotFoundError, ValueError, TypeError, AttributeError, ChecksumError):
        return None  # damaged: it is done again
    return result


def json_value(value: Any, what: str) -> Any:
    """A value after a way through JSON, so that it is the same whether the shard was done now or by an earlier run.

    Args:
        value: TypeError for what JSON can't hold, with what to give instead.
        what: gave it, for the error.

    >>> json_value({"counts": (1, 2)}, "fn")
    {'counts': [1, 2]}
    """
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{what}: expected a JSON value (dict with texts as keys, list, text, number, None), got {value!r:.80}: "
            f"{error}; numpy's values have .tolist()"
        ) from None
