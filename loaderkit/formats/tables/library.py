"""pyarrow, for the sources and writers that need it."""

from typing import Any

from loaderkit._base.extras import missing_library


def pyarrow_for(name: str) -> Any:
    """The module; an ImportError that says what to install.

    Args:
        name: of the source that needs it, as it follows `lk.`.

    >>> pyarrow_for("ParquetDataSource").__name__
    'pyarrow'
    """
    try:
        import pyarrow
    except ImportError as error:
        raise missing_library(f"lk.{name} needs", "pyarrow", "arrow") from error
    return pyarrow


def pyarrow_to_write() -> None:
    """An ImportError that says what to install, where it is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise missing_library("the formats parquet and arrow need", "pyarrow", "write") from error
