"""An error for a script written for another loader shows our spelling."""

import abc
import importlib.util
import inspect
import pkgutil
import re

import pytest

import loaderkit as lk
from loaderkit._base.hints import (
    ATTRIBUTES,
    BY_NAME,
    IMAGES,
    KEYWORDS,
    METHODS,
    OF_CALLABLE,
    SOURCE_METHODS,
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


def test_a_chain_may_be_subclassed_with_an_abstract_class() -> None:
    """The class that answers for foreign names of Dataset is none that an ABC can't be."""

    class Named(lk.Dataset, abc.ABC):  # type: ignore[type-arg]
        pass

    assert isinstance(Named([1]).map(abs), lk.Dataset)


def test_several_unknown_arguments_are_named_in_their_order() -> None:
    """In each run the same."""
    with pytest.raises(TypeError, match=r"no argument zeta\. It has no argument alpha"):
        lk.Dataset([1]).loader(zeta=1, alpha=2)


@pytest.mark.parametrize(
    ("package", "name", "ours"),
    [
        (lk, "open_writer", "lk.formats.open_writer"),
        (lk, "Seeded", "lk.transforms.Seeded"),
        (lk, "make_grid", r"lk.grid\(images"),
        (lk, "AUTOTUNE", 'worker_count="auto" of lk.DataLoader'),
        (lk, "from_generator", r"lk.write\(records"),
        (lk.samplers, "DistributedSampler", r"shard_options=lk.ShardOptions\(rank, world_size\)"),
        (lk.sources, "ConcatDataset", "lk.ConcatDataSource"),
        (lk.Dataset([1]), "prefetch", r"\.loader\(prefetch_batches=\.\.\.\)"),
        (lk.Dataset, "from_tensor_slices", r'lk.Dataset\(\{"x": np.asarray\(x\)\}\)'),
        (lk.transforms, "RandomCrop", "lk.transforms.image, which has it"),
        (lk, "Compose", "nothing: operations="),
        (lk.Dataset([1]), "with_format", r"\.map\(function\)"),
        (lk.Dataset([1]), "exclude", r"lk.offline.block_list\(source, folder, keys="),
        (lk.load([1]), "seek", r"it = iter\(loader\), which has it"),
        (lk.load([1]), "sampler", r"what was passed to it; describe\(\) shows it"),
        (iter(lk.load([1])), "get_next", r"next\(it\)"),
        (lk.Dataset, "from_generator", r"lk.write\(records"),
        (lk.Dataset, "list_files", r"lk.Dataset\(lk.formats.FilesDataSource"),
        (lk, "load_dataset", r"datasets.load_dataset\(name"),
        (lk, "StreamingDataset", r"lk.open\(folder\) for MDS"),
        (lk.transforms.image, "RandomHorizontalFlip", r"image.RandomFlip\(\)"),
        (lk.transforms.image, "Compose", "nothing: operations="),
        (lk.transforms.image, "ToTensor", r"image.ToFloat\(\)"),
    ],
)
def test_a_name_that_a_package_lacks_is_an_error_with_ours(package, name, ours) -> None:
    """Of the package and its parts, of torchvision in that of images, of a chain and of its class."""
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; use instead: {ours}"):
        getattr(package, name)


def test_every_name_of_ours_for_pictures_is_there() -> None:
    """What is to be written in place of torchvision's name exists, and the name itself doesn't."""
    for name, advice in IMAGES.items():
        assert name not in dir(lk.transforms.image)
        for ours in re.findall(r"image\.(\w+)\(", advice):
            assert ours in dir(lk.transforms.image)


TABLES = (
    KEYWORDS,
    STEP_KEYWORDS,
    BY_NAME,
    ATTRIBUTES,
    IMAGES,
    METHODS,
    SOURCE_METHODS,
    STEPS,
    *OF_CALLABLE.values(),
)


def test_every_entry_says_what_to_write() -> None:
    """No empty advice, and no name that stands for itself."""
    for table in TABLES:
        for name, advice in table.items():
            assert advice
            assert advice not in (name, f"lk.{name}")


ABSENT = object()  # a name of a module whose library isn't installed


def called(text: str):
    """What an advice names: "lk.Batch", ".batch" of a chain or "DataLoader"; None where there is no such name."""
    if text.startswith("."):
        return lk.DataLoader if text == ".loader" else getattr(lk.Dataset, text[1:], None)
    path = re.sub(r"^(lk\.|loaderkit\.)?", "loaderkit.", text)
    for part, library in (("torch", "torch"), ("tf", "tensorflow")):
        if path.startswith(f"loaderkit.interop.{part}") and importlib.util.find_spec(library) is None:
            return ABSENT
    try:
        return pkgutil.resolve_name(path)
    except (AttributeError, ModuleNotFoundError):
        return None


def arguments(function) -> set[str]:
    return {*inspect.signature(function).parameters}


def required(function) -> set[str]:
    named = inspect.signature(function).parameters.values()
    return {it.name for it in named if it.kind is it.KEYWORD_ONLY and it.default is it.empty}


def faults(advice: str) -> list[str]:
    """The names, steps and keyword arguments in an advice that loaderkit doesn't have."""
    found = [path for path in re.findall(r"\b(?:lk|loaderkit)(?:\.\w+)+", advice) if called(path) is None]
    # Steps of a chain; behind a bracket they are of what it gives.
    found += [step for step in re.findall(r"(?<![\w)])\.\w+(?=\()", advice) if called(step) is None]
    for name, given in re.findall(r"((?<![\w)])(?:lk|loaderkit)?\.[\w.]+|\b[A-Z]\w+)\(([^()]*)\)", advice):
        words = re.findall(r"(\w+)=", given)
        if callable(function := called(name)):
            found += [f"{name}({word}=)" for word in words if word not in arguments(function)]
            if "..." not in given and name != ".loader":
                found += [f"{name}() without {word}" for word in required(function) - {*words}]
    for word, name in re.findall(r"(\w+)=\S+(?: or \S+)? of ((?:lk\.[\w.]*)?\w+)\b", advice):
        if callable(function := called(name)) and word not in arguments(function):
            found.append(f"{word}= of {name}")
    if re.fullmatch(r"\w+", advice):
        takers = (
            lk.DataLoader,
            lk.load,
            lk.formats.CsvDataSource,
            lk.transforms.image.RandomFlip,
            lk.write,
            lk.ReadOptions,
        )
        found += [] if any(advice in arguments(taker) for taker in takers) else [advice]
    return found


def test_every_name_that_is_recommended_exists() -> None:
    """Modules, classes, functions, steps of a chain and keyword arguments: what an error says can be written."""
    wrong = {
        "lk.Nothing",
        "lk.Batch(sise=2)",
        ".preefetch(2)",
        ".loader(workers=2)",
        "lk.balance(source, labels)",
        "workers",
        "of=1 of lk.DataLoader",
    }
    assert {advice for advice in wrong if faults(advice)} == wrong
    advices = [advice for table in TABLES if table is not IMAGES for advice in table.values()]
    advices += [re.sub(r"(?<![\w.])image\.", "lk.transforms.image.", advice) for advice in IMAGES.values()]
    assert {advice: bad for advice in advices if (bad := faults(advice))} == {}


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
        *(
            (
                call,
                r"^Dataset.shuffle\(\) takes keyword arguments: \.shuffle\(seed=0\), .* there is no buffer$",
            )
            for call in (
                lambda: lk.Dataset([1]).shuffle(1000, seed=0),  # type: ignore[misc]
                lambda: lk.Dataset([1]).shuffle(1000, 0),  # type: ignore[misc]
            )
        ),
        (
            lambda: lk.Dataset([1]).batch(global_batch_size=2),  # type: ignore[call-arg]
            r"^Dataset.batch\(\) has no argument global_batch_size; .* size, the first argument of \.batch\(\)",
        ),
        (
            lambda: lk.Dataset([1]).batch(2, True),  # type: ignore[misc]
            r"^Dataset.batch\(\) takes keyword arguments: \.batch\(32, drop_remainder=True\)",
        ),
        (
            lambda: lk.Dataset([1]).loader(num_epochs=2),  # type: ignore[call-arg]
            r"^Dataset.loader\(\) has no argument num_epochs; write instead: \.repeat\(num_epochs\)",
        ),
        (
            lambda: lk.Dataset([1]).loader(on_error="skip"),  # type: ignore[call-arg]
            r"^Dataset.loader\(\) has no argument on_error; write instead: on_record_error=",
        ),
        (
            lambda: lk.IndexSampler(4, epochs=2),  # type: ignore[call-arg]
            r"^IndexSampler\(\) has no argument epochs; write instead: num_epochs=\.\.\. of lk.IndexSampler",
        ),
        (
            lambda: lk.ShardOptions(rank=0, world_size=2),  # type: ignore[call-arg]
            r"^ShardOptions\(\) has no argument rank; .*lk.ShardOptions\(shard_index, shard_count\)",
        ),
        (
            lambda: lk.DataLoader(data_source=[1], sampler=type("DistributedSampler", (), {})()),  # type: ignore[arg-type]
            r"^sampler: expected .*; write instead: shard_options=lk.ShardOptions\(rank, world_size\)",
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
        (lk.load, r"^load\(\) lacks source: load\(source, batch_size=32\)"),
        (
            lambda: lk.Dataset([1], 2),
            r"^Dataset\(\) takes keyword arguments: lk.Dataset\(source\)\.batch\(2\)",
        ),  # type: ignore[call-arg]
        (
            lambda: lk.Dataset([1]).loader(2),  # type: ignore[call-arg]
            r"^Dataset.loader\(\) takes keyword arguments: \.loader\(worker_count=2\)",
        ),
        (
            lambda: lk.Dataset([1]).loader(drop_remainder=True),  # type: ignore[call-arg]
            r"write instead: \.batch\(size, drop_remainder=True\)$",
        ),
        (
            lambda: lk.Map(abs, num_parallel_calls=4),  # type: ignore[call-arg]
            r"^Map\(\) has no argument num_parallel_calls; .* worker_count=\.\.\. of lk.DataLoader or lk.load; ",
        ),
        (
            lambda: lk.plan_packing([3], 4, num_packing_bins=2),  # type: ignore[call-arg]
            r"^plan_packing\(\) has no argument num_packing_bins; write instead: nothing",
        ),
        (
            lambda: lk.Pack(length_struct={"tokens": 4}),  # type: ignore[call-arg]
            r"^Pack\(\) has no argument length_struct; write instead: length, ",
        ),
        (
            lambda: lk.write([1], "x", num_shards=2),
            r"^write\(\) has no argument num_shards; write instead: shards$",
        ),  # type: ignore[call-arg]
        (
            lambda: lk.ReadOptions(num_workers=2),  # type: ignore[call-arg]
            r"^ReadOptions\(\) has no argument num_workers; write instead: worker_count=",
        ),
        (lambda: lk.Cache("x"), r'^Cache\(\) lacks limit: lk.Cache\(folder, limit="200GB"\)$'),  # type: ignore[call-arg]
        (
            lambda: lk.offline.block_list([1], "b", [0]),  # type: ignore[misc]
            r"^block_list\(\) takes keyword arguments: lk.offline.block_list\(source, folder, keys=.*reason=",
        ),
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
