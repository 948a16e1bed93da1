"""What the guides of the field teach, a test for each of their uses: from real files to batches, through a loader.

Keras' fit, PyTorch's tensors and the padding of sequences have files of their own: tests/interop/test_keras_interop.py
and test_torch_interop.py. The guides of Grain and TFDS are run by tests/test_notebooks.py.
"""

import collections
import tarfile

import cv2
import numpy as np
import pandas as pd
import pytest
import xarray
from sklearn.datasets import load_digits

import loaderkit as lk
from loaderkit.cli import main
from loaderkit.transforms import image

PICTURES = load_digits().images[:12].astype(np.uint8)
LABELS = load_digits().target[:12]


def batches(source, *operations, size=4, workers=0, **options):
    """The batches of one epoch."""
    with lk.load(
        source,
        operations=operations,
        batch_size=size,
        num_epochs=1,
        worker_count=workers,
        worker_kind="thread",
        **options,
    ) as loader:
        return [*loader]


def png(picture):
    return cv2.imencode(".png", picture)[1].tobytes()


@pytest.fixture
def command(capfdbinary):
    """Runs `loaderkit ARGUMENTS` in this process; gives what it printed."""

    def run(*arguments):
        assert main([*map(str, arguments)]) == 0
        return capfdbinary.readouterr().out

    return run


@pytest.fixture
def tar(tmp_path):
    """Two shards as webdataset has them: pictures and classes."""
    records = [
        {"__key__": f"{n:03}", "png": png(picture), "cls": str(label).encode()}
        for n, (picture, label) in enumerate(zip(PICTURES, LABELS, strict=True))
    ]
    return lk.write(records, tmp_path / "tar", format="tar", shards=2)


def test_arrays_and_data_sets_that_are_sources_as_they_are():
    class Digits:  # as torchvision's MNIST and CIFAR10
        def __len__(self):
            return 12

        def __getitem__(self, key):
            return PICTURES[key], LABELS[key]

    for source in (lk.ArrayDataSource((PICTURES, LABELS)), Digits(), [*zip(PICTURES, LABELS, strict=True)]):
        pictures, labels = batches(source)[2]
        assert np.array_equal(pictures, PICTURES[8:]) and np.array_equal(labels, LABELS[8:])


def test_tar_groups_fields_braces_and_tuples(tar, tmp_path):
    source = lk.TarDataSource(f"{tmp_path}/tar/{{00000..00001}}-of-00002.tar", fields=["png", "cls"])
    pictures, labels = batches(source, lk.decode.ByExtension("l8"), lk.AsTuple("png cls"), size=12)[0]
    assert np.array_equal(pictures.reshape(12, 8, 8), PICTURES) and labels.tolist() == LABELS.tolist()


def test_compressed_tar(tar, tmp_path):
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as file, tarfile.open(tar[0]) as shard:
        for member in shard:
            file.addfile(member, shard.extractfile(member))
    with pytest.raises(lk.errors.DataFormatError, match=r"gunzip .*x\.tgz"):
        lk.TarDataSource(tmp_path / "x.tgz")
    source = lk.TarDataSource(tmp_path / "x.tgz", cache=lk.Cache(tmp_path / "cache", limit="1GB"))
    assert [record["cls"] for record in source] == [str(label).encode() for label in LABELS[:6]]


def test_decoders_by_extension(tar):
    record = lk.TarDataSource(tar)[3]
    for decoder, shape, dtype in [
        ("rgb8", (8, 8, 3), np.uint8),
        ("rgb", (8, 8, 3), np.float32),
        ("torchrgb", (3, 8, 8), np.float32),
        ("l", (8, 8), np.float32),
    ]:
        decoded = lk.decode.ByExtension(decoder).map(record)
        assert decoded["png"].shape == shape and decoded["png"].dtype == dtype and decoded["cls"] == LABELS[3]
    assert lk.decode.ByExtension("pil").map(record)["png"].size == (8, 8)
    assert record["cls"] == b"3"  # without a decoder: bytes


