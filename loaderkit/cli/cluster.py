"""--cluster: where shards are made, and what `doctor` finds on each host."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from loaderkit._runtime.start.driver import ANSWER, LOST, Driver
from loaderkit.errors import ClusterError
from loaderkit.formats._writing.cluster import Cluster, ClusterWork
from loaderkit.formats._writing.cluster_task import pack_program
from loaderkit.formats.open import open as open_data

from .exit_status import UsageError
from .open_source import usage_errors

Finding = dict[str, Any]


def cluster_of(options: argparse.Namespace) -> Cluster | None:
    """The hosts that the options name; None without --cluster."""
    if options.cluster is None:
        if options.cluster_address is not None:
            raise UsageError("--cluster-address: expected with --cluster, got it without")
        return None
    from loaderkit.interop.ray import Tasks

    with usage_errors():
        return Tasks(address=options.cluster_address or "auto")


def host_findings(cluster: Cluster, path: str | None) -> Iterator[Finding]:
    """What each host has, lacks, and how fast it is.

    cluster: the hosts. path: of data that they should find; None for none.
    """
    source = [0] if path is None else open_data(path)
    work = ClusterWork(cluster, source, {}, {"python": "{}.{}".format(*sys.version_info)})
    program = pack_program(work, None, 0, None)
    try:
        with Driver(cluster.driver, {**cluster.settings(), "nodes": True}, program) as driver:
            hosts = json.loads(driver.next().body)
            for number in range(len(hosts)):
                driver.begin(number)
            for _ in hosts:
                event = driver.next()
                name = f"host {hosts[event.task]}"
                if event.kind == LOST:
                    yield _finding(name, False, event.body.decode(), "See the logs of Ray on that host")
                elif event.kind == ANSWER:
                    yield _of_host(name, json.loads(event.body), path)
    except ClusterError as error:
        yield _finding("cluster", False, str(error), "")


def _of_host(name: str, told: Mapping[str, Any], path: str | None) -> Finding:
    versions = ", ".join(f"{library} {version}" for library, version in told["versions"].items())
    text = f"{versions}; {told['round_trip_ms']:.1f} ms, {told['mb_per_s']:,.0f} MB/s"
    if not told["lacks"]:
        text += "; the same last bits as here" + (f"; finds {path}" if path else "")
    return {**_finding(name, not told["lacks"], text, "; ".join(told["lacks"])), **told}


def _finding(name: str, good: bool, text: str, fix: str) -> Finding:
    return {"name": name, "ok": good, "text": text, "fix": fix}
