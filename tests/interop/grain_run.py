"""A training run as a script: reads batches, saves its place with Orbax, and may be killed in the middle.

    grain_run.py grain|loaderkit FOLDER LAST_STEP [killed]

The script is the same for both libraries; the first word says which one is imported. It prints each step and the sha256
of its batch.
"""

import hashlib
import json
import os
import signal
import sys
from pathlib import Path


def main(library: str, folder: Path, last_step: int, ending: str) -> None:
    if library == "grain":
        from absl import flags

        flags.FLAGS.mark_as_parsed()
        import grain.python as grain
    else:
        import loaderkit.interop.grain as grain
    import numpy as np
    import orbax.checkpoint as ocp

    class Decode(grain.MapTransform):
        def map(self, record):
            return {"x": np.full(3, record, np.float32), "key": record}

    class Noise(grain.RandomMapTransform):
        def random_map(self, element, rng):
            return {**element, "x": element["x"] + rng.standard_normal(3, dtype=np.float32)}

    class Some(grain.FilterTransform):
        def filter(self, element):
            return element["key"] % 5 != 0

    source = grain.RangeDataSource(0, 200, 1)
    loader = grain.DataLoader(
        data_source=source,
        sampler=grain.IndexSampler(len(source), grain.ShardOptions(1, 2), shuffle=True, num_epochs=2, seed=4),
        operations=[Decode(), Noise(), Some(), grain.Batch(7)],
        worker_count=2,
        read_options=grain.ReadOptions(0, 0),
    )
    iterator = iter(loader)
    options = ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
    with ocp.CheckpointManager(folder, options=options) as manager:
        step = manager.latest_step() or 0
        if step:
            restored = grain.PyGrainCheckpointRestore(iterator)
            manager.restore(step, args=ocp.args.Composite(dataset=restored))
        for batch in iterator:
            step += 1
            digest = hashlib.sha256(batch["x"].tobytes() + batch["key"].tobytes())
            print(json.dumps([step, len(batch["key"]), digest.hexdigest()]), flush=True)
            if step % 4 == 0:
                saved = grain.PyGrainCheckpointSave(iterator)
                manager.save(step, args=ocp.args.Composite(dataset=saved))
            if step == last_step:
                if ending == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                break


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).absolute(), int(sys.argv[3]), *(sys.argv[4:] or ["ends"]))
