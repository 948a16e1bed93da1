"""Numbers of bytes as text."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_text(nbytes: float) -> str:
    """A number of bytes for a reader: two or three digits and the binary unit.

    >>> size_text(500), size_text(1536), size_text(12.3 * 2**20)
    ('500 B', '1.5 KiB', '12.3 MiB')
    """
    size, unit = float(nbytes), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    if unit == 0 or size >= 100:
        return f"{size:.0f} {_UNITS[unit]}"
    return f"{size:.1f}".removesuffix(".0") + f" {_UNITS[unit]}"
