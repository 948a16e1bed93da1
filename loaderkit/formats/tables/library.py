"""pyarrow, for the sources and writers that need it."""

from loaderkit._base.extras import missing_library


def require_pyarrow(needs: str, extra: str = "arrow") -> None:
    """An ImportError that says what to install, where it is missing.

    Args:
        needs: what needs it, with the verb.
        extra: that brings it.

    >>> require_pyarrow("lk.ParquetDataSource needs")
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise missing_library(needs, "pyarrow", extra) from error
