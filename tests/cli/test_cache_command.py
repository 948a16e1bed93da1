"""`loaderkit cache`: what lk.Cache holds of a set, fetched ahead, deleted."""

import os

import pytest

import loaderkit as lk


@pytest.fixture
def served(loaderkit, tars, tmp_path, range_server):
    """The archives on a server, indexed, and the server."""
    server = range_server(tmp_path)
    pattern = server.url("x-{000..002}.tar")
    assert loaderkit("index", pattern).status == 0
    return pattern, server


def state(loaderkit, *arguments):
    ran = loaderkit("cache", *arguments, "--json")
    assert ran.status == 0, ran.err
    (document,) = ran.documents
    return document


def test_what_is_fetched_ahead_needs_no_request(loaderkit, served, tmp_path):
    """Looking makes no folder. After --fetch a source with that cache reads all records from the disk."""
    pattern, server = served
    before = state(loaderkit, pattern, "--cache", "kept")
    assert (before["cached_chunks"], before["records"], os.path.exists("kept")) == (0, 60, False)
    fetched = state(loaderkit, pattern, "--cache", "kept", "--fetch", "--limit", "1GB")
    assert fetched["cached_chunks"] == fetched["chunks"] == before["chunks"] > 2
    asked = len(server.requests)
    again = state(loaderkit, pattern, "--cache", "kept", "--fetch", "--limit", "1GB")
    assert again == fetched
    with lk.TarDataSource(pattern, cache=lk.Cache(tmp_path / "kept", limit="1GB")) as source:
        records = [source[key] for key in range(60)]
    assert [request for request in server.requests[asked:] if request.method == "GET"] == []
    with lk.TarDataSource("x-{000..002}.tar") as local:
        assert records == [local[key] for key in range(60)]


def test_clear_deletes_the_chunks_of_the_set_alone(loaderkit, served):
    """Those of another set stay, and so does what isn't a chunk."""
    pattern, server = served
    other = server.url("x-000.tar")
    assert loaderkit("index", other).status == 0
    for name in (pattern, other):
        state(loaderkit, name, "--cache", "kept", "--fetch", "--limit", "1GB")
    with open("kept/notes.txt", "w") as file:
        file.write("mine")
    assert state(loaderkit, pattern, "--cache", "kept", "--clear")["cached_chunks"] == 0
    left = state(loaderkit, other, "--cache", "kept")
    assert left["cached_chunks"] == left["chunks"] and left["other_chunks"] == 0
    assert os.path.exists("kept/notes.txt")
    ran = loaderkit("cache", other, "--cache", "kept")
    assert ran.status == 0 and f"of the set     {left['chunks']} of {left['chunks']} chunk" in ran.out


def test_what_cannot_be_fetched(loaderkit, served, tmp_path):
    """No limit, one that is too small, a folder that is a file."""
    pattern, _ = served
    for more, status, problem in (
        (["--fetch"], 2, "--limit: expected the cache's size with --fetch"),
        (["--fetch", "--limit", "much"], 2, "limit: expected a size, got 'much'"),
        (["--fetch", "--limit", "110KB"], 2, "limit: expected "),
        (["--fetch", "--clear", "--limit", "1GB"], 2, "not allowed with argument"),
    ):
        ran = loaderkit("cache", pattern, "--cache", "kept", *more)
        assert (ran.status, problem in ran.err) == (status, True), ran.err
    (tmp_path / "file").write_text("")
    ran = loaderkit("cache", pattern, "--cache", "file", "--fetch", "--limit", "1GB")
    assert ran.status == 3 and "file" in ran.err
    lk.write([{"x": 1}], tmp_path / "x.parquet")
    ran = loaderkit("cache", tmp_path / "x.parquet", "--cache", "kept")
    assert ran.status == 2 and "files that lk.Cache keeps, such as tar" in ran.err
    assert "got parquet" in ran.err and "--to tar" in ran.err
