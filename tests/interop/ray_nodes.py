"""A Ray cluster with two nodes on this machine, of a processor each, in a process of its own.

It prints the address and the id of the second node; then it takes a word a line: "kill" kills the second node, "add"
adds another one, "behead" kills the head's GCS. It ends with its stdin.
"""

import contextlib
import os
import signal
import sys

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from ray.cluster_utils import Cluster

NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints, too
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        second = cluster.add_node(**NODE)
        print(cluster.address, second.node_id, file=out, flush=True)
        for line in sys.stdin:
            if line.strip() == "kill":
                cluster.remove_node(second, allow_graceful=False)
            elif line.strip() == "add":
                second = cluster.add_node(**NODE)
            else:
                cluster.head_node.kill_gcs_server()
            print("done", file=out, flush=True)
    finally:
        cluster.shutdown()
        end_session()


def end_session() -> None:
    """Ends what a killed node has left: its agents look for it once in a while."""
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        with contextlib.suppress(ProcessLookupError):
            if pid != os.getpid() and os.getsid(pid) == os.getpid():
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
