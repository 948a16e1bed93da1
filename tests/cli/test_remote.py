"""Commands on data of a server; names with secrets."""

from pathlib import Path

import pytest

from loaderkit.formats._index.record_index import RecordIndex


@pytest.fixture
def server(tars, tmp_path, range_server):
    """Serves the archives of the fixture `tars`, to those that know the token."""
    serving = range_server(tmp_path)
    serving.token = "secret"
    return serving


def test_remote_data_is_indexed_by_the_command(loaderkit, server, tmp_path):
    """It says what it will fetch first, and where a copy of the index goes; no secret is shown or stored."""
    pattern = server.url("x-{000..002}.tar") + "?token=secret"
    refused = loaderkit("inspect", pattern)
    assert refused.status == 3
    assert "`loaderkit index http://127.0.0.1:" in refused.err
    made = loaderkit("index", pattern)
    assert made.status == 0
    assert made.err.startswith("loaderkit index: 3 shards with 150 KiB on a server, at most 3 requests")
    assert f"for other machines put a copy to {server.url('x-3-')}" in made.out
    (path,) = (tmp_path / "cache").rglob("*.lkx")
    assert len(RecordIndex(str(path))) == 60
    assert "secret" not in refused.err + made.err + made.out
    assert b"secret" not in path.read_bytes()
    verified = loaderkit("check", "--only", "index", pattern)
    assert verified.out == "nothing found in 3 shards with 60 records, compared by sizes and samples\n"


def test_the_format_of_a_remote_file_without_an_extension(loaderkit, server, tmp_path):
    """Its first bytes say it."""
    (tmp_path / "lines").write_bytes(b"one\ntwo\n")
    name = server.url("lines") + "?token=secret"
    (made,) = loaderkit("index", name, "--json").documents
    assert (made["format"], made["records"]) == ("lines", 2)


def test_a_server_that_fails(loaderkit, server):
    """Status 3; the object is named without its secret."""
    ran = loaderkit("index", server.url("none.tar") + "?token=secret")
    assert ran.status == 3
    assert "none.tar" in ran.err
    assert "secret" not in ran.err


@pytest.mark.parametrize(
    "command", ["index", "check", "inspect", "show", "index --format lines", "check --format jsonl"]
)
def test_a_folder_of_a_web_server(loaderkit, plain_server, tmp_path, monkeypatch, command):
    """Status 3 and one line that says to name the files; nothing is made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name = plain_server(tmp_path)
    ran = loaderkit(*command.split(), f"{name}/?token=secret")
    assert ran.status == 3
    said = f"loaderkit {command.partition(' ')[0]}: {name}/: expected a data file, got an HTML page"
    assert ran.err.startswith(said) and "name the files" in ran.err and ran.err.count("\n") == 1
    assert "secret" not in ran.err and not [*filter(Path.is_file, tmp_path.rglob("*"))]
