"""Parquet and Arrow files are SRC and OUT of the commands, as other formats are."""

from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk

RECORDS = [{"text": f"t{k}", "label": k, "ids": np.arange(k, dtype=np.int32)} for k in range(5)]
READERS = {"parquet": lk.ParquetDataSource, "arrow": lk.formats.ArrowDataSource}


@pytest.mark.parametrize("name", READERS)
def test_tables_are_inspected_shown_and_converted(loaderkit, tmp_path, name):
    files = lk.write(RECORDS, tmp_path / "set", format=name, shards=2)
    (told,) = loaderkit("inspect", *files, "--json").documents
    assert (told["format"], told["records"]) == (name, 5)
    (shown,) = loaderkit("show", *files, "--key", "3", "--json").documents
    assert shown["location"] == f"{files[1]}[1]"
    (tmp_path / "plain").write_bytes(Path(files[0]).read_bytes())
    assert loaderkit("inspect", tmp_path / "plain", "--json").documents[0]["format"] == name
    assert loaderkit("convert", *files, tmp_path / "one.jsonl").status == 0
    assert lk.JsonLinesDataSource(tmp_path / "one.jsonl")[4]["text"] == "t4"
    for other, reader in READERS.items():
        out = tmp_path / f"out.{other}"
        ran = loaderkit("convert", *files, out)
        assert ran.status == 0, ran.err
        with reader(out) as source:
            assert [row["label"] for row in source.__getitems__(range(5))] == [*range(5)]
            assert source[3]["ids"].tolist() == [0, 1, 2] and source[3]["ids"].dtype == np.int32
    (tmp_path / "torn.parquet").write_bytes(b"PAR1torn")
    torn = loaderkit("inspect", tmp_path / "torn.parquet")
    assert torn.status == 3 and "torn.parquet" in torn.err


def test_a_folder_is_the_files_in_it(loaderkit, tmp_path):
    """As a pattern of them is."""
    lk.write(RECORDS, tmp_path / "set", format="parquet", shards=2)
    for given in (tmp_path / "set", tmp_path / "set" / "*"):
        assert loaderkit("inspect", given, "--json").documents[0]["records"] == 5
