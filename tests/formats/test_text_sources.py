"""Lines, JSON Lines and CSV as sources: the records, and errors that name file, record and offset."""

import bz2
import csv
import json
import os
import pickle

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.formats.text.source import TextDataSource


def written(path, *texts: str, encoding: str = "utf-8"):
    """Files NAME-0.EXT and so on; gives their pattern."""
    for number, text in enumerate(texts):
        (path / f"part-{number}.txt").write_bytes(text.encode(encoding))
    return path / "part-*.txt"


def records(source, keys=None):
    """All records, by one call; those of a copy as a worker has it are the same."""
    with source:
        found = source.__getitems__(np.arange(len(source)) if keys is None else keys)
        copy = pickle.loads(pickle.dumps(source))
        assert [copy[k] for k in range(len(source))] == source.__getitems__(range(len(source)))
        copy.close()
    return found


def test_lines(tmp_path):
    """Without their ends; an empty line is a record, an empty file has none; a byte order mark is left out."""
    names = written(tmp_path, "one\n\ntwo\r\n\r\n", "", "\ufeffthree\rfour\n", "fünf")
    assert records(lk.formats.LinesDataSource(names)) == ["one", "", "two", "", "three\rfour", "fünf"]
    assert records(lk.formats.LinesDataSource(names), [-1, 2]) == ["fünf", "two"]
    assert records(lk.formats.LinesDataSource(f"{tmp_path}/part-0.txt[1:3]")) == ["", "two"]
    with lk.formats.LinesDataSource(names) as source:
        assert source.name(4) == f"{tmp_path}/part-2.txt[0]"


def test_first_and_last_lines_are_read_as_fast(tmp_path, monkeypatch):
    """Not as a line that isn't what it was: with small files each batch has some."""
    lines = lk.formats.LinesDataSource(written(tmp_path, "one\ntwo\n", "\n", "drei\r\nvier"))
    monkeypatch.setattr(TextDataSource, "_checked_record", None)
    assert records(lines) == ["one", "two", "", "drei", "vier"]


def test_lines_of_another_encoding(tmp_path):
    """One with a byte for a newline; the fingerprint says it."""
    names = written(tmp_path, "für\nße\n", encoding="latin-1")
    assert records(lk.formats.LinesDataSource(names, encoding="latin-1")) == ["für", "ße"]
    with (
        lk.formats.LinesDataSource(names) as source,
        lk.formats.LinesDataSource(names, encoding="latin-1") as other,
    ):
        assert (
            source.fingerprint() != other.fingerprint() == {**source.fingerprint(), "encoding": "iso8859-1"}
        )
        with pytest.raises(
            lk.errors.DataFormatError,
            match=r"part-0.txt: at byte 4, in record 1: expected text in utf-8, got b'\\xdf'",
        ):
            source.__getitems__([1, 0])
    for wrong in ("utf-16", "hex", "nonsense", "cp500"):
        with pytest.raises(ValueError, match="encoding: expected one that"):
            lk.formats.LinesDataSource(names, encoding=wrong)
    with pytest.raises(TypeError, match="encoding: expected a name"):
        lk.formats.LinesDataSource(names, encoding=None)


EDITED = {
    lk.formats.LinesDataSource: ["one", "", "three", "four words in it", "", "six"],
    lk.JsonLinesDataSource: ["[1, 2]", '{"a": [3]}', "4", '"five"', "[[6]]", "7"],
    lk.formats.CsvDataSource: ["a,b", '1,"x\ny"', "2,z", '3,""', "4,five", "6,7"],
}


