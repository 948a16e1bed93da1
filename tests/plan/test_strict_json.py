"""State documents are read strictly and written readably, and their digest depends only on the content."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._base.canonical_json import canonical, digest
from loaderkit._plan.state.strict_json import find_problem, parse, render
from loaderkit.errors import StateError

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),  # lone surrogates too, as undecodable file names have
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=5)


@pytest.mark.slow
@given(OBJECTS)
def test_what_is_rendered_is_parsed_again(document: dict[str, object]) -> None:
    """Any JSON object comes back equal, types included, and rendering it once more gives the same bytes."""
    data = render(document)
    again = parse(data)
    assert canonical(again) == canonical(document)
    assert render(again) == data
    assert render(document, steady=document) == render(document, steady=document) == data


@given(OBJECTS)
def test_only_content_changes_a_digest(document: dict[str, object]) -> None:
    """Layout, order of keys and a digest in the document don't change it; another value does."""
    shuffled = json.loads(json.dumps(dict(reversed(document.items())), indent=7))
    assert digest(shuffled) == digest(document)
    assert digest({**document, "digest": "any"}) == digest({**document, "digest": "other"})
    assert digest({**document, "x": 1}) != digest({**document, "x": True})


def test_short_values_stay_on_one_line() -> None:
    """Each field has its line, lists of numbers aren't torn apart, and long values are indented further."""
    names = [f"train-{number:05}.array_record" for number in range(4)]
    text = render({"step": 3, "segments": [[0, 0, 256], [9, 2304, 512]], "source": {"files": names}, "x": {}})
    assert text.decode().splitlines() == [
        "{",
        '  "step": 3,',
        '  "segments": [[0, 0, 256], [9, 2304, 512]],',
        '  "source": {',
        '    "files": [',
        *(f'      "{name}",' for name in names[:-1]),
        f'      "{names[-1]}"',
        "    ]",
        "  },",
        '  "x": {}',
        "}",
    ]


@pytest.mark.parametrize("data", ["{}", None, 3, {"step": 1}, [1]])
def test_only_bytes_are_taken(data: object) -> None:
    """Text or a parsed document is a TypeError which says where the bytes come from."""
    with pytest.raises(TypeError, match=r"state: expected the bytes that get_state\(\) returned, got"):
        parse(data)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_of_any_kind_are_taken(kind: type) -> None:
    """bytes, bytearray and memoryview are equivalent."""
    assert parse(kind(b'{"a": [1]}')) == {"a": [1]}


MALFORMED = [
    (b"", "expected JSON, got ''"),
    (b"\xff\xfe{}", "expected JSON in UTF-8"),
    (b"{} {}", "expected JSON"),
    (b"[1]", "expected a JSON object"),
    (b"3", "expected a JSON object"),
    (b"null", "expected a JSON object"),
    (b"\xef\xbb\xbf{}", "expected JSON"),
    (b'{"a": NaN}', "expected finite numbers, got NaN"),
    (b'{"a": -Infinity}', "expected finite numbers, got -Infinity"),
    (b'{"a": 1e999}', "state.a: expected a finite number, got inf"),
    (b'{"a": {"b": 1, "b": 2}}', "expected each key once, got 'b' twice"),
    (b'{"a": ' + b"9" * 21 + b"}", "expected integers of at most 64 bits, got one of 21 characters"),
    (b'{"a": ' + b"9" * 5000 + b"}", "expected integers of at most 64 bits"),
    (b'{"a": [18446744073709551616]}', r"state.a\[0\]: expected an integer of at most 64 bits"),
    (b'{"a": -9223372036854775809}', "state.a: expected an integer of at most 64 bits"),
    (b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}", "expected at most 32 levels"),
    (b'{"a": ' + b"[" * 100_000, "expected at most 32 levels"),
]


@pytest.mark.parametrize(("data", "text"), MALFORMED, ids=[text[-30:] for _, text in MALFORMED])
def test_malformed_documents_are_state_errors(data: bytes, text: str) -> None:
    """What isn't one JSON object with finite numbers and single keys is refused, with what is wrong."""
    with pytest.raises(StateError, match=text):
        parse(data)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_nothing_but_a_state_error(data: bytes) -> None:
    """Any bytes give an object or a StateError."""
    try:
        value = parse(data)
    except StateError:
        value = {}
    assert isinstance(value, dict)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": {1, 2}}, "x.a: expected a JSON value, got set"),
        ({"a": [1, b"b"]}, r"x.a[1]: expected a JSON value, got bytes"),
        ({"a": {3: 4}}, "x.a: expected str keys, got [3]"),
        (2**64, "x: expected an integer of at most 64 bits, got one of 65"),
        (float("inf"), "x: expected a finite number, got inf"),
        ({"a": 2**64 - 1, "b": (1, None, True, "s", 0.5)}, None),
    ],
)
def test_what_cannot_be_written_is_named_by_its_path(value: object, text: str | None) -> None:
    """A fingerprint with something that JSON can't hold says where it is; a sound one gives None."""
    assert find_problem(value, "x") == text
