"""Files and folders of classes: a record a file."""

import os
import pickle

import cv2
import numpy as np
import pytest

import loaderkit as lk


def written(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def test_loose_files(tmp_path):
    """Patterns are sorted, braces and lists are in their order; names are unique; many are opened lazily."""
    written(tmp_path, *(f"{a}/{k:04}.bin" for a in "ba" for k in range(700)))
    before = len(os.listdir("/proc/self/fd"))
    with lk.formats.FilesDataSource(f"{tmp_path}/*/*.bin") as source:
        assert len(os.listdir("/proc/self/fd")) == before
        assert len(source) == 1400
        assert source[0] == {"name": "a/0000.bin", "file": b"a/0000.bin"} and source.name(-1).endswith(
            "b/0699.bin"
        )
        assert source.__getitems__([1399, 0])[0]["file"] == b"b/0699.bin"
        copy = pickle.loads(pickle.dumps(source))
        assert copy[5] == source[5] and copy.fingerprint() == source.fingerprint()
        copy.close()
    with lk.formats.FilesDataSource([f"{tmp_path}/b/{{0001..0002}}.bin", tmp_path / "a/0009.bin"]) as source:
        assert [record["name"] for record in source] == ["0001.bin", "0002.bin", "0009.bin"]
    loader = lk.load(lk.formats.FilesDataSource(f"{tmp_path}/*/000?.bin"), num_epochs=1, worker_count=1)
    assert [record["file"] for record in loader][:2] == [b"a/0000.bin", b"a/0001.bin"]
    loader.close()


def test_loose_files_that_are_wrong(tmp_path):
    """Missing, a folder, a part, twice, changed."""
    written(tmp_path, "a.bin", "b.bin", "folder/c.bin")
    for paths, error, text in [
        (tmp_path / "no.bin", FileNotFoundError, "no.bin"),
        (f"{tmp_path}/*.png", FileNotFoundError, "no file matches"),
        (tmp_path / "folder", IsADirectoryError, r"folder/\*"),
        (
            f"{tmp_path}/a.bin[0:1]",
            ValueError,
            "expected whole files, got a part of .*a.bin; write its name alone",
        ),
        ([tmp_path / "a.bin"] * 2, ValueError, "expected each file once, got .*a.bin twice"),
        (3, TypeError, "expected a path or a sequence of paths, got a int"),
        ([], ValueError, "one path or more"),
    ]:
        with pytest.raises(error, match=text):
            lk.formats.FilesDataSource(paths)
    source = lk.formats.FilesDataSource(f"{tmp_path}/*.bin")
    (tmp_path / "b.bin").write_bytes(b"more than before")
    assert source[0]["file"] == b"a.bin"
    with pytest.raises(lk.errors.FileChangedError, match=r"b\.bin"):
        source[1]
    with pytest.raises(IndexError, match="from -2 to 1, got 2"):
        source[2]
    with pytest.raises(AttributeError, match=r"use instead: lk\.Dataset"):
        source.shuffle(10)


def test_image_folder_and_class_map(tmp_path):
    """Labels as torchvision's ImageFolder gives them; a list or a dict chooses classes and labels."""
    written(
        tmp_path, "dog/2.jpg", "dog/deep/1.JPG", "cat/1.png", "cat/.hidden.png", "cat/notes.txt", ".git/x.png"
    )
    written(tmp_path, "fox/1.png", "stray.png")
    source = lk.FolderDataSource(tmp_path)
    assert source.class_names == ["cat", "dog", "fox"] and source.labels.tolist() == [0, 1, 1, 2]
    assert [record["image"] for record in source] == [
        b"cat/1.png",
        b"dog/2.jpg",
        b"dog/deep/1.JPG",
        b"fox/1.png",
    ]
    chosen = lk.FolderDataSource(tmp_path, classes=["fox", "cat"], key="file")
    assert [*chosen] == [{"file": b"fox/1.png", "label": 0}, {"file": b"cat/1.png", "label": 1}]
    merged = lk.FolderDataSource(tmp_path, classes={"fox": 7, "dog": 7, "cat": 3}, extensions=None)
    assert merged.labels.tolist() == [3, 3, 7, 7, 7] and merged.class_names == ["cat", "fox"]
    assert len({str(each.fingerprint()) for each in (source, chosen, merged)}) == 3
    source.close()


def test_folder_through_a_loader_with_filters_and_balance(tmp_path):
    """Pictures are decoded by the record's key; labels choose records."""
    for name, value in {"a/1.png": 10, "a/2.png": 20, "b/1.png": 30}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        cv2.imwrite(str(tmp_path / name), np.full((4, 5, 3), value, np.uint8))
    source = lk.FolderDataSource(tmp_path)
    operations = [lk.transforms.image.Decode(key="image")]
    batch = next(iter(lk.load(source, batch_size=3, operations=operations)))
    assert batch["image"].shape == (3, 4, 5, 3) and batch["label"].tolist() == [0, 0, 1]
    only_b = lk.SubsetDataSource(source, np.flatnonzero(source.labels == 1))
    assert [record["label"] for record in only_b] == [1]


def test_folders_that_are_wrong(tmp_path):
    """Each says what is there and what to write; a circle of links ends."""
    written(tmp_path, "full/1.png", "file.png")
    (tmp_path / "empty").mkdir()
    (tmp_path / "full" / "loop").symlink_to(tmp_path / "full")
    (tmp_path / "full" / "up").symlink_to(tmp_path)
    for root, arguments, error, text in [
        (
            "",
            {},
            ValueError,
            r"file or more in each class folder .* got none in \['empty'\]; leave these out",
        ),
        ("", {"classes": ["no"]}, ValueError, r"expected folders of .*'full'.*, got \['no'\]"),
        ("", {"classes": ["full", "full"]}, ValueError, "each class once, got 'full' twice"),
        ("", {"classes": "full"}, TypeError, "a list of names or a dict"),
        ("", {"classes": {"full": "x"}}, TypeError, r"classes\['full'\]: expected an int, got 'x'"),
        ("", {"classes": []}, ValueError, "one class or more"),
        ("", {"extensions": ".png"}, TypeError, r"a list such as \['.jpg'\]"),
        ("", {"extensions": ["png"]}, ValueError, "texts such as '.jpg', got 'png'"),
        ("", {"key": "label"}, ValueError, "other than 'label'"),
        ("empty", {}, FileNotFoundError, "expected a folder for each class .* lk.formats.FilesDataSource"),
        ("no", {}, FileNotFoundError, "which is missing"),
        ("file.png", {}, NotADirectoryError, "got the file"),
    ]:
        with pytest.raises(error, match=text):
            lk.FolderDataSource(tmp_path / root, **arguments)
    assert len(lk.FolderDataSource(tmp_path, classes=["full"])) == 1
