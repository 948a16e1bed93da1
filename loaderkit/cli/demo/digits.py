"""Scikit-learn's handwritten digits as ArrayRecord files: real data without a download."""

from pathlib import Path

import numpy as np

from loaderkit.formats.write import write

TRAIN_FILES = 4
TEST_SHARE = 5


def write_digits(directory: Path) -> tuple[int, int]:
    """Writes `train-*.array_record` and `test-*.array_record` into `directory`; returns their numbers of records.

    A record is 65 bytes: 8 x 8 pixels of 0 to 16, then the digit. One digit in five is for the test.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = bunch.data.astype(np.uint8)  # (1797, 64) uint8
    records = np.concatenate([pixels, bunch.target[:, None].astype(np.uint8)], axis=1)  # (1797, 65) uint8
    order = np.random.default_rng(0).permutation(len(records))
    test, train = np.split(records[order], [len(records) // TEST_SHARE])
    for number, part in enumerate(np.array_split(train, TRAIN_FILES)):
        write([*map(bytes, part)], directory / f"train-{number:05d}-of-{TRAIN_FILES:05d}.array_record")
    write([*map(bytes, test)], directory / "test-00000-of-00001.array_record")
    return len(train), len(test)
