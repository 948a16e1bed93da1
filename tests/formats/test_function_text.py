"""What a function does, as text: a change of the bytes that it makes is seen, a change of the layout isn't."""

import functools
import importlib.util
import itertools
import os
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.formats._writing.function_text import FunctionText

MODULE = '''
import functools
import re
import numpy as np

SHIFT = 3
TABLE = {"a": 1}
VOCABULARY = np.arange(100_000)


def helper(x):
    return x + SHIFT


@functools.cache
def cached(x):
    return x * 2


class Scale:
    factor = 2

    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return self.factor * self.by * x

    def empty(self):
        """Of which the code has no place."""


scale = Scale(5)
WORD = re.compile("[a-z]+")


def tokenise(x, offset=1):
    def inner(y):
        return helper(y) + TABLE["a"] + offset

    return inner(x), cached(x), scale(x), VOCABULARY[5], WORD, [np.add(z, 1) for z in (x,)]


def closing(value):
    return lambda x: x + value


one, other = (lambda x: x + 1), (lambda x: x + 2)
'''
NUMBERS = itertools.count()


def told(tmp_path, text, name="tokenise"):
    path = tmp_path / f"users_{next(NUMBERS)}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("users_functions", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return FunctionText({"function": eval(name, vars(module))}).as_json()


EDITS = [
    ("return x + SHIFT", "return x - SHIFT"),
    ("SHIFT = 3", "SHIFT = 4"),
    ('TABLE = {"a": 1}', 'TABLE = {"a": 2}'),
    ("VOCABULARY = np.arange(100_000)", "VOCABULARY = np.arange(100_000); VOCABULARY[50_000] = 1"),
    ("return x * 2", "return x * 3"),
    ("factor = 2", "factor = 3"),
    ("Scale(5)", "Scale(6)"),
    ("self.by * x", "self.by + x"),
    ("offset=1", "offset=2"),
    ("[a-z]+", "[a-y]+"),
    ("np.add(z, 1)", "np.add(z, 2)"),
]


@pytest.mark.parametrize(("old", "new"), EDITS)
def test_an_edit_is_seen(tmp_path, old, new):
    assert old in MODULE
    assert told(tmp_path, MODULE) != told(tmp_path, MODULE.replace(old, new))


def test_comments_docstrings_layout_and_others_are_not_seen(tmp_path):
    edited = MODULE.replace(
        "    return x + SHIFT", "    '''Doc.'''\n    # why\n    return (x\n       + SHIFT)"
    )
    edited = "import os\n\n\ndef unused():\n    pass\n" + edited.replace("x + 2", "x + 3")
    assert told(tmp_path, MODULE) == told(tmp_path, edited)
    assert told(tmp_path, MODULE)["not compared"] == []
    assert not [text for text in told(tmp_path, MODULE)["code"].values() if text.startswith("code of")]


def test_lambdas_and_closures(tmp_path):
    """Of two in a line each is its own; what a closure holds counts; a method and a partial lead to what they call."""
    names = [
        "one",
        "other",
        "closing(1)",
        "closing(2)",
        "Scale(1).__call__",
        "functools.partial(helper, x=1)",
    ]
    texts = [told(tmp_path, MODULE, name) for name in names]
    assert all(texts[i] != texts[j] for i in range(len(texts)) for j in range(i))
    assert texts == [told(tmp_path, MODULE, name) for name in names]
    assert texts[1]["code"] == {"function": "lambda x: x + 2"}


