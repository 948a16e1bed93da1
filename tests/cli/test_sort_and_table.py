"""`loaderkit convert --by` and `--from-table`, `loaderkit show --raw` and `--tsv`."""

import io
import sys
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_archives import tar_of

import loaderkit as lk
from loaderkit.cli.sort import order_of


def records_of(path):
    with lk.TarDataSource(path) as source:
        return source.__getitems__(range(len(source)))


def test_by_key_and_by_field(loaderkit, tars):
    """Records with the same value stay in their order."""
    assert loaderkit("convert", tars, "shuffled.tar", "--shuffle", "0").status == 0
    assert loaderkit("convert", "shuffled.tar", "sorted.tar", "--by", "__key__").status == 0
    assert records_of("sorted.tar") == records_of(tars)
    assert loaderkit("convert", tars, "classes.tar", "--by", "cls", "--reverse").status == 0
    found = [(record["cls"], record["__key__"]) for record in records_of("classes.tar")]
    wanted = [(record["cls"], record["__key__"]) for record in records_of(tars)]
    assert found == sorted(wanted, key=lambda pair: pair[0], reverse=True)


def test_numbers_are_compared_as_numbers(loaderkit, tmp_path, monkeypatch):
    """Of bytes where it was asked for, of JSON always."""
    monkeypatch.chdir(tmp_path)
    tar_of("x.tar", [(str(k), {"cls": b"%d" % k, "json": b'{"a": {"b": %d}}' % -k}) for k in (10, 9, 100)])
    for arguments, order in (
        (["--by", "cls"], ["10", "100", "9"]),
        (["--by", "cls", "--numeric"], ["9", "10", "100"]),
        (["--by", "json.a.b"], ["100", "10", "9"]),
    ):
        assert loaderkit("convert", "x.tar", "y.tar", *arguments, "--overwrite").status == 0
        assert [record["__key__"] for record in records_of("y.tar")] == order


def test_members_that_lie_apart(loaderkit, tmp_path, monkeypatch):
    """Are one record again; sources refuse them."""
    monkeypatch.chdir(tmp_path)
    parts = [("1", {"a": b"1"}), ("0", {"a": b"2"}), ("1", {"b": b"3"}), ("0", {"B": b"4"})]
    tar_of("x.tar", [*parts[:3], ("__meta__/1", {"json": b"{}"}), parts[3]])
    with tarfile.open("x.tar", "a") as archive:
        archive.addfile(tarfile.TarInfo("README"))  # no field of a record
    assert loaderkit("show", "x.tar").status == 3
    assert loaderkit("convert", "x.tar", "y.tar", "--by", "__key__").status == 0
    assert records_of("y.tar") == [
        {"__key__": "0", "a": b"2", "b": b"4"},
        {"__key__": "1", "a": b"1", "b": b"3"},
    ]
    tar_of("twice.tar", [*parts, ("1", {"A": b"5"})])
    ran = loaderkit("convert", "twice.tar", "z.tar", "--by", "__key__")
    assert ran.status == 3 and "expected each field once in a record" in ran.err


def test_typed_records_are_sorted(loaderkit, tmp_path, monkeypatch):
    """They keep their types."""
    monkeypatch.chdir(tmp_path)
    Path("x.jsonl").write_text('{"n": 3, "t": "c"}\n{"n": 1.5, "t": "a"}\n{"n": 2, "t": "b"}\n')
    assert loaderkit("convert", "x.jsonl", "y.tar", "--by", "n").status == 0
    assert records_of("y.tar") == [{"n": 1.5, "t": "a"}, {"n": 2, "t": "b"}, {"n": 3, "t": "c"}]
    assert loaderkit("convert", "y.tar", "z.tar", "--by", "t", "--reverse").status == 0
    assert [record["n"] for record in records_of("z.tar")] == [3, 2, 1.5]


