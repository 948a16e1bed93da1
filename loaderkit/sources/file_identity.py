"""Which file a path names, so that another file in its place is noticed when it is opened again.

A source opens its files again and again: in each worker, in the successor of one that died, after a reader was
closed. All of these openings have to find the file that the run began with. What is compared belongs to one machine
(device and inode numbers, times), so it travels to the source's own workers and to no other place: neither a pickle
that a user keeps nor a saved state holds it.
"""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from loaderkit.errors import FileChangedError

# These number the same file anew once the kernel has forgotten it.
_RENUMBERING = ("fuse", "fuseblk", "9p", "cifs", "smb3", "vboxsf", "vfat", "msdos", "exfat")


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """A file as the system knows it.

    Args:
        device, inode: which file of this machine it is.
        nbytes: its length.
        modified_ns: when it was last written to, in nanoseconds; None where that isn't compared.

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
            timed: whether the time of its last change counts.
        """
        status = os.stat(file)
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns if timed else None)

    def same_file(self, now: "FileIdentity") -> bool:
        """Whether it is the same file, whatever was written to it."""
        return (self.device, self.inode) == (now.device, now.inode)

    def _mounted_again(self, now: "FileIdentity") -> bool:
        # Without a disk of this machine, as NFS is, each mount has another device number: an automounter takes a file
        # system away that isn't used for minutes, and mounts it when it is.
        diskless = os.major(self.device) == os.major(now.device) == 0
        return diskless and self.inode == now.inode and None not in (self.modified_ns, now.modified_ns)

    def check(self, path: str, now: "FileIdentity") -> None:
        """Raises FileChangedError where `now` isn't the file that this is.

        Args:
            path: the file's name.
            now: what it names now.
        """
        if self == now:
            return
        changes = []
        if not self.same_file(now) and not self._mounted_again(now) and not _numbers_anew(now.device):
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


Files = Mapping[str, FileIdentity]  # by path


def check_files(files: Files) -> None:
    """Raises FileChangedError for a file that isn't the one that it was, FileNotFoundError for one that is gone.

    Args:
        files: as `foreign_files` gave them.

    >>> check_files({})
    """
    for path, identity in files.items():
        identity.check(path, FileIdentity.of(path))


def file_changed(path: str, what: str) -> FileChangedError:
    """The error for a file that isn't the one that a source began with.

    Args:
        path: the file's name.
        what: what it was, and what it is now.
    """
    return FileChangedError(
        f"{path}: the file was replaced or written to while a source reads it: {what}. A run has to read the same "
        "data from beginning to end: put the old file back and go on from a saved state, or make the source again "
        "and start a new run with the new file"
    )


def _time(nanoseconds: int | None) -> str:
    seconds, rest = divmod(nanoseconds or 0, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:09d} UTC"


def _numbers_anew(device: int, mounted: str = "/proc/self/mountinfo") -> bool:
    """Whether the file system of a device may give the same file another inode number later."""
    mount = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError), open(mounted, encoding="utf-8") as mounts:
        for line in mounts:
            fields, _, more = line.partition(" - ")
            if fields.split()[2] == mount:
                return more.split()[0].partition(".")[0] in _RENUMBERING
    return False