def test_shuffle_buffer_and_shard_shuffle():
    sampler = lk.ChunkSampler(1000, chunk=10, window=8, seed=0, num_epochs=1)
    with lk.DataLoader(data_source=range(1000), sampler=sampler) as loader:
        keys = [*loader]
    assert sorted(keys) == [*range(1000)] and keys != sorted(keys)
    assert max(len({key // 10 for key in keys[at : at + 80]}) for at in range(0, 1000, 80)) <= 8


def test_tools_for_shards(tar, tmp_path, command):
    """Where tarproc has tarshow, tarcat, tarsplit, tarsort, tarfirst, tar2tsv, tarcreate and tarproc."""
    whole = tmp_path / "whole.tar"
    command("cat", *tar, "-o", whole)
    assert [*lk.TarDataSource(whole)] == [*lk.TarDataSource(tar)]
    command("split", "-n", 5, "-o", f"{tmp_path}/part-", whole)
    assert len(lk.TarDataSource(f"{tmp_path}/part-*.tar")) == 12
    command("sort", "-k", "cls", whole, "-o", tmp_path / "sorted.tar")
    classes = [record["cls"] for record in lk.TarDataSource(tmp_path / "sorted.tar")]
    assert classes == sorted(classes)
    assert command("first", "-f", "cls", whole) == b"0"
    assert command("table", "-f", "__key__,cls", whole).splitlines()[-1].split() == [b"011", b"1"]
    (tmp_path / "0.txt").write_text("zero")
    (tmp_path / "plan.tsv").write_text(f"a.txt\t{tmp_path}/0.txt\n")
    command("create", tmp_path / "plan.tsv", "-o", tmp_path / "created.tar")
    assert lk.TarDataSource(tmp_path / "created.tar")[0] == {"__key__": "a", "txt": b"zero"}
    command("map", "-c", "rm *.png", whole, "-o", tmp_path / "mapped.tar")
    assert {*lk.TarDataSource(tmp_path / "mapped.tar")[0]} == {"__key__", "cls"}
    assert b"cls" in command("show", "-n", 1, whole)


def test_shards_written_and_mapped(tar, tmp_path):
    def smaller(record):
        return {**record, "png": png(PICTURES[int(record["__key__"])][::2, ::2])}

    files = lk.offline.map_shards(
        smaller, lk.TarDataSource(tar), tmp_path / "small", version=1, format="tar", shards=3
    )
    pictures = batches(lk.TarDataSource(files), lk.decode.ByExtension("l8"), size=12)[0]["png"]
    assert np.array_equal(pictures.reshape(12, 4, 4), PICTURES[:, ::2, ::2])


def test_device_augmentation_by_record_key():
    """Random numbers on the device are those of the record, whatever its batch."""
    import jax

    def augmented(size):
        with (
            lk.load(
                [{"x": picture} for picture in PICTURES], shuffle=True, seed=0, num_epochs=1, batch_size=size
            ) as loader,
            lk.device_iterator(iter(loader), keys="rng") as it,
        ):
            noise = jax.vmap(lambda key: jax.random.uniform(key, ()))
            return np.concatenate([np.asarray(noise(batch["rng"])) for batch in it])

    assert np.array_equal(augmented(3), augmented(4)) and len({*augmented(3).tolist()}) == 12


def test_lmdb(tmp_path):
    import lmdb

    with lmdb.open(str(tmp_path / "db"), map_size=1 << 20) as db, db.begin(write=True) as writing:
        for n, picture in enumerate(PICTURES):
            writing.put(f"{n:03}".encode(), png(picture))
    source = lk.MapDataSource(lk.formats.LmdbDataSource(tmp_path / "db"), lambda data: {"image": data})
    decoded = batches(source, image.Decode(key="image"), size=12, workers=2)[0]["image"]
    assert np.array_equal(decoded[..., 0], PICTURES)


@pytest.fixture
def folder(tmp_path):
    """Pictures in a folder for each class, and a table that names them."""
    rows = []
    for n, (picture, label) in enumerate(zip(PICTURES, LABELS, strict=True)):
        path = tmp_path / "pictures" / f"{label}" / f"{n:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(picture))
        rows.append({"file": f"{label}/{n:03}.png", "sum": int(picture.sum())})
    pd.DataFrame(rows).to_csv(tmp_path / "table.csv", index=False)
    return tmp_path


def test_loose_picture_files(folder):
    files = lk.formats.FilesDataSource(f"{folder}/pictures/*/*.png")
    assert {record["file"] for record in files} == {png(picture) for picture in PICTURES}


def test_folder_of_classes_and_filtering(folder):
    source = lk.FolderDataSource(folder / "pictures", classes={"0": 0, "1": 1})
    ones = lk.offline.filtered(source, lambda record: record["label"] == 1, folder / "ones.npy")
    [batch] = batches(ones, image.Decode(key="image"), size=2)
    assert batch["label"].tolist() == [1, 1] and np.array_equal(batch["image"][0, ..., 0], PICTURES[1])


def test_csv_with_a_file_a_sample(folder):
    rows = lk.formats.JoinedFilesDataSource(folder / "table.csv", "file", folder / "pictures", key="image")
    for batch in batches(rows, image.Decode(key="image")):
        assert batch["image"][..., 0].sum((1, 2)).tolist() == [int(total) for total in batch["sum"]]


@pytest.mark.torch
def test_batch_sampler():
    pytest.importorskip("torch")
    from loaderkit.interop.torch import from_batch_sampler

    sampler, batch = from_batch_sampler([[3, 1], [2, 0]])
    with lk.DataLoader(data_source=range(4), sampler=sampler, operations=[batch]) as loader:
        assert [each.tolist() for each in loader] == [[3, 1], [2, 0]]


def test_netcdf_opened_in_each_worker(tmp_path):
    xarray.Dataset({"image": (("hid", "y", "x"), PICTURES)}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    source = lk.formats.ArrayFileDataSource(tmp_path / "a.nc", "hid", names=["image"])
    assert np.array_equal(batches(source, size=12, workers=2)[0]["image"], PICTURES)


def test_table_rows_joined_and_padded():
    table = pd.DataFrame({"hid": [0, 0, 1, 2, 2, 2], "x": np.arange(6, dtype=np.float32)})
    both = lk.ZipDataSource(
        {
            "hologram": lk.ArrayDataSource(PICTURES[:3]),
            "particles": lk.formats.GroupedRowsDataSource(table, "hid"),
        }
    )
    [batch] = batches(
        both,
        lk.Map(lambda record: {"hologram": record["hologram"], "x": record["particles"]["x"]}),
        lk.PadTo(100, "x", mask="mask"),
        size=3,
    )
    assert batch["x"].shape == (3, 100)
    assert batch["mask"].sum(1).tolist() == [2, 1, 3]


def test_from_generator(tmp_path):
    def generate():
        for n in range(12):
            yield {"image": PICTURES[n], "label": int(LABELS[n])}

    with pytest.raises(TypeError, match=r"lk\.write"):
        lk.load(generate(), batch_size=4)
    files = lk.write(generate(), tmp_path / "made", format="array_record", shards=2)
    assert np.array_equal(batches(lk.ArrayRecordDataSource(files), size=12)[0]["image"], PICTURES)


def test_data_sets_by_name_version_and_slice(tmp_path):
    records = [
        {"image": picture, "label": int(label)} for picture, label in zip(PICTURES, LABELS, strict=True)
    ]
    lk.write_dataset(
        {"train": records[:10], "test": records[10:]},
        "digits:1.2.0",
        data_dir=tmp_path,
        format="tfrecord",
        shards=1,
        supervised_keys=("image", "label"),
    )
    source = lk.open("digits:1.*", "train[50%:]+test", data_dir=tmp_path, as_supervised=True)
    pictures, labels = batches(source, size=7)[0]
    assert np.array_equal(pictures, PICTURES[5:]) and labels.tolist() == LABELS[5:].tolist()


def test_tfrecord_and_tf_example(tmp_path):
    files = lk.write([{"label": int(label)} for label in LABELS], tmp_path / "x.tfrecord")
    raw = lk.TFRecordDataSource(files, decode=False)  # the bytes that TensorFlow reads
    assert [lk.decode.Example({"label": np.int64}).map(raw[n])["label"] for n in range(12)] == LABELS.tolist()


def test_text_files_and_tables(tmp_path):
    frame = pd.DataFrame({"n": np.arange(12), "text": [f"line {n}" for n in range(12)]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_json(tmp_path / "x.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_feather(tmp_path / "x.arrow")
    (tmp_path / "x.txt").write_text("\n".join(frame["text"]))
    assert [*lk.formats.LinesDataSource(tmp_path / "x.txt")] == [*frame["text"]]
    for source in (
        lk.formats.CsvDataSource(tmp_path / "x.csv"),
        lk.JsonLinesDataSource(tmp_path / "x.jsonl"),
        lk.ParquetDataSource(tmp_path / "x.parquet"),
        lk.formats.ArrowDataSource(tmp_path / "x.arrow"),
        lk.formats.TableDataSource(frame),
    ):
        assert [(int(record["n"]), record["text"]) for record in source] == [*zip(frame["n"], frame["text"])]


def test_cache_and_interleave(tmp_path):
    reads = []

    def slow(n):
        reads.append(n)
        return {"n": n}

    cached = lk.CachedDataSource(lk.MapDataSource(range(12), slow), tmp_path / "cache")
    for _ in range(2):
        assert np.concatenate([batch["n"] for batch in batches(cached)]).tolist() == [*range(12)]
    assert collections.Counter(reads) == dict.fromkeys(range(12), 1)
    both, sampler = lk.interleave([range(3), range(10, 13)], num_epochs=1)
    with lk.DataLoader(data_source=both, sampler=sampler) as loader:
        assert [*loader] == [0, 10, 1, 11, 2, 12]


def test_feature_columns():
    rows = [{"age": age, "city": city} for age, city in [(20.0, "Rome"), (40.0, "Oslo"), (60.0, "Rome")]]
    [batch] = batches(
        rows,
        lk.Batch(3),
        lk.features.Bucketized("age", [30, 50], output="bucket"),
        lk.features.Hashed("city", 8, output="hash"),
        lk.features.Crossed(["bucket", "hash"], 1000, output="cross"),
        lk.features.Vocabulary("city", ["Oslo", "Rome"]),
        lk.features.OneHot("bucket", 3),
        lk.features.Numeric("age", mean=40, std=20),
        size=None,
    )
    assert batch["age"].tolist() == [-1, 0, 1] and batch["bucket"].argmax(1).tolist() == [0, 1, 2]
    assert batch["hash"][0] == batch["hash"][2] and batch["cross"][0] != batch["cross"][2]


def test_hugging_face_data_sets():
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"n": [*range(12)]})
    for source in (table, lk.formats.TableDataSource(table)):
        assert batches(source, size=12)[0]["n"].tolist() == [*range(12)]
