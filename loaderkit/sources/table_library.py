"""pyarrow, for the sources that need it."""

from typing import Any


def pyarrow_for(name: str) -> Any:
    """The module; an ImportError that says what to install.

    Args:
        name: of the source that needs it.

    >>> pyarrow_for("ParquetDataSource").__name__
    'pyarrow'
    """
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"lk.{name} needs pyarrow: pip install 'loaderkit[arrow]'") from error
    return pyarrow
