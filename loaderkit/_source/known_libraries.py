"""Fingerprints of data sets of other libraries that hold their data or a fingerprint of it.

A library is recognised by the names of its classes; none is imported. At most some records are read, from memory or
from local files, and no code of the user's runs.

    content          a hash of the sampled records, of all records of a small data set
    hf_fingerprint   Hugging Face's own fingerprint of the data and of all that was done to it, where it is reliable
    keys, source(s)  for a data set made of others: the chosen keys, and the fingerprints of the others
"""

import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from .content import content_hash, sampled_keys
from .protocol import read_records
from .tables import library_names

# Records that a content hash reads where data lies in memory or is mapped into it. Saved fingerprints depend on it.
MOST_RECORDS = 256
_TOGETHER = 16  # records in memory at once: all of them may be gigabytes of pictures or sounds

_Seen = dict[str, Any]
_FingerprintOf = Callable[[Any], _Seen]


def seen_by_library(source: Any, fingerprint_of: _FingerprintOf) -> _Seen:
    """The fingerprint of a known library's data set, as JSON values; an empty dict for any other source.

    Args:
        source: any data source.
        fingerprint_of: called with each source that this one is made of.

    >>> seen_by_library([1, 2], dict)
    {}
    """
    for name in library_names(source):
        see = _LIBRARIES.get(name)
        if see is not None:
            # A user's subclass may lack the attributes that its base would set.
            with contextlib.suppress(Exception):
                return see(source, fingerprint_of)
    if hasattr(source, "dataset_info") and hasattr(source, "data_source"):
        with contextlib.suppress(Exception):
            return _tfds(source)
    return {}


# --- Hugging Face ---------------------------------------------------------------------------------------------------


def _hugging_face(source: Any, _: _FingerprintOf) -> _Seen:
    keys = _sampled(source)
    seen: _Seen = {}
    with contextlib.suppress(Exception):  # without content, the library's own fingerprint is used
        # In arrow format nothing is decoded and no transform of the user's runs.
        rows = map(_without_folders, _rows(source.with_format("arrow"), keys))
        seen["content"] = content_hash(chain([list(source.column_names)], rows))
    if len(keys) < len(source) or not seen:
        seen["hf_fingerprint"] = _reliable_fingerprint(source)
    return {name: value for name, value in seen.items() if value is not None}


def _rows(arrow: Any, keys: list[int]) -> Iterator[Any]:
    for first in range(0, len(keys), _TOGETHER):
        yield from arrow[keys[first : first + _TOGETHER]].to_pylist()


def _reliable_fingerprint(source: Any) -> str | None:
    """The data set's `_fingerprint`, None where it may differ for the same data."""
    library: Any = sys.modules.get("datasets.fingerprint")
    # It is random after a transform that can't be hashed; the library records such transforms where caching is on.
    if getattr(library, "fingerprint_warnings", None) or not getattr(library, "_CACHING_ENABLED", True):
        return None
    own = source._fingerprint
    return own if isinstance(own, str) else None


def _without_folders(value: Any) -> Any:
    # An image or sound that stays in its file is stored as the absolute path.
    if isinstance(value, Mapping):
        if value.keys() == {"bytes", "path"} and isinstance(value["path"], str):
            return {"bytes": value["bytes"], "path": value["path"].rpartition("/")[2]}
        return {key: _without_folders(child) for key, child in value.items()}
    return [_without_folders(child) for child in value] if isinstance(value, list) else value


# --- TFDS -----------------------------------------------------------------------------------------------------------


def _tfds(source: Any) -> _Seen:
    # The underlying source gives records as they are stored: nothing is decoded.
    raw = source.data_source
    return {"content": content_hash(read_records(raw, sampled_keys(len(raw))))}


# --- PyTorch --------------------------------------------------------------------------------------------------------


def _tensor(source: Any, _: _FingerprintOf) -> _Seen:
    return {"content": content_hash(_tensor_parts(source))}


def _tensor_dataset(source: Any, _: _FingerprintOf) -> _Seen:
    return {"content": content_hash(part for tensor in source.tensors for part in _tensor_parts(tensor))}


def _tensor_parts(tensor: Any) -> Iterator[Any]:
    yield str(tensor.dtype), tuple(tensor.shape)
    flat = tensor.detach().reshape(len(tensor), -1)
    for key in _sampled(tensor):
        # As bytes, because numpy lacks some of torch's dtypes.
        yield flat[key].cpu().contiguous().view(sys.modules["torch"].uint8).numpy()


def _subset(source: Any, fingerprint_of: _FingerprintOf) -> _Seen:
    keys = np.ascontiguousarray(source.indices, np.int64)
    digest = hashlib.sha256(keys.tobytes()).hexdigest()[:32]
    return {"keys": f"sha256:{digest}", "source": fingerprint_of(source.dataset)}


def _several(source: Any, fingerprint_of: _FingerprintOf) -> _Seen:
    parts = source.datasets
    if isinstance(parts, Mapping):
        return {"sources": {str(name): fingerprint_of(part) for name, part in parts.items()}}
    return {"sources": [fingerprint_of(part) for part in parts]}


# --- pandas and pyarrow ---------------------------------------------------------------------------------------------


def _series(source: Any, _: _FingerprintOf) -> _Seen:
    return {"content": content_hash([str(source.dtype), *source.iloc[_sampled(source)].tolist()])}


def _arrow(source: Any, _: _FingerprintOf) -> _Seen:
    values = [source[key].as_py() for key in _sampled(source)]
    return {"content": content_hash([str(source.type), *values])}


def _sampled(source: Sequence[Any]) -> list[int]:
    return sampled_keys(len(source), most=MOST_RECORDS)


_LIBRARIES: Mapping[tuple[str, str], Callable[[Any, _FingerprintOf], _Seen]] = {
    ("datasets", "Dataset"): _hugging_face,
    ("torch", "Tensor"): _tensor,
    ("torch", "TensorDataset"): _tensor_dataset,
    ("torch", "Subset"): _subset,
    ("torch", "ConcatDataset"): _several,
    ("torch", "StackDataset"): _several,
    ("pandas", "Series"): _series,
    ("pyarrow", "ChunkedArray"): _arrow,
    ("pyarrow", "Array"): _arrow,
}
