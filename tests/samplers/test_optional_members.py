"""Samplers say how they read; rooms outside `samplers/` ask for that, and test for no class."""

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from internals import plan_of

import loaderkit as lk
from loaderkit.samplers import optional

PACKAGE = Path(lk.__file__).parent
CLASSES = {name for name in dir(lk.samplers) if name.endswith("Sampler") and name != "Sampler"}
CHUNKS = lk.ChunkSampler(64, chunk=4, window=2, lanes=2, batch=16, seed=0)
MIXED = lk.samplers.MixedSampler({"a": lk.IndexSampler(3), "b": lk.IndexSampler(4)}, weights={"a": 1, "b": 2})


class Asked:
    """A user's sampler: has what the given one has, member by member."""

    def __init__(self, inner, *names):
        self.inner = inner
        vars(self).update({name: getattr(inner, name) for name in names})

    def __getitem__(self, index):
        return self.inner[index]


class Wrapper(Asked):
    """Hands everything on that it doesn't have, to a sampler of another order."""

    def __getitem__(self, index):
        return lk.RecordMetadata(index, self.inner[index].record_key + 100)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)


def class_tests(file: Path) -> Iterator[str]:
    """The lines that ask whether an object is of one of loaderkit's classes of samplers."""
    tree = ast.parse(file.read_bytes())
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass")):
                asked: list[ast.expr] = [node.args[1]]
            case ast.Compare(left=ast.Call(func=ast.Name(id="type"))):
                asked = node.comparators
            case _:
                continue
        names = {each.id for part in asked for each in ast.walk(part) if isinstance(each, ast.Name)}
        if names & CLASSES:
            yield f"{file.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}"


def test_no_other_room_tests_for_a_class_of_samplers():
    """What a class of loaderkit may do, a user's sampler may do with the same members."""
    others = (file for file in PACKAGE.rglob("*.py") if file.parent.name != "samplers")
    found = [line for file in others for line in class_tests(file)]
    assert not found, "ask for an optional member, as samplers/optional.py does:\n" + "\n".join(found)


def test_a_users_sampler_with_the_members_is_read_as_loaderkits():
    """The parts of its stream, and why shards share lanes."""
    from loaderkit._loader.parts import parts_of_stream
    from loaderkit._loader.plan import why_lanes_are_shared

    mine = Asked(MIXED, "components", "offsets", "component_numbers")
    assert parts_of_stream(range(7), mine) == parts_of_stream(range(7), MIXED)
    turns = lk.samplers.InterleavedSampler([3, 4], num_epochs=1)
    said, known = (parts_of_stream(range(7), each) for each in (Asked(turns, "part_lengths"), turns))
    assert said.names == known.names == ("0", "1") and said.ends.tolist() == known.ends.tolist() == [3, 7]
    chunks = Asked(CHUNKS, "next_uses", "lanes", "batch", "num_records", "__len__")
    texts = []
    for sampler in (chunks, CHUNKS):
        loader = lk.DataLoader(
            data_source=range(64),
            sampler=sampler,
            operations=[lk.Batch(2)],
            shard_options=lk.ShardOptions(0, 4),
        )
        texts.append(why_lanes_are_shared(plan_of(loader)))
    assert texts == ["4 shards, Asked has lanes=2", "4 shards, ChunkSampler has lanes=2"]


def test_a_users_sampler_has_epochs_past_its_last():
    """With `endless()`, which its class has; a wrapper's inner one isn't asked."""

    class Twice(Asked):
        num_records = 5

        def __len__(self):
            return 10

        def endless(self):
            return self.inner.endless()

    def epoch(sampler):
        return list(lk.DataLoader(data_source=range(105), sampler=sampler, operations=[]).epoch(3))

    inner = lk.IndexSampler(5, shuffle=True, seed=1, num_epochs=2)
    assert epoch(Twice(inner)) == epoch(inner)
    wrapped = Wrapper(inner)
    assert optional.endless_of(wrapped) is wrapped


@pytest.mark.parametrize(
    "inner",
    [CHUNKS, MIXED, lk.samplers.InterleavedSampler([3, 4], num_epochs=1)],
    ids=lambda each: type(each).__name__,
)
def test_what_a_wrapper_passes_on_is_not_its_own(inner):
    """Its keys are others."""
    wrapped = Wrapper(inner)
    assert optional.components_of(wrapped) is None
    assert optional.next_uses_of(wrapped) is None
    assert optional.part_lengths_of(wrapped) is None
    assert (optional.lanes_of(wrapped), optional.batch_of(wrapped)) == (1, None)


def test_a_class_that_replaces_getitem_keeps_no_uses_of_the_old_order():
    """They are of other keys."""

    class Later(lk.ChunkSampler):
        def __getitem__(self, index):
            return lk.RecordMetadata(index, index % 64)

    sampler = Later(64, chunk=4, window=2, seed=0)
    assert optional.next_uses_of(sampler) is None


def test_component_numbers_say_where_keys_are_from():
    """Two of three of b, whose keys begin at 3."""
    indices = np.arange(50)
    numbers = MIXED.component_numbers(indices)
    assert numbers.dtype == np.int64
    assert ((MIXED.record_keys(indices) >= 3) == (numbers == 1)).all()