def test_code_without_a_source(tmp_path):
    """It is compared as Python has compiled it."""
    made = [eval(text) for text in ("lambda x: x + 1", "lambda x:   x + 1", "lambda x: x + 2")]
    texts = [FunctionText({"function": each}).as_json() for each in made]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("jax.numpy", "asarray"),
        pytest.param("torch", "asarray", marks=pytest.mark.torch),
        ("pandas", "Series"),
        ("numpy", ""),
    ],
)
def test_an_edit_in_the_middle_of_an_array(library, name):
    """Of which the repr shows the ends; one of objects too."""
    module = pytest.importorskip(library)
    array = getattr(module, name) if name else lambda values: values.astype(object)
    values = np.arange(100_000, dtype=np.int32)
    edited = np.where(values == 50_000, 1, values)
    texts = [
        FunctionText({"f": functools.partial(max, array(each))}).values for each in (values, values, edited)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_an_object_of_a_library(monkeypatch):
    """Of which the repr says nothing: what it holds is compared, but what pickle refuses, which is named."""
    library = types.ModuleType("library_of_scalers")
    library.__file__ = f"{os.path.dirname(np.__file__)}/scalers.py"
    monkeypatch.setitem(sys.modules, "library_of_scalers", library)
    exec("class Scaler:\n def __repr__(self): return 'Scaler()'", vars(library))
    scaler = library.Scaler()
    texts = []
    for mean in (3.0, 3.0, 4.0):
        scaler.mean = mean
        texts.append(FunctionText({"f": lambda x: x - scaler.mean}).as_json())
    assert texts[0] == texts[1] != texts[2]
    assert texts[0]["not compared"] == []
    scaler.lock = threading.Lock()
    assert FunctionText({"f": lambda x: x - scaler.mean}).not_compared == ["f.scaler['lock']: _thread.lock"]


@pytest.mark.parametrize("of", [list, tuple, dict.fromkeys, set])
def test_an_edit_in_the_middle_of_many_values(of):
    texts = []
    for middle in (500, 500, -1):
        values = of((*range(500), middle, *range(501, 1000)))
        texts.append(FunctionText({"f": lambda x, values=values: values}).as_json())
    assert texts[0] == texts[1] != texts[2]


def test_functions_beyond_the_first_many():
    """Each of a list is compared, in a source too."""

    def texts(last):
        steps = [*([lambda x: x] * 1000), last]
        concat = lk.ConcatDataSource([lk.MapDataSource([1], step) for step in steps])
        return FunctionText({"f": lambda x: steps}).as_json(), FunctionText({}, concat).as_json()

    plus, minus = texts(lambda x: x + 1), texts(lambda x: x - 1)
    assert plus == texts(lambda x: x + 1)
    assert plus[0] != minus[0]
    assert plus[1] != minus[1]


OTHERS = """
import collections, enum, functools, pathlib, re
import numpy as np
import loaderkit as lk
from loaderkit.formats._writing.function_text import FunctionText

Color = enum.Enum("Color", "RED BLUE")
Point = collections.namedtuple("Point", "x y")
names, counts, random = {"a", "b", "c"}, collections.Counter("aab"), np.random.default_rng(3)
source, tree = lk.ArrayDataSource({"x": np.arange(9)}), [1]
tree.append(tree)


def f(x, *, steps=(abs, lambda y: y)):
    return names, Color.RED, Point(1, 2), counts, random, source, tree, x in {"q", "r", "s"}, pathlib.Path("a")


calls = {"f": f, "bound": random.normal, "partial": functools.partial(f, 3), "match": re.compile("a").match}
print(FunctionText(calls).as_json())
"""


@pytest.mark.parametrize("argument", ["-c", "FILE"])
def test_another_process_with_another_hash_seed_has_the_same_text(tmp_path, argument):
    """With the source and without; of these nothing is left out."""
    file = tmp_path / "script.py"
    file.write_text(OTHERS)
    found = [
        subprocess.run(
            [sys.executable, *(("-c", OTHERS) if argument == "-c" else (file,))],
            env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in "12"
    ]  # fmt: skip
    assert found[0] == found[1]
    assert found[0].endswith("'not compared': []}\n")


def test_a_folder_beside_loaderkit(monkeypatch):
    """Whose name begins with that: its functions are the user's."""
    module = types.ModuleType("of_mine")
    module.__file__ = f"{os.path.dirname(lk.__file__)}_of_mine/functions.py"
    monkeypatch.setitem(sys.modules, "of_mine", module)
    exec("def f(x): return x + 1", vars(module))
    assert FunctionText({"function": module.f}).code


def test_functions_in_a_source():
    """Of MapDataSource, within others too, and of a class of the user's; what a source holds is none."""

    def text(source):
        return FunctionText({}, source).as_json()

    class Own(list):
        def __getitem__(self, key):
            return super().__getitem__(key)

    plus, minus = (lambda x: x + 1), (lambda x: x - 1)
    for outer in (lambda s: s, lambda s: lk.ConcatDataSource([s, s]), lambda s: lk.SubsetDataSource(s, [0])):
        made = [outer(lk.MapDataSource([1, 2], fn)) for fn in (plus, plus, minus)]
        assert text(made[0]) == text(made[1]) != text(made[2])
    assert text([1, 2]) == text(np.arange(5)) == {"code": {}, "values": {}, "not compared": []}
    assert "super()" in str(text(Own([1]))) and text(Own([1])) == text(Own([2]))
    assert FunctionText({"function": iter([])}).not_compared == []
    assert FunctionText({"function": (x for x in [])}).not_compared == ["function: builtins.generator"]
    assert FunctionText({"function": lambda: np.zeros(1)}).libraries == {"numpy": np.__version__}
