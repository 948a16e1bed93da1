"""A table with a file a row."""

from __future__ import annotations

import os
from collections.abc import Mapping
from reprlib import repr as _short
from typing import Any

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._source.content import content_hash
from loaderkit._storage.addresses import is_remote
from loaderkit.errors import DataFormatError

from .loose_files import LooseFilesDataSource
from .tables.columns import column_of, table_columns


class JoinedFilesDataSource(LooseFilesDataSource):
    """The rows of a table, each with the bytes of the file that it names: {column: value, ..., "file": bytes}.

    All names are checked when the source is made; a file is opened when its record is read. Rows may share a file.

    Args:
        table: a path of a .csv or .tsv file, a DataFrame, an Arrow table, a dict of arrays, or a data source of dicts;
            it is read into memory. Values of a path are texts (str); CsvDataSource has `types=`.
        column: the name of the column with the files' names.
        root: the folder, or the address of one, that the names are below. A name that leads out of it is refused.
        key: the file's name in a record; ValueError where the table has a column of this name.
        storage_options: of the server: credentials, endpoint.

    FileNotFoundError naming the row and the path for a row without its file, DataFormatError for a row without a name.

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = pathlib.Path(folder.name, "a.txt").write_text("hello")
    >>> _ = pathlib.Path(folder.name, "table.csv").write_text("path,label\\na.txt,greeting\\n")
    >>> with JoinedFilesDataSource(folder.name + "/table.csv", "path", folder.name) as source:
    ...     source[0]
    {'path': 'a.txt', 'label': 'greeting', 'file': b'hello'}
    >>> folder.cleanup()
    """

    @refusing_foreign_arguments
    def __init__(
        self,
        table: Any,
        column: str,
        root: str | os.PathLike[str],
        *,
        key: str = "file",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._columns = table_columns(table)
        named = column_of(self._columns, column, "column")
        given: object = key  # of any type, whatever the annotation says
        if not isinstance(given, str) or given in self._columns:
            raise ValueError(
                f"key: expected a name other than the columns' {list(self._columns)}, got {key!r}"
            )
        self._key = key
        names = [_checked(name, column, row) for row, name in enumerate(named.tolist())]
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        self._places = [places[name] for name in names]
        folder = os.fspath(root)
        remote = is_remote(folder)
        folder = folder.rstrip("/") if remote else os.path.abspath(os.path.expanduser(folder))
        paths = [f"{folder}/{name}" for name in places]
        if not remote:
            missing = [place for place, path in enumerate(paths) if not os.path.isfile(path)]
            if missing:
                row = self._places.index(missing[0])
                more = "" if len(missing) == 1 else f", and {len(missing) - 1} more files are missing"
                raise FileNotFoundError(
                    f"table, row {row}: expected a file for {column} {names[row]!r}, got none at {paths[missing[0]]}"
                    f"{more}; correct root= or column=, or leave these rows out of the table"
                )
        super().__init__(paths, names, storage_options)

    def _place(self, key: int) -> int:
        return self._places[key]

    def _record(self, key: int, data: bytes) -> dict[str, Any]:
        return {**{name: values[key] for name, values in self._columns.items()}, self._key: data}

    def fingerprint(self) -> dict[str, Any]:
        """The names below the root, the files' sizes, and a hash of the table."""
        told = super().fingerprint()
        return {**told, "key": self._key, "table": content_hash([dict(self._columns)])}


def _checked(name: Any, column: str, row: int) -> str:
    place = f"table, row {row}: expected the name of a file below root in {column}"
    if not isinstance(name, str) or not name:
        raise DataFormatError(f"{place}, got {_short(name)}; leave this row out of the table")
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise DataFormatError(
            f"{place}, got {_short(name)}, which leads out of it; write names relative to root, without '..'"
        )
    return name.removeprefix("./")
