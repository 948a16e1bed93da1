"""Names with braces, compared with bash itself."""

import shutil
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loaderkit._storage.braces import expand_braces

# Each letter that bash would expand or split at is quoted for it; those that make braces are not.
PARTS = [
    "{",
    "}",
    ",",
    "..",
    ".",
    "-",
    "+",
    "0",
    "1",
    "7",
    "12",
    "012",
    "-03",
    "a",
    "e",
    "x",
    "/",
    "tar",
    " ",
    "*",
    "?",
]
SEQUENCES = st.one_of(
    st.tuples(
        st.integers(-20, 20), st.integers(-20, 20), st.integers(-4, 4), st.integers(1, 4), st.booleans()
    ).map(lambda n: f"{{{n[0]:0{n[3]}d}..{n[1]}" + (f"..{n[2]}}}" if n[4] else "}")),
    st.sampled_from(["{a..e}", "{e..a..2}", "{a..e..-2}", "{1..a}", "{x..3}", "{1...3}", "{..}", "{1..3..}"]),
)
WORDS = st.lists(st.sampled_from(PARTS), max_size=8).map("".join)
NAMES = st.tuples(WORDS, SEQUENCES | WORDS, WORDS, SEQUENCES | WORDS, WORDS).map("".join)


def of_bash(names: list[str]) -> list[list[str]]:
    """What bash makes of names: one process for all of them."""
    script = ""
    for name in names:
        quoted = "".join(f"'{letter}'" if letter in " *?~=" else letter for letter in name)
        script += "printf '%s\\n' " + (quoted or "''") + "\nprintf '\\1\\n'\n"
    out = subprocess.run(["bash", "-f"], input=script, capture_output=True, text=True, check=True).stdout
    return [each.split("\n")[:-1] for each in out.split("\1\n")[:-1]]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to compare with")
@given(st.lists(NAMES, min_size=1, max_size=20))
@example(
    [
        "{a},b}",
        "{{1,2}..3}",
        "{}",
        "{},{a,b}",
        "a{}{b,c}",
        "{a,{}}",
        "{,}",
        "{{a,b}",
        "{a,b}}",
        "x{1..3}y{a,b}",
    ]
)
@example(["{0..-3}", "{-01..1}", "{+1..3}", "{1..+3}", "{9..1..3}", "{1..9..0}", "{1..99999999999999999999}"])
def test_braces_are_those_of_bash(names):
    """The same names in the same order, for any text of braces, commas, dots, numbers and letters."""
    # bash drops words that are empty; a name that is empty is no file, and is kept here to be refused by name.
    ours = [[word for word in expand_braces(name) if word] or [""] for name in names]
    assert ours == of_bash(names)


def test_too_many_names_are_refused():
    """A range that was mistyped doesn't fill the memory."""
    with pytest.raises(
        ValueError, match="expected at most 10,000,000 names from the braces of one, got 2,000,000,000"
    ):
        expand_braces("a-{1..2000000000}")
    with pytest.raises(ValueError, match="expected at most"):
        expand_braces("{1..10000}{1..10000}")
