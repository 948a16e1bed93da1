"""docs/train_many_hosts.py as one process of several, written down step by step, and killed where the test says.

python train_case.py INDEX COUNT PORT DATA RUN STEPS KILLED_AT
"""

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import jax
import numpy as np


def digests(batch):
    """sha256 of each row that this process has, by its place in the global batch."""
    found = {}
    for name in sorted(batch):
        for shard in batch[name].addressable_shards:
            data = jax.random.key_data(shard.data) if name == "rng" else shard.data
            first = shard.index[0].start or 0
            for place, row in enumerate(np.asarray(data)):
                found.setdefault(first + place, hashlib.sha256()).update(row.tobytes())
    return {row: digest.hexdigest() for row, digest in found.items()}


def await_commit(run, step):
    deadline = time.monotonic() + 60
    while not (run / str(step) / "_CHECKPOINT_METADATA").exists():
        assert time.monotonic() < deadline, f"the checkpoint of step {step} wasn't committed"
        time.sleep(0.02)


def main():
    index, count, port = map(int, sys.argv[1:4])
    data, run, steps, killed_at = sys.argv[4], Path(sys.argv[5]), *map(int, sys.argv[6:8])
    if count > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=count, process_id=index)
    import train_many_hosts as script

    def on_step(step, loss, batch):
        print(json.dumps({"step": step, "loss": float(loss), "rows": digests(batch)}), flush=True)
        if step == killed_at:
            await_commit(run, step // 4 * 4)
            if index == count - 1:
                os.kill(os.getpid(), signal.SIGKILL)

    settings = script.Settings(data, run, steps=steps, save_every=4, worker_count=index % 2)
    script.train(settings, on_step)


if __name__ == "__main__":
    main()
