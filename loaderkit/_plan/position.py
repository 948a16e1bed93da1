"""A position: where an iterator stands in the stream of a plan."""

from collections.abc import Mapping
from typing import NamedTuple

from loaderkit._order.facts import Cursor

from .bad_records import NO_BAD_RECORDS, BadRecords
from .segments import Segments


class Position(NamedTuple):
    """Where an iterator stands.

    step       elements handed out
    segments   which indices belong to which step (see _plan/segments.py)
    cursors    by logical stream, where it goes on; only where operations change the number of rows, for elsewhere
               the segments say it
    q          of the logical streams from here on (see _plan/logical_streams.py)
    losses     the bad records of the rows handed out
    numerics   of a restored state, as it has them: digests of the last bits that its process computed, {} where it says
               nothing; None once a batch was taken: then those of this process are saved
    """

    step: int
    segments: Segments
    cursors: Mapping[int, Cursor] | None
    q: int
    losses: BadRecords = NO_BAD_RECORDS
    numerics: Mapping[str, str] | None = None
