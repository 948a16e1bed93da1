"""Which files a name means."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from loaderkit._storage.addresses import redacted
from loaderkit._storage.patterns import FilePart, file_parts


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder, which is the current one, with files whose content doesn't matter here."""
    names = [f"train-{i:05d}-of-00003" for i in range(3)]
    names += [f"val-{i:05d}-of-00002.array_record" for i in range(2)]
    names += ["b.ar", "a.ar", "c.txt", "odd[1].ar", "user@3", "odd{1,2}.ar"]
    for name in names:
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("a.ar", ["a.ar"]),
        (Path("a.ar"), ["a.ar"]),
        (["b.ar", "a.ar"], ["b.ar", "a.ar"]),
        (("b.ar", "b.ar"), ["b.ar", "b.ar"]),
        ("*.ar", ["a.ar", "b.ar", "odd[1].ar", "odd{1,2}.ar"]),
        ("[ab].ar", ["a.ar", "b.ar"]),
        (["c.txt", "?.ar"], ["c.txt", "a.ar", "b.ar"]),
        ("train@3", [f"train-{i:05d}-of-00003" for i in range(3)]),
        ("train-?????-of-00003", [f"train-{i:05d}-of-00003" for i in range(3)]),
        ("train-*-of-00003", [f"train-{i:05d}-of-00003" for i in range(3)]),
        ("train-0000[01]-of-00003", [f"train-{i:05d}-of-00003" for i in range(2)]),
        ("val@2.array_record", [f"val-{i:05d}-of-00002.array_record" for i in range(2)]),
        ("odd[1].ar", ["odd[1].ar"]),
        ("{b,a}.ar", ["b.ar", "a.ar"]),
        ("train-{00000..00002}-of-00003", [f"train-{i:05d}-of-00003" for i in range(3)]),
        ("{train@3,[ab].ar}", [*(f"train-{i:05d}-of-00003" for i in range(3)), "a.ar", "b.ar"]),
        (lambda: ["b.ar", "a.ar"], ["b.ar", "a.ar"]),
        ("odd{1,2}.ar", ["odd{1,2}.ar"]),
        ("user@3", ["user@3"]),
    ],
)
def test_a_name_means_these_files(folder, given, meant):
    """One file, a list, a sorted pattern, or shards; a name that exists as it is written means that file."""
    assert file_parts(given) == [FilePart(str(folder / name), 0, None) for name in meant]


@pytest.mark.parametrize(
    ("given", "name", "start", "stop"),
    [
        ("a.ar[10:20]", "a.ar", 10, 20),
        ("a.ar[10:]", "a.ar", 10, None),
        ("a.ar[:20]", "a.ar", 0, 20),
        ("a.a?[3:4]", "a.ar", 3, 4),
        ("odd[1].ar[3:4]", "odd[1].ar", 3, 4),
    ],
)
def test_a_part_of_a_file(folder, given, name, start, stop):
    """path[start:end] is these records of that file."""
    assert file_parts(given) == [FilePart(str(folder / name), start, stop)]


def test_a_file_url_is_a_local_file(folder):
    """With its quoted letters, as any url has them; patterns and braces, too."""
    assert file_parts((folder / "odd[1].ar").as_uri()) == [FilePart(str(folder / "odd[1].ar"), 0, None)]
    assert file_parts(f"file://{folder}/{{a,b}}.ar[0:1]")[1] == FilePart(str(folder / "b.ar"), 0, 1)


def test_instructions_of_tfds_name_a_part(folder):
    """An object with filename, skip and take is a part; take -1 is the rest."""
    some = SimpleNamespace(filename="a.ar", skip=5, take=10, examples_in_shard=100)
    rest = SimpleNamespace(filename="b.ar", skip=5, take=-1, examples_in_shard=100)
    path = str(folder / "a.ar")
    assert file_parts(some) == [FilePart(path, 5, 15)]
    assert file_parts([some, rest]) == [FilePart(path, 5, 15), FilePart(str(folder / "b.ar"), 5, None)]


