"""Records with all leaves that a format brings back, and how two are compared."""

from typing import Any

import numpy as np

RECORDS: list[dict[str, Any]] = [
    {
        "name": f"record {number}",
        "data": bytes([number, 10, 0, 255]),
        "label": number,
        "good": number % 2 == 0,
        "weight": number / 3,
        "nothing": None,
        "image": np.arange(12, dtype=np.uint8).reshape(2, 2, 3) + np.uint8(number),
        "tokens": np.arange(-3, 9 + number, dtype=np.int32) * 1000,
        "floats": np.linspace(0, number, 5, dtype=np.float32),
        "doubles": np.linspace(0, number, 6).reshape(3, 2),
        "mask": np.array([True, False]),
        "scalar": np.int64(-number),
        "half": np.float16(number),
        "words": ["a", "ä", ""],
        "sizes": (number, 2),
        "empty": [],
        "nested": {"z": {"score": 0.5, "none": {}}, "a": b""},
    }
    for number in range(7)
]
# A leaf of which no tf.train.Example is made.
MIXED: list[dict[str, Any]] = [
    {"b": [1, "two", (3.0, None)], "a": {number: np.zeros(2), "boxes": [{"x": 1}]}, "big": 1 << 70}
    for number in range(3)
]


def same(a: Any, b: Any) -> bool:
    """Whether two records are equal: types, dtypes, shapes, values and the order of keys.

    NaN equals NaN.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return [*a] == [*b] and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return bool(a == b or (a != a and b != b))
