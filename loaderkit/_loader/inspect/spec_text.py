"""What an element looks like, in one line."""

from typing import Any


def spec_text(value: Any) -> str:
    """The tree of a value, with dtype and shape of arrays and the types of other leaves.

    Args:
        value: any element.

    >>> import numpy as np
    >>> spec_text({"image": np.zeros((480, 640, 3), np.uint8), "label": 3, "name": "cat"})
    "{'image': uint8(480, 640, 3), 'label': int, 'name': str[3]}"
    >>> spec_text((np.float32(1), b"abc", [1, 2]))
    '(float32, bytes[3], [int, int])'
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {spec_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        inside = ", ".join(
            f"{name}={spec_text(each)}" for name, each in zip(value._fields, value, strict=True)
        )
        return f"{type(value).__name__}({inside})"
    if isinstance(value, tuple | list):
        inside = ", ".join(map(spec_text, value[:_MOST]))
        inside += f", ... {len(value)} in all" if len(value) > _MOST else ""
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, bytes | bytearray | str):
        return f"{type(value).__name__}[{len(value)}]"
    shape = getattr(value, "shape", None)
    dtype = getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return (
            f"{dtype}({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})" if shape else f"{dtype}"
        )
    return type(value).__name__


_MOST = 8  # leaves of a list that are shown
