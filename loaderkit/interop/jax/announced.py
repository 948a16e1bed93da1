"""Whether the environment announces a cluster of several processes that JAX wasn't told of.

The same variables as those that `jax.distributed.initialize()` finds a cluster by, read without asking any service.
"""

import os
from collections.abc import Mapping

import jax


def announced_processes(environment: Mapping[str, str]) -> tuple[int, str] | None:
    """How many processes are announced, and by which variable; None where one or nothing is.

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
        return 2, "JAX_COORDINATOR_ADDRESS"  # two at least, or there were nothing to coordinate
    return None


def check_initialized(processes: int) -> None:
    """Raises RuntimeError where JAX knows of one process and the environment announces several.

    processes: `jax.process_count()`.

    >>> check_initialized(2)
    """
    told = processes > 1 or jax.distributed.is_initialized()
    found = None if told else announced_processes(os.environ)
    if found is not None:
        count, name = found
        raise RuntimeError(
            f"{name} announces a cluster of {count} processes{' or more' if 'COORD' in name else ''}, and JAX knows "
            "only this one, so each would load everything: call jax.distributed.initialize() before iterating, or say "
            "shard_options=lk.NoSharding() for processes that have nothing to do with each other"
        )
