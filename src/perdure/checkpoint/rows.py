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

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import ormsgpack

from perdure.checkpoint.slices import Span, cut, flat, read_index, unflat

__all__ = [
    "BLOCK",
    "INDEX",
    "ITEM",
    "LIST",
    "PARTS",
    "PATCHED",
    "SEGMENT",
    "VALUE",
    "CheckpointRow",
    "Form",
    "RecordRow",
    "REFERRING",
    "Row",
    "inner_spans",
    "kind_of",
    "renumbered",
    "renumbered_row",
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

PATCHED = 5
"""A SEGMENT some elements of which are told by the bytes of others, see `patches`."""
REFERRING = (INDEX, PARTS, PATCHED)
"""Kinds of rows that refer to others."""


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


def inner_spans(kind: int, data: bytes, part: Span | None = None) -> list[Span]:
    """What a row refers to; of `part` of it only, if that is given."""
    type, _ = split_kind(kind)
    if type == INDEX:
        spans = read_index(data)
        return spans if part is None else cut(spans, part.start, part.length)
    if type == PARTS:
        return [span for _, form in forms_in_parts(ormsgpack.unpackb(data)) for span in spans_of(form)]
    if type == PATCHED:
        items = ormsgpack.unpackb(data)
        if part is not None:
            items = items[part.start : part.start + part.length]
        return [Span(item[0], item[1], 1) for item in items if isinstance(item, list)]
    return []


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


# -- the same content under other ids ------------------------------------------------------------


def renumbered(form: Form, ids: Mapping[int, int]) -> Form:
    """The form when the rows have got new ids."""
    if isinstance(form, bytes):
        return form
    if isinstance(form, int):
        return ids[form]
    if form[0] == ITEM:
        return [ITEM, ids[form[1]], form[2]]
    return [LIST, *_moved(unflat(form[1:]), ids)]


def renumbered_row(kind: int, data: bytes, ids: Mapping[int, int]) -> bytes:
    """A row that refers to others when those have got new ids."""
    type, _ = split_kind(kind)
    if type == INDEX:
        return ormsgpack.packb(_moved(read_index(data), ids))
    content: list[Any] = ormsgpack.unpackb(data)
    if type == PATCHED:
        moved = [[ids[item[0]], *item[1:]] if isinstance(item, list) else item for item in content]
        return ormsgpack.packb(moved)
    moved = content[:1]
    for name, form in forms_in_parts(content):
        moved += (name, renumbered(form, ids))
    return ormsgpack.packb(moved)


def _moved(spans: list[Span], ids: Mapping[int, int]) -> list[int]:
    return flat([span._replace(row=ids[span.row]) for span in spans])
