"""Detects a cluster of several processes that JAX isn't initialized for, by environment variables.

They are those by which `jax.distributed.initialize()` detects a cluster; no service is asked.
"""

import os
from collections.abc import Mapping

import jax


def announced_processes(environment: Mapping[str, str]) -> tuple[int, str] | None:
    """The number of processes that a variable announces, and its name; None for one process or no variable.

    >>> announced_processes({"OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.1:9", "OMPI_COMM_WORLD_SIZE": "4"})
    (4, 'OMPI_COMM_WORLD_SIZE')
    >>> announced_processes({"SLURM_NTASKS": "4"})
    """
    for name, beside in (
        ("OMPI_COMM_WORLD_SIZE", ("OMPI_MCA_orte_hnp_uri",)),
        ("SLURM_NTASKS", ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_PROCID")),
    ):
        count = environment.get(name, "")
        if all(other in environment for other in beside) and count.isdigit() and int(count) > 1:
            return int(count), name
    for name in ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES"):
        hosts = environment.get(name, "").split(",")
        if len(hosts) > 1:
            return len(hosts), name
    if "JAX_COORDINATOR_ADDRESS" in environment:
        return 2, "JAX_COORDINATOR_ADDRESS"  # at least two, or no coordinator would be needed
    return None


def check_initialized(processes: int) -> None:
    """Raises RuntimeError where JAX counts one process and the environment announces several.

    processes: `jax.process_count()`.

    >>> check_initialized(2)
    """
    initialized = processes > 1 or jax.distributed.is_initialized()
    found = None if initialized else announced_processes(os.environ)
    if found is not None:
        count, name = found
        raise RuntimeError(
            f"jax.process_count(): expected {count}{' or more' if 'COORD' in name else ''}, got 1: {name} announces a "
            "cluster, and each of its processes would load all data; call jax.distributed.initialize() before "
            "iterating, or use shard_options=lk.NoSharding() for independent processes"
        )
