"""What a source is, in few bytes: two of them, on two machines, are compared by it."""

import hashlib
from typing import Any

from loaderkit._base.canonical_json import canonical
from loaderkit.errors import FileChangedError

from .fingerprint import fingerprint_of, without_index_fields
from .protocol import read_records

_MOST_SHOWN = 300  # characters


def described(source: Any) -> dict[str, Any]:
    """The number of records, a digest of the fingerprint, and the beginning of its text, as JSON values.

    >>> described([10, 20]) == described([10, 20]), described([10, 20]) == described([10, 21])
    (True, False)
    """
    text = canonical(without_index_fields(fingerprint_of(source)))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"records": len(source), "source": digest, "shown": text[:_MOST_SHOWN]}


def missing_file(source: Any) -> str | None:
    """The file that the first or the last record is in, where it can't be opened here; None for any other outcome.

    Raises FileChangedError where it is another file than the source was made of.

    >>> missing_file([10, 20]) is None
    True
    """
    try:
        read_records(source, sorted({0, len(source) - 1} - {-1}))
    except FileChangedError:
        raise
    except OSError as error:
        return error.filename if isinstance(error.filename, str) else None
    except Exception:  # noqa: BLE001 - a bad record is handled when it is read for a batch
        return None
    return None
