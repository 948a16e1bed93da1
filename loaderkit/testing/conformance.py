"""A list of checks on one object: which were run, which were skipped and why, and the error of the first that fails."""

import random
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import numpy as np

from loaderkit._base.notes import text_of
from loaderkit.errors import ConformanceError

from .progress import ProgressLine
from .snapshot import Snapshot, difference

T = TypeVar("T")


class Checked(Protocol):
    """What the checks of a suite take.

    subject: what is checked, in a few words. pickled_bytes: as in `ConformanceReport`.
    """

    @property
    def subject(self) -> str: ...
    @property
    def pickled_bytes(self) -> int | None: ...


C = TypeVar("C", bound=Checked)


@dataclass(frozen=True, slots=True)
class Check(Generic[T]):
    """One rule, and the function that checks it.

    name: in reports, errors and `skip=`. promise: what holds where it passes. advice: what to do where it doesn't.
    run: takes what is checked and raises Mismatch or Skip; anything else that it raises is a failure, too.
    """

    name: str
    promise: str
    advice: str
    run: Callable[[T], None]


class Checks(Generic[T]):
    """The checks of objects of one kind, in the order in which a failure says most: that of their functions.

    The docstring of a function is the promise of its check and, behind an empty line, the advice, as in `Check`.

    >>> checks = Checks[int]()
    >>> @checks("even")
    ... def _even(number):
    ...     \"\"\"it is even
    ...
    ...     Add 1.
    ...     \"\"\"
    ...     expect(number % 2 == 0, "an even number", str(number))
    >>> [(each.name, each.promise, each.advice) for each in checks]
    [('even', 'it is even', 'Add 1.')]
    """

    def __init__(self) -> None:
        self._checks: list[Check[T]] = []

    def __call__(self, name: str) -> Callable[[Callable[[T], None]], Callable[[T], None]]:
        """Adds the function below it as the check of this name."""

        def add(run: Callable[[T], None]) -> Callable[[T], None]:
            # python -OO has no docstrings.
            promise, _, advice = (run.__doc__ or f"the check {name!r} passes").partition("\n\n")
            self._checks.append(Check(name, " ".join(promise.split()), " ".join(advice.split()), run))
            return run

        return add

    def __iter__(self) -> Iterator[Check[T]]:
        return iter(self._checks)


class Mismatch(Exception):  # noqa: N818 - run_checks makes the error of it
    """A check found something else than it expected: both, in words."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(expected, got)
        self.expected, self.got = expected, got


class Skip(Exception):  # noqa: N818 - no error
    """A check can't be run on this object; the reason, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceReport:
    """What a check of one part, such as `check_source`, ran; a ConformanceError comes where a rule is broken.

    Attributes:
        subject: what was checked.
        passed: names of checks, and what each of them showed.
        skipped: names of those that were not run, and why.
        pickled_bytes: what travels to each worker process, None where it wasn't pickled.

    >>> report = ConformanceReport(
    ...     subject="a list of 3 records",
    ...     passed=(("length", "len(source) is the same again"),),
    ...     skipped=(("name", "the source has no name(record_key)"),),
    ...     pickled_bytes=63,
    ... )
    >>> print(report)
    a list of 3 records: 1 passed, 1 skipped, 63 bytes pickled
      passed   length: len(source) is the same again
      skipped  name: the source has no name(record_key)
    """

    subject: str
    passed: tuple[tuple[str, str], ...]
    skipped: tuple[tuple[str, str], ...]
    pickled_bytes: int | None

    def __str__(self) -> str:
        size = "" if self.pickled_bytes is None else f", {self.pickled_bytes:,} bytes pickled"
        lines = [f"{self.subject}: {len(self.passed)} passed, {len(self.skipped)} skipped{size}"]
        lines += [f"  passed   {name}: {promise}" for name, promise in self.passed]
        lines += [f"  skipped  {name}: {reason}" for name, reason in self.skipped]
        return "\n".join(lines)


