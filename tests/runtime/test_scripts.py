"""Scripts as they are pasted: no main guard, lambdas, closures, and classes of `__main__` that stay what they are."""

import pytest
from child_scripts import run

KINDS = ["process", "thread"]

TRAINING = """
import sys
from dataclasses import dataclass
import numpy as np
import loaderkit as lk

print("the script runs")
SCALE = 2.0

@dataclass
class Example:
    x: np.ndarray
    label: int

class Decode(lk.Map):
    def map(self, element):
        return Example(np.full(3, element * SCALE, np.float32), element % 10)

class Augment(lk.RandomMap):
    def random_map(self, element, rng):
        return Example(element.x + rng.normal(), element.label)

def shifted(by):
    return lambda example: Example(example.x + by, example.label)

loader = lk.DataLoader(data_source=[*range(40)], sampler=lk.IndexSampler(40, shuffle=True, seed=0, num_epochs=2),
                       operations=[Decode(), Augment(), shifted(by=5), lk.Batch(global_batch_size=8)],
                       worker_count=int(sys.argv[1]), worker_kind=sys.argv[2])
with iter(loader) as it:
    for batch in it:
        assert type(batch) is Example and batch.x.shape == (8, 3), batch
        print(it.step, batch.x.tobytes().hex(), batch.label.tolist())
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_training_script_without_a_main_guard_runs_once(tmp_path, kind):
    """Its classes, lambdas and closures travel; nothing of it is run again; it prints what it does without workers."""
    expected = run(tmp_path, TRAINING, 0, "process")
    assert expected.count("the script runs") == 1
    assert expected.count("\n") == 11
    assert run(tmp_path, TRAINING, 2, kind) == expected


CLASSES = """
import sys
import threading
from typing import NamedTuple
import numpy as np
import loaderkit as lk

class Pair(NamedTuple):
    left: int
    right: int

class Document:
    made = 0
    limit = 10
    def __init__(self, text):
        self.text = text
    def shorter(self):
        return self.text[:Document.limit]

def pages(folder):
    class Page:  # a class without a name that a module could find
        def __init__(self, number):
            self.place = folder, number
    return Page

Page = pages("folder")

def make(x):
    return [Pair(x, -x), Document("text " * x), Page(x)][x % 3]

def loader(*operations, **options):
    return lk.DataLoader(data_source=lk.RangeDataSource(0, 12, 1), sampler=lk.SequentialSampler(12),
                         operations=operations, worker_count=2, **options)

original = Document.shorter
Document.limit = 3
elements = list(loader(make))
Document.limit = 4
assert all(isinstance(e, Pair) and e == (k, -k) for k, e in enumerate(elements) if k % 3 == 0)
assert all(isinstance(e, Document) for e in elements[1::3])
assert all(isinstance(e, Page) and e.place == ("folder", 3 * k + 2) for k, e in enumerate(elements[2::3]))
assert Document.shorter is original and elements[1].shorter() == "text", "the class is the trainer's own"

batch, = loader(lambda x: Pair(x, np.float32(x)), lk.Batch(12))
assert type(batch) is Pair and batch.right.dtype == np.float32

def found_in_dictionary(x):  # behind a Batch: the batch is a class of the script
    return Document(x["words"])
last, = loader(lambda x: {"words": str(x)}, lk.Batch(12), found_in_dictionary)
assert isinstance(last, Document) and last.text.tolist() == [*map(str, range(12))]
print("all as made")
"""


@pytest.mark.slow
def test_elements_of_classes_of_the_script_are_what_they_were(tmp_path):
    """isinstance holds in the trainer, and receiving them changes nothing about the trainer's class."""
    assert run(tmp_path, CLASSES) == "all as made\n"


ERRORS = """
import sys
import threading
import traceback
import loaderkit as lk

class TooDark(Exception):
    def __init__(self, photo, *, mean):
        super().__init__(f"{photo} is too dark: {mean}")
        self.photo, self.mean = photo, mean

class Handled(Exception):
    def __init__(self):
        super().__init__("holds what can't travel")
        self.handle = threading.Lock()

class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no")

class Demanding(Exception):
    def __new__(cls, one, *, two):
        return super().__new__(cls, one)
    def __init__(self, one, *, two):
        super().__init__(f"{one} and {two}")

def dark(x):
    if x == 7:
        raise TooDark("seven.png", mean=0.5)
    return x

def handled(x):
    if x == 7:
        raise Handled
    return x

def unprintable(x):
    if x == 7:
        raise Unprintable
    return x

def demanding(x):
    if x == 7:
        raise Demanding(1, two=2)
    return x

def chained(x):
    try:
        return dark(x)
    except TooDark as error:
        raise OSError(5, "gone", "a.png") from error

for function, kinds in ((dark, TooDark), (handled, Handled), (unprintable, (Unprintable, lk.WorkerError)),
                        (demanding, (Demanding, lk.WorkerError)), (chained, OSError)):
    loader = lk.DataLoader(data_source=[*range(10)], sampler=lk.SequentialSampler(10),
                           operations=[function, lk.Batch(2)], worker_count=1, worker_kind=sys.argv[1])
    it = iter(loader)
    for _ in range(3):
        next(it)
    try:
        next(it)
    except kinds as error:
        text = "".join(traceback.format_exception(error))
        assert "index 7 (record_key 7)" in text and f"Map({function.__name__})" in text, text
        assert f"in {function.__name__}" in text, "the worker's traceback"
        if function is dark:
            assert (error.photo, error.mean, str(error)) == ("seven.png", 0.5, "seven.png is too dark: 0.5")
        if function is chained:
            assert error.errno == 5 and error.filename == "a.png" and "TooDark: seven.png" in text
    else:
        raise AssertionError(f"{function} raised nothing")
    loader.close()
print("all raised")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_exceptions_of_the_script_keep_their_type(tmp_path, kind):
    """With constructor arguments, with what can't travel, unprintable ones: raised at their place, with the record."""
    assert run(tmp_path, ERRORS, kind) == "all raised\n"


IMPORTS = """
import pathlib, sys
sys.path.insert(0, pathlib.Path(__file__).parent / "more")
sys.path.insert(0, str(pathlib.Path(__file__).parent / "more"))
import loaderkit as lk
import beside
with lk.DataLoader(data_source=[1, 2, 3], sampler=lk.SequentialSampler(3), operations=[beside.double],
                   worker_count=1) as loader:
    print(*loader, *lk.DataLoader(data_source=[1], sampler=lk.SequentialSampler(1), worker_count=1,
                                  operations=[lambda x: (sys.flags.optimize, __debug__, sys.warnoptions)]))
"""


def test_a_worker_imports_and_runs_as_its_script_does(tmp_path):
    """Modules beside the script and on a path it added, interpreter flags and warning filters."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "beside.py").write_text("def double(x):\n    return 2 * x\n")
    assert run(tmp_path, IMPORTS) == "2 4 6 (0, True, ['error'])\n"
