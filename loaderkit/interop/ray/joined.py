"""Ray in a process that has joined a cluster. Only such a process imports it: Ray may end it."""

from typing import Any

from loaderkit._base.notes import text_of
from loaderkit._base.system.platform import WORKER_SETTINGS
from loaderkit.errors import ClusterError


def joined(settings: dict[str, Any]) -> Any:
    """The module `ray`, joined to the cluster of a reservation's settings; ClusterError where that can't be."""
    import ray as library

    ray: Any = library  # with types of its own, which say less than it takes
    runtime_env = settings["runtime_env"]
    environment = {"PYTHONHASHSEED": "0", **WORKER_SETTINGS, **runtime_env.get("env_vars", {})}
    try:
        ray.init(
            settings["address"], runtime_env={**runtime_env, "env_vars": environment}, logging_level="WARNING"
        )
    except (ConnectionError, RuntimeError, ValueError, TypeError) as error:
        raise ClusterError(
            f"no Ray cluster can be used at address {settings['address']!r}: {text_of(error).rstrip('.')}. "
            "`ray start --head` on one host starts one, and `ray start --address=HOST:PORT` adds others"
        ) from error
    return ray
