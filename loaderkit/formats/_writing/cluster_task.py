"""What a task does on a host of a cluster: it sets the program up, once a process, and makes one shard.

The program begins with facts that any version can read: versions, last bits and fingerprint are compared before
anything of the user's runs there.
"""

import contextlib
import dataclasses
import json
import os
import pickle
import platform
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from loaderkit._base.notes import annotate, text_of
from loaderkit._base.system.arithmetic import Arithmetic
from loaderkit._base.system.numerics import numerics, other_numerics
from loaderkit._base.system.one_thread import OneThread
from loaderkit._base.version import __version__
from loaderkit._runtime.start.first_messages import MOST_ELSEWHERE, check_classes
from loaderkit._runtime.start.preparation import Preparation, set_filters
from loaderkit._runtime.transport.exceptions import pack_exception
from loaderkit._runtime.transport.pickling import Packer, all_classes, teach
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.protocol import read_record
from loaderkit.errors import FileChangedError, TransportError

from .cluster import ClusterWork
from .shard_jobs import make_file, shard_notes
from .shard_result import ShardResult

_ON_SHARED = "put the data on storage that all hosts see, or name it by a URL"

Make = Callable[[int, str | None], ShardResult]


class Answer(NamedTuple):
    """What a task gives, of types that pickle knows.

    host: its name. numerics: of the process, behind the task. made: fields of a ShardResult, and the file's path or
    None. error: of `pack_exception`. refused: what the host lacks.
    """

    host: str
    numerics: dict[str, str]
    made: tuple[dict[str, Any], str | None] | None = None
    error: bytes | None = None
    refused: str = ""


def pack_program(work: ClusterWork, make: Make | None, shards: int, attempts: str | None) -> bytes:
    """What each host gets, once. TransportError for what can't travel.

    Args:
        work: what goes to the cluster.
        make: as `ShardJobs` takes it; None to have hosts examined only.
        shards: the number of all.
        attempts: the folder of the run; None where no files are written.
    """
    packer = Packer()
    named = [("source", work.source), *work.functions.items()]
    content = teach(packer, (make, work.source), named)
    check_classes(packer)
    if len(content) > MOST_ELSEWHERE:
        raise TransportError(
            f"source: expected {MOST_ELSEWHERE >> 20} MB at most that go to each host, with the functions, got "
            f"{len(content) >> 20} MB; {_ON_SHARED}: lk.write makes files of records in memory"
        )
    facts = {
        "versions": {"loaderkit": __version__, "numpy": np.__version__, **work.libraries},
        "numerics": numerics() if work.cluster.other_cpus == "refuse" or make is None else {},
        "fingerprint": fingerprint_of(work.source),
        "attempts": attempts,
        "shards": shards,
        "examine": make is None,
    }
    state = pickle.dumps(
        (Preparation.of_this_process(packer.by_value, elsewhere=True), Arithmetic.of_this_thread())
    )
    return pickle.dumps((facts, state, content))


class _HostedProgram:
    """A program in a process of a host. lacks: what hinders it there."""

    def __init__(self, packed: bytes) -> None:
        facts, state, content = pickle.loads(packed)
        self.facts: dict[str, Any] = facts
        self.versions = {name: _version(name) for name in facts["versions"]}
        self.lacks = [*_other_versions(facts["versions"], self.versions)]
        if others := other_numerics(facts["numerics"], numerics()):
            self.lacks.append(
                f"{', '.join(others)} there computes other last bits than here, as on another kind of processor; "
                "other_cpus='warn' takes them"
            )
        if facts["attempts"] and not os.path.isdir(facts["attempts"]):
            self.lacks.append(
                f"it doesn't see {facts['attempts']}: path has to lie on storage that all hosts share"
            )
        if not self.lacks or facts["examine"]:
            self._load(state, content)
        self.packer = Packer(all_classes())

    def _load(self, state: bytes, content: bytes) -> None:
        try:
            with warnings.catch_warnings():
                self._preparation, self._arithmetic = pickle.loads(state)
                self._preparation.apply()
                self._make, source = pickle.loads(content)
                found = fingerprint_of(source)
                _open(source)
        except ImportError as error:
            self.lacks.append(
                f"{text_of(error)}: install it there, or name it in runtime_env={{'pip': [...], 'py_modules': [...]}}"
            )
        except Exception as error:  # noqa: BLE001 - the user's classes and files
            self.lacks.append(
                f"the data can't be opened there: {type(error).__name__}: {text_of(error)}; {_ON_SHARED}"
            )
        else:
            if found != (here := self.facts["fingerprint"]):
                self.lacks.append(
                    f"it has other data: its fingerprint there is {found}, here {here}; {_ON_SHARED}"
                )

    def do(self, shard: int) -> Answer:
        with warnings.catch_warnings():
            set_filters(self._preparation.filters)
            self._arithmetic.apply()
            try:
                with shard_notes(shard, self.facts["shards"]):
                    result, path = OneThread().run(lambda: self._made(shard), again=True)
            except Exception as error:  # noqa: BLE001 - the user's function
                annotate(error, f"on host {platform.node()}")
                return Answer(platform.node(), numerics(), error=pack_exception(error, self.packer))
        return Answer(platform.node(), numerics(), made=(dataclasses.asdict(result), path))

    def _made(self, shard: int) -> tuple[ShardResult, str | None]:
        if self.facts["attempts"] is None:
            return self._make(shard, None), None
        path = os.path.join(self.facts["attempts"], f"{shard:05d}-{os.urandom(8).hex()}")
        try:
            return make_file(self._make, shard, path), path
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise


_programs: dict[str, _HostedProgram] = {}  # the last one of this process, by its digest


def do(fetch: Callable[[], bytes], digest: str, task: int) -> bytes:
    """Does a task of a program in this process: the pickle of an `Answer`, or what the host is like as JSON.

    Args:
        fetch: gives the program, as `pack_program` has made it.
        digest: of the program, by which a process knows it.
        task: number of the shard.
    """
    if digest not in _programs:
        _programs.clear()
        _programs[digest] = _HostedProgram(fetch())
    program = _programs[digest]
    if program.facts["examine"]:
        return json.dumps(
            {
                "host": platform.node(),
                "versions": program.versions,
                "numerics": numerics(),
                "lacks": program.lacks,
            }
        ).encode()
    refused = Answer(platform.node(), {}, refused="; ".join(program.lacks))
    return pickle.dumps(tuple(refused if program.lacks else program.do(task)))


def _open(source: Any) -> None:
    """Raises the error of files that aren't there or aren't the same; many sources open them at the first read only."""
    for key in {0, len(source) - 1}:
        try:
            read_record(source, key)
        except (FileNotFoundError, PermissionError, FileChangedError):
            raise
        except Exception:  # noqa: BLE001 - a bad record, which the run may leave out
            continue


def _version(library: str) -> str:
    if library == "python":
        return "{}.{}".format(*platform.python_version_tuple())
    if library == "loaderkit":
        return __version__
    try:
        return str(getattr(import_module(library), "__version__", ""))
    except ImportError:
        return "nothing"


def _other_versions(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    return [
        f"it has {there[name]} of {name}, and this machine {here[name]}; give all hosts one version"
        for name in here
        if there[name] != here[name]
    ]
