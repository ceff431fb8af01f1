"""How values become rows and forms, each content stored once. Pure but for what it is handed.

`Known` remembers, for one stored checkpoint, where its values and those of its records lie.
`Placing` puts the values of a batch beside it: what is known is referred to, the rest becomes
new rows. Content is told by marks, that is by itself or by a fingerprint of its encoding, never
by identity alone: programs change messages in place and hand them back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import ormsgpack

from perdure.checkpoint.rows import (
    BLOCK,
    INDEX,
    ITEM,
    LIST,
    PARTS,
    SEGMENT,
    VALUE,
    Form,
    Row,
    kind_of,
)
from perdure.checkpoint.slices import FAN, Mark, Span, Spans, crowded, edit, flat, join
from perdure.checkpoint.wire import Wire

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
WHOLE = -1
"""Level of a span that is a row of its own, not an element of one."""

_RAW = frozenset({int, str, bytes, type(None)})
_SELF_MARKED = _RAW | {float, bool}

Trace: TypeAlias = Spans | tuple[Mark, Span]
"""What was stored last at some place: a list, or one value."""
Traces: TypeAlias = dict[str | None, Trace]
"""By key within the channel's dict; None for the channel's value itself."""


@dataclass(slots=True)
class Lineage:
    """What must hold for rows to be referred to: nothing was purged, nothing failed since."""

    purge: int | None = None
    """The thread's count of purges, None until its first batch is committed."""
    stale: bool = False
    """A batch that wrote some of the rows has failed."""


@dataclass(slots=True)
class Known:
    """Where the content of one checkpoint and its records lies."""

    forms: dict[str, Form] = field(default_factory=dict)
    """Channel -> form."""
    versions: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Traces] = field(default_factory=dict)
    addresses: dict[Mark, Span] = field(default_factory=dict)
    """Content that was new in this checkpoint or its records, and where it lies."""
    lineage: Lineage = field(default_factory=Lineage)


def plain_mark(value: Any) -> Mark | None:
    """What an immutable plain value is known by; exact, so that 1, 1.0 and True differ.

    None stands for itself, and for values that need a fingerprint.
    """
    kind = type(value)
    if kind in _RAW:
        return value
    if kind is float:
        return value if value % 1 else (value.hex(),)
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
        self.places: dict[str, Traces] = {}
        """What was placed, by channel and key."""
        self.used: dict[Mark, Span] = {}
        """Content that was placed, and where it lies."""

    def undo(self) -> None:
        """Forgets what was new: its rows will not be stored."""
        for mark in self._added:
            self._addresses.pop(mark, None)

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
            span = self._split(value, mark, channel) if split else self._add(VALUE, data)
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
        spans = self._fold(join(self._write(pieces, content)), content)
        self.places.setdefault(channel, {})[key] = Spans(content.marks, spans)
        return [LIST, *flat(spans)]

    def _write(self, pieces: list[Span | range], content: _Elements) -> list[Span]:
        new = [at for piece in pieces if isinstance(piece, range) for at in piece]
        row = self._add(*content.packed(new)).row if new else 0
        spans: list[Span] = []
        written = 0
        at = 0
        for piece in pieces:
            if isinstance(piece, Span):
                if piece.level == WHOLE:
                    piece = piece._replace(level=0)
                spans.append(piece)
                if piece.length == 1 and content.weights[at] >= INLINE:
                    self.used.setdefault(content.marks[at], piece)
                at += piece.length
                continue
            spans.append(Span(row, written, len(piece), 0, content.weight(piece)))
            for position in piece:
                if content.weights[position] >= INLINE:
                    place = Span(row, written + position - piece.start, 1, 0, content.weights[position])
                    self._note(content.marks[position], place)
            written += len(piece)
            at += len(piece)
        return spans

    def _fold(self, spans: list[Span], content: _Elements) -> list[Span]:
        while (at := crowded(spans)) is not None:
            group = spans[at : at + FAN]
            level = max(span.level for span in group) + 1
            size = sum(span.size for span in group)
            count = sum(span.length for span in group)
            if size <= _SHORT:
                start = sum(span.length for span in spans[:at])
                row = self._add(*content.packed(range(start, start + count)), level).row
            else:
                row = self._add(INDEX, ormsgpack.packb(flat(group)), level).row
            spans[at : at + FAN] = [Span(row, 0, count, level, size)]
        return spans


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

    def packed(self, positions: Sequence[int]) -> tuple[int, bytes]:
        """(type, bytes) of a row that holds these elements."""
        values = [self._values[at] for at in positions]
        if all(type(value) in _SELF_MARKED for value in values):
            return BLOCK, self._encode(values)
        items = [self._parts.get(at) or self._encode(self._values[at]) for at in positions]
        return SEGMENT, ormsgpack.packb(items)
