"""Ids: time-ordered ones for checkpoints, hashes for everything that must be the same on replay."""

from __future__ import annotations

import os

import xxhash

__all__ = ["checkpoint_id_time", "hash128", "new_checkpoint_id", "task_uuid"]

_EPOCH = 0x01B21DD213814000  # ticks of 100 ns from the Gregorian reform to 1970
_STEP_BITS = 0x3FFF


def new_checkpoint_id(
    clock_ns: int, parent: str | None, newest: str | None, step: int, *, node: int | None = None
) -> str:
    """An id (uuid version 6, as text) that sorts after `parent` and after `newest`.

    The time in it is the clock's, or one tick past the later of the two ids where the clock is
    behind them, so that a clock set back does no harm. The step number can be read from the
    fourth group.

    Args:
        clock_ns: Nanoseconds since 1970.
        parent: Id of the checkpoint that the new one follows.
        newest: Greatest id known in the thread.
        step: Number of the superstep; negative ones wrap around.
        node: The last 48 bits, random if not given.
    """
    time = clock_ns // 100 + _EPOCH
    for known in (parent, newest):
        if known is not None:
            time = max(time, checkpoint_id_time(known) + 1)
    if node is None:
        node = int.from_bytes(os.urandom(6), "big")
    number = (
        (time >> 12 & 0xFFFFFFFFFFFF) << 80
        | 6 << 76
        | (time & 0xFFF) << 64
        | 2 << 62
        | (step & _STEP_BITS) << 48
        | node
    )
    return task_uuid(f"{number:032x}")


def checkpoint_id_time(id: str) -> int:
    """Time of a time-ordered id in ticks of 100 ns since 1582; 0 for an id of another kind."""
    if len(id) != 36 or id[14] != "6":
        return 0
    try:
        return int(id[:8] + id[9:13] + id[15:18], 16)
    except ValueError:
        return 0


def hash128(*parts: bytes) -> str:
    """Hash (xxh3, 128 bits) of the parts as if they were one, as 32 hex digits."""
    return xxhash.xxh3_128_hexdigest(b"".join(parts))


def task_uuid(hex: str) -> str:
    """32 hex digits in the groups of a uuid."""
    return f"{hex[:8]}-{hex[8:12]}-{hex[12:16]}-{hex[16:20]}-{hex[20:]}"
