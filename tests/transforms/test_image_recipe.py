"""A whole recipe of augmentations: one stream, and batches whose mixed rows no shard cuts."""

import hashlib

import numpy as np
import pytest
from image_files import encoded, generator

import loaderkit as lk
from loaderkit._order.rng import generator as record_generator
from loaderkit.transforms import image as lki

BATCH, ROWS = 8, 21


def record(number: int) -> dict:
    """A JPEG of noise with a box, a mask and a label."""
    rng = generator(number)
    side = 40 + number
    return {
        "image": encoded(rng.integers(0, 256, (side, 48, 3), np.uint8)),
        "mask": rng.integers(0, 2, (side, 48), np.uint8),
        "box": np.array([[2, 3, 40, 30.0]]),
        "label": number % 5,
    }


RECORDS = [record(number) for number in range(ROWS)]
RECIPE = [
    lki.DecodeRandomResizedCrop(24, scale=(0.9, 1), key="image", masks="mask", boxes="box"),
    lki.RandomFlip(key="image", masks="mask", boxes="box"),
    lki.RandomAffine(9, (0.1, 0.1), key="image", masks="mask", boxes="box"),
    lki.RandomPerspective(0.2, key="image", masks="mask", boxes="box"),
    lki.TrivialAugment(key="image", masks="mask", boxes="box"),
    lki.ColorJitter(0.4, 0.4, 0.4, 0.1, key="image"),
    lki.RandomGrayscale(0.2, key="image"),
    lki.GaussianBlur(3, key="image"),
    lki.RandomErasing(key="image", value="random"),
    lk.Map(lambda one: {**one, "box": one["box"].sum(dtype=np.float64)}),
]
MIXED = [lki.MixUp("image", "label", 5, group=4), lki.CutMix("image", "label", group=2)]


def loader(operations=RECIPE, mixed=MIXED, *, shard=None, remainder="drop", **workers):
    batch = lk.Batch(global_batch_size=BATCH, remainder=remainder)
    return lk.DataLoader(
        data_source=RECORDS,
        sampler=lk.IndexSampler(ROWS, shuffle=True, seed=7, num_epochs=2),
        operations=[*operations, batch, *mixed],
        shard_options=shard,
        **workers,
    )


def digests(batches) -> list[str]:
    return [
        hashlib.sha256(
            b"".join(np.ascontiguousarray(batch[key]).tobytes() for key in sorted(batch))
        ).hexdigest()
        for batch in batches
    ]


def all_batches(**given) -> list:
    with loader(**given) as made, iter(made) as batches:
        return list(batches)


def test_a_recipe_is_one_stream():
    """The same bytes for 0, 1 and 2 workers, after a restore, and on 1 and 2 hosts."""
    expected = all_batches()
    assert len(expected) == 2 * ROWS // BATCH and expected[0]["label"].shape == (BATCH, 5)
    with loader(worker_count=1, worker_kind="thread") as made, iter(made) as batches:
        assert digests(batches) == digests(expected)
    with loader(worker_count=2, worker_kind="process") as made:
        with iter(made) as batches:
            begun = [next(batches) for _ in range(2)]
            state = batches.get_state()
        with iter(made) as batches:
            batches.set_state(state)
            assert digests([*begun, *batches]) == digests(expected)
    halves = [all_batches(shard=lk.ShardOptions(host, 2)) for host in range(2)]
    whole = [{key: np.concatenate([one[key], two[key]]) for key in one} for one, two in zip(*halves)]
    assert digests(whole) == digests(expected)


@pytest.mark.parametrize("remainder", ["drop", "wrap", "keep"])
@pytest.mark.parametrize("columns", [True, False])
def test_mixed_rows_are_drawn_by_their_first_record(remainder, columns):
    """Groups of rows are the naive function's of the loader's generators, read by column or by record."""
    images = np.arange(ROWS * 4, dtype=np.float32).reshape(ROWS, 2, 2)
    source = lk.ArrayDataSource({"image": images, "label": np.arange(ROWS)})
    operation = lki.MixUp("image", "label", ROWS, group=4)
    sampler = lk.IndexSampler(ROWS, shuffle=True, seed=3, num_epochs=1)
    with (
        lk.DataLoader(
            data_source=source if columns else [source[row] for row in range(ROWS)],
            sampler=sampler,
            operations=[lk.Batch(BATCH, remainder=remainder), operation],
        ) as made,
        iter(made) as batches,
    ):
        found = list(batches)
    order = [sampler[index].record_key for index in range(ROWS)]
    rows = [*range(ROWS), *(range(3) if remainder == "wrap" else ())][: None if remainder != "drop" else 16]
    assert sum(len(batch["image"]) for batch in found) == len(rows)
    for number, batch in enumerate(found):
        here = rows[number * BATCH : (number + 1) * BATCH]
        keys = [order[index] for index in here]
        expected = operation.random_map(
            {"image": images[keys], "label": np.array(keys)},
            lambda row, here=here: record_generator(3, 0, here[row], 0),
        )
        for name, leaf in expected.items():
            np.testing.assert_array_equal(batch[name], leaf)


@pytest.mark.parametrize(
    ("operations", "mixed", "given", "text"),
    [
        ([], MIXED, {"shard": lk.ShardOptions(0, 4)}, r"multiple of 4 \* 4 rows, of which no shard cuts"),
        ([], MIXED, {"remainder": "keep", "shard": lk.ShardOptions(0, 2)}, "'keep', with which groups"),
        ([], MIXED, {"remainder": "pad"}, "'pad', with which groups of the last batch"),
        ([lk.Filter(bool)], MIXED, {}, r"none that changes the number of rows with MixUp, got Filter"),
        (MIXED, [], {}, r"MixUp directly behind the only Batch, got it as operations\[0\]"),
        (
            [],
            [lk.Map(dict), *MIXED],
            {},
            r"directly behind the only Batch, got it as operations\[2\]; write .* without batch_size=",
        ),
        ([lk.Batch(2)], MIXED, {}, r"directly behind the only Batch"),
    ],
)
def test_groups_that_would_be_cut_are_refused(operations, mixed, given, text):
    """Before the first batch."""
    with loader(operations, mixed, **given) as made, pytest.raises(ValueError, match=text):
        iter(made)
