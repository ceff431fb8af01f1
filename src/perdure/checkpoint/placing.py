"""How values become rows and forms, each content stored once. Pure but for what it is handed.

`Known` remembers, for one stored checkpoint, where its values and those of its records lie.
`Placing` puts the values of a batch beside it: what is known is referred to, the rest becomes
new rows. Content is told by marks, that is by itself or by a fingerprint of its encoding, never
by identity alone: programs change messages in place and hand them back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, TypeAlias

import ormsgpack

from perdure.checkpoint.patches import LEAST, Base, find_patch
from perdure.checkpoint.rows import (
    BLOCK,
    INDEX,
    ITEM,
    LIST,
    PARTS,
    PATCHED,
    SEGMENT,
    VALUE,
    Form,
    Row,
    kind_of,
)
from perdure.checkpoint.slices import FAN, Mark, Span, Spans, crowded, edit, flat, join
from perdure.checkpoint.wire import Wire
from perdure.slotted import field, slotted

__all__ = ["Known", "Lineage", "Placing", "Trace", "plain_mark"]

INLINE = 32
"""Bytes up to which a value lies in the checkpoint itself: about what referring to it costs."""
_PART_INLINE = 256
_SPLIT = 512
"""Bytes from which on a dict is stored by its keys, so that its lists can grow."""
_MANY = 64
"""Keys up to which a dict is stored by them."""
_SHORT = 2048
"""Bytes up to which neighbouring spans are folded by writing their elements again."""
_BASES = 8
_LONGEST_BASE = 1 << 16
WHOLE = -1
"""Level of a span that is a row of its own, not an element of one."""

_DOUBLE = Struct(">d").pack
_RAW = frozenset({int, str, bytes, type(None)})
_SELF_MARKED = _RAW | {float, bool}

Trace: TypeAlias = Spans | tuple[Mark, Span]
"""What was stored last at some place: a list, or one value."""
Traces: TypeAlias = dict[str | None, Trace]
"""By key within the channel's dict; None for the channel's value itself."""


@slotted
class Lineage:
    """What must hold for rows to be referred to: nothing was removed, nothing failed since."""

    purge: int | None = None
    """The thread's count of purges, None until its first batch is committed."""
    stale: bool = False
    """A batch that wrote some of the rows has failed."""


@slotted
class Known:
    """Where the content of one checkpoint and its records lies."""

    forms: dict[str, Form] = field(default_factory=dict)
    """Channel -> form."""
    versions: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Traces] = field(default_factory=dict)
    addresses: dict[Mark, Span] = field(default_factory=dict)
    """Content that was new in this checkpoint or its records, and where it lies."""
    lineage: Lineage = field(default_factory=Lineage)
    recent: list[Base] = field(default_factory=list)
    """Elements that were stored last, with their bytes."""

    def copy(self) -> Known:
        """The same knowledge; what is added to one the other does not learn."""
        lineage = Lineage(self.lineage.purge, self.lineage.stale)
        return Known(self.forms, self.versions, self.places, dict(self.addresses), lineage, self.recent)


def plain_mark(value: Any) -> Mark | None:
    """What an immutable plain value is known by: exact, so that 1, 1.0 and True differ, and equal
    to itself, also for NaN.

    None stands for itself, and for values that need a fingerprint.
    """
    kind = type(value)
    if kind in _RAW:
        return value
    if kind is float:
        return value if value % 1 and value == value else (_DOUBLE(value),)
    return (value,) if kind is bool else None


