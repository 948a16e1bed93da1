"""docs/testing-your-own.md has the checks that there are."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from loaderkit.testing import format_checks, operation_checks, sampler_checks, source_checks
from loaderkit.testing.conformance import Check
from loaderkit.testing.source_method_checks import METHOD_CHECKS

PAGE = (Path(__file__).parents[2] / "docs/testing-your-own.md").read_text()
CHECKS: dict[str, Iterable[Check]] = {
    "A source": [*source_checks._READ_CHECKS, *METHOD_CHECKS, *source_checks._COPY_CHECKS],
    "A sampler": sampler_checks._CHECKS,
    "An operation": operation_checks._CHECKS,
    "A format": format_checks._CHECKS,
}


@pytest.mark.parametrize("title", CHECKS)
def test_the_page_has_each_check_in_order(title):
    """A row for each, by the name that errors and reports have."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)
    assert [row.replace("\\", "") for row in rows[1:]] == [check.name for check in CHECKS[title]]


@pytest.mark.parametrize("title", CHECKS)
def test_each_check_says_what_it_promises_and_what_to_do(title):
    """The promise in words that follow "expected that", the advice as sentences."""
    names = [check.name for check in CHECKS[title]]
    assert len({*names}) == len(names)
    for check in CHECKS[title]:
        assert check.promise and not check.promise.endswith(".")
        assert check.advice.endswith((".", "']."))
        for left_out in re.findall(r"skip=\[(.*?)\]", check.advice):
            assert {*re.findall(r"'(.*?)'", left_out)} <= {*names}
