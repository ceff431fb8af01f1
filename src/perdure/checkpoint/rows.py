"""What lies in a store: rows of values, and the checkpoints and records that refer to them. Pure.

A value is kept in one of four forms:

| form | meaning |
|---|---|
| bytes | the encoded value itself, when it is short |
| int | the value in that row |
| `[ITEM, row, position]` | one element of a row of elements |
| `[LIST, row, start, count, ...]` | a list, as spans (see `slices`) |

A row is immutable. Its kind says how its bytes are read, and on which level of a list it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from perdure.checkpoint.slices import Span, unflat

__all__ = [
    "BLOCK",
    "INDEX",
    "ITEM",
    "LIST",
    "PARTS",
    "SEGMENT",
    "VALUE",
    "CheckpointRow",
    "Form",
    "RecordRow",
    "Row",
    "kind_of",
    "spans_of",
    "split_kind",
]

Form: TypeAlias = bytes | int | list[int]

LIST, ITEM = 0, 1

VALUE = 0
"""One encoded value."""
SEGMENT = 1
"""Elements of a list, each encoded for itself."""
INDEX = 2
"""Spans of other rows."""
BLOCK = 3
"""Plain elements of a list, encoded together."""
PARTS = 4
"""A dict with a form for each value: fingerprint, key, form, key, form ..."""


class Row(NamedTuple):
    """An immutable piece of content."""

    id: int
    kind: int
    data: bytes


class CheckpointRow(NamedTuple):
    """A checkpoint, its values referred to."""

    id: str
    parent: str | None
    seq: int
    metadata: bytes
    body: bytes


class RecordRow(NamedTuple):
    """What one call of `put_writes` or one Record stored."""

    checkpoint_id: str
    task_id: str
    path: str
    body: bytes
    info: bytes | None


def kind_of(type: int, level: int = 0) -> int:
    return level << 3 | type


def split_kind(kind: int) -> tuple[int, int]:
    """(type, level)."""
    return kind & 7, kind >> 3


def spans_of(form: Form) -> list[Span]:
    """The elements of rows that a form refers to."""
    if isinstance(form, bytes):
        return []
    if isinstance(form, int):
        return [Span(form, 0, 1)]
    if form[0] == ITEM:
        return [Span(form[1], form[2], 1)]
    return unflat(form[1:])


def forms_in_parts(parts: list[Any]) -> Iterator[tuple[str, Form]]:
    """(key, form) of what a PARTS row holds."""
    for at in range(1, len(parts), 2):
        yield parts[at], parts[at + 1]
