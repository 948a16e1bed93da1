"""Plan files: the blocks of a packing plan one behind the other, written from the front.

    head      MAGIC, 8 bytes the length of the JSON, the JSON of `PlanSettings`, spaces up to a multiple of 64 bytes
    blocks    the words of each block, as `_packing.block` describes them
    frames    the frame of each block once more, so that opening reads one place
    end       32 bytes sha256 of JSON and frames, 8 bytes the number of blocks, 16 bytes of zeros, MAGIC

All numbers are little-endian. While it is written the file lies in a folder PATH.partial. A process that was killed
leaves it there; the next one checks the digest of each block and goes on behind the last good one. Files of runs of
blocks lie beside it, where a cluster makes them.
"""

import json
import os
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

import numpy as np

from loaderkit._base.block_checksums import damaged
from loaderkit._base.canonical_json import canonical
from loaderkit._base.system.limits import above_standard
from loaderkit._base.system.waited_lock import locked_folder
from loaderkit._base.system.whole_file import naming
from loaderkit._order.packing.block import FRAME_WORDS, Frame, UInt32Array, body_words
from loaderkit.errors import DataFormatError
from loaderkit.sources.packed.pack_plan import ADVICE, PlanSettings, digest_of_plan

from .plan_jobs import remove_runs

MAGIC = b"LKPACK01"
_ALIGNMENT = 64
_FRAME_BYTES = 4 * FRAME_WORDS
_HEAD = struct.Struct("<8sQ")
_END = struct.Struct("<32sQ16x8s")
_NAME = "plan"  # of the file in the folder PATH.partial

# Gives the words of each block of a plan with these settings, from that number on.
BlocksFrom = Callable[[PlanSettings, int], Iterable[UInt32Array]]


def write_plan(
    path: str, known: Sequence[PlanSettings], blocks_from: BlocksFrom, done: Callable[[int], None]
) -> None:
    """Writes a plan file, from where an earlier process was killed if one was; nothing where there is a file.

    Args:
        path: absolute, of the file. Another process that writes it is waited for.
        known: the settings of a new plan, and others of which a begun one may be.
        blocks_from: makes the blocks.
        done: called with the number of blocks that were added, first with those found.
    """
    partial = f"{path}.partial"
    with locked_folder(partial):
        if os.path.exists(path):  # written by the process that was waited for
            return
        name = os.path.join(partial, _NAME)
        with above_standard():
            file = os.fdopen(os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b")
        with naming(path), file:  # closing the file writes, too
            settings, frames = _good_frames(name, file, known)
            done(len(frames))
            for words in blocks_from(settings, len(frames)):
                file.write(words.data)
                frames.append(words[:FRAME_WORDS].tobytes())
                done(1)
            joined = b"".join(frames)
            file.write(joined)
            file.write(_END.pack(settings.digest(joined), len(frames), MAGIC))
            file.flush()
            os.fsync(file.fileno())
            os.replace(name, path)
        remove_runs(partial)


def _good_frames(
    name: str, file: BinaryIO, known: Sequence[PlanSettings]
) -> tuple[PlanSettings, list[bytes]]:
    """The settings of the plan, and the frames of the blocks that are whole; what is behind them is cut off."""
    heads = {_encoded_head(settings): settings for settings in known}
    head = next(iter(heads))
    size = os.fstat(file.fileno()).st_size
    found = file.read(len(head))
    if found not in heads:  # new, or of other settings
        if not MAGIC.startswith(found[: len(MAGIC)]):
            raise FileExistsError(
                f"{name}: expected an unfinished plan, got another file; move it away or delete it"
            )
        file.seek(0)
        file.truncate()
        file.write(head)
        file.flush()  # a run may be killed before its first block, and hosts of a cluster make blocks before that
        return known[0], []
    settings = heads[found]
    frames: list[bytes] = []
    end = len(head)
    while len(frames) < settings.blocks and end + _FRAME_BYTES <= size:
        packed = file.read(_FRAME_BYTES)
        frame = Frame.unpack(packed)
        nbytes = 4 * body_words(frame.rows, frame.pieces, settings.rules.how)
        if not 4 <= nbytes <= size - end - _FRAME_BYTES:
            break
        if frame.sealed(file.read(nbytes)) != frame:
            break
        frames.append(packed)
        end += _FRAME_BYTES + nbytes
    file.seek(end)
    file.truncate()
    return settings, frames


def _encoded_head(settings: PlanSettings) -> bytes:
    document = canonical(settings.as_json()).encode()
    head = _HEAD.pack(MAGIC, len(document)) + document
    return head + b" " * (-len(head) % _ALIGNMENT)


def open_plan(path: str, known: Sequence[PlanSettings]) -> tuple[PlanSettings, UInt32Array, bytes]:
    """The settings, the words of all blocks, mapped and read-only, and their frames, which have each block's digest.

    Args:
        path: of a plan file. FileNotFoundError where there is none, DataFormatError where it is another file or was
            truncated, ChecksumError where its head or end was damaged.
        known: settings of which it must have some; ValueError naming what differs from the first.
    """
    size = os.path.getsize(path)
    with above_standard(), open(path, "rb") as file:
        magic, nbytes = _HEAD.unpack(file.read(_HEAD.size).ljust(_HEAD.size))
        if magic != MAGIC or nbytes > size:
            raise _no_plan(path, "another file")
        try:
            found = json.loads(file.read(nbytes))
        except ValueError:
            raise damaged(path, 0, _HEAD.size + nbytes, ADVICE) from None
        settings = next((each for each in known if each.algorithm == found.get("algorithm")), known[0])
        file.seek(max(0, size - _END.size))
        digest, blocks, magic = _END.unpack(file.read(_END.size).ljust(_END.size))
        begin = size - _END.size - _FRAME_BYTES * blocks
        head = len(_encoded_head(settings))
        if magic != MAGIC or begin < _HEAD.size + nbytes:
            raise _no_plan(path, f"{size} bytes without its end")
        file.seek(begin)
        frames = file.read(_FRAME_BYTES * blocks)
        if digest_of_plan(found, frames) != digest:
            place = (0, head) if found != settings.as_json() else (begin, size)
            raise damaged(path, place[0], place[1], ADVICE)
        _check_settings(path, found, settings.as_json())
        words = np.memmap(file, np.dtype("<u4"), mode="r", offset=head, shape=((begin - head) // 4,))
    return settings, words, frames


def _check_settings(path: str, found: dict[str, Any], expected: dict[str, Any]) -> None:
    differ = sorted(key for key in {*found, *expected} if found.get(key) != expected.get(key))
    if differ:
        shown = "; ".join(f"{key} is {found.get(key)} there and {expected.get(key)} here" for key in differ)
        raise ValueError(
            f"{path}: expected a plan of these arguments, got one of others: {shown}. Delete the file to plan again, "
            "or give another path"
        )


def _no_plan(path: str, got: str) -> DataFormatError:
    return DataFormatError(
        f"{path}: expected a file of lk.plan_packing, got {got}; {ADVICE}, or give another path"
    )
