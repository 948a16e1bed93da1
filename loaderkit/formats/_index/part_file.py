"""The part file of a shard: what its scan found, kept until all shards of the set are scanned.

It is a file as layout.py describes it. A build that was killed finds the parts that it had finished, and takes those
that are whole and belong to the shard as it is now.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import asdict, dataclass
from loaderkit._codecs.scan import Members, ShardScan
from loaderkit._storage.range_reader import ObjectVersion
from loaderkit.errors import DataFormatError

from .layout import SectionFile, SectionShape, SectionWriter, smallest_unsigned
from .record_index import hash_of_key

# Raised where a scan gives another result for the same shard, so that older parts aren't taken.
PART_VERSION = 1


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """What an index holds beside where each record lies.

    members: where their values lie. keys: the records' keys. checksums: CRC-32C of each record. counts: nothing but the
    number of records of each shard.
    """

    members: bool = True
    keys: bool = False
    checksums: bool = False
    counts: bool = False


@dataclass(frozen=True, slots=True)
class PartIdentity:
    """Which shard, in which version, was scanned for what.

    kind, unit: of the format. name: the shard's, as it may be shown. version: as the storage said it.
    """

    kind: str
    unit: int
    name: str
    version: ObjectVersion
    options: ScanOptions

    def header(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "part": PART_VERSION,
            "kind": self.kind,
            "unit": self.unit,
            "name": self.name.encode("utf-8", "surrogateescape").hex(),
            "size": self.version.size,
            "tag": self.version.tag,
            **asdict(self.options),
        }

    def file_name(self) -> str:
        """The part's file name: the same in every run for the same shard and options.

        >>> PartIdentity("tar", 512, "a.tar", ObjectVersion(1024, ""), ScanOptions()).file_name()
        '4349047c02c4f8f3222972ee.part'
        """
        told = f"{self.kind} {self.unit} {self.options} {self.name}".encode("utf-8", "surrogateescape")
        return f"{hashlib.sha256(told).hexdigest()[:24]}.part"


def write_part(path: str, identity: PartIdentity, sample: bytes, scan: ShardScan) -> None:
    """Writes the part file of a shard, whole or not at all.

    Args:
        path: its name.
        identity: of the shard.
        sample: 16 bytes, as `check.sample_of` gives them.
        scan: what was found.
    """
    starts = np.ascontiguousarray(scan.starts, "<u8")
    header: dict[str, Any] = identity.header() | {
        "sample": sample.hex(),
        "records": len(starts) - 1,
        "fields": list(scan.fields),
        "starts_digest": hashlib.sha256(starts.tobytes()).hexdigest(),
        "greatest_start": int(starts[-1]),
    }
    arrays: dict[str, tuple[NDArray[Any], str]] = {"starts": (starts, smallest_unsigned(int(starts[-1])))}
    if identity.options.members and scan.members is not None:
        header |= _members_header(scan.members)
        arrays |= {
            "member_first": (scan.members.first, "<i8"),
            "member_block": (scan.members.block, smallest_unsigned(header["greatest_block"])),
            "member_size": (scan.members.size, smallest_unsigned(header["greatest_size"])),
            "member_field": (scan.members.field, "<u2"),
        }
    if scan.blocks is not None:
        blocks = scan.blocks
        header |= {"blocks": len(blocks.window), "windows": len(blocks.windows)}
        header["greatest_text"] = int(np.diff(blocks.texts).max(initial=0))
        arrays |= {
            "block_bit": (blocks.bits, "<i8"),
            "block_text": (blocks.texts, "<i8"),
            "block_window": (blocks.window, "<i8"),
            "window": (blocks.windows, "|u1"),
        }
    if identity.options.checksums and scan.checksums is not None:
        arrays["checksum"] = (scan.checksums, "<u4")
        header["checksums_digest"] = hashlib.sha256(scan.checksums.astype("<u4").tobytes()).hexdigest()
    if identity.options.keys and scan.keys is not None:
        texts = [key.encode("utf-8", "surrogateescape") for key in scan.keys]
        arrays |= {
            "key_end": (np.cumsum([len(text) for text in texts], dtype=np.int64), "<i8"),
            "key": (np.frombuffer(b"".join(texts), np.uint8), "|u1"),
            "key_hash": (np.array([hash_of_key(key) for key in scan.keys], np.uint64), "<u8"),
        }
    shapes = [SectionShape(name, dtype, array.shape) for name, (array, dtype) in arrays.items()]
    # A flush takes some milliseconds a shard; a part that a loss of power damaged is noticed and made again.
    with SectionWriter(path, header, shapes, flushes=False) as writer:
        for name, (array, _) in arrays.items():
            writer.append(name, array)


def _members_header(members: Members) -> dict[str, Any]:
    counts = np.diff(members.first)
    same = len(counts) > 0 and bool((counts == counts[0]).all())
    return {
        "members_each": int(counts[0]) if same else None,
        "member_count": len(members.block),
        "greatest_block": int(members.block.max(initial=0)),
        "greatest_size": int(members.size.max(initial=0)),
    }


def open_part(path: str, identity: PartIdentity) -> SectionFile | None:
    """The part file, None where there is none, it is damaged, or it is of another version of the shard."""
    try:
        part = SectionFile(path)
        if not identity.header().items() <= part.header.items():
            return None
        part.check()
    except (FileNotFoundError, DataFormatError):
        return None
    return part
