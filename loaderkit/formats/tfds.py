"""Records of data sets that TFDS prepared, without TensorFlow."""

import os
import re
from typing import Any

from loaderkit._base.closing import Closing
from loaderkit._base.numbers import true_or_false
from loaderkit._base.system.optional_library import library
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit.errors import DataFormatError
from loaderkit.sources.mapped import MapDataSource

from ._datasets.find import TFDS_INFO


class TfdsDataSource(MapDataSource, Closing):
    """The records of a split of a data set that TFDS prepared, as ArrayRecord or TFRecord files.

    TFDS decodes them, as `tfds.data_source` does; TensorFlow isn't needed. It needs the extra `tfds`.

    Args:
        name: of the data set as TFDS has it: "mnist", "mnist:3.*.*", "mnist/config:3.0.1"; or the path of a folder with
            a dataset_info.json.
        split: as TFDS has it, such as "train[10%:20%]+test".
        as_supervised: whether records are tuples (input, target), by TFDS's supervised keys.
        decoders: as `tfds.load` takes them, such as `{"image": tfds.decode.SkipDecoding()}`.
        data_dir: where the data set lies; else TFDS's own folders. Nothing is downloaded.

    FileNotFoundError where no prepared data set has this name; ValueError for an unknown split, for one without
    records, and for as_supervised without keys; DataFormatError for files of another format.

    >>> TfdsDataSource("my_pictures:1.*.*", "train[:10%]", data_dir="/data/tfds")
    Traceback (most recent call last):
        ...
    FileNotFoundError: my_pictures:1.*.*: expected a data set that TFDS has prepared in /data/tfds, got none; prepare...
    """

    def __init__(
        self,
        name: str | os.PathLike[str],
        split: str,
        *,
        as_supervised: bool = False,
        decoders: Any = None,
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        true_or_false("as_supervised", as_supervised)
        if not isinstance(split, str):
            raise TypeError(f"split: expected a text such as 'train[:10%]', got a {type(split).__name__}")
        builder = _builder(name, data_dir)
        info = builder.info
        self._dataset, self._split = str(info.full_name), split
        keys = info.supervised_keys
        if as_supervised and keys is None:
            raise ValueError(
                f"as_supervised: expected a data set with supervised keys, got {self._dataset}, which has none; "
                "choose fields by a Map"
            )
        self._pairs = as_supervised
        self._decoded = None if decoders is None else _kinds(decoders)
        self._splits = {name: int(each.num_examples) for name, each in info.splits.items()}
        self._files = _files_of(info, split, os.fspath(builder.data_dir))
        super().__init__(
            self._files,
            ExampleDecoder(os.fspath(builder.data_dir), decoders, keys if as_supervised else None),
        )

    def splits(self) -> dict[str, int]:
        """The records of each split of the data set."""
        return dict(self._splits)

    def fingerprint(self) -> dict[str, Any]:
        """Name and version, the split, what is decoded, and the files' fingerprint."""
        return {
            "type": "TfdsDataSource",
            "dataset": self._dataset,
            "split": self._split,
            "as_supervised": self._pairs,
            "decoders": self._decoded,
            "source": fingerprint_of(self._files),
        }

    def close(self) -> None:
        """Closes the files."""
        self._files.close()

    def __repr__(self) -> str:
        return f"TfdsDataSource({self._dataset}, {self._split})"


class ExampleDecoder:
    """Decodes the bytes of a record as TFDS does. The features are read from the data set's folder in each process.

    Args:
        folder: of the prepared data set.
        decoders: as TFDS takes them, or None.
        keys: TFDS's supervised keys, a tree of names; None for whole records.
    """

    def __init__(self, folder: str, decoders: Any, keys: Any) -> None:
        self._folder, self._decoders, self._keys = folder, decoders, keys
        self._features: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_features": None}

    def __call__(self, data: bytes) -> Any:
        if self._features is None:
            self._features = _tfds().builder_from_directory(self._folder).info.features
        record = self._features.deserialize_example_np(data, decoders=self._decoders)
        return record if self._keys is None else _chosen(record, self._keys)


def _chosen(record: Any, keys: Any) -> Any:
    if isinstance(keys, str):
        return record[keys]
    if isinstance(keys, dict):
        return {name: _chosen(record, key) for name, key in keys.items()}
    return tuple(_chosen(record, key) for key in keys)


def _builder(name: str | os.PathLike[str], data_dir: str | os.PathLike[str] | None) -> Any:
    given: object = name
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"name: expected a text or a path, got a {type(given).__name__}")
    tfds = _tfds()
    path = os.path.expanduser(os.fspath(name))
    if os.path.isfile(os.path.join(path, TFDS_INFO)):
        return tfds.builder_from_directory(os.path.abspath(path))
    folder = None if data_dir is None else os.path.abspath(os.path.expanduser(os.fspath(data_dir)))
    try:
        return tfds.core.read_only_builder.builder_from_files(os.fspath(name), data_dir=folder)
    except tfds.core.registered.DatasetNotFoundError as error:
        where = "TFDS's own folders" if folder is None else folder
        raise FileNotFoundError(
            f"{os.fspath(name)}: expected a data set that TFDS has prepared in {where}, got none; prepare it with "
            f"tfds.builder(...).download_and_prepare(), or give data_dir="
        ) from error


def _files_of(info: Any, split: str, folder: str) -> Any:
    from .array_record.source import ArrayRecordDataSource
    from .tfrecord.source import TFRecordDataSource

    if re.search(r":-?0+shard\]", split):
        raise ValueError(
            f"split: expected a slice with records, got {split!r}: nothing is before the first shard, and TFDS would "
            "give the whole split"
        )
    found = info.splits[split].file_instructions
    if not found:
        raise ValueError(
            f"split: expected one record or more, got {split!r} of {info.full_name}, which has none"
        )
    file_format = getattr(info.file_format, "value", info.file_format)
    if file_format == "array_record":
        return ArrayRecordDataSource(found)
    if file_format == "tfrecord":
        return TFRecordDataSource(found)
    raise DataFormatError(
        f"{folder}: expected files of the format array_record or tfrecord, got {file_format}; prepare it with "
        'file_format="array_record"'
    )


def _kinds(decoders: Any) -> Any:
    if isinstance(decoders, dict):
        return {str(name): _kinds(each) for name, each in decoders.items()}
    return type(decoders).__name__


def _tfds() -> Any:
    name = "tensorflow-datasets"
    return library("tensorflow_datasets", "lk.formats.TfdsDataSource needs", "tfds", package=name)
