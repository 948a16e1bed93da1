"""The optional methods of a data source: `__getitems__`, `take`, `name`, `fingerprint`; and how it advises to read."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from loaderkit._plan.state.strict_json import find_problem
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.naming import has_names
from loaderkit._source.optional import advised_calls, advised_chunk, column_reader, many_reader

from .conformance import Checks, Skip, expect, expect_same
from .snapshot import Snapshot, snapshot_of
from .source_samples import SourceSamples, as_python, expect_error

METHOD_CHECKS = Checks[SourceSamples]()


def _bulk_reader(samples: SourceSamples) -> Callable[..., Any]:
    reader = many_reader(samples.source)
    return reader or _not_used(samples, "__getitems__", "__getitems__(record_keys)")


def _column_reader(samples: SourceSamples) -> Callable[..., Any]:
    reader = column_reader(samples.source)
    return reader or _not_used(samples, "take", "take(record_keys, out=None)")


def _not_used(samples: SourceSamples, name: str, signature: str) -> Callable[..., Any]:
    if getattr(samples.source, name, None) is None:
        raise Skip(f"the source has no {signature}")
    raise Skip(f"its {name} isn't used: it has other parameters, or was written for another __getitem__")


@METHOD_CHECKS("__getitems__")
def _bulk(samples: SourceSamples) -> None:
    """__getitems__ gives what single reads give, for keys in any order and repeated, and none for no key

    Give one record for each key, in the order of the keys.
    """
    read = _bulk_reader(samples)
    for keys in samples.key_lists:
        _compare_bulk(samples, list(read(keys)), keys)
    try:
        nothing = read([])
    except Exception:  # noqa: BLE001 - a loader never asks for no record, and array_record refuses it
        return
    _compare_bulk(samples, list(nothing), [])


def _compare_bulk(samples: SourceSamples, got: list[Any], keys: Sequence[int]) -> None:
    expect(len(got) == len(keys), f"{len(keys)} records for the keys {keys}", f"{len(got)}")
    for key, record in zip(keys, got, strict=True):
        samples.compare(key, snapshot_of(record), f"from __getitems__({keys})")


@METHOD_CHECKS("__getitems__ of numpy keys")
def _bulk_of_numpy_keys(samples: SourceSamples) -> None:
    """__getitems__ of an array of keys gives the same records, or an error

    A loader asks with a list of Python ints; np.asarray(record_keys).tolist() makes one of either.
    """
    read = _bulk_reader(samples)
    for keys in samples.key_lists:
        try:
            records = list(read(np.array(keys, np.int64)))
        except Exception:  # noqa: BLE001 - a refusal is right, whatever its type
            continue
        expect(len(records) == len(keys), f"{len(keys)} records for the keys {keys}", f"{len(records)}")
        for key, record in zip(keys, records, strict=True):
            expected, got = as_python(samples.expected[key]), as_python(snapshot_of(record))
            expect_same(expected, got, f"record_key {key}", f"from __getitems__(np.array({keys}))")


@METHOD_CHECKS("__getitems__ beyond the end")
def _bulk_beyond_the_end(samples: SourceSamples) -> None:
    """__getitems__ with a key beyond the end is an error

    Raise IndexError, as source[record_key] does.
    """
    expect_error(samples.length, partial(_bulk_reader(samples), [samples.keys[0], samples.length]))


@METHOD_CHECKS("take")
def _columns(samples: SourceSamples) -> None:
    """take gives single reads stacked, leaf by leaf

    Give a tree of arrays (n, ...) in the order of the keys, each of the dtype that np.stack of the records has.
    """
    take = _column_reader(samples)
    for keys in samples.key_lists:
        got = snapshot_of(take(np.array(keys, np.int64)))
        expect_same(samples.stacked(keys), got, f"take({keys})", "as the records stacked")


@METHOD_CHECKS("take into out")
def _columns_into_out(samples: SourceSamples) -> None:
    """take writes to the arrays of out

    Fill the arrays of the list out, in the order of the tree, where it is given: a loader looks there, and not at
    what take returns.
    """
    take = _column_reader(samples)
    for keys in samples.key_lists:
        expected = samples.stacked(keys)
        if any(not isinstance(leaf, np.ndarray) or leaf.dtype.hasobject for leaf in expected.leaves):
            raise Skip("a column holds Python objects; a loader gives arrays only for others")
        out = [_with_other_bytes(leaf) for leaf in expected.leaves]
        take(np.array(keys, np.int64), out=out)
        got = Snapshot(expected.structure, tuple(out))
        expect_same(expected, got, f"out after take({keys}, out=out)", "as the records stacked")


def _with_other_bytes(array: np.ndarray) -> np.ndarray:
    """An array of the same dtype and shape of which each byte differs."""
    others = bytearray(~np.frombuffer(array.tobytes(), np.uint8))
    return np.frombuffer(others, array.dtype).reshape(array.shape)


@METHOD_CHECKS("take beyond the end")
def _columns_beyond_the_end(samples: SourceSamples) -> None:
    """take with a key beyond the end is an error

    Raise IndexError, as source[record_key] does; np.take with mode='wrap' or 'clip' reads another record.
    """
    keys = np.array([samples.keys[0], samples.length])
    expect_error(samples.length, partial(_column_reader(samples), keys))


@METHOD_CHECKS("name")
def _names(samples: SourceSamples) -> None:
    """name(record_key) is a str or None and the same again; how long it takes isn't measured

    Give what a person calls the record, such as its file: errors and the log show it.
    """
    if not has_names(samples.source):
        raise Skip("the source has no name(record_key)")
    for key in samples.keys:
        name, again = samples.source.name(key), samples.source.name(key)
        expect(name is None or isinstance(name, str), f"name({key}) to be a str or None", repr(name))
        expect(name == again, f"name({key}) to be {name!r} again", repr(again))


@METHOD_CHECKS("reading advice")
def _reading_advice(samples: SourceSamples) -> None:
    """read_ahead is an int from 0 on and chunk_records one from 1 on

    Give whole numbers, 0 calls for a local source, or leave them out: a loader passes over other values.
    """
    given = {name: getattr(samples.source, name, None) for name in ("read_ahead", "chunk_records")}
    if all(value is None for value in given.values()):
        raise Skip("the source has no read_ahead and no chunk_records")
    used = {"read_ahead": advised_calls(samples.source), "chunk_records": advised_chunk(samples.source)}
    for name, value in given.items():
        expect(value is None or value == used[name], f"{name} to be a whole number", repr(value))


@METHOD_CHECKS("fingerprint")
def _saved_fingerprint(samples: SourceSamples) -> None:
    """the fingerprint is JSON that a state can hold, and the same when it is asked for again

    Give a dict of strings, finite numbers of at most 64 bits, lists and dicts that says what the data is: no time, no
    address, no path of this machine.
    """
    samples.fingerprint = fingerprint_of(samples.source)
    problem = find_problem(samples.fingerprint, "fingerprint", 1)
    expect(problem is None, "JSON values that a state can hold", str(problem))
    samples.fingerprint_again(samples.source, "when it is asked for again")
