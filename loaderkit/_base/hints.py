"""Our spelling of what Grain, PyTorch, tf.data and WebDataset call otherwise: arguments, methods, names of packages.

A script that was written for them gets it in the error, instead of "unexpected keyword argument".
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Never, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SHARDS = "shard_options=lk.ShardOptions(shard_index, shard_count) of DataLoader, or lk.ShardByJaxProcess()"
_SAMPLER = "lk.IndexSampler(num_records, shuffle=True, seed=0, num_epochs=None), passed as sampler="
_ALWAYS_KEPT = "nothing: workers belong to the DataLoader and serve all its iterators until close()"
_ARRAYS = 'lk.Dataset({"x": np.asarray(x)}), or lk.Dataset(records) of a list'
EXCLUDE = (
    "lk.offline.block_list(source, folder, keys=keys, reason=text), then exclude=folder of lk.DataLoader"
)
_OPERATIONS = "operations=[...] of DataLoader or load"


def _of_each(table: Mapping[str, str]) -> Mapping[str, str]:
    return {name: advice for names, advice in table.items() for name in names.split()}


# keyword argument, or several -> what to write instead
KEYWORDS: Mapping[str, str] = _of_each(
    {
        # The data and their order
        "dataset": "data_source of DataLoader, the first argument of lk.load",
        "source": "data_source",
        "data_source": "source, the first argument",
        "sampler": "num_epochs, shuffle and seed, or lk.DataLoader, which takes a sampler",
        "batch_sampler": "sampler=... and lk.Batch(batch_size=...) as the last of the operations; for torch's "
        "of one size: loaderkit.interop.torch.from_batch_sampler",
        "shuffle seed generator num_epochs shardshuffle resampled shuffle_buffer_size": _SAMPLER,
        "epochs repeat": "num_epochs=... of lk.IndexSampler or lk.load",
        "replacement": "nothing: each epoch has each record once; lk.samplers.WeightedSampler(weights, seed=0) draws "
        "with replacement",
        "num_shards index num_replicas world_size rank shard_index shard_count nodesplitter": _SHARDS,
        # Operations and batches
        "transform transforms transformations target_transform": _OPERATIONS,
        "batch_size": "lk.Batch(batch_size=...) among the operations, or lk.load(source, batch_size=...)",
        "global_batch_size": "lk.Batch(global_batch_size=...) among the operations",
        "collate_fn": "lk.Batch(batch_size, batch_fn=...), which takes the list of rows as collate_fn does",
        "batch_fn": "lk.Batch(batch_size, batch_fn=...)",
        "drop_last drop_remainder": "lk.Batch(batch_size, drop_remainder=True)",
        "remainder": 'lk.Batch(batch_size, remainder="pad") among the operations',
        # Workers and buffers
        "num_workers workers num_proc": "worker_count",
        "num_parallel_calls": "worker_count=... of lk.DataLoader or lk.load",
        "multiprocessing_context mp_context worker_type": 'worker_kind="process" or "thread"',
        "multiprocessing_options": "worker_count=... and prefetch_batches=...",
        "worker_init_fn": "lk.RandomMap, or lk.transforms.Seeded(fn): the record's seed, not the worker's",
        "persistent_workers": _ALWAYS_KEPT,
        "worker_buffer_size per_worker_buffer_size prefetch_factor": "prefetch_batches",
        "prefetch": "prefetch_batches of lk.DataLoader",
        "prefetch_buffer_size": "read_options=lk.ReadOptions(prefetch_buffer_size=...), or prefetch_batches",
        "num_threads": "read_options=lk.ReadOptions(num_threads=...)",
        "pin_memory": "loaderkit.interop.torch.tensors(loader, pin_memory=True); jax.device_put takes numpy arrays",
        "pin_memory_device": "loaderkit.interop.torch.tensors(loader, pin_memory=True, device=...)",
        "device": "lk.device_iterator(iter(loader), sharding), or loaderkit.interop.torch.tensors(loader, device=...)",
        "in_order": "nothing: batches always come in the order of the sampler",
        "enable_profiling": "nothing: any profiler can be attached at worker_count=0",
        "timeout": "nothing: a worker that dies is an error that names its records",
        # Mixtures
        "datasets": "sources, the first argument: {name: source}",
        "probabilities probs": "weights={name: weight}",
        "choice_dataset": "pattern=[name, ...]",
        "stopping_strategy": 'num_epochs=1, when_exhausted="stop" for the end of the first source, "drop" for that '
        "of all",
        "stop_on_empty_dataset": 'num_epochs=1, when_exhausted="stop" for True, "drop" for False',
        "longest": 'num_epochs=1, when_exhausted="drop"',
        "weights": "weights={name: weight} of lk.mix, or target={label: weight} of lk.balance",
        # Readers of files
        "sep field_delim": "delimiter",
        "usecols": "columns=[name, ...]",
        "names header": "nothing: the first row of each file names the columns",
        "dtype dtypes column_types converters parse_dates record_defaults column_defaults": "types={column: type, ...} "
        "of lk.formats.CsvDataSource; lk.Map(function) among the operations for others",
        "na_values null_values na_value": 'missing=["", "NA"], with types=',
        "filenames data_files": "paths, the first argument",
        "compression_type": "nothing: compressed files are refused; write them again without",
        "handler on_error on_bad_record ignore_errors": 'on_record_error="replace" or "skip" of lk.DataLoader',
        "cache_dir": "cache=lk.Cache(folder)",
        "cache": "lk.CachedDataSource(source, folder)",
        "lines": "nothing: each line is a record",
        "nrows": "source[:n]",
        "filters": "lk.offline.filtered(source, function, path)",
        "num_parallel_reads": "worker_count of DataLoader",
        "buffer_size": "read_options=lk.ReadOptions(...) of DataLoader",
        # Pictures
        "p": "probability",
        "loader": 'lk.transforms.image.Decode(key="image") or lk.Map(function) among the operations of DataLoader',
        "is_valid_file": "extensions=[...]",
    }
)

OPERATIONS = "Map MapWithIndex RandomMap Filter FlatMap Window Batch"
_WORKERS = "worker_count=... of lk.DataLoader or lk.load; .loader(worker_count=...) of a chain"

# callable -> keyword argument -> what to write instead, where that isn't what it is elsewhere
OF_CALLABLE: Mapping[str, Mapping[str, str]] = {
    name: _of_each(table)
    for names, table in {
        OPERATIONS: {
            "num_parallel_calls deterministic num_workers workers worker_count num_proc": _WORKERS,
        },
        "plan_packing Pack": {
            "max_length max_seq_length seq_length seq_len length_struct": "length, the tokens of a row, or {feature: "
            "tokens}",
            "num_packing_bins": "nothing: all documents of a block, or of a window of lk.Pack, are packed together",
            "shuffle": "nothing: rows are shuffled as records are, by the sampler or .shuffle(seed=0); epochs=... of "
            "lk.plan_packing plans each epoch anew",
        },
        "write": {"num_shards": "shards"},
        "ReadOptions": {"num_workers worker_count": _WORKERS, "buffer_size": "prefetch_buffer_size"},
    }.items()
    for name in names.split()
}

# callable that takes all or most of its arguments by name, or another's by place -> how to write the call
BY_NAME: Mapping[str, str] = {
    "Dataset": "lk.Dataset(source).batch(2)",
    "Dataset.loader": ".loader(worker_count=2); the size of a batch is .batch(2)",
    "Cache": 'lk.Cache(folder, limit="200GB")',
    "block_list": 'lk.offline.block_list(source, folder, keys=[3, 8], reason="unreadable")',
    "DataLoader": "DataLoader(data_source=source, sampler=lk.IndexSampler(...), operations=[...]), or "
    "lk.load(source, batch_size=32) for the most common loaders",
    "load": "load(source, batch_size=32); only the source may be passed by position",
    "mix": "mix({name: source}, weights={name: weight}); only these two may be passed by position",
    "interleave": "interleave([source, other], num_epochs=1); only the sources may be passed by position",
    "Dataset.shuffle": ".shuffle(seed=0), which orders all records of each epoch; there is no buffer",
    "Dataset.batch": ".batch(32, drop_remainder=True); only the size may be passed by position",
    "Dataset.map": ".map(function), and worker_count=... of .loader()",
    "Dataset.concat": "lk.Dataset.concat([ds, other])",
    "Dataset.zip": "lk.Dataset.zip([ds, other])",
    "Dataset.interleave": "lk.Dataset.interleave([ds, other], cycle_length=2)",
    "RandomCrop": "RandomCrop(size=24) for a part of 24 x 24 pixels, RandomCrop(padding=4) for a border of 4 pixels",
}

# name in the package -> what to write instead
ATTRIBUTES: Mapping[str, str] = _of_each(
    {
        # Grain's transforms and operations
        "MapTransform map_dict map_tuple rename": "lk.Map",
        "MapWithIndexTransform": "lk.MapWithIndex",
        "RandomMapTransform TfRandomMapTransform": "lk.RandomMap",
        "FilterTransform select": "lk.Filter",
        "FlatMapTransform unbatched": "lk.FlatMap",
        "MapOperation": "lk.Map(fn)",
        "RandomMapOperation": "lk.RandomMap(fn)",
        "FilterOperation": "lk.Filter(fn)",
        "BatchOperation BatchSampler default_collate default_convert batched": "lk.Batch",
        # Grain's loader, sources and checkpoints
        "PyGrainDatasetIterator": "iter(loader)",
        "PyGrainCheckpointHandler": "lk.CheckpointHandler",
        "PyGrainCheckpointSave": "lk.CheckpointSave",
        "PyGrainCheckpointRestore": "lk.CheckpointRestore",
        "MultiprocessingOptions": "worker_count=... and prefetch_batches=... of lk.DataLoader",
        "SharedMemoryDataSource": "lk.InMemoryDataSource",
        "MapDataset IterDataset": "lk.Dataset, whose steps have these names; loaderkit.interop.grain has Grain's own",
        "WebLoader": "lk.DataLoader",
        # PyTorch's data sets, samplers and batching
        "IterableDataset": "an object with __len__ and __getitem__: records are read by number, in any order; "
        "a loader as torch's IterableDataset is loaderkit.interop.torch.LoaderDataset",
        "TensorDataset": "lk.ArrayDataSource",
        "ConcatDataset ChainDataset concatenate_datasets": "lk.ConcatDataSource",
        "StackDataset": "lk.ZipDataSource",
        "Subset": "lk.SubsetDataSource",
        "train_test_split": "lk.random_split(source, [0.8, 0.2], seed=0)",
        "KFold StratifiedKFold GroupKFold": "lk.k_fold(source, 5, seed=0), with stratify= or groups=",
        "RandomSampler": "lk.IndexSampler(num_records, shuffle=True, seed=0)",
        "SubsetRandomSampler": "lk.samplers.KeysSampler(indices, shuffle=True, seed=0, num_epochs=1), passed as "
        "sampler=",
        "WeightedRandomSampler": "lk.samplers.WeightedSampler(weights, seed=0, num_samples=...), passed as sampler=",
        "DistributedSampler split_by_node split_dataset_by_node": "shard_options=lk.ShardOptions(rank, world_size) of "
        "lk.DataLoader, or lk.ShardByJaxProcess()",
        "get_worker_info": "nothing: which worker runs a record never shows in the data",
        "utils": "lk itself, as in lk.DataLoader and lk.random_split",
        "ImageFolder DatasetFolder": 'lk.FolderDataSource(folder), and lk.transforms.image.Decode(key="image")',
        "Compose Sequential": "nothing: operations=[...] of DataLoader or load is such a list",
        "CenterCrop ColorJitter GaussianBlur Normalize Pad RandAugment RandomAffine RandomCrop RandomErasing "
        "RandomGrayscale RandomPerspective RandomResizedCrop Resize": "lk.transforms.image, which has it",
        "prefetch_to_device": "lk.device_iterator(iter(loader), sharding)",
        "save": "lk.CheckpointSave(it) of Orbax, or it.get_state()",
        "restore": "lk.CheckpointRestore(it) of Orbax, or it.set_state(state)",
        # WebDataset's pipelines; its shuffle, decode and batched are methods there
        "WebDataset ShardListDataset": "lk.TarDataSource",
        "DataPipeline": "operations=[...] of lk.DataLoader",
        "SimpleShardList": "lk.TarDataSource, which takes the names of all shards",
        "ResampledShards": "lk.IndexSampler(num_records, shuffle=True, seed=0, num_epochs=None)",
        "RandomMix sample_from_datasets CombinedStreamingDataset": "lk.mix({name: source}, weights={name: weight})",
        "RoundRobin": "lk.interleave(sources, num_epochs=1)",
        "ShardWriter": 'lk.formats.open_writer("train-%06d.tar", format="webdataset", shard_bytes=10**9)',
        "TarWriter": 'lk.formats.open_writer("x.tar", format="webdataset")',
        "split_by_worker": "nothing: all workers share the rows of each batch",
        "single_node_only": "nothing: without shard_options each process reads everything",
        "warn_and_continue ignore_and_continue": 'on_record_error="replace" or "skip" of lk.DataLoader',
        "to_tuple": "lk.AsTuple",
        "autodecode Decoder": "lk.decode.ByExtension",
        "imagehandler": 'lk.decode.ByExtension("rgb8")',
        "handle_extension": 'lk.decode.ByExtension(handlers={"seg.png": function})',
        # Data sets of HF datasets, Mosaic Streaming and LitData
        "load_dataset": 'datasets.load_dataset(name, split="train"), which lk.Dataset and lk.load take as it is; '
        'lk.open("train-*.parquet") for files',
        "load_from_disk": "lk.open(folder)",
        "StreamingDataset": "lk.open(folder) for MDS shards; LitData's chunks are written again by "
        'lk.write(dataset, folder, format="array_record")',
        "StreamingDataLoader": "lk.DataLoader",
        # Mixtures of HF datasets, Grain and tf.data
        "interleave_datasets": "lk.mix({name: source}, weights={name: probability}, shuffle=True, seed=0)",
        "choose_from_datasets": "lk.mix({name: source}, pattern=[name, ...])",
        # tf.data's makers of data sets and file readers, and its constants
        "from_tensor_slices from_tensors from_dict": _ARRAYS,
        "from_generator": 'lk.write(records, "x.array_record"), then lk.open("x.array_record")',
        "list_files": 'lk.formats.FilesDataSource("*.jpg")',
        "AUTOTUNE": 'worker_count="auto" of lk.DataLoader or lk.load',
        "prefetch": "prefetch_batches=... of lk.DataLoader",
        "cache": "lk.CachedDataSource(source, folder)",
        "TFRecordDataset": "lk.TFRecordDataSource",
        "TextLineDataset": "lk.formats.LinesDataSource",
        "CsvDataset": "lk.formats.CsvDataSource",
        # Ours that are in a module, and pictures
        "open_writer": "lk.formats.open_writer",
        "Seeded": "lk.transforms.Seeded",
        "make_grid draw_bounding_boxes": "lk.grid(images, boxes=...)",
    }
)

# name in torchvision.transforms -> what to write instead of it in lk.transforms.image
IMAGES: Mapping[str, str] = _of_each(
    {
        "RandomHorizontalFlip": "image.RandomFlip()",
        "RandomVerticalFlip": 'image.RandomFlip(axis="vertical")',
        "RandomRotation": "image.RandomRotate(degrees)",
        "TrivialAugmentWide": "image.TrivialAugment()",
        "Grayscale": "image.RandomGrayscale(p=1)",
        "Compose Sequential": "nothing: operations=[...] of lk.load is such a list",
        "ToTensor": "image.ToFloat(), then image.HWCToCHW() for torch",
        "ToDtype ConvertImageDtype": "image.ToFloat()",
        "ToImage PILToTensor ToPILImage": "nothing: pictures are arrays (height, width, channels), and image.Decode() "
        "makes them of bytes",
        "SanitizeBoundingBoxes ClampBoundingBoxes": "boxes= and labels= of each operation, which do it",
        "Lambda": "lk.Map(function)",
        "AutoAugment AugMix ElasticTransform RandomSolarize RandomInvert RandomPosterize RandomEqualize FiveCrop "
        "TenCrop RandomAutocontrast RandomAdjustSharpness RandomApply RandomChoice "
        "RandomOrder": "lk.transforms.Seeded(transform, key=...) with torchvision's",
    }
)


# method of a loader or an iterator -> what to write instead
METHODS: Mapping[str, str] = _of_each(
    {
        "state_dict": "get_state() of iter(loader), or loaderkit.interop.torch.tensors(loader), which has state_dict()",
        "load_state_dict": "set_state(state) of iter(loader), or loaderkit.interop.torch.tensors(loader)",
        "get_state": "get_state() of iter(loader)",
        "set_state": "set_state(state) of iter(loader)",
        "element_spec": "element_spec of the loader",
        "dataset": "the data_source that was passed to it",
        "batch_size": "the Batch that was passed to it",
        "set_epoch": "loader.epoch(e)",
        "num_workers worker_count": "the worker_count that was passed to it; describe() shows it",
        "sampler data_source operations": "what was passed to it; describe() shows it",
        "seek skip step": "it = iter(loader), which has it",
        "get_next": "next(it)",
        "exclude": EXCLUDE,
        "shuffle map filter repeat batch": "lk.Dataset(source), which has these steps, and its .loader()",
        "take": "lk.DataLoader(num_steps=...), or itertools.islice(loader, n)",
        "reweigh reweight set_weights": "reweigh({name: weight}) of iter(loader)",
    }
)

# method of a data source in other libraries -> what to write instead
SOURCE_METHODS: Mapping[str, str] = _of_each(
    {
        "shuffle": "lk.Dataset(source).shuffle(seed=0)",
        "decode": 'lk.Dataset(source).map(lk.decode.ByExtension("rgb8"))',
        "map map_dict map_tuple rename": "lk.Dataset(source).map(function)",
        "to_tuple": 'lk.Dataset(source).map(lk.AsTuple("jpg cls"))',
        "select filter": "lk.Dataset(source).filter(function)",
        "batched batch": "lk.Dataset(source).batch(32)",
        "unbatched": "lk.Dataset(source).flat_map(function)",
        "repeat": "lk.Dataset(source).repeat()",
        "with_epoch": "loader.epoch(e)",
        "prefetch": "prefetch_batches=... of lk.DataLoader",
        "shard": "shard_options=lk.ShardOptions(index, count) of lk.DataLoader",
        "concatenate": "lk.ConcatDataSource([source, other])",
        "interleave": "lk.Dataset.interleave(sources)",
        "mix": "lk.Dataset.mix({name: lk.Dataset(source).repeat()}, weights)",
    }
)


# step of a chain in other libraries -> what to write instead
STEPS: Mapping[str, str] = _of_each(
    {
        "prefetch": ".loader(prefetch_batches=...)",
        "mp_prefetch num_parallel_calls": ".loader(worker_count=...)",
        "to_iter_dataset as_numpy_iterator": ".loader(), or iter(ds)",
        "with_options options": "the arguments of .loader()",
        "from_tensor_slices from_tensors from_dict": _ARRAYS,
        "source from_source from_list": "lk.Dataset(source)",
        "from_generator": 'lk.write(records, "x.array_record"), then lk.Dataset(lk.open("x.array_record"))',
        "list_files": 'lk.Dataset(lk.formats.FilesDataSource("*.jpg"))',
        "range": "lk.Dataset(range(n))",
        "load": "lk.Dataset(lk.open(folder))",
        "concatenate concatenate_datasets": "lk.Dataset.concat([ds, other])",
        "interleave_datasets sample_from_datasets": "lk.Dataset.mix({name: ds}, weights)",
        "choose_from_datasets": "lk.Dataset.mix({name: ds}, pattern=[name, ...])",
        "rejection_resample": "lk.balance(source, labels, shuffle=True, seed=0), a source and a sampler for "
        "lk.DataLoader",
        "train_test_split": "lk.random_split(source, [0.8, 0.2], seed=0)",
        "limit": ".take(n)",
        "cardinality": "len(ds)",
        "snapshot": ".cache(folder)",
        "ignore_errors": '.loader(on_record_error="skip")',
        "bucket_by_sequence_length": "lk.DataLoader with an lk.samplers.LengthBucketSampler and an lk.PadBatch",
        "map_dict map_tuple rename rename_column remove_columns select_columns set_format with_format with_transform "
        "set_transform cast": ".map(function)",
        "exclude": EXCLUDE,
        "reduce": "functools.reduce(function, ds)",
        "sort": ".select(np.argsort(values)), of the values of all records",
        "rebatch": ".batch(n) with the new size, in place of the first",
        "group_by_window": ".window(size, function)",
        "pipe": ".apply(operations)",
        "unique": ".select(places), of np.unique(values, return_index=True)",
        "column_names features": "element_spec of the chain",
        "num_rows": "len(ds)",
        "to_list": "list(ds)",
        "to_pandas": "pandas.DataFrame(list(ds))",
        "to_tf_dataset": "loaderkit.interop.tf.dataset(ds.loader())",
        "iter": "iter(ds), of .batch(n) for batches",
        "decode": '.map(lk.decode.ByExtension("rgb8"))',
        "to_tuple": '.map(lk.AsTuple("jpg cls"))',
        "unbatch unbatched": ".flat_map(function)",
        "batched padded_batch ragged_batch group_by_length": ".batch(n), or .batch(lk.PadBatch(...))",
        "enumerate": ".map_with_index(function)",
        "device_put": "lk.device_iterator(iter(ds.loader()), sharding)",
        "set_epoch epoch": ".loader().epoch(e)",
        "save get_state set_state state_dict load_state_dict": "get_state() and set_state(state) of iter(ds.loader())",
        "data_source sampler operations": "nothing: .loader() has them, and describe() shows them",
        "worker_count num_workers": ".loader(worker_count=...)",
    }
)


# argument of a step of a chain, or of a split, in other libraries -> what to write instead
STEP_KEYWORDS: Mapping[str, str] = _of_each(
    {
        "buffer_size": "nothing: a shuffle orders whole epochs; .shuffle(window=8) reads by chunks",
        "reshuffle_each_iteration reshuffle_each_epoch": "nothing: each epoch has an order of its own",
        "generator rng": "seed=0",
        "shuffle": ".shuffle(seed=0); a split is at random, with seed=0",
        "seed": ".seed(0) of the chain, for all its steps that draw",
        "count": "num_epochs of .repeat(); .take() and .skip() take the number by position",
        "num_epochs epochs repeat": ".repeat(num_epochs) of the chain",
        "batch_size global_batch_size": "size, the first argument of .batch(): rows of all processes together",
        "drop_last drop_remainder": ".batch(size, drop_remainder=True)",
        "collate_fn": ".batch(size, batch_fn=...), which takes the list of rows as collate_fn does",
        "cache": ".cache(folder) of the chain",
        "map_func func fn transform predicate": "function, the first argument of .map() and .filter()",
        "num_parallel_calls deterministic num_workers workers num_proc": ".loader(worker_count=...)",
        "prefetch": ".loader(prefetch_batches=...)",
        "batched": "nothing: a function behind .batch() gets whole batches",
        "num_shards index": ".shard(shard_index, shard_count), or .loader(shard_options=lk.ShardByJaxProcess())",
        "datasets": "parts, the first argument",
        "probabilities probs": "weights={name: weight}",
        "stop_on_empty_dataset stopping_strategy": 'when_exhausted="stop" for the end of the first part, "drop" for '
        "that of all",
        "filename cache_dir": "folder, the first argument of .cache()",
        # Splits of torch and scikit-learn
        "lengths train_size test_size": "sizes, the second argument: [0.8, 0.2]",
        "random_state": "seed=0",
        "n_splits": "folds, the second argument",
    }
)


def refuse_foreign_keywords(callable_name: str, keywords: Mapping[str, Any]) -> None:
    """Raises TypeError for unknown keyword arguments, with our spelling of those that other libraries have.

    Args:
        callable_name: as the user wrote it, for the error.
        keywords: the unknown ones; where there are none, nothing is raised.

    >>> refuse_foreign_keywords("DataLoader", {"num_workers": 4})
    Traceback (most recent call last):
    TypeError: DataLoader() has no argument num_workers; write instead: worker_count
    """
    if not keywords:
        return
    of_step = callable_name.startswith("Dataset") or callable_name in ("random_split", "k_fold")
    known = STEP_KEYWORDS if of_step else KEYWORDS
    if callable_name == "Dataset.loader":
        known = {**KEYWORDS, **STEP_KEYWORDS}
    known = {**known, **OF_CALLABLE.get(callable_name, {})}
    complaints = [
        f"has no argument {name}" + (f"; write instead: {known[name]}" if name in known else "")
        for name in keywords
    ]
    raise TypeError(f"{callable_name}() " + ". It ".join(complaints))


def refusing_foreign_arguments(function: _Function) -> _Function:
    """A decorator: the error for an argument that the function doesn't take has our spelling of it.

    A decorator and not a `**foreign` argument: the signature stays as it is written, and a type checker reports each
    misspelled argument.

    Args:
        function: one without `*` arguments, which checks those of a `**` itself; or a class whose `__init__` is such a
            one, by whose name the error calls it.

    >>> @refusing_foreign_arguments
    ... def load(*, worker_count): ...
    >>> load(num_workers=4)
    Traceback (most recent call last):
    TypeError: load() has no argument num_workers; write instead: worker_count
    """
    if isinstance(function, type):
        function.__init__ = refusing_foreign_arguments(function.__init__)  # type: ignore[misc] # of this class
        return function
    code = function.__code__
    max_positional = code.co_argcount
    positional = code.co_varnames[:max_positional]
    known = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    needed = [word for word in named if word not in (function.__kwdefaults__ or {})]
    needed_first = positional[: max_positional - len(function.__defaults__ or ())]
    name = function.__qualname__.removesuffix(".__init__")
    takes_any = code.co_flags & 0x08  # inspect.CO_VARKEYWORDS

    @wraps(function)
    def checked(*arguments: Any, **keywords: Any) -> Any:
        if not takes_any and not known.issuperset(keywords):
            refuse_foreign_keywords(name, {word: keywords[word] for word in keywords if word not in known})
        twice = not keywords.keys().isdisjoint(positional[: len(arguments)])
        if name in BY_NAME and (twice or len(arguments) > max_positional):
            raise TypeError(f"{name}() takes keyword arguments: {BY_NAME[name]}")
        asked = (*needed_first[len(arguments) :], *needed) if name in BY_NAME else ()
        if lacking := [word for word in asked if word not in keywords]:
            raise TypeError(f"{name}() lacks {', '.join(lacking)}: {BY_NAME[name]}")
        return function(*arguments, **keywords)

    return cast(_Function, checked)


def foreign_attribute(name: str, package: str = "loaderkit") -> str | None:
    """What to write instead of a name that another library has; None for an unknown name.

    Args:
        name: the attribute that was looked up.
        package: ours, in which it was.

    >>> (
    ...     foreign_attribute("MapTransform"),
    ...     foreign_attribute("TrivialAugmentWide", "loaderkit.transforms.image"),
    ... )
    ('lk.Map', 'image.TrivialAugment()')
    """
    return (IMAGES if package == "loaderkit.transforms.image" else ATTRIBUTES).get(name)


def foreign_operation(cls: type) -> str | None:
    """Which of ours the class of an operation of Grain or torch is to be derived from; None for other classes.

    >>> foreign_operation(int) is None
    True
    """
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] in ("grain", "torch"):
            return (
                f"lk.{base.__name__}"
                if base.__name__ in OPERATIONS.split()
                else foreign_attribute(base.__name__)
            )
    return None


def refuse_foreign_method(owner: object, name: str) -> Never:
    """Raises AttributeError for a method that a loader or an iterator doesn't have, with ours in its place if known.

    Args:
        owner: the loader or iterator.
        name: the attribute that was looked up.

    >>> refuse_foreign_method([], "state_dict")
    Traceback (most recent call last):
    AttributeError: 'list' object has no attribute 'state_dict'; use instead: get_state() of iter(loader), or ...
    """
    _refuse_attribute(owner, name, METHODS)


def refuse_foreign_step(owner: object, name: str) -> Never:
    """Raises AttributeError for a step that a chain doesn't have, with ours in its place if known.

    Args:
        owner: the chain, or its class.
        name: the attribute that was looked up.

    >>> refuse_foreign_step([], "prefetch")
    Traceback (most recent call last):
    AttributeError: 'list' object has no attribute 'prefetch'; use instead: .loader(prefetch_batches=...)
    """
    _refuse_attribute(owner, name, STEPS)


def refuse_foreign_source_method(owner: object, name: str) -> Never:
    """Raises AttributeError for a method that a source doesn't have, with ours in its place if known.

    Args:
        owner: the source.
        name: the attribute that was looked up.

    >>> refuse_foreign_source_method([], "repeat")
    Traceback (most recent call last):
    AttributeError: 'list' object has no attribute 'repeat'; use instead: lk.Dataset(source).repeat()
    """
    _refuse_attribute(owner, name, SOURCE_METHODS)


def _refuse_attribute(owner: object, name: str, known: Mapping[str, str]) -> Never:
    advice = f"; use instead: {known[name]}" if name in known else ""
    what = (
        f"type object {owner.__name__!r}" if isinstance(owner, type) else f"{type(owner).__name__!r} object"
    )
    raise AttributeError(f"{what} has no attribute {name!r}{advice}", name=name, obj=owner)
