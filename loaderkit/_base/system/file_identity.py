"""Which file a path names, so that a replaced file is noticed when it is opened again.

A source opens its files many times: in each worker, in the replacement of a worker that died, after a reader was
closed. Each opening must find the file that the run began with. What is compared (device and inode numbers, times)
holds on one machine only, so it is sent to the source's own workers and nowhere else: a user's pickle and a saved state
don't hold it.
"""

import contextlib
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Self

from loaderkit.errors import FileChangedError

from .dataclasses import dataclass

CHECK_S = 0.1  # between two looks at a mapped file
# File systems that may give the same file another inode number once the kernel's cache has dropped it.
_RENUMBERING = ("fuse", "fuseblk", "9p", "cifs", "smb3", "vboxsf", "vfat", "msdos", "exfat")


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """What the system says of a file.

    Args:
        device, inode: the file's numbers on this machine.
        nbytes: its length.
        modified_ns: time of its last change, in nanoseconds since the epoch; None where it isn't compared.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     FileIdentity.of(file.name) == FileIdentity.of(file.fileno())
    True
    """

    device: int
    inode: int
    nbytes: int
    modified_ns: int | None

    @classmethod
    def of(cls, file: str | int, *, timed: bool = True) -> Self:
        """The identity of a path or an open descriptor; OSError as `os.stat` raises it.

        Args:
            file: a path or a descriptor.
            timed: whether the time of its last change is compared.
        """
        status = os.stat(file)
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns if timed else None)

    def told(self) -> list[int | None]:
        """Size and time as JSON values: the same in a later run."""
        return [self.nbytes, self.modified_ns]

    def same_file(self, now: "FileIdentity") -> bool:
        """Whether device and inode are the same; what was written to the file isn't compared."""
        return (self.device, self.inode) == (now.device, now.inode)

    def _mounted_again(self, now: "FileIdentity") -> bool:
        # A file system without a local disk, such as NFS, gets another device number at each mount, and an automounter
        # unmounts it after some minutes without use.
        diskless = os.major(self.device) == os.major(now.device) == 0
        return diskless and self.inode == now.inode and None not in (self.modified_ns, now.modified_ns)

    def check(self, path: str, now: "FileIdentity") -> None:
        """Raises FileChangedError where `now` is another or a changed file.

        Args:
            path: the file's name, for the error.
            now: the identity of the file that the path names now.
        """
        if self == now:
            return
        changes = []
        if not self.same_file(now) and not self._mounted_again(now) and not _may_renumber(now.device):
            changes.append(
                f"it was inode {self.inode} of device {self.device} and is inode {now.inode} of device "
                f"{now.device} now"
            )
        if self.nbytes != now.nbytes:
            changes.append(f"it had {self.nbytes} bytes when it was opened and has {now.nbytes} now")
        if None not in (self.modified_ns, now.modified_ns) and self.modified_ns != now.modified_ns:
            changes.append(
                f"it was written to at {_time(self.modified_ns)} then and at {_time(now.modified_ns)} now"
            )
        if changes:
            raise file_changed(path, "; ".join(changes))


class WatchedFile:
    """A file that is mapped: whether it was written to or cut off since, compared once in 0.1 s.

    A file that another one has replaced is mapped still, and so is one that was deleted.

    Args:
        path: its name.
        identity: of the file that was mapped.
    """

    def __init__(self, path: str, identity: FileIdentity) -> None:
        self._path, self._identity = path, identity
        self._check_at = 0.0  # when the next comparison is due

    def check(self) -> None:
        """FileChangedError where the file isn't as it was."""
        now = time.monotonic()
        if now < self._check_at:
            return
        with contextlib.suppress(FileNotFoundError):
            found = FileIdentity.of(self._path, timed=self._identity.modified_ns is not None)
            if self._identity.same_file(found):
                self._identity.check(self._path, found)
        self._check_at = now + CHECK_S  # not after an error: a loader reads the records again, one by one


Files = Mapping[str, FileIdentity]  # by path


def check_files(files: Files) -> None:
    """Raises FileChangedError for a file that was replaced or changed, FileNotFoundError for a file that is missing.

    Args:
        files: what `foreign_files` gave.

    >>> check_files({})
    """
    for path, identity in files.items():
        identity.check(path, FileIdentity.of(path))


def file_changed(path: str, what: str) -> FileChangedError:
    """The error for a file that isn't the file that a source began with.

    Args:
        path: the file's name.
        what: what has changed.
    """
    return FileChangedError(
        f"{path}: the file was replaced or written to while a source reads it: {what}. A run must read the same data "
        "from beginning to end: put the old file back and go on from a saved state, or make the source again "
        "and start a new run with the new file"
    )


def _time(nanoseconds: int | None) -> str:
    seconds, rest = divmod(nanoseconds or 0, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:09d} UTC"


def _may_renumber(device: int, mounted: str = "/proc/self/mountinfo") -> bool:
    """Whether the file system of a device may later give the same file another inode number."""
    mount = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError), open(mounted, encoding="utf-8") as mounts:
        for line in mounts:
            fields, _, more = line.partition(" - ")
            if fields.split()[2] == mount:
                return more.split()[0].partition(".")[0] in _RENUMBERING
    return False