def test_names_do_not_depend_on_the_directory_later(folder, monkeypatch):
    """What was named relative to one directory means the same file from another."""
    before = file_parts("a.ar")
    monkeypatch.chdir("/")
    assert before == [FilePart(str(folder / "a.ar"), 0, None)]


def test_remote_names_go_through_as_they_are():
    """What isn't in the local file system is not looked for in it."""
    assert file_parts("gs://bucket/a.ar[2:4]") == [FilePart("gs://bucket/a.ar", 2, 4)]
    assert [part.path for part in file_parts("s3://b/train-?????-of-00002.ar")] == [
        "s3://b/train-00000-of-00002.ar",
        "s3://b/train-00001-of-00002.ar",
    ]


def test_braces_and_shards_of_addresses():
    """The query of a signed link belongs to each of its names, and its "?" is no pattern."""
    link = "https://me:pw@h:8/d/t-{0..1}.tar?sig=a/b[3:5]"
    assert file_parts(link) == [FilePart(f"https://me:pw@h:8/d/t-{i}.tar?sig=a/b", 3, 5) for i in range(2)]
    assert [part.path for part in file_parts("http://[::1]:80/d@2?sig=a/b")] == [
        "http://[::1]:80/d-00000-of-00002?sig=a/b",
        "http://[::1]:80/d-00001-of-00002?sig=a/b",
    ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("https://me:secret@host:80/a/b@2.tar?token=secret#part", "https://host:80/a/b@2.tar"),
        ("https://host/a.tar?secret", "https://host/a.tar"),
        ("https://[::1]:80/a.tar#secret", "https://[::1]:80/a.tar"),
        ("https://me:sec/ret@host/a.tar", "https://..."),
        ("ftp://me@host/a.tar", "ftp://host/a.tar"),
        ("simplecache::https://me:secret@host/a.tar?x=secret", "simplecache::https://host/a.tar"),
        ("zip://a?b.csv::https://me:secret@host/a.zip", "zip://a?b.csv::https://host/a.zip"),
        ("az://box/a.tar?sv=2020&sig=secret", "az://box/a.tar"),
        ("s3://box/train-?????-of-00002", "s3://box/train-?????-of-00002"),
        ("pipe:curl -u me:secret https://host", "pipe:..."),
        ("/data/a?b=c#d@e", "/data/a?b=c#d@e"),
    ],
)
def test_a_shown_name_has_no_credentials(name, shown):
    """User, password, query and fragment are left out; shown twice is shown once."""
    assert redacted(name) == redacted(shown) == shown


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ("nothing-*.ar", FileNotFoundError, r"no file matches the pattern: '.*nothing-\*\.ar'"),
        ("train@4", FileNotFoundError, "means 4 files, and this one is missing: '.*train-00000-of-00004'"),
        ("*[0:3]", ValueError, r"expected the name of one file before \[start:stop\], got .* with 11 files"),
        ("a.ar[5:5]", ValueError, "has no record"),
        (
            "https://h/*.ar",
            ValueError,
            r"expected name-\{000..146\}.tar.*can't be listed, got 'https://h/\*.ar'",
        ),
        ("pipe:curl -u me:secret u", ValueError, "got a pipe: url, .* give the url that the command reads"),
        ("file://host/a.ar", ValueError, "expected file:///PATH"),
        ([], ValueError, "expected one path or more"),
        (None, TypeError, "paths: expected a path or a sequence of paths, got a NoneType"),
        ([3], TypeError, "paths: expected a str or a path, got 3"),
    ],
)
def test_bad_names_say_what_is_wrong(folder, given, error, says):
    """A pattern without files, a missing shard, an empty part, or what isn't a path."""
    with pytest.raises(error, match=says):
        file_parts(given)


def test_a_missing_shard_is_named(folder):
    """If one shard of a data set is missing, no file is read, for each way to name the shards."""
    (folder / "train-00001-of-00003").unlink()
    for given in ("train@3", "train-?????-of-00003", "train-*-of-00003"):
        with pytest.raises(FileNotFoundError, match="train-00001-of-00003"):
            file_parts(given)
