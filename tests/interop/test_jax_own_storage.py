"""Storage of each host's own: the snippet of docs/many-hosts.md, run by several real processes."""

import re
from pathlib import Path

from jax_run import free_port, run

DOCUMENT = Path(__file__).parents[2] / "docs/many-hosts.md"


def test_positions_on_storage_of_each_host_beside_a_shared_model(tmp_path):
    """As it stands in the document: saved and restored by two hosts, each with one file of its own and no other."""
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    (snippet,) = [block for block in blocks if "primary_host=None" in block]
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, jax\nimport loaderkit as lk\n"
        f"os.chdir({str(tmp_path)!r})\n"
        "jax.distributed.initialize(sys.argv[1], num_processes=2, process_id=int(sys.argv[2]))\n"
        f"{snippet}\n"
        "print('rows', *first[0], *then[0], flush=True)\n"
        "jax.distributed.shutdown()\n"
    )
    port = free_port()
    told = run(
        lambda index: [script, f"127.0.0.1:{port}", index],
        processes=2,
        devices=2,
        folder=tmp_path / "answers",
    )
    rows = []
    for status, out, err in told:
        assert status == 0, f"{out}\n{err}"
        rows += out[out.rindex("rows") :].split()[1:]
    assert len(rows) == len({*rows}) == 20  # five steps of four rows: none twice, on no host
    for index in range(2):
        names = {path.name for path in (tmp_path / f"disk-of-host-{index}").rglob("process_*.json")}
        assert names == {f"process_{index}-of-2.json"}