def test_texts_are_sorted_as_the_numbers_that_they_are(loaderkit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.jsonl").write_text('{"n": "10"}\n{"n": "9.5"}\n{"n": "-1e3"}\n')
    assert loaderkit("convert", "x.jsonl", "y.tar", "--by", "n", "--numeric").status == 0
    assert [record["n"] for record in records_of("y.tar")] == ["-1e3", "9.5", "10"]


@given(st.lists(st.integers(0, 5)), st.booleans(), st.integers(1, 9))
def test_the_order_of_values(values, reverse, in_memory):
    """That of `sorted`, whatever fits into memory."""
    wanted = sorted(range(len(values)), key=values.__getitem__, reverse=reverse)
    assert order_of(values, reverse=reverse, in_memory=in_memory).tolist() == wanted


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--by", "nothing"], "expected a field of"),
        (["--by", "txt", "--numeric"], "--numeric: expected numbers"),
    ],
)
def test_values_that_have_no_order(loaderkit, tars, arguments, said):
    """Status 2, with the record."""
    ran = loaderkit("convert", tars, "y.tar", *arguments)
    assert ran.status == 2 and said in ran.err and "x-000.tar[0]" in ran.err
    assert not Path("y.tar").exists()


def test_numbers_of_many_digits_are_told_apart(loaderkit, tmp_path, monkeypatch):
    """As floats they would be equal, and stay in their order."""
    monkeypatch.chdir(tmp_path)
    numbers = [2**60 + 2, 2**60 + 1, 2**60]
    tar_of("x.tar", [(str(k), {"id": b"%d" % number}) for k, number in enumerate(numbers)])
    assert loaderkit("convert", "x.tar", "y.tar", "--by", "id", "--numeric").status == 0
    assert [int(record["id"]) for record in records_of("y.tar")] == sorted(numbers)


def test_nan_has_no_order(loaderkit, tmp_path, monkeypatch):
    """With one among them the others would be in none either."""
    monkeypatch.chdir(tmp_path)
    Path("x.jsonl").write_text('{"n": 3}\n{"n": NaN}\n{"n": 1}\n')
    for more in ([], ["--numeric"]):
        ran = loaderkit("convert", "x.jsonl", "y.tar", "--by", "n", *more)
        assert ran.status == 2 and "got nan in x.jsonl[1]; leave such records out" in ran.err


def test_values_of_different_types(loaderkit, tmp_path, monkeypatch):
    """Have no order: the first that differs is named."""
    monkeypatch.chdir(tmp_path)
    Path("x.jsonl").write_text('{"n": 3}\n{"n": 1.5}\n{"n": "a"}\n')
    ran = loaderkit("convert", "x.jsonl", "y.tar", "--by", "n")
    assert ran.status == 2 and "got bytes beside float in x.jsonl[2]" in ran.err


@pytest.mark.parametrize("name", ["array_record", "tfrecord", "jsonl"])
def test_there_and_back(loaderkit, tars, name):
    """An archive of other formats' records is the same file again, of bytes and of typed values."""
    Path("typed.jsonl").write_text(
        '{"__key__": "a", "n": 3, "t": ["x", null]}\n{"__key__": "b", "n": 4, "t": []}\n'
    )
    assert loaderkit("convert", "typed.jsonl", "typed.tar").status == 0
    for path in ("x-000.tar", "typed.tar"):
        assert loaderkit("convert", path, "first.tar", "--overwrite").status == 0
        assert loaderkit("convert", path, f"there.{name}", "--overwrite").status == 0
        assert loaderkit("convert", f"there.{name}", "back.tar", "--overwrite").status == 0
        assert Path("back.tar").read_bytes() == Path("first.tar").read_bytes()


def test_the_first_record_that_a_function_chooses(loaderkit, tars):
    """Its field and nothing else; status 1 without one."""
    Path("chosen_by_tests.py").write_text(
        "def two(record):\n    return record['cls'] == b'2'\n\ndef none(record):\n    return False\n\n"
        "def fails(record):\n    return record['no']\n"
    )
    assert loaderkit("show", "--raw", "-n", "1", tars, "-f", "txt").out == "t"
    chosen = ("show", "--raw", "-n", "1", tars, "-f", "__key__", "--where", "chosen_by_tests:two")
    assert loaderkit(*chosen).out == "000002\n"
    (told,) = loaderkit(*chosen, "--json").documents
    assert told == {"record": 2, "location": "x-000.tar[2]", "field": "__key__", "value": "000002"}
    ran = loaderkit("show", "--raw", "-n", "1", tars, "-f", "txt", "--where", "chosen_by_tests:none")
    assert (ran.status, ran.out) == (1, "") and "no record was chosen" in ran.err
    ran = loaderkit("show", "--raw", "-n", "1", tars, "-f", "txt", "--where", "chosen_by_tests:fails")
    assert ran.status == 3 and "for x-000.tar[0], got KeyError: 'no'" in ran.err
    for name in ("chosen_by_tests", "chosen_by_tests:three", "no_such_module:f"):
        assert loaderkit("show", "--raw", "-n", "1", tars, "-f", "txt", "--where", name).status == 2
    assert loaderkit("show", "--raw", "-n", "1", tars, "-f", "jpg").status == 2
    sys.modules.pop("chosen_by_tests")


