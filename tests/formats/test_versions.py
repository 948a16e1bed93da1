"""Versions and their patterns, as TFDS orders and matches them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit.formats._datasets.versions import Version, is_version, newest, parse_version

small = st.integers(0, 12)
versions = st.tuples(small, small, small).map(lambda numbers: Version(*numbers))
patterns = st.tuples(*[small.map(str) | st.just("*")] * 3).map(".".join)


@given(st.lists(versions), patterns)
def test_the_newest_that_tfds_would_match(each, pattern):
    """The highest version, by numbers and not by text, that the pattern allows."""
    tfds = pytest.importorskip("tensorflow_datasets")
    matching = [v for v in map(str, each) if tfds.core.Version(v).match(pattern)]
    expected = max(map(tfds.core.Version, matching), default=None)
    assert str(newest(each, pattern)) == str(expected)
    assert newest(each, None) == max(each, default=None)


def test_numbers_that_are_left_out_are_any():
    """1, 1.* and 1.*.* are one pattern."""
    each = [parse_version(text) for text in ("1.0.0", "1.2.9", "1.2.10", "2.0.0", "10.0.0")]
    for pattern in ("1", "1.*", "1.*.*", "1.2"):
        assert str(newest(each, pattern)) == "1.2.10"
    assert str(newest(each, "*")) == "10.0.0"
    assert newest(each, "3.*") is None


@pytest.mark.parametrize(
    "text", ["1.0", "01.0.0", "1.0.0.0", "1.0.x", "v1.0.0", "", "1.0.0.partial", "1.-1.0"]
)
def test_other_texts_are_no_versions(text):
    """A folder with such a name isn't taken for a version."""
    assert not is_version(text)
    with pytest.raises(ValueError, match=r"^version: expected MAJOR.MINOR.PATCH such as 1.0.0, got "):
        parse_version(text)


@pytest.mark.parametrize("pattern", ["1.", "1.2.3.4", "latest", "1.x", ""])
def test_other_texts_are_no_patterns(pattern):
    """The error says which patterns there are."""
    with pytest.raises(ValueError, match=r"^version: expected a version or a pattern such as"):
        newest([], pattern)
