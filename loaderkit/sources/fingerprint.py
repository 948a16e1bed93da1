"""What a saved state says about its data, so that a restore on other data is noticed.

A source says it itself (`fingerprint()`, kind "declared"), or it is put together from what can be known of
any object (kind "foreign"). Neither has times, addresses or absolute paths: the same data moved elsewhere
stays the same data.
"""

import json
from typing import Any

import numpy as np

from .content import content_hash, sampled_keys, stable_repr
from .known_libraries import seen_by_library
from .protocol import read_records


def fingerprint_of(source: Any) -> dict[str, Any]:
    """What is known of a source, in JSON values: equal for the same data, different for most other data.

    Args:
        source: any data source. What its own `fingerprint()` gives has to be JSON; TypeError otherwise.

    >>> fingerprint_of([10, 20])["kind"], fingerprint_of([10, 20]) == fingerprint_of([10, 21])
    ('foreign', False)
    """
    own = getattr(source, "fingerprint", None)
    if callable(own):
        said = own()
        try:
            # Through JSON and back, as a saved one went: what is compared later are equal types.
            said = json.loads(json.dumps(said, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{type(source).__name__}.fingerprint() gave something that JSON can't hold ({error}); use "
                "dicts, lists, strings, ints and floats"
            ) from error
        if not isinstance(said, dict):
            raise TypeError(
                f"{type(source).__name__}.fingerprint() gave a {type(said).__name__}; a dict is needed"
            )
        return {"kind": "declared", **said}
    return {"kind": "foreign", **_seen_from_outside(source)}


def _seen_from_outside(source: Any) -> dict[str, Any]:
    cls = type(source)
    seen: dict[str, Any] = {"type": f"{cls.__module__}.{cls.__qualname__}", "records": len(source)}
    if cls in (list, tuple, str, bytes) or isinstance(source, np.ndarray):
        # Plain memory: its repr is the data, and reading some records has no effect and costs little.
        return seen | {"content": content_hash(read_records(source, sampled_keys(len(source))))}
    text = stable_repr(source)
    if text is not None:
        seen["repr"] = text
    info = getattr(source, "dataset_info", None)
    if info is not None and hasattr(info, "full_name") and hasattr(source, "split"):
        # TFDS: its repr leaves out the version.
        seen |= {"tfds": str(info.full_name), "split": str(source.split)}
    return seen | seen_by_library(source, fingerprint_of)
