"""An HTML page that a web server gives in place of data, for a folder, a login or a missing file, is no record."""

import pytest

import loaderkit as lk
from loaderkit.formats import CsvDataSource, FilesDataSource, LinesDataSource
from loaderkit.formats._index.build import build_index
from loaderkit.formats._index.find import cached_path
from loaderkit.formats._index.shard_set import ShardSet
from loaderkit.formats.text.line_scanner import LinesFormat

PAGE = (
    r"{}: expected a data file, got an HTML page \(text/html\), .* can't be listed: name the files, as "
    r"name-{{000\.\.146}}\.tar, name@64\.tar or a list"
)
LINES = b"<1>\n2\n"  # as a page begins, of which the server says that it is text


@pytest.fixture
def served(tmp_path):
    """A folder with one file and its index, and the file's name."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "a.txt").write_bytes(LINES)
    build_index(ShardSet([str(folder / "a.txt")]), LinesFormat(), f"{folder}/a.txt.lkx")
    return folder


OPENED = {
    "open": lk.open,
    "open as lines": lambda name: lk.open(name, format="lines"),
    "open a list": lambda name: lk.open([name], format="jsonl"),
    "lines": LinesDataSource,
    "json lines": lk.JsonLinesDataSource,
    "csv": CsvDataSource,
    "tar": lk.TarDataSource,
    "tfrecord": lk.TFRecordDataSource,
    "parquet": lk.ParquetDataSource,
    "tokens": lambda name: lk.TokenDataSource(name, "/dev/null", dtype="int32"),
    "files": lambda name: FilesDataSource(name)[0],
    "fetch": lambda name: lk.formats.fetch(name, "kept", format="lines"),
}


@pytest.mark.parametrize("opened", OPENED)
def test_a_folder_of_a_web_server(plain_server, served, tmp_path, monkeypatch, opened):
    """With a slash at its end and without, and a link's secrets aren't told."""
    monkeypatch.chdir(tmp_path)
    address = plain_server(tmp_path)
    for name in (f"{address}/served", f"{address}/served/?token=secret", address):
        shown = name.partition("?")[0]
        with pytest.raises(lk.errors.StorageError, match=PAGE.format(shown)) as refused:
            OPENED[opened](name)
        assert refused.value.refused and "secret" not in str(refused.value)
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_page_where_an_index_is_at_hand(range_server, served, tmp_path, cached, workers):
    """Of a login, when the first record is read, or later; in workers too."""
    how = {"cache": lk.Cache(tmp_path / "cache", limit="1GB")} if cached else {}
    server = range_server(served)
    name, index = server.url("a.txt"), f"{served}/a.txt.lkx"
    server.always("page", "a.txt")
    with LinesDataSource(name, index=index, **how) as source:
        with (
            lk.load(source, num_epochs=1, worker_count=workers) as loader,
            pytest.raises(lk.errors.StorageError, match=PAGE.format(name)),
        ):
            next(iter(loader))
        server.always("", "a.txt")
        assert source[0] == "<1>"
    server.always("page", "a.txt")
    if not cached:
        with pytest.raises(lk.errors.StorageError, match=PAGE.format(name)):
            source[0]
    with pytest.raises(lk.errors.StorageError, match=PAGE.format(name)):
        LinesDataSource(name, index=index, **how)[0]


def test_an_index_in_the_cache_folder(range_server, served):
    """No record of it is given, as it may have been made of a page."""
    server = range_server(served)
    name = server.url("a.txt")
    path = cached_path(ShardSet([name]), LinesFormat.kind)
    build_index(ShardSet([name]), LinesFormat(), path)
    (served / "a.txt.lkx").unlink()
    with LinesDataSource(name) as source:
        assert source[0] == "<1>"
    server.always("page")
    with pytest.raises(lk.errors.StorageError, match=PAGE.format(name)):
        LinesDataSource(name)[0]


def test_a_page_in_place_of_an_index(range_server, served):
    """There is none, then; one that was named is refused as data is."""
    server = range_server(served)
    server.always("page", "a.txt.lkx")
    with pytest.raises(FileNotFoundError, match="make it once with `loaderkit index"):
        LinesDataSource(server.url("a.txt"))
    with pytest.raises(lk.errors.StorageError, match=PAGE.format(server.url("a.txt.lkx"))):
        LinesDataSource(server.url("a.txt"), index=server.url("a.txt.lkx"))


def test_records_that_begin_as_a_tag_are_no_page(range_server, served):
    """A text of tags that aren't those of HTML, which its server calls a page."""
    text = b'<doc id="1">\nof a wiki\n</doc>\n'
    (served / "b.txt").write_bytes(text)
    server = range_server(served)
    server.types["b.txt"] = "text/html"
    build_index(ShardSet([server.url("b.txt")]), LinesFormat(), str(served / "b.lkx"))
    with LinesDataSource(server.url("b.txt"), index=str(served / "b.lkx")) as source:
        assert source[1] == "of a wiki"


def test_pages_that_are_records(plain_server, range_server, tmp_path):
    """Files whose names say that they are pages; by ranges, whole, and packed."""
    names = ("a.html", "b.HTM", "c.html.gz")
    for name in names:
        (tmp_path / name).write_bytes(b"<html>\n" + name.encode())
    server = range_server(tmp_path)
    server.types |= dict.fromkeys(names, "text/html; charset=utf-8")
    for address in (plain_server(tmp_path), server.url("").rstrip("/")):
        with FilesDataSource([f"{address}/{name}?x=1" for name in names]) as source:
            assert [record["file"][7:].decode() for record in source] == [*names]
