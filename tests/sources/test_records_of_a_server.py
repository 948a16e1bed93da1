"""TFRecord, lines, JSON Lines and CSV on a server: the same records as from local files, with a cache and without."""

import pytest
from formats.records import tfrecord

import loaderkit as lk

LINES = [f'{{"n": {k}}}' for k in range(200)]
DATA = {
    lk.TFRecordDataSource: tfrecord(line.encode() * 300 for line in LINES),
    lk.LinesDataSource: "\n".join(LINES).encode(),
    lk.JsonLinesDataSource: "\n\n".join(LINES).encode(),
    lk.CsvDataSource: "\n".join(["a", *(f'"{k},\n"' for k in range(200))]).encode(),
}


@pytest.mark.parametrize("kind", DATA)
def test_records_of_a_server(range_server, tmp_path, kind, monkeypatch):
    """Refused without an index; with one beside the data the records are those of the local files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    served = tmp_path / "served"
    served.mkdir()
    for shard in range(2):
        (served / f"{shard}.data").write_bytes(DATA[kind])
    server = range_server(served)
    names = server.url("{0..1}.data") + "?signature=secret"
    with pytest.raises(FileNotFoundError, match="loaderkit index") as raised:
        kind(names)
    assert "secret" not in str(raised.value)
    with kind(served / "*.data") as local:
        expected = local.__getitems__(range(400))
        fingerprint = local.fingerprint()
    keys = [399, 0, 7, -1, 200, 8]
    cache = lk.Cache(tmp_path / "cache", limit="1GB")
    for how in ({}, {"cache": cache}, {"cache": cache}):
        with kind(names, **how) as source:
            assert source.__getitems__(keys) == [expected[key] for key in keys]
            assert source[3] == expected[3] and source.fingerprint() == fingerprint
            assert "secret" not in repr(source) + source.name(3)