class Placing:
    """Finds or makes the rows for the values of one checkpoint or record.

    Args:
        beside: What is known of the checkpoint that the values stand beside or follow; content
            that is new is added to it, and taken back by `undo`.
        rows: New rows are appended here.
        take: Gives the id of a new row.
    """

    def __init__(self, wire: Wire, beside: Known, rows: list[Row], take: Callable[[], int]) -> None:
        self._wire = wire
        self._encode = wire.encode
        self._beside = beside
        self._addresses = beside.addresses
        self._rows = rows
        self._take = take
        self._added: list[Mark] = []
        self._recent = self._recent_before = beside.recent
        self.places: dict[str, Traces] = {}
        """What was placed, by channel and key."""
        self.used: dict[Mark, Span] = {}
        """Content that was placed, and where it lies."""
        self.recent: list[Base] = []
        """Elements that were written, with their bytes."""

    def undo(self) -> None:
        """Forgets what was new: its rows will not be stored."""
        for mark in self._added:
            self._addresses.pop(mark, None)
        self._beside.recent = self._recent_before

    def share(self) -> None:
        """Lets what is placed beside the same checkpoint next be told by what was written here."""
        self._beside.recent = self._recent

    def place(self, value: Any, channel: str, key: str | None = None) -> Form:
        """The form of a value. Raises what encoding raises."""
        kind = type(value)
        if kind is list:
            return self._place_list(value, channel, key)
        data = self._encode(value)
        if len(data) <= (INLINE if key is None else _PART_INLINE):
            return data
        mark = value if kind is str or kind is bytes else self._wire.mark_stored(value, data)
        span = self._find(mark, channel, key)
        if span is None:
            split = kind is dict and key is None and len(data) >= _SPLIT and _has_names(value)
            span = self._split(value, mark, channel) if split else self._add_value(data)
        self._note(mark, span)
        self.places.setdefault(channel, {})[key] = (mark, span)
        return span.row if span.level == WHOLE else [ITEM, span.row, span.start]

    # -- one value

    def _find(self, mark: Mark, channel: str, key: str | None) -> Span | None:
        trace = self._last(channel, key)
        if type(trace) is tuple and trace[0] == mark:
            return trace[1]
        return self._addresses.get(mark)

    def _last(self, channel: str, key: str | None) -> Trace | None:
        places = self._beside.places
        trace = places.get(channel, {}).get(key)
        if trace is None and key is not None:
            # An input names the channels that its parts go to.
            trace = places.get(key, {}).get(None)
        return trace

    def _add(self, type: int, data: bytes, level: int = 0) -> Span:
        row = self._take()
        self._rows.append(Row(row, kind_of(type, level), data))
        return Span(row, 0, 1, WHOLE, len(data))

    def _add_value(self, data: bytes) -> Span:
        span = self._add(VALUE, data)
        self._see([Base(span.row, 0, data)])
        return span

    def _see(self, bases: list[Base]) -> None:
        last = [base for base in bases[-_BASES:] if LEAST <= len(base.data) <= _LONGEST_BASE]
        if last:
            self.recent = [*reversed(last), *self.recent][:_BASES]
            self._recent = [*reversed(last), *self._recent][:_BASES]

    def _note(self, mark: Mark, span: Span) -> None:
        self.used[mark] = span
        if mark not in self._addresses:
            self._addresses[mark] = span
            self._added.append(mark)

    def _split(self, value: dict[str, Any], mark: Mark, channel: str) -> Span:
        parts: list[Any] = [mark[0]]
        for name, part in value.items():
            parts += (name, self.place(part, channel, name))
        return self._add(PARTS, ormsgpack.packb(parts))

    # -- lists

    def _place_list(self, values: list[Any], channel: str, key: str | None) -> Form:
        if len(values) <= FAN:
            data = self._encode(values)
            if len(data) <= INLINE:
                return data
        content = _Elements(self._wire, values)
        last = self._last(channel, key)
        old = last if type(last) is Spans else Spans()
        pieces = edit(content.marks, content.weights, old, self._addresses)
        spans = self._write(pieces, content)
        self.places.setdefault(channel, {})[key] = Spans(content.marks, spans)
        return [LIST, *flat(spans)]

    def _write(self, pieces: list[Span | range], content: _Elements) -> list[Span]:
        """Writes what is new, and folds what has become too much."""
        first = len(self._rows)
        new = [at for piece in pieces if isinstance(piece, range) for at in piece]
        bases: list[Base] = []
        row = self._add_elements(new, content, bases) if new else -1
        folded = _Folded(join(self._spans(pieces, row, content)))
        self._fold(folded, content)
        # What was written again in a longer row at once needs no row of its own.
        needed = folded.indexed | {span.row for span in folded.spans}
        self._rows[first:] = [made for made in self._rows[first:] if made.id in needed]
        if row in needed:
            self._see(bases)
        for offset, at in enumerate(new):
            if content.weights[at] >= INLINE:
                place = (row, offset) if row in needed else folded.place(at, needed)
                self._note(content.marks[at], Span(*place, 1, 0, content.weights[at]))
        return folded.spans

    def _spans(self, pieces: list[Span | range], row: int, content: _Elements) -> list[Span]:
        spans: list[Span] = []
        written = at = 0
        for piece in pieces:
            if isinstance(piece, range):
                spans.append(Span(row, written, len(piece), 0, content.weight(piece)))
                written += len(piece)
                at += len(piece)
                continue
            if piece.length == 1 and content.weights[at] >= INLINE:
                self.used.setdefault(content.marks[at], piece)
            spans.append(piece._replace(level=0) if piece.level == WHOLE else piece)
            at += piece.length
        return spans

    def _add_elements(self, positions: list[int], content: _Elements, bases: list[Base]) -> int:
        type, items = content.items(positions)
        if type == BLOCK:
            return self._add(BLOCK, self._encode(items)).row
        patches = [find_patch(data, self._recent) if len(data) >= LEAST else None for data in items]
        if any(patches):
            mixed = [patch or data for patch, data in zip(patches, items, strict=True)]
            row = self._add(PATCHED, ormsgpack.packb(mixed)).row
        else:
            row = self._add(SEGMENT, ormsgpack.packb(items)).row
        bases += (Base(row, at, data) for at, data in enumerate(items) if patches[at] is None)
        return row

    def _fold(self, folded: _Folded, content: _Elements) -> None:
        spans = folded.spans
        while (at := crowded(spans)) is not None:
            group = spans[at : at + FAN]
            level = max(span.level for span in group) + 1
            size = sum(span.size for span in group)
            count = sum(span.length for span in group)
            if size <= _SHORT:
                start = sum(span.length for span in spans[:at])
                positions = range(start, start + count)
                type, items = content.items(positions)
                data = self._encode(items) if type == BLOCK else ormsgpack.packb(items)
                row = self._add(type, data, level).row
                folded.rewritten.append((positions, row))
            else:
                row = self._add(INDEX, ormsgpack.packb(flat(group)), level).row
                folded.indexed.update(span.row for span in group)
            spans[at : at + FAN] = [Span(row, 0, count, level, size)]


