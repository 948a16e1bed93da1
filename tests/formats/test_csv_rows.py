r"""CSV: rows and values are those of Python's csv module on the whole file, or the file is refused."""

import csv
import io
import re
from itertools import pairwise

import pytest
from formats.records import read_of
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._codecs.checksums import data_crc32c
from loaderkit._codecs.scan import Malformed
from loaderkit.formats.text import line_scanner as module
from loaderkit.formats.text.csv_rows import CsvFormat, RowParser

FORMATS = st.sampled_from([CsvFormat(), CsvFormat("\t"), CsvFormat("|", "'"), CsvFormat("^", "]")])
WINDOWS = st.integers(3, 12)  # the first has the mark whole
# Texts of what matters to the rule, and mostly of what it refuses.
TEXTS = st.text(st.sampled_from("\",\n\r\ta|'é"), max_size=25)
CELLS = st.text(st.sampled_from("\",\n\ta|' é]"), max_size=5)


def module_rows(text: str, format_: CsvFormat) -> list[list[str]]:
    """The rows by Python's module, without the empty ones."""
    quoting = csv.QUOTE_NONE if format_.quotechar is None else csv.QUOTE_MINIMAL
    file = io.StringIO(text, newline="")
    how = {"delimiter": format_.delimiter, "quotechar": format_.quotechar, "quoting": quoting}
    return [row for row in csv.reader(file, **how) if row]


def rows(data: bytes, format_: CsvFormat, window: int = 1 << 20) -> list[list[str]]:
    """The header and the records, by the scan and the parser."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_WINDOW", window)
        found = format_.scan(read_of(data), len(data), checksums=True)
    starts = found.starts.tolist()
    spans = [data[begin:end] for begin, end in pairwise(starts)]
    assert found.checksums.tolist() == [data_crc32c()(span) for span in spans]
    header = data[: starts[0]].removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    parser = RowParser(format_)
    return [parser.values(span.decode()) for span in ([header] if header else []) + spans]


@given(st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=6), FORMATS, WINDOWS, st.data())
def test_what_the_module_writes_is_read_back(table, format_, window, data):
    """With quotes where needed or everywhere, any ends of rows, empty lines between, a mark in front."""
    file, end = io.StringIO(), data.draw(st.sampled_from(["\n", "\r\n"]))
    quoting = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    how = {"delimiter": format_.delimiter, "quotechar": format_.quotechar, "lineterminator": end}
    writer = csv.writer(file, quoting=quoting, **how)
    for row in table:
        writer.writerow(row)
        file.write(end * data.draw(st.integers(0, 2)))
    text = file.getvalue()
    if data.draw(st.booleans()):
        text = text.removesuffix(end)
    assert module_rows(text, format_) == table
    mark = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    assert rows(mark + text.encode(), format_, window) == table


@given(TEXTS, st.sampled_from([CsvFormat(), CsvFormat("\t", None), CsvFormat("|", "'")]), WINDOWS)
def test_any_text_is_read_as_the_module_reads_it_or_refused(text, format_, window):
    """Never other rows; what is refused is so in windows of any size, at the same byte."""
    data = text.encode()
    try:
        found = rows(data, format_)
    except Malformed as error:
        refused = error
    else:
        assert found == module_rows(text, format_) == rows(data, format_, window)
        return
    with pytest.raises(Malformed) as raised:
        rows(data, format_, window)
    assert raised.value.args == refused.args


def is_of_the_rule(text: str) -> bool:
    """RFC 4180 as a pattern, with either end of a row, empty lines, and any character in a value."""
    value = r'(?:"(?:[^"]|"")*"|[^",\r\n]*)'
    row = f"{value}(?:,{value})*"
    return re.fullmatch(rf"(?:{row}(?:\r\n|\n))*(?:{row})?", text) is not None


@given(TEXTS, WINDOWS)
def test_only_what_breaks_the_rule_is_refused(text, window):
    """A file of the rule is never refused, any other always."""
    try:
        rows(text.encode(), CsvFormat(), window)
    except Malformed:
        taken = False
    else:
        taken = True
    assert taken == is_of_the_rule(text)


@pytest.mark.parametrize(
    ("text", "offset", "problem"),
    [
        ('a,b\n1,5" pipe\n', 7, "got a quote in it"),
        ('a,b\n1,"x"y\n', 9, "behind the quote that closes a value, got b'y'"),
        ('a, "b"\n', 3, "got a quote in it"),
        ('a,b\n1,"open\n2,3\n', 6, "got the end of the file"),
        ("a,b\r1,2\r", 3, r"got \\r alone"),
        ("a,b\n1,2\r", 7, r"got \\r alone"),
    ],
)
def test_what_breaks_the_rule_is_named(text, offset, problem):
    """With its offset and what to do."""
    with pytest.raises(Malformed, match=problem) as raised:
        rows(text.encode(), CsvFormat())
    assert raised.value.offset == offset
    assert "quotechar=None" in raised.value.remedy or "end each row" in raised.value.remedy


def test_without_quotes_a_quote_is_a_character():
    """quotechar=None, as for tables of words."""
    assert rows(b'a\tb\n1\t5" pipe\n', CsvFormat("\t", None)) == [["a", "b"], ["1", '5" pipe']]


@given(TEXTS)
def test_the_parser_takes_rows_of_the_rule_only(text):
    """A span of an index that lies isn't read as other values."""
    parser = RowParser(CsvFormat())
    try:
        values = parser.values(text)
    except ValueError:
        values = None
    if values is not None and text.strip("\r\n"):
        assert [values] == module_rows(text.rstrip("\r\n"), CsvFormat())


def test_long_values_take_no_long_time():
    """Whole or broken."""
    parser = RowParser(CsvFormat())
    assert len(parser.values('"' + '""' * 100_000 + '"')[0]) == 100_000
    with pytest.raises(ValueError, match="quotes"):
        parser.values('"' + '""' * 100_001)


def test_the_kind_says_the_characters():
    """Another pair finds other rows, so it has another index."""
    formats = [
        CsvFormat(),
        CsvFormat("\t"),
        CsvFormat(","),
        CsvFormat(quotechar="'"),
        CsvFormat(quotechar=None),
    ]
    assert len({format_.kind for format_ in formats}) == 4


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"delimiter": ""}, ValueError),
        ({"delimiter": ",,"}, ValueError),
        ({"delimiter": "\n"}, ValueError),
        ({"delimiter": "é"}, ValueError),
        ({"delimiter": '"'}, ValueError),
        ({"delimiter": None}, TypeError),
        ({"quotechar": "\r"}, ValueError),
        ({"quotechar": b'"'}, TypeError),
    ],
)
def test_other_characters_are_refused(arguments, error):
    """By name."""
    with pytest.raises(error, match=r"delimiter|quotechar"):
        CsvFormat(**arguments)


@pytest.mark.parametrize("window", range(3, 13))
def test_text_behind_a_closing_quote(window):
    """Found wherever a window ends."""
    with pytest.raises(Malformed, match="at byte 7: expected a delimiter or the end of the row") as raised:
        rows(b'a,b\n"x"y,1\n', CsvFormat(), window)
    assert raised.value.offset == 7
