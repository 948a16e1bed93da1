"""pyarrow, for the formats that need it."""

from loaderkit._base.extras import missing_library


def pyarrow_to_write() -> None:
    """An ImportError that says what to install, where it is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise missing_library("the formats parquet and arrow need", "pyarrow", "write") from error
