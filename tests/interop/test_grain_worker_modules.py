"""What a worker process of a Grain script imports of the package."""

import sys
from typing import Any

import loaderkit.interop.grain as grain


class Look(grain.MapTransform):
    """What the process that runs it has imported of loaderkit."""

    def map(self, element: Any) -> list[str]:
        """In place of the element."""
        return [name for name in sys.modules if name.partition(".")[0] == "loaderkit"]


SIDES = (
    "_plan",
    "_loader",
    "samplers",
    "_runtime.executors",
    "interop.grain.data_loader",
    "interop.grain._steps",
)


def of_other_sides(found: list[str]) -> list[str]:
    """Modules of the side that plans and hands out."""
    return [name for name in found if name.startswith(tuple(f"loaderkit.{side}" for side in SIDES))]


def test_a_worker_of_a_grain_script_imports_no_loader():
    """What its operations need of loaderkit.interop.grain, and nothing of the side that plans and hands out."""
    loader = grain.DataLoader(
        data_source=grain.RangeDataSource(0, 4, 1),
        sampler=grain.SequentialSampler(4, shard_options=grain.NoSharding()),
        operations=[Look()],
        worker_count=1,
    )
    found = next(iter(loader))
    assert "loaderkit.interop.grain.transforms" in found
    assert of_other_sides(found) == []


def test_a_worker_of_a_chain_imports_its_steps_only():
    """The nodes of the tree and the rows behind it, and nothing of what runs in order."""
    ds = grain.MapDataset.range(4).shuffle(1).map(Look()).to_iter_dataset()
    found = next(iter(ds.mp_prefetch(grain.MultiprocessingOptions(1))))
    assert "loaderkit.interop.grain.dataset.rows" in found
    assert of_other_sides(found) == []
    assert not [name for name in found if name.startswith("loaderkit.interop.grain.dataset.in_order")]
