"""docs/train_imagenet.py with small pictures and few steps, written down step by step, and killed where the test says.

python imagenet_case.py DATA RUN STEPS KILLED_AT [CACHE]
"""

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
from train_case import await_commit


def main():
    import train_imagenet as script

    data, run, steps, killed_at = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:5])
    settings = script.Settings(
        data,
        run,
        steps=steps,
        save_every=2,
        global_batch_size=8,
        worker_count=2,
        classes=2,
        train_size=32,
        eval_size=32,
        cache=sys.argv[5] if len(sys.argv) > 5 else None,
    )

    def on_step(step, loss, batch):
        digest = hashlib.sha256(np.asarray(batch["image"]).tobytes() + np.asarray(batch["label"]).tobytes())
        print(json.dumps({"step": step, "loss": float(loss), "batch": digest.hexdigest()}), flush=True)
        if step == killed_at:
            await_commit(run, step // 2 * 2)
            os.kill(os.getpid(), signal.SIGKILL)

    graph, state, split = script.train(settings, on_step)
    if "://" not in data:
        right = script.evaluate(data, settings, graph, state, split)
        print(json.dumps({"accuracy": right}), flush=True)


if __name__ == "__main__":
    main()