class _Folded:
    """The spans of a list while it is written."""

    __slots__ = ("indexed", "rewritten", "spans")

    def __init__(self, spans: list[Span]) -> None:
        self.spans = spans
        self.indexed: set[int] = set()
        """Rows that an index names."""
        self.rewritten: list[tuple[range, int]] = []
        """Positions in the list whose elements were written again, and in which row."""

    def place(self, at: int, rows: set[int]) -> tuple[int, int]:
        """The row among these, and the place in it, of an element that was written again."""
        return next((row, at - where.start) for where, row in self.rewritten if at in where and row in rows)


def _has_names(value: dict[Any, Any]) -> bool:
    return len(value) <= _MANY and all(type(name) is str and name.isascii() for name in value)


class _Elements:
    """The elements of a list with what they are known by."""

    __slots__ = ("_encode", "_parts", "_values", "marks", "weights")

    def __init__(self, wire: Wire, values: list[Any]) -> None:
        self._encode = wire.encode
        self._values = values
        self._parts: dict[int, bytes] = {}
        self.marks: list[Mark] = []
        self.weights: list[int] = []
        """About how many bytes each takes."""
        try:
            for at, value in enumerate(values):
                self._look_at(wire, at, value)
        except Exception:
            wire.encode(values)  # says where in the whole list the trouble lies
            raise

    def _look_at(self, wire: Wire, at: int, value: Any) -> None:
        kind = type(value)
        if kind in _SELF_MARKED:
            self.marks.append(plain_mark(value))
            self.weights.append(len(value) if kind is str or kind is bytes else 8)
            return
        mark, data = wire.mark(value)
        if data is not None:
            self._parts[at] = data
        self.marks.append(mark)
        self.weights.append(INLINE if data is None else len(data))

    def weight(self, positions: range) -> int:
        return sum(self.weights[positions.start : positions.stop])

    def items(self, positions: Sequence[int]) -> tuple[int, list[Any]]:
        """(type of row, elements to put in it): as they are for a BLOCK, else each encoded."""
        values = [self._values[at] for at in positions]
        if all(type(value) in _SELF_MARKED for value in values):
            return BLOCK, values
        return SEGMENT, [self._parts.get(at) or self._encode(self._values[at]) for at in positions]
