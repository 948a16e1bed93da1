"""Text from data files as it may be shown on a terminal."""


def printable(text: str) -> str:
    r"""The text on one line: what a terminal would carry out, and what isn't a letter of any script, is escaped.

    text: any str; bytes that weren't UTF-8 may be surrogates in it.

    >>> print(printable("red \x1b[31m\nécole \udcff\u202e"))
    red \x1b[31m\nécole \xff\u202e
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # how "surrogateescape" holds a byte that isn't UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return letter.encode("unicode_escape", "surrogatepass").decode()


def shortened(text: str, most: int) -> str:
    """The text, cut with "..." where it has more than `most` characters.

    >>> shortened("a long line", 8)
    'a lon...'
    """
    return text if len(text) <= most else text[: max(most - 3, 0)] + "..."


def counted(number: int, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "shard"), counted(2000, "shard")
    ('1 shard', '2,000 shards')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
