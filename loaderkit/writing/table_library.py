"""pyarrow, for the formats that need it."""


def pyarrow_to_write() -> None:
    """An ImportError that says what to install, where it is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "the formats parquet and arrow need pyarrow: pip install 'loaderkit[write]'"
        ) from error
