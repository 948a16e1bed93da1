"""Length buckets over several devices: the planned shapes, as global arrays."""

from pathlib import Path

from jax_run import run


def test_batches_of_each_shape_are_global_arrays(tmp_path):
    """Over four CPU devices each batch equals that of a loader without shards, before and after a restore."""
    script = Path(__file__).with_name("bucket_case.py")
    ((status, _, errors),) = run(lambda _: [script], processes=1, devices=4, folder=tmp_path)
    assert status == 0, errors
