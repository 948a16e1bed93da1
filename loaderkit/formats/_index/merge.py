"""Joins the part files of all shards to one index, with the memory of the largest part."""

import hashlib
import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.canonical_json import canonical
from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit.errors import DataFormatError

from .gzip_points import WINDOW_BYTES
from .key_order import KeyOrder
from .layout import SectionFile, SectionShape, SectionWriter, smallest_unsigned
from .record_index import PACKED

CHUNK_BYTES = 1 << 20  # bytes of records in a chunk: a read of a server's 20 ms round trip at 50 MB/s
MOST_FIELDS = 1 << 16  # a field's number has 16 bits


@dataclass(slots=True)
class Totals:
    """What the parts' headers say in all."""

    kind: str = ""
    unit: int = 1
    records: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    samples: list[bytes] = field(default_factory=list)
    names: list[bytes] = field(default_factory=list)
    tags: list[bytes] = field(default_factory=list)
    fields: dict[str, int] = field(default_factory=dict)
    members: int = 0
    members_each: set[int | None] = field(default_factory=set)
    texts: int = 0  # bytes of the text of shards of which some are compressed
    blocks: list[int | None] = field(default_factory=list)  # of each shard, None of one that isn't compressed
    windows: int = 0
    greatest: dict[str, int] = field(default_factory=dict)
    key_bytes: int = 0
    sections: set[str] | None = None
    identity: Any = None  # a hash that the shards are put into one by one
    checksums: Any = None  # a hash of the checksums of all records; None where a shard has none


def merge_parts(parts: Sequence[str], destination: str, *, folder: str | None = None) -> None:
    """Writes the index of a set of shards, whole or not at all.

    Args:
        parts: the part files of the shards, in order; one at least.
        destination: the index's name.
        folder: for what is written until the index is whole; without one, the destination's.
    """
    folder = folder or os.path.dirname(destination)
    partial = os.path.join(folder, f"merged-{os.getpid()}-{os.urandom(4).hex()}.partial")
    totals = _read_headers(parts)
    sections = _sections(totals)
    with ExitStack() as stack:
        writer = stack.enter_context(SectionWriter(destination, header_of(totals), sections, partial))
        write_shards(writer, totals)
        keys = None
        if "key" in {section.name for section in sections}:
            keys = stack.enter_context(KeyOrder(folder, sum(totals.records)))
        _write_records(writer, parts, totals, keys)
        if keys is not None:
            for hashes, records in keys.ascending():
                writer.append("key_hash", hashes)
                writer.append("key_record", records)


def _read_headers(parts: Sequence[str]) -> Totals:
    totals = Totals(identity=hashlib.sha256(), checksums=hashlib.sha256())
    for path in parts:
        part = SectionFile(path, mapped=False)
        header = part.header
        if not totals.kind:
            totals.kind, totals.unit = header["kind"], header["unit"]
            totals.identity.update(canonical([totals.kind, totals.unit]).encode())
        totals.records.append(header["records"])
        totals.sizes.append(header["size"])
        totals.samples.append(bytes.fromhex(header["sample"]))
        totals.names.append(bytes.fromhex(header["name"]))
        totals.tags.append(header["tag"].encode())
        totals.identity.update(_shard_identity(header).encode())
        if "checksums_digest" not in header:
            totals.checksums = None
        elif totals.checksums is not None:
            totals.checksums.update(bytes.fromhex(header["checksums_digest"]))
        for name in header["fields"]:
            totals.fields.setdefault(name, len(totals.fields))
        if len(totals.fields) > MOST_FIELDS:
            shown = os.fsdecode(totals.names[-1])
            raise DataFormatError(
                f"{shown}: expected at most {MOST_FIELDS} different fields in a set, got more; are the keys of its "
                "records part of the fields? An index of spans only (`loaderkit index --spans-only`) has no limit"
            )
        for name, value in header.items():
            if name.startswith("greatest_"):
                totals.greatest[name] = max(totals.greatest.get(name, 0), value)
        names = {shape.name for shape in part.shapes}
        totals.sections = names if totals.sections is None else totals.sections & names
        totals.members += header.get("member_count", 0)
        if header["records"]:
            totals.members_each.add(header.get("members_each"))
        totals.texts += header["greatest_start"] if "blocks" in header else header["size"]
        totals.blocks.append(header.get("blocks"))
        totals.windows += header.get("windows", 0)
        totals.key_bytes += sum(shape.nbytes for shape in part.shapes if shape.name == "key")
    return totals


def _shard_identity(header: dict[str, Any]) -> str:
    """What is the same for a copy of a shard in another place."""
    base_name = os.fsdecode(bytes.fromhex(header["name"]).rstrip(b"/").rpartition(b"/")[2])
    return canonical(
        [base_name, header["size"], header["sample"], header["records"], header["starts_digest"]]
    )


