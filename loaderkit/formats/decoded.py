"""Records that `lk.write` encoded, and the error of one that can't be decoded."""

from collections.abc import Callable
from typing import Any

from loaderkit._codecs.record_codec import decode_record, decode_records
from loaderkit._codecs.scan import Malformed
from loaderkit.errors import DataFormatError


def decoded_records(values: list[bytes], where: Callable[[int], str]) -> list[Any]:
    """The records; DataFormatError that says where the first wrong one is.

    Args:
        values: of a file or a database.
        where: says where a value lies, by its place among them.

    >>> decoded_records([b"other bytes"], str)
    [b'other bytes']
    """
    try:
        return decode_records(values)
    except Malformed:
        for place, value in enumerate(values):
            try:
                decode_record(value)
            except Malformed as error:
                raise DataFormatError(
                    f"{where(place)}: {error.problem}; write it again, or give decode=False"
                ) from error
        raise
