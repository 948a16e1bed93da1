"""Records that `lk.write` encoded, and the error of one that can't be decoded."""

from collections.abc import Callable
from typing import Any

from loaderkit._codecs.record_codec import decode_record, decode_records
from loaderkit._codecs.scan import Malformed
from loaderkit.errors import DataFormatError


def decoded_records(values: list[bytes], where: Callable[[int, int], str]) -> list[Any]:
    """The records; DataFormatError that says where the first wrong one is.

    Args:
        values: of a file or a database.
        where: says where a byte lies, by its value's place among them and its offset in the value.

    >>> decoded_records([b"other bytes"], lambda place, offset: f"{place}")
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
                    f"{where(place, error.offset)}: {error.problem}; write it again, or give decode=False"
                ) from error
        raise