def header_of(totals: Totals) -> dict[str, Any]:
    packed = _is_packed(totals)
    records, nbytes = sum(totals.records), totals.texts if packed else sum(totals.sizes)
    each = next(iter(totals.members_each)) if len(totals.members_each) == 1 else None
    exact: dict[str, Any] = {}
    if totals.checksums is not None:
        exact["checksums_digest"] = f"sha256:{totals.checksums.hexdigest()[:32]}"
    if packed:
        exact["greatest_text"] = totals.greatest["greatest_text"]
    return exact | {
        "kind": totals.kind + (PACKED if packed else ""),
        "unit": totals.unit,
        "records": records,
        "shards": len(totals.records),
        "bytes": nbytes,
        "chunk_records": max(1, CHUNK_BYTES * records // max(nbytes, 1)),
        "fields": list(totals.fields),
        "members_each": each if "member_block" in (totals.sections or ()) else None,
        "counts": False,
        "data_digest": f"sha256:{totals.identity.hexdigest()[:32]}",
    }


def shard_arrays(totals: Totals) -> dict[str, NDArray[Any]]:
    """The sections that each index has."""
    arrays: dict[str, NDArray[Any]] = {
        "shard_end": np.cumsum(totals.records, dtype=np.int64),
        "shard_size": np.array(totals.sizes, np.int64),
        "shard_sample": np.frombuffer(b"".join(totals.samples), np.uint8).reshape(-1, 16),
    }
    for name, texts in (("shard_name", totals.names), ("shard_tag", totals.tags)):
        arrays[f"{name}_end"] = np.cumsum([len(text) for text in texts], dtype=np.int64)
        arrays[name] = np.frombuffer(b"".join(texts), np.uint8)
    return arrays


def shard_sections(totals: Totals) -> list[SectionShape]:
    """Their shapes."""
    return [SectionShape(name, each.dtype.str, each.shape) for name, each in shard_arrays(totals).items()]


def _sections(totals: Totals) -> list[SectionShape]:
    shards, records, present = len(totals.records), sum(totals.records), totals.sections or set()
    starts = SectionShape("starts", smallest_unsigned(totals.greatest["greatest_start"]), (records + shards,))
    sections = [*shard_sections(totals), starts]
    if "member_block" in present:
        if len(totals.members_each) != 1 or None in totals.members_each:
            sections.append(SectionShape("member_first", "<i8", (records + 1,)))
        sections += [
            SectionShape(
                f"member_{name}", smallest_unsigned(totals.greatest[f"greatest_{name}"]), (totals.members,)
            )
            for name in ("block", "size")
        ]
        sections.append(SectionShape("member_field", "<u2", (totals.members,)))
    if _is_packed(totals):
        blocks = sum(count or 0 for count in totals.blocks)
        sections += [
            SectionShape("block_end", "<i8", (shards,)),
            SectionShape("block_bit", "<i8", (blocks + shards,)),
            SectionShape("block_text", "<i8", (blocks + shards,)),
            SectionShape("block_window", "<i8", (blocks,)),
            SectionShape("window", "|u1", (totals.windows, WINDOW_BYTES)),
        ]
    if "checksum" in present:
        sections.append(SectionShape("checksum", "<u4", (records,)))
    if "key" in present:
        sections += [
            SectionShape("key_end", "<i8", (records,)),
            SectionShape("key", "|u1", (totals.key_bytes,)),
            SectionShape("key_hash", "<u8", (records,)),
            SectionShape("key_record", "<i8", (records,)),
        ]
    return sections


def _is_packed(totals: Totals) -> bool:
    return any(count is not None for count in totals.blocks)


def write_shards(writer: SectionWriter, totals: Totals) -> None:
    for name, each in shard_arrays(totals).items():
        writer.append(name, each)


def _write_records(
    writer: SectionWriter, parts: Sequence[str], totals: Totals, keys: KeyOrder | None
) -> None:
    names = writer.section_names
    first_record = first_member = key_end = blocks = windows = 0
    if "member_first" in names:
        writer.append("member_first", np.zeros(1, np.int64))
    for path, records in zip(parts, totals.records):
        part = SectionFile(path)
        sections: dict[str, NDArray[Any]] = part.sections
        for name in names & {"starts", "member_block", "member_size", "checksum", "key"}:
            writer.append(name, sections[name])
        if "member_first" in names:
            writer.append("member_first", sections["member_first"][1:] + first_member)
        if "member_field" in names:
            renumbered = np.array([totals.fields[name] for name in part.header["fields"]] or [0], np.uint16)
            writer.append("member_field", renumbered[sections["member_field"]])
            first_member += len(sections["member_field"])
        if "block_end" in names:
            whole = np.zeros(1, np.int64)  # a shard that isn't compressed has no blocks
            writer.append("block_bit", sections.get("block_bit", whole))
            writer.append("block_text", sections.get("block_text", whole))
            if "blocks" in part.header:
                rows = sections["block_window"]
                writer.append("block_window", np.where(rows < 0, -1, rows + windows))
                writer.append("window", sections["window"])
                blocks, windows = blocks + len(rows), windows + len(sections["window"])
            writer.append("block_end", np.array([blocks]))
        if keys is not None:
            writer.append("key_end", sections["key_end"] + key_end)
            keys.add(sections["key_hash"], first_record=first_record)
            key_end += len(sections["key"])
        first_record += records
