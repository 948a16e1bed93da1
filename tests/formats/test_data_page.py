"""The table of formats in docs/data.md says what the registry knows."""

from pathlib import Path

from docs.site import format_pages

PAGE = Path(__file__).parents[2] / "docs/data.md"


def test_the_table_of_formats_is_made_of_the_registry():
    """Where a format is added or changed, what this compares has to be pasted into the page."""
    (table,) = [part for part in PAGE.read_text().split("\n\n") if part.startswith("| format |")]
    assert table == format_pages.table()
