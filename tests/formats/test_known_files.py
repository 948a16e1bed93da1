"""What a new user gets wrong: files of another format, arguments of other readers, names in place of a source."""

import pytest

import loaderkit as lk


def test_a_file_of_another_format_is_named(tmp_path):
    """With the source that reads it; a file of an unknown name, or of this source, gets no such advice."""
    for name, text in [
        ("x.json", "a JSON document, which has no records of its own"),
        ("x.csv", r"by its name it is a file of the format csv: write lk\.open"),
        ("x.parquet", r"it is a file of the format parquet: write lk\.open"),
        ("x.feather", r"it is a file of the format arrow: write lk\.open"),
        ("x.ndjson", r"it is a file of the format jsonl: write lk\.open"),
        ("x.tfrecords", r"it is a file of the format tfrecord: write lk\.open"),
    ]:
        (tmp_path / name).write_bytes(b"not an archive" * 100)
        with pytest.raises(
            lk.errors.DataFormatError, match=rf"{name}: at byte 0: expected a tar header .*; .*{text}"
        ):
            lk.TarDataSource(tmp_path / name)
    for name in ("x.tar", "x.md"):
        (tmp_path / name).write_bytes(b"not an archive" * 100)
        with pytest.raises(lk.errors.DataFormatError) as error:
            lk.TarDataSource(tmp_path / name)
        assert "by its name" not in str(error.value)


def test_a_feather_file_given_as_parquet(tmp_path):
    """The error names the source of Feather files; a damaged Parquet file is to be written again."""
    for name, text in [("x.feather", r"write lk\.open"), ("x.parquet", "write it again")]:
        (tmp_path / name).write_bytes(b"ARROW1" * 100)
        with pytest.raises(lk.errors.DataFormatError, match=rf"{name}: expected a Parquet file, .*{text}"):
            lk.ParquetDataSource(tmp_path / name)


def test_arguments_of_other_readers(tmp_path):
    """They get ours."""
    for source, argument, ours in [
        (lk.formats.CsvDataSource, "sep", "CsvDataSource() has no argument sep; write instead: delimiter"),
        (lk.formats.CsvDataSource, "usecols", "columns=[name, ...]"),
        (lk.TarDataSource, "shardshuffle", "lk.IndexSampler"),
        (lk.TFRecordDataSource, "compression_type", "compressed files are refused"),
        (lk.formats.LinesDataSource, "buffer_size", "lk.ReadOptions"),
        (lk.JsonLinesDataSource, "lines", "each line is a record"),
        (lk.ArrayRecordDataSource, "batch_size", "lk.Batch(batch_size=...)"),
        (lk.ParquetDataSource, "filters", "lk.offline.filtered(source, function, path)"),
        (lk.formats.ArrowDataSource, "data_files", "paths, the first argument"),
        (lk.formats.LmdbDataSource, "num_workers", "worker_count"),
        (lk.formats.FilesDataSource, "shuffle", "lk.IndexSampler"),
        (lk.FolderDataSource, "is_valid_file", "extensions=[...]"),
        (lk.formats.JoinedFilesDataSource, "transform", "operations=[...]"),
    ]:
        with pytest.raises(TypeError) as error:
            source(tmp_path / "x", **{argument: ","})
        said = str(error.value)
        assert said.startswith(f"{source.__name__}() has no argument {argument}; ") and ours in said


def test_names_in_place_of_a_source(caplog):
    """A list of names of files of records is loaded as it is, with a warning; other lists without."""
    for names in (["notes.txt"], ["a cat"], [b"a.tar"], [{"a.tar": 1}]):
        lk.load(names)
    assert caplog.text == ""
    assert next(iter(lk.load(["a-0.tar", "a-1.tar"]))) == "a-0.tar"
    assert "for the records in the files write lk.load(lk.open(names))" in caplog.text
