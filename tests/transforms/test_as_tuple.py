"""AsTuple: the tuples that webdataset's to_tuple gives."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit.transforms.parameters import parameters_of

NAMES = st.sampled_from(["jpg", "png", "cls", "seg.png", "json"])
FIELDS = st.lists(st.lists(NAMES, min_size=1, max_size=2, unique=True), min_size=1, max_size=3)


@given(FIELDS, st.dictionaries(NAMES, st.binary(max_size=3)), st.booleans())
def test_the_tuples_of_webdataset(fields, record, one_text):
    """The first name of each field that the record has; where it has none, an error with the record's key."""
    from webdataset import filters  # not above: it imports torch, where tests are only collected, too

    if len({name for names in fields for name in names}) < sum(map(len, fields)):
        return
    names = [";".join(choice) for choice in fields]
    record = {"__key__": "a/17", **record}
    operation = lk.AsTuple(" ".join(names)) if one_text else lk.AsTuple(*names)
    again = pickle.loads(pickle.dumps(operation))
    try:
        (expected,) = filters.to_tuple(*names)([record])
    except ValueError:
        with pytest.raises(ValueError, match=r"record 'a/17': expected the field '"):
            operation.map(record)
    else:
        assert operation.map(record) == again.map(record) == expected
    assert operation == again
    assert repr(operation) == f"AsTuple({', '.join(map(repr, names))})"


def test_what_a_state_says_of_it():
    assert parameters_of([lk.AsTuple("jpg;png cls")]) == [
        {"op": "Map", "name": "AsTuple", "parameters": {"fields": ["jpg;png", "cls"]}}
    ]


def test_in_a_loader():
    records = [{"__key__": str(k), "x": k, "y": -k} for k in range(4)]
    loader = lk.load(records, batch_size=4, num_epochs=1, operations=[lk.AsTuple("y x")])
    (batch,) = loader
    assert [column.tolist() for column in batch] == [[0, -1, -2, -3], [0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ((), ValueError, "fields: expected names"),
        (("",), ValueError, "fields: expected names"),
        (("jpg;",), ValueError, "fields: expected names"),
        (("jpg cls", "json"), ValueError, "fields: expected names"),
        (("jpg", "jpg"), ValueError, "each name once"),
        ((3,), TypeError, "fields: expected names"),
        ((b"jpg",), TypeError, "fields: expected names"),
        (("jpg", 3), TypeError, "fields: expected names"),
    ],
)
def test_fields_that_are_no_names(fields, error, text):
    with pytest.raises(error, match=text):
        lk.AsTuple(*fields)


def test_an_element_that_is_no_record():
    with pytest.raises(TypeError, match=r"AsTuple\('jpg'\): expected a record, a dict of fields, got bytes"):
        lk.AsTuple("jpg").map(b"...")