def run_checks(
    checks: Iterable[Check[C]], checked: C, *, name: str, skip: Collection[str], progress: bool | None
) -> ConformanceReport:
    """Runs the checks in order. The global generators are afterwards where they were before.

    Args:
        checks: in the order in which a failure says most.
        checked: what each of them takes.
        name: of the public function, for errors and the line of progress.
        skip: names of checks to leave out, in any iterable; ValueError for a name that no check has.
        progress: whether a line on stderr says how far it is; None where that is a terminal.

    ConformanceError for the first that fails.

    >>> class Three:
    ...     subject, pickled_bytes, value = "3", None, 3
    >>> even = Check(
    ...     "even", "it is even", "Add 1.", lambda n: expect(n.value % 2 == 0, "an even number", n.subject)
    ... )
    >>> run_checks([even], Three(), name="check_number", skip=(), progress=False)
    Traceback (most recent call last):
    loaderkit.errors.ConformanceError: check_number: 3: check 'even': expected an even number, got 3. Add 1.
    """
    if isinstance(skip, str):
        raise TypeError(f"skip: expected a list of names of checks, got {skip!r}; write [{skip!r}]")
    try:
        skip = tuple(skip)
    except TypeError:
        raise TypeError(f"skip: expected a list of names of checks, got {skip!r}") from None
    if progress is not None and not isinstance(progress, bool):
        raise TypeError(f"progress: expected True, False or None, got {progress!r}")
    checks, subject = tuple(checks), checked.subject
    names = [each.name for each in checks]
    unknown = [wrong for wrong in skip if wrong not in names]
    if unknown:
        raise ValueError(f"skip: expected names among {names}, got {unknown[0]!r}")
    passed: list[tuple[str, str]] = []
    skipped: list[tuple[str, str]] = []
    with kept_global_generators(), ProgressLine(shown=progress, name=name, stages=len(checks)) as line:
        for each in checks:
            line.stage(each.name)
            if each.name in skip:
                skipped.append((each.name, "left out by skip="))
                continue
            try:
                each.run(checked)
            except Skip as reason:
                skipped.append((each.name, str(reason)))
            except Mismatch as found:
                _fail(name, subject, each, found.expected, found.got, None)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                got = f"{type(error).__name__}: {text_of(error)}"
                _fail(name, subject, each, f"that {each.promise}", got, error)
            else:
                passed.append((each.name, each.promise))
    return ConformanceReport(
        subject=subject, passed=tuple(passed), skipped=tuple(skipped), pickled_bytes=checked.pickled_bytes
    )


def _fail(
    name: str, subject: str, broken: Check[Any], expected: str, got: str, cause: Exception | None
) -> NoReturn:
    got = got.removesuffix(".")
    text = f"{name}: {subject}: check {broken.name!r}: expected {expected}, got {got}. {broken.advice}"
    raise ConformanceError(text, check=broken.name) from cause


def expect(condition: bool, expected: str, got: str) -> None:
    """Mismatch with these words where the condition doesn't hold."""
    if not condition:
        raise Mismatch(expected, got)


def expect_same(expected: Snapshot, got: Snapshot, what: str, when: str) -> None:
    """Mismatch that names the first leaf in which two snapshots differ.

    Args:
        expected, got: to compare.
        what: the element, as "record_key 3".
        when: how the second was made, as "when it is read again".
    """
    found = difference(expected, got)
    if found is not None:
        leaf = f"leaf {found.path} of {what}" if found.path else what
        raise Mismatch(f"{leaf} to be {found.one} {when}", found.other)


@contextmanager
def kept_global_generators() -> Iterator[None]:
    """Restores the state of the global generators at the end of a `with` block.

    >>> import random
    >>> random.seed(0)
    >>> with kept_global_generators():
    ...     first = random.random()
    >>> random.random() == first
    True
    """
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 - the point is the global generator
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
