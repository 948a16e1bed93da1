"""Fetches ranges from what fsspec knows: memory, ftp, hf and any other scheme."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from loaderkit._base.system.optional_library import library

from .fetching import Fetched, FetchError, Refusal, without_secrets
from .range_reader import ObjectVersion, plain_tag

T = TypeVar("T")

# Keys of what fsspec says of an object, by which its contents are told apart, the surest first.
_TAGS = ["ETag", "etag", "e_tag", "sha256", "blob_id", "md5", "mtime", "created", "LastModified", "modified"]


class FsspecFetcher:
    """An `ObjectFetcher` for any scheme that fsspec has a file system for.

    fsspec's answers don't say of which version they are, so an object's version is asked once, with its first bytes.

    Args:
        options: the file system's own, as `fsspec.filesystem` takes them.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._versions: dict[str, ObjectVersion] = {}

    def fetch(self, name: str, begin: int, end: int) -> Fetched:
        """The bytes begin to end."""
        if name not in self._versions:
            self._versions[name] = self.version(name)
        version = self._versions[name]
        system, path = self._system(name)
        data: bytes = self._attempt(lambda: system.cat_file(path, start=begin, end=min(end, version.size)))
        return Fetched(data, version)

    def fetch_whole(self, name: str, max_bytes: int) -> Fetched:
        """All bytes of an object that has at most `max_bytes`."""
        return self.fetch(name, 0, max_bytes)

    def version(self, name: str) -> ObjectVersion:
        """Size and ETag, or time of the last change, as the file system says them."""
        system, path = self._system(name)
        return self._attempt(lambda: version_of(system.info(path)))

    def objects(self, pattern: str) -> list[tuple[str, ObjectVersion]]:
        """The files that match a pattern, by their whole names."""
        system, path = self._system(pattern)
        found = self._attempt(lambda: system.glob(path, detail=True))
        files = {name: info for name, info in found.items() if info["type"] == "file"}
        return [(system.unstrip_protocol(name), version_of(info)) for name, info in files.items()]

    def close(self) -> None:
        """Versions are asked again; fsspec keeps its connections itself."""
        self._versions.clear()

    def _system(self, name: str) -> tuple[Any, str]:
        return self._attempt(lambda: open_filesystem(name, self._options))

    def _attempt(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except ImportError:
            raise
        except FileNotFoundError:
            refusal = FetchError(Refusal.MISSING, "")
        except PermissionError as error:
            refusal = FetchError(Refusal.DENIED, without_secrets(str(error), self._options))
        except Exception as error:  # noqa: BLE001 - each library that fsspec calls has errors of its own
            again = (
                isinstance(error, OSError | TimeoutError)
                or type(error).__module__.partition(".")[0] == "aiohttp"
            )
            text = f"{type(error).__name__}: {without_secrets(str(error), self._options)}"
            refusal = FetchError(Refusal.AGAIN if again else Refusal.FINAL, text)
        raise refusal


def open_filesystem(name: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """The file system of a name, and the path in it; ImportError naming the extra where fsspec isn't installed.

    Args:
        name: with its scheme, or with several, as in "simplecache::ftp://host/a.tar".
        options: the file system's own.
    """
    needs = f"{name.partition('://')[0]}: reading its objects needs"
    own = {key: value for key, value in options.items() if key != "etags"}
    system, path = library("fsspec.core", needs, "remote").url_to_fs(name, **own)
    return system, path


def version_of(info: Mapping[str, Any]) -> ObjectVersion:
    """An object's version of what fsspec says of it.

    Args:
        info: of `info` or of a listing in detail; the keys differ from one file system to another.

    >>> version_of({"size": 5, "ETag": '"abc"'}), version_of({"size": 5})
    (ObjectVersion(size=5, tag='abc', weak=False), ObjectVersion(size=5, tag='', weak=False))
    """
    size = info.get("size")
    if size is None:
        raise FetchError(Refusal.FINAL, "no size of the object")
    for key in _TAGS:
        if (found := info.get(key)) is not None:
            return ObjectVersion(int(size), plain_tag(str(found)))
    return ObjectVersion(int(size), "")