@pytest.mark.parametrize("how", ["direct", "cache", "no newline at the end"])
@pytest.mark.parametrize("cls", EDITED)
def test_a_file_that_was_edited_in_place(tmp_path, cls, how, monkeypatch):
    """At the same size, beside the samples: its old index gives whole lines of the new file, or FileChangedError."""
    monkeypatch.setattr("loaderkit.formats._index.check.without_sample", lambda *_: [])
    monkeypatch.setattr("loaderkit.formats._index.find.has_sample", lambda *_: True)
    path = tmp_path / "data"
    text = "\n".join(EDITED[cls]) + "\n" * (how != "no newline at the end")
    path.write_text(text)
    source = cls(str(path))
    before = source.__getitems__(range(len(source)))
    starts = [0, *(place + 1 for place, byte in enumerate(text) if byte == "\n")]
    random = np.random.default_rng(0)
    refused = 0
    for edit in range(60):
        new = [*text]
        for place in random.integers(4 * (cls is lk.formats.CsvDataSource), len(text), random.integers(1, 4)):
            new[place] = "\nx"[random.integers(0, 2)]
        path.write_text("".join(new))
        os.utime(path, ns=(edit, edit))
        expected = "".join(new).split("\n")
        cache = {"cache": lk.Cache(tmp_path / f"cache-{edit}", limit="10MB")} if how == "cache" else {}
        other = cls(str(path), **cache)
        for key in range(len(other)):
            try:
                record = other[key]
            except (lk.errors.FileChangedError, lk.errors.DataFormatError):
                refused += 1
                continue
            if cls is lk.formats.LinesDataSource:
                place = starts[key]
                assert (
                    new[place - 1 : place] in ([], ["\n"])
                    and record == "".join(new[place:]).partition("\n")[0]
                )
            elif cls is lk.JsonLinesDataSource:
                assert json.dumps(record) in expected
            else:
                row = "\n".join(["", ",".join(record.values()), ""])
                assert row in "\n".join(["", *expected, ""]).replace(chr(34), "")
        other.close()
    assert refused > 40
    path.write_text(text.replace("\n", "-", 3).replace("\n", "\n\n\n\n", 1)[: len(text)])
    os.utime(path, ns=(5, 5))
    with pytest.raises(
        lk.errors.FileChangedError, match=r"data: at byte \d+: expected the file that was indexed"
    ):
        cls(str(path)).__getitems__(range(len(before)))


JSON = [{"a": 1}, [1, 2.5, None], "zwei\nü", 3, True, {"deep": {"er": []}}]


def test_json_lines(tmp_path):
    """Any value; empty lines are no records; also with the ends of Windows and a byte order mark."""
    lines = [json.dumps(value, ensure_ascii=False) for value in JSON]
    names = written(tmp_path, "\ufeff" + "\r\n".join(lines[:3]) + "\r\n\r\n", "\n" + "\n\n".join(lines[3:]))
    assert records(lk.JsonLinesDataSource(names)) == JSON
    assert records(lk.JsonLinesDataSource(names), [-1, 0]) == [JSON[-1], JSON[0]]


@pytest.mark.parametrize(
    ("line", "place", "problem"),
    [
        ('{"ü": x}', 8 + 7, r"'{\"ü\": x}\\n' \(Expecting value"),
        ("1 2", 8 + 2, "Extra data"),
        ("   ", 8 + 4, "Expecting value"),
        ('"open', 8 + 5, "Invalid control character"),
        ("[" * 100_000, 8, "recursion"),
        ("1" * 5000, 8, "limit"),
    ],
)
def test_a_line_that_is_not_json(tmp_path, line, place, problem):
    """Names file, record and the byte."""
    names = written(tmp_path, f'{{"a":1}}\n{line}\n2\n')
    with lk.JsonLinesDataSource(names) as source:
        assert source.__getitems__([2, 0]) == [2, {"a": 1}]
        text = rf"part-0.txt: at byte {place}, in record 1: expected a JSON value in one line, got .*{problem}.*; if"
        with pytest.raises(lk.errors.DataFormatError, match=text):
            source.__getitems__([0, 1, 2])


def test_json_lines_of_other_bytes(tmp_path):
    """Not UTF-8, compressed, UTF-16."""
    (tmp_path / "a.jsonl").write_bytes(b'1\n"\xff"\n')
    with (
        lk.JsonLinesDataSource(tmp_path / "a.jsonl") as source,
        pytest.raises(
            lk.errors.DataFormatError, match=r"a.jsonl: at byte 3, in record 1: expected text in utf-8"
        ),
    ):
        source[1]
    for name, data, text in [
        ("a.jsonl.bz2", bz2.compress(b"1\n"), "bzip2 -d"),
        ("b.jsonl", "1\n".encode("utf-16"), "UTF-8"),
    ]:
        (tmp_path / name).write_bytes(data)
        with pytest.raises(lk.errors.DataFormatError, match=f"{name}: at byte 0: .*{text}"):
            lk.JsonLinesDataSource(tmp_path / name)


TABLE = 'id,text,label\n1,"two\nlines, and ""quotes""",cat\n\n2,ü,\n'


def test_csv(tmp_path):
    """A dict by header, as Python's csv module gives it; all or some columns."""
    names = written(tmp_path, TABLE, "id,text,label\r\n3,x,y\r\n", "id,text,label", "\ufeff\n" + TABLE)
    with open(tmp_path / "part-0.txt", newline="") as file:
        first = list(csv.DictReader(file))
    expected = [*first, {"id": "3", "text": "x", "label": "y"}, *first]
    assert first[0]["text"] == 'two\nlines, and "quotes"'
    assert records(lk.formats.CsvDataSource(names)) == expected
    assert records(lk.formats.CsvDataSource(names), [-1, 0]) == [expected[-1], expected[0]]
    chosen = lk.formats.CsvDataSource(names, columns=["label", "id"])
    assert [[*record.items()] for record in records(chosen, [0])] == [[("label", "cat"), ("id", "1")]]
    assert chosen.columns == ["label", "id"] and lk.formats.CsvDataSource(names).columns == [
        "id",
        "text",
        "label",
    ]
    assert chosen.fingerprint() != lk.formats.CsvDataSource(names).fingerprint()


