"""Transforms of torchvision and albumentations under Seeded: one stream for workers, hosts and restores."""

import hashlib
import random

import numpy as np
import pytest
from image_files import photograph

import loaderkit as lk
from loaderkit.transforms import Seeded

ROWS, BATCH, SIDE = 10, 4, 24


def of_torchvision():
    pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2", reason="torchvision isn't installed")
    steps = [
        v2.RandomResizedCrop(SIDE),
        v2.RandomHorizontalFlip(),
        v2.TrivialAugmentWide(),
        v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
        v2.GaussianBlur(3),
        v2.RandomErasing(0.5),
    ]
    return Seeded(v2.Compose(steps), key="image")


def of_torchvision_with_pil():
    pytest.importorskip("torch")
    v1 = pytest.importorskip("torchvision.transforms", reason="torchvision isn't installed")
    steps = [v1.RandomResizedCrop(SIDE), v1.RandAugment(), v1.RandomRotation(30), v1.ToTensor()]
    return Seeded(v1.Compose(steps), key="image")


def of_albumentations():
    alb = pytest.importorskip("albumentations", reason="albumentations isn't installed")
    steps = [
        alb.RandomCrop(SIDE, SIDE),
        alb.HorizontalFlip(),
        alb.Affine(rotate=(-30, 30), p=0.7),
        alb.ColorJitter(p=0.7),
        alb.GaussNoise(p=0.7),
        alb.CoarseDropout(p=0.7),
        alb.OneOf([alb.Blur(), alb.ToGray()]),
    ]
    return Seeded(alb.Compose(steps))


KINDS = [
    pytest.param(of_torchvision, marks=pytest.mark.torch),
    pytest.param(of_torchvision_with_pil, marks=pytest.mark.torch),
    of_albumentations,
]


def record(number: int) -> dict:
    image = np.ascontiguousarray(photograph()[number : number + 40, number : number + 50])
    return {"image": image, "mask": image[..., 0] // 64, "label": number}


def loader(make, *, shard=None, **workers):
    """A new transform each time, behind global generators that stand anywhere."""
    random.seed()
    np.random.seed()
    return lk.DataLoader(
        data_source=[record(number) for number in range(ROWS)],
        sampler=lk.IndexSampler(ROWS, shuffle=True, seed=3, num_epochs=2),
        operations=[make(), lk.Map(_of_one_size), lk.Batch(global_batch_size=BATCH)],
        shard_options=shard,
        **workers,
    )


def _of_one_size(one: dict) -> dict:
    return {"image": one["image"], "mask": one["mask"][:SIDE, :SIDE]}


def sha(batches: list[dict]) -> str:
    whole = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    return hashlib.sha256(
        b"".join(np.ascontiguousarray(leaf).tobytes() for leaf in whole.values())
    ).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("make", KINDS)
def test_a_transform_is_one_stream(make, at_night):
    """One sha for 0, 1 and 2 workers, restored in the middle, and on 1 and 2 hosts; a record's epochs differ."""
    with loader(make) as made, iter(made) as it:
        batches = list(it)
    assert len(batches) == 2 * ROWS // BATCH
    assert len({image.tobytes() for batch in batches for image in batch["image"]}) == 2 * ROWS
    expected = sha(batches)
    for count in (1, 2):
        with loader(make, worker_count=count) as made:
            with iter(made) as it:
                begun = [next(it), next(it)]
                state = it.get_state()
            with iter(made) as it:
                it.set_state(state)
                assert sha([*begun, *it]) == expected, f"{count} workers"
    halves = []
    for host in range(2):
        with loader(make, shard=lk.ShardOptions(host, 2)) as made, iter(made) as it:
            halves.append(list(it))
    whole = [{name: np.concatenate([one[name], two[name]]) for name in one} for one, two in zip(*halves)]
    assert sha(whole) == expected


@pytest.mark.parametrize("make", KINDS)
def test_check_pipeline_finds_all_generators_reached(make):
    """Draws twice, and finds nothing to say of the library's transforms."""
    with loader(make) as made:
        lk.testing.check_pipeline(made)


def test_masks_and_boxes_of_albumentations_move_with_the_picture():
    """A dict goes in by its names; what the record has beside them stays."""
    alb = pytest.importorskip("albumentations", reason="albumentations isn't installed")
    flip = alb.Compose(
        [alb.HorizontalFlip(p=1)], bbox_params=alb.BboxParams("pascal_voc", label_fields=["label"])
    )
    one = record(3)
    made = Seeded(flip).map(
        {**one, "bboxes": np.array([[5.0, 6, 20, 30]]), "label": [7], "caption": "a flower"}
    )
    np.testing.assert_array_equal(made["image"], one["image"][:, ::-1])
    np.testing.assert_array_equal(made["mask"], one["mask"][:, ::-1])
    np.testing.assert_allclose(made["bboxes"], [[30, 6, 45, 30]])
    assert made["label"] == [7] and made["caption"] == "a flower"


@pytest.mark.torch
def test_masks_of_torchvision_move_with_the_picture():
    """A `tv_tensors.Mask` beside the array of the picture comes back as an array."""
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2", reason="torchvision isn't installed")
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    one = record(3)
    given = {**one, "mask": tv_tensors.Mask(torch.from_numpy(one["mask"]))}
    made = Seeded(v2.RandomHorizontalFlip(1.0)).map(given)
    np.testing.assert_array_equal(made["image"], one["image"][:, ::-1])
    np.testing.assert_array_equal(made["mask"], one["mask"][:, ::-1])
    assert made["label"] == 3
