"""Which format a file has: by its name and first bytes, as the five tables of before said it, and by other packages."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit.formats import Format, register, registry
from loaderkit.formats.built_in import FORMATS

# What the tables of version 0.1 said, each frozen as it was.
SOURCE_OF_EXTENSION = {
    "tar": "TarDataSource",
    "tfrecord": "TFRecordDataSource",
    "jsonl": "JsonLinesDataSource",
    "csv": "CsvDataSource",
    "txt": "LinesDataSource",
    "array_record": "ArrayRecordDataSource",
    "parquet": "ParquetDataSource",
    "arrow": "ArrowDataSource",
    "feather": "ArrowDataSource",
    "tfrecords": "TFRecordDataSource",
    "ndjson": "JsonLinesDataSource",
}
FORMAT_OF_EXTENSION = {
    "tar": "tar",
    "tfrecord": "tfrecord",
    "tfrecords": "tfrecord",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "txt": "lines",
    "csv": "csv",
    "tsv": "tsv",
    "array_record": "array_record",
    "arrayrecord": "array_record",
    "riegeli": "array_record",
    "parquet": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
}
WRITTEN = {
    "array_record": "ArrayRecordWriting",
    "tar": "TarWriting",
    "tfrecord": "TFRecordWriting",
    "parquet": "ParquetWriting",
    "arrow": "ArrowWriting",
    "jsonl": "JsonLinesWriting",
    "jsonl.zst": "CompressedJsonLinesWriting",
    "tokens": "TokensWriting",
    "megatron": "MegatronWriting",
    "webdataset": "WebDatasetWriting",
}
OPENED = {
    "array_record": "ArrayRecordDataSource",
    "arrow": "ArrowDataSource",
    "jsonl": "JsonLinesDataSource",
    "parquet": "ParquetDataSource",
    "tar": "TarDataSource",
    "tfrecord": "TFRecordDataSource",
    "tokens": "TokenDataSource",
}
SCANNED = {
    "tar": ("tar", {}),
    "tfrecord": ("tfrecord", {}),
    "jsonl": ("json_lines", {}),
    "lines": ("lines", {}),
    "csv": ("csv", {}),
    "tsv": ("csv '\\t' '\"'", {"delimiter": "\t"}),
}


@pytest.mark.parametrize(
    "name",
    [
        *("x.{}", "a/b/X.{}", "s3://b/x.{}?v=1", "x.{}[3:9]", "x.{}-00000-of-00004", "x.{}@8", "x@8.{}"),
        *(
            "https://h/x.{}?signed",
            "gs://b/x-?????-of-00004.{}",
            "gs://b/x.{}-?????-of-00004",
            "gs://b/x?.{}",
        ),
    ],
)
def test_a_name_says_what_the_tables_of_before_said(name):
    """For each extension in each form of a name."""
    for extension, expected in FORMAT_OF_EXTENSION.items():
        assert registry.by_name(name.format(extension)).name == expected
    for extension, expected in SOURCE_OF_EXTENSION.items():
        assert registry.by_name(name.format(extension)).source_name == expected


def test_a_format_is_what_the_tables_of_before_said():
    """Its writer, its source, its scanner and their options."""
    assert {*registry.writable()} >= {*WRITTEN}
    for name, cls in WRITTEN.items():
        found = registry.of_name(name)
        assert found.writer.endswith(f":{cls}")
        assert (
            found.make_writer().name == name
            and found.make_writer().extension == (found.extensions or ["tar"])[0]
        )
    for name, source in OPENED.items():
        assert registry.of_name(name).source_name == source
    scanned = {name: registry.of_name(name) for name in registry.names() if registry.of_name(name).scanner}
    found = {name: (each.make_scanner().kind, each.options) for name, each in scanned.items()}
    assert found | SCANNED == found  # a newer format has no row


@given(st.binary(max_size=600))
def test_any_bytes_have_a_format_or_none(data):
    """The bytes of a file without an extension; only an empty file and one of unknown bytes have none."""
    found = registry.of_bytes(data)
    assert found is None or found.name in ("tar", "tfrecord", "jsonl", "lines", "array_record")


def test_a_name_or_an_extension_has_one_format():
    """The error names both packages; the same format may come twice; a failed one changes nothing."""
    before = registry.names()
    tar = registry.of_name("tar")
    register(tar)
    for wrong in (
        Format(name="tar", source="bio.archives:Source"),
        Format(name="bio_tar", extensions=("bio", "tar"), source="bio.archives:Source"),
    ):
        with pytest.raises(ValueError, match="of the package bio, which loaderkit has; choose another"):
            register(wrong)
    assert registry.names() == before and registry.of_name("tar") is tar
    with pytest.raises(TypeError, match="expected a Format, got a str"):
        register("tar")


@pytest.mark.parametrize(
    ("argument", "value", "text"),
    [
        ("name", "FASTA", "small letters"),
        ("name", 3, "small letters"),
        ("extensions", "fa", "a tuple of extensions"),
        ("extensions", (".fa",), "a tuple of extensions"),
        ("source", "bio.fasta", "a function or 'module:name'"),
        ("writer", "bio.fasta", "a function or 'module:name'"),
    ],
)
def test_a_wrong_format_is_refused(argument, value, text):
    """When it is made, with the name of the argument."""
    given = {"name": "fasta", "source": "bio:Source"}
    with pytest.raises(ValueError, match=rf"{argument}: expected .*{text}"):
        Format(**{**given, argument: value})


def test_an_unknown_name_says_which_there_are():
    """In lk.open too."""
    for ask in (lambda: registry.of_name("tarr"), lambda: lk.open("x", format="tarr")):
        with pytest.raises(ValueError, match=r"format: expected one of array_record, tar, .*, got 'tarr'"):
            ask()


@pytest.mark.parametrize(
    "form", [each for each in FORMATS if each.extra], ids=[each.name for each in FORMATS if each.extra]
)
def test_a_file_without_the_library_of_its_format_names_the_extra(form, tmp_path, monkeypatch):
    """The extra of the registry is the one that the error says, and one of the project's."""
    file = tmp_path / f"data.{form.extensions[0]}"
    if form.writer:
        lk.write([{"x": 1}], file)
    else:
        file.touch()
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    for needed in project["optional-dependencies"][form.extra]:
        name = re.match(r"[\w-]+", needed)[0].replace("-", "_")
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"pip install '\.\[{form.extra}\]'"):
        form.open(file if form.one_file else [file], **form.verify)
