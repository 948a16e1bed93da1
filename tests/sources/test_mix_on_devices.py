"""A mixture on several devices: batches of few rows show each device all components where the order is shuffled."""

import json
import os
import subprocess
import sys

SCRIPT = """
import json
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import loaderkit as lk

rows = NamedSharding(Mesh(np.array(jax.devices()), "data"), PartitionSpec("data"))
seen = {}
for order in ("even", "shuffled"):
    sources = {name: [{"x": k} for k in range(50)] for name in ("web", "code")}
    source, sampler = lk.mix(sources, shuffle=True, seed=0, order=order, id_key="source")
    loader = lk.DataLoader(data_source=source, sampler=sampler, operations=[lk.Batch(2)])
    devices = {device.id: [] for device in jax.devices()}
    with lk.device_iterator(iter(loader), rows) as batches:
        for _ in range(24):
            for part in next(batches)["source"].addressable_shards:
                devices[part.device.id] += np.asarray(part.data).tolist()
    seen[order] = list(devices.values())
print(json.dumps(seen))
"""


def test_each_device_sees_both_components():
    """One row a device: an even order gives each device one component for ever, a shuffled one both."""
    flags = "--xla_force_host_platform_device_count=2"
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    assert [set(device) for device in seen["even"]] in ([{0}, {1}], [{1}, {0}])
    for device in seen["shuffled"]:
        assert min(device.count(0), device.count(1)) >= 4
    assert [one + other for one, other in zip(*seen["even"], strict=True)] == [1] * 24