def test_a_table_of_fields(loaderkit, tmp_path, monkeypatch):
    """Paths into JSON, empty for what a record lacks, nothing that a terminal would carry out."""
    monkeypatch.chdir(tmp_path)
    tar_of(
        "x.tar",
        [
            ("0", {"txt": b"a\tb\n", "json": b'{"x": {"y": [1]}}', "seg.txt": b"\x1b[31m"}),
            ("1", {"txt": b"c"}),
        ],
    )
    assert loaderkit("show", "--tsv", "x.tar", "-f", "__key__,txt,json.x.y,seg.txt").out == (
        "__key__\ttxt\tjson.x.y\tseg.txt\n0\ta\\tb\t[1]\t\\x1b[31m\n1\tc\t\t\n"
    )
    assert loaderkit("show", "--tsv", "x.tar", "-f", "txt", "-n", "1", "--no-header").out == "a\\tb\n"
    assert loaderkit("show", "--tsv", "x.tar", "-f", "json.x", "--json").documents == [
        {"json.x": {"y": [1]}},
        {"json.x": None},
    ]
    for fields in ("jpg", "txt,txt", ",", "json.z"):
        assert loaderkit("show", "--tsv", "x.tar", "-f", fields).status == 2


def test_an_archive_from_a_table(loaderkit, tmp_path, monkeypatch):
    """Files and texts, by key; the table may come from a pipe."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/a.bin").write_bytes(b"\0\1")
    plan = "# a comment\nx/0.bin\ta.bin\nx/0.TXT\ttext:caf\u00e9\n\nx/1.txt\ttext:two\n"
    Path("plan.tsv").write_text(plan)
    assert loaderkit("convert", "plan.tsv", "x.tar", "-C", "in", "--from-table").status == 0
    assert records_of("x.tar") == [
        {"__key__": "x/0", "bin": b"\0\1", "txt": "caf\u00e9".encode()},
        {"__key__": "x/1", "txt": b"two"},
    ]
    monkeypatch.setattr(sys, "stdin", io.StringIO(plan))
    assert loaderkit("convert", "-", "y.tar", "-C", "in", "--from-table").status == 0
    assert Path("x.tar").read_bytes() == Path("y.tar").read_bytes()
    with tarfile.open("x.tar") as archive:
        assert archive.getnames() == ["x/0.bin", "x/0.txt", "x/1.txt"]


@pytest.mark.parametrize(
    ("plan", "status", "said"),
    [
        ("a.txt\tmissing\n", 3, "plan.tsv, line 1: expected a file to read, got 'missing'"),
        ("a.txt\n", 3, "line 1: expected KEY.FIELD, a tab and the name of a file"),
        ("a\ttext:x\n", 3, "line 1: expected KEY.FIELD"),
        ("a.x\ttext:1\na.X\ttext:2\n", 3, "line 2: expected each field once in a record"),
        ("a.x\ttext:1\nb.x\ttext:1\na.x\ttext:2\n", 3, "each key once in an archive, got 'a' again"),
        ("../a.x\ttext:1\n", 3, "__key__: expected a name within the folder"),
        ("", 3, "expected one or more, got none"),
    ],
)
def test_tables_that_make_no_archive(loaderkit, tmp_path, monkeypatch, plan, status, said):
    """The line is named, and no file is there."""
    monkeypatch.chdir(tmp_path)
    Path("plan.tsv").write_text(plan)
    ran = loaderkit("convert", "plan.tsv", "x.tar", "--from-table")
    assert ran.status == status and said in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["plan.tsv"]