def test_other_delimiters_and_quotes(tmp_path):
    """Each pair has an index of its own, as it finds other rows in the same file."""
    names = written(tmp_path, "a\tb\n1\t5\" x\n'2\t'\t3\n")
    with lk.formats.CsvDataSource(names, delimiter="\t", quotechar=None) as source:
        assert source[0] == {"a": "1", "b": '5" x'}
        with pytest.raises(lk.errors.DataFormatError, match=r"a row of 2 values, got .* \(it has 3\)"):
            source[1]
    with lk.formats.CsvDataSource(names, delimiter="\t", quotechar="'") as source:
        assert source[1] == {"a": "2\t", "b": "3"}
    with pytest.raises(
        lk.errors.DataFormatError, match=r"part-0.txt: at byte 7: .*got a quote in it; .*quotechar=None"
    ):
        lk.formats.CsvDataSource(names, delimiter="\t")


def test_a_row_with_another_number_of_values(tmp_path):
    """Names file, record and offset."""
    names = written(tmp_path, "a,b\n1,2\n3\n4,5,6\n", "a,b\n7,8\n")
    with lk.formats.CsvDataSource(names) as source:
        assert source.__getitems__([0, 3]) == [{"a": "1", "b": "2"}, {"a": "7", "b": "8"}]
        with pytest.raises(
            lk.errors.DataFormatError,
            match=r"part-0.txt: at byte 8, in record 1: .*2 values, got '3.n' .it has 1",
        ):
            source.__getitems__([0, 1])
        with pytest.raises(
            lk.errors.DataFormatError, match=r"part-0.txt: at byte 10, in record 2: .*it has 3"
        ):
            source[2]


def test_headers_that_differ(tmp_path):
    """Names both files, when a record of the other one is read."""
    names = written(tmp_path, "", "a,b\n1,2\n", "a,c\n3,4\n", "b,a")
    with lk.formats.CsvDataSource(names) as source:
        assert source[0] == {"a": "1", "b": "2"}
        with pytest.raises(
            lk.errors.DataFormatError,
            match=r"2.txt: at byte 0, in the header: expected the columns of .*1.txt, \['a', 'b'\], got \['a', 'c'\]",
        ):
            source.__getitems__([0, 1])


@pytest.mark.parametrize(
    ("text", "arguments", "error", "problem"),
    [
        ("a,a\n1,2\n", {}, lk.errors.DataFormatError, "got 'a' twice"),
        ("a,\xff\n1,2\n", {"encoding": "ascii"}, lk.errors.DataFormatError, "at byte 0, in the header: .* in ascii"),
        ("a,b\n1,2\n", {"columns": ["c"]}, ValueError, r"columns: expected some of \['a', 'b'\], got \['c'\]"),
        ("a,b\n1,2\n", {"columns": "a"}, TypeError, "columns: expected a list of names, got 'a'"),
        ("a,b\n1,2\n", {"delimiter": "::"}, ValueError, "delimiter: expected one ASCII character"),
        ("a,b\n1,2\n", {"encoding": "utf-16"}, ValueError, "encoding: expected"),
        ('a,b\n1,"2\n', {}, lk.errors.DataFormatError, "part-0.txt: at byte 6: .*end of the file"),
    ],
)  # fmt: skip
def test_wrong_files_and_arguments(tmp_path, text, arguments, error, problem):
    """Refused when the source is made."""
    with pytest.raises(error, match=problem):
        lk.formats.CsvDataSource(written(tmp_path, text), **arguments)


def test_headers_only(tmp_path):
    """A source without records."""
    with lk.formats.CsvDataSource(written(tmp_path, "a,b\n", "a,b\n")) as source:
        assert len(source) == 0 and source.columns == ["a", "b"]
    with lk.formats.CsvDataSource(written(tmp_path, "", "")) as source:
        assert len(source) == 0 and source.columns == []


def test_as_a_source_of_loaderkit(tmp_path):
    """What the loader relies on."""
    names = written(tmp_path, "".join(f'"{k}"\n' for k in range(30)), '"0"\n"b"\n')
    with lk.JsonLinesDataSource(names) as source:
        lk.testing.check_source(source)
