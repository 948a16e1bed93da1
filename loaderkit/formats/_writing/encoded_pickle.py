"""What workers make of a record to be written. They import this file, so it imports nothing of the loader."""

import pickle
from dataclasses import dataclass
from typing import Any

from .record_stream import encode
from .write_format import RecordEncoder


@dataclass(frozen=True, slots=True)
class EncodedPickle:
    """What an encoder makes of a record, pickled: formats encode to types that a loader doesn't carry.

    Args:
        encoder: of the format.
    """

    encoder: RecordEncoder

    def __call__(self, number: int, record: Any) -> bytes:
        return pickle.dumps(encode(self.encoder, record, number), 5)
