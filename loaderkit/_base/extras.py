"""What to install where an optional library is missing: one text for all errors."""


def missing_library(needs: str, library: str, extra: str) -> ImportError:
    """The error of a part whose library isn't installed.

    Args:
        needs: which part it is, with the verb: "CBOR fields need".
        library: its name.
        extra: of `pyproject.toml`, that brings it.

    >>> str(missing_library("lk.interop.tqdm.progress needs", "tqdm", "progress"))
    "lk.interop.tqdm.progress needs tqdm: pip install '.[progress]' in a clone of loaderkit"
    """
    return ImportError(f"{needs} {library}: pip install '.[{extra}]' in a clone of loaderkit")
