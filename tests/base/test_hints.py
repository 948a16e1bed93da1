"""An error for a script written for another loader shows our spelling."""

import inspect
import re

import pytest

import loaderkit as lk
from loaderkit._base.hints import (
    ATTRIBUTES,
    IMAGES,
    KEYWORDS,
    STEP_KEYWORDS,
    STEPS,
    foreign_attribute,
    refuse_foreign_keywords,
)


@pytest.mark.parametrize(
    ("keyword", "ours"),
    [
        ("num_workers", "worker_count"),
        ("collate_fn", "batch_fn"),
        ("worker_buffer_size", "prefetch_batches"),
        ("drop_last", "drop_remainder=True"),
        ("batch_size", "lk.Batch(batch_size=...)"),
        ("shuffle", "shuffle=True"),
        ("persistent_workers", "nothing"),
        ("pin_memory", "loaderkit.interop.torch.tensors(loader, pin_memory=True)"),
        ("prefetch_factor", "prefetch_batches"),
        ("dataset", "data_source"),
        ("probs", "weights={name: weight}"),
    ],
)
def test_a_known_keyword_gets_ours(keyword: str, ours: str) -> None:
    """The error is the TypeError that Python would raise, with what to write instead."""
    with pytest.raises(TypeError) as error:
        refuse_foreign_keywords("DataLoader", {keyword: 1})
    assert f"DataLoader() has no argument {keyword}; write instead: " in str(error.value)
    assert ours in str(error.value)


def test_every_keyword_of_a_call_is_named() -> None:
    """The error names several at once, and has no advice for an unknown one; without any there is no error."""
    with pytest.raises(TypeError) as error:
        refuse_foreign_keywords("load", {"num_workers": 1, "colour": 2, "drop_last": True})
    message = str(error.value)
    assert all(f"has no argument {name}" in message for name in ("num_workers", "colour", "drop_last"))
    assert "colour;" not in message
    refuse_foreign_keywords("load", {})


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("MapTransform", "lk.Map"),
        ("RandomMapTransform", "lk.RandomMap"),
        ("FilterTransform", "lk.Filter"),
        ("PyGrainCheckpointSave", "lk.CheckpointSave"),
        ("WebDataset", "lk.TarDataSource"),
        (
            "WeightedRandomSampler",
            "lk.samplers.WeightedSampler(weights, seed=0, num_samples=...), passed as sampler=",
        ),
        ("choose_from_datasets", "lk.mix({name: source}, pattern=[name, ...])"),
        ("TFRecordDataset", "lk.TFRecordDataSource"),
        ("load_from_disk", "lk.open(folder)"),
        ("StreamingDataLoader", "lk.DataLoader"),
        ("Map", None),
        ("nonsense", None),
    ],
)
def test_a_name_of_another_package_gets_ours(name: str, ours: str | None) -> None:
    """And None for a name that no library has."""
    assert foreign_attribute(name) == ours


@pytest.mark.parametrize(
    ("package", "name", "ours"),
    [
        (lk, "open_writer", "lk.formats.open_writer"),
        (lk, "Seeded", "lk.transforms.Seeded"),
        (lk, "make_grid", r"lk.grid\(images"),
        (lk, "load_dataset", r"datasets.load_dataset\(name"),
        (lk, "StreamingDataset", r"lk.open\(folder\) for MDS"),
        (lk.transforms.image, "RandomHorizontalFlip", r"image.RandomFlip\(\)"),
        (lk.transforms.image, "Compose", "nothing: operations="),
        (lk.transforms.image, "ToTensor", r"image.ToFloat\(\)"),
    ],
)
def test_a_name_that_a_package_lacks_is_an_error_with_ours(package, name, ours) -> None:
    """Of the package itself, and of torchvision in that of images."""
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; use instead: {ours}"):
        getattr(package, name)


def test_every_name_of_ours_for_pictures_is_there() -> None:
    """What is to be written in place of torchvision's name exists, and the name itself doesn't."""
    for name, advice in IMAGES.items():
        assert name not in dir(lk.transforms.image)
        for ours in re.findall(r"image\.(\w+)\(", advice):
            assert ours in dir(lk.transforms.image)


def test_every_entry_says_what_to_write() -> None:
    """No empty advice, and no name that stands for itself."""
    for table in (KEYWORDS, STEP_KEYWORDS, ATTRIBUTES, STEPS, IMAGES):
        for name, advice in table.items():
            assert advice
            assert advice not in (name, f"lk.{name}")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: lk.DataLoader(num_workers=2),
            r"^DataLoader\(\) has no argument num_workers; .* worker_count$",
        ),
        (lambda: lk.DataLoader([1], batch_size=2), r"^DataLoader\(\) has no argument batch_size; .*lk.Batch"),
        (lambda: lk.DataLoader([1]), r"^DataLoader\(\) takes keyword arguments: DataLoader\(data_source="),
        (lambda: lk.load([1], 2), r"^load\(\) takes keyword arguments: load\(source, batch_size=32\)"),
        (
            lambda: lk.load([1], transforms=[]),
            r"^load\(\) has no argument transforms; .* operations=\[\.\.\.\] of DataLoader or load$",
        ),
        (
            lambda: lk.Dataset([1]).shuffle(buffer_size=9),  # type: ignore[call-arg]
            r"^Dataset.shuffle\(\) has no argument buffer_size; write instead: nothing: a shuffle orders whole epochs",
        ),
        (
            lambda: lk.Dataset([1]).map(str, num_parallel_calls=4),  # type: ignore[call-overload]
            r"^Dataset.map\(\) has no argument num_parallel_calls; write instead: \.loader\(worker_count=\.\.\.\)$",
        ),
        (
            lambda: lk.Dataset.mix({}, probabilities=[1]),  # type: ignore[call-arg]
            r"^Dataset.mix\(\) has no argument probabilities; write instead: weights=\{name: weight\}$",
        ),
        (
            lambda: lk.random_split([1], [1.0], seed=0, generator=1),  # type: ignore[call-arg]
            r"^random_split\(\) has no argument generator; write instead: seed=0$",
        ),
        (lambda: lk.load([1], colour=2), r"^load\(\) has no argument colour$"),
        (lk.load, r"^load\(\) missing 1 required positional argument: 'source'$"),
        (
            lambda: lk.Batch(2, drop_last=True),
            r"^Batch\(\) has no argument drop_last; .*drop_remainder=True\)$",
        ),
        (lambda: type("Mine", (lk.Batch,), {})(2, drop_last=True), r"^Batch\(\) has no argument drop_last"),
    ],
)
def test_calls_say_it_and_keep_their_signatures(call, says) -> None:
    """They are checked before missing arguments; the signature has only its own arguments, for type checkers."""
    with pytest.raises(TypeError, match=says):
        call()
    for function in (lk.load, lk.DataLoader.__init__, lk.Batch.__init__):
        kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
        assert kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
