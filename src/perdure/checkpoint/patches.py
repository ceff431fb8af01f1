"""Elements told by the bytes of others that are almost the same. Pure.

A message is stored as a task wrote it, and a moment later with the id that the channel gave it.
The second time only the difference is kept: some bytes, a stretch of the first one's, some bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = ["LEAST", "Base", "find_patch", "patched"]

LEAST = 200
"""Bytes of an element from which on looking for a difference is worth while."""
_ANCHOR = 24
_GAIN = 4
"""A patch may take one part in this many of the element."""


class Base(NamedTuple):
    """An element whose bytes are stored."""

    row: int
    position: int
    data: bytes


def find_patch(data: bytes, bases: Iterable[Base]) -> list[Any] | None:
    """`[row, position, head, start, stop, tail]`: the element is head + base[start:stop] + tail."""
    for base in bases:
        stretch = _common_stretch(data, base.data)
        if stretch is not None:
            start, stop, shift = stretch
            if (len(data) - (stop - start)) * _GAIN <= len(data):
                head, tail = data[:start], data[stop:]
                return [base.row, base.position, head, start + shift, stop + shift, tail]
    return None


def patched(patch: list[Any], base: bytes) -> bytes:
    """The bytes of an element that is told by another's."""
    _, _, head, start, stop, tail = patch
    return bytes(head + base[start:stop] + tail)


def _common_stretch(new: bytes, old: bytes) -> tuple[int, int, int] | None:
    """A long stretch of `new` that `old` has too: (start, stop, shift of its place in `old`)."""
    for part in (2, 1, 3):
        anchor = len(new) * part // 4
        found = old.find(new[anchor : anchor + _ANCHOR])
        if found >= 0:
            shift = found - anchor
            before = _common_suffix(new[:anchor], old[:found])
            after = _common_prefix(new[anchor:], old[found:])
            return anchor - before, anchor + after, shift
    return None


def _common_prefix(left: bytes, right: bytes) -> int:
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix(left: bytes, right: bytes) -> int:
    return _common_prefix(left[::-1], right[::-1])
