"""From rows back to values. Pure but for the `fetch` it is handed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, MutableMapping
from typing import Any

import ormsgpack

from perdure.checkpoint.patches import patched
from perdure.checkpoint.placing import INLINE, WHOLE, Known, Trace, plain_mark
from perdure.checkpoint.rows import (
    BLOCK,
    INDEX,
    ITEM,
    PARTS,
    PATCHED,
    SEGMENT,
    VALUE,
    Form,
    forms_in_parts,
    inner_spans,
    spans_of,
    split_kind,
)
from perdure.checkpoint.slices import Mark, Span, Spans, cut, read_index, unflat
from perdure.checkpoint.wire import Wire
from perdure.errors import StoreFormatError

__all__ = ["Contents", "Fetch", "Shelf", "referred"]

Contents = MutableMapping[int, tuple[int, bytes]]
"""Row -> (kind, bytes)."""
Fetch = Callable[[Collection[int]], Iterable[tuple[int, int, bytes]]]
"""Gives (row, kind, bytes) of those rows that are there."""
_LARGE = 1 << 20
_TAIL = 32
"""Elements at the end of a stored list that the next writes are likely to name."""


class Shelf:
    """The rows at hand, and the values made from them.

    What was unpacked once is kept for the next value: neighbouring checkpoints share most of their
    rows. Values themselves are made anew each time, for their owners may change them.

    Args:
        rows: What is at hand already.
        fetch: Gives the rows of these ids that the store holds; nothing where all is at hand.
    """

    def __init__(
        self,
        wire: Wire,
        rows: Contents,
        fetch: Fetch | None = None,
    ) -> None:
        self._wire = wire
        self._rows = rows
        self._fetch = fetch
        self._unpacked: dict[int, list[Any]] = {}
        """Row -> its encoded elements, or patches for them."""
        self._plain: dict[int, list[Any]] = {}
        """Row -> its plain elements."""
        self._indexes: dict[int, list[Span]] = {}
        self._whole_indexes: dict[int, list[bytes] | None] = {}

    def gather(self, forms: Iterable[Form]) -> None:
        """Brings what these forms need, level by level: as many fetches as lists are deep."""
        if self._fetch is None:
            return
        todo = {span for form in forms for span in spans_of(form)}
        seen: set[Span] = set()
        while todo:
            missing = {span.row for span in todo} - self._rows.keys()
            if missing:
                for row, kind, data in self._fetch(missing):
                    self._rows[row] = kind, data
            seen |= todo
            todo = {inner for span in todo for inner in self._inner(span)} - seen

    def _inner(self, span: Span) -> list[Span]:
        kind, data = self._row(span.row)
        return inner_spans(kind, data, span)

    def _row(self, row: int) -> tuple[int, bytes]:
        try:
            return self._rows[row]
        except KeyError:
            raise StoreFormatError(
                f"row {row}, which a checkpoint refers to, is not in the store; something other "
                "than perdure has changed it: restore a copy, or delete the thread"
            ) from None

    # -- values

    def value(self, form: Form) -> Any:
        """The value, made anew each time. `gather` its form before."""
        if isinstance(form, bytes):
            return self._wire.decode(form)
        if isinstance(form, int):
            return self._whole(form)
        if form[0] == ITEM:
            return self._elements([Span(form[1], form[2], 1)])[0]
        return self._elements(unflat(form[1:]))

    def _whole(self, row: int) -> Any:
        kind, data = self._row(row)
        if split_kind(kind)[0] == PARTS:
            return {name: self.value(form) for name, form in forms_in_parts(ormsgpack.unpackb(data))}
        return self._wire.decode(data)

    def _elements(self, spans: Iterable[Span]) -> list[Any]:
        values: list[Any] = []
        for span in spans:
            kind, data = self._row(span.row)
            type_, _ = split_kind(kind)
            end = span.start + span.length
            if type_ in (SEGMENT, PATCHED):
                values += map(self._wire.decode, self._items(span))
            elif type_ == BLOCK:
                values += self._plain_elements(span.row, data)[span.start : end]
            elif type_ == INDEX:
                encoded = self._encoded([span])
                if encoded is not None:
                    values += map(self._wire.decode, encoded)
                else:
                    values += self._elements(cut(self._index(span.row), span.start, span.length))
            else:
                values.append(self._whole(span.row))
        return values

    def _plain_elements(self, row: int, data: bytes) -> list[Any]:
        found = self._plain.get(row)
        if found is None:
            found = self._plain[row] = self._wire.decode(data)
        return found

    def _index(self, row: int) -> list[Span]:
        found = self._indexes.get(row)
        if found is None:
            found = self._indexes[row] = read_index(self._row(row)[1])
        return found

    def _encoded(self, spans: Iterable[Span]) -> list[bytes] | None:
        """The encoded elements of these spans; None where some are not encoded each for itself."""
        items: list[bytes] = []
        for span in spans:
            type_, _ = split_kind(self._row(span.row)[0])
            if type_ in (BLOCK, PARTS):
                return None
            part = self._encoded_index(span) if type_ == INDEX else self._items(span)
            if part is None:
                return None
            items += part
        return items

    def _encoded_index(self, span: Span) -> list[bytes] | None:
        inner = self._index(span.row)
        if span.start or span.length < sum(part.length for part in inner):
            # Rows that the rest refers to need not be at hand.
            return self._encoded(cut(inner, span.start, span.length))
        if span.row not in self._whole_indexes:
            self._whole_indexes[span.row] = self._encoded(inner)
        return self._whole_indexes[span.row]

    def _items(self, span: Span) -> list[bytes]:
        """The encoded elements of a span that is no index."""
        kind, data = self._row(span.row)
        type_, _ = split_kind(kind)
        if type_ == VALUE:
            return [data]
        items = self._unpacked.get(span.row)
        if items is None:
            items = self._unpacked[span.row] = ormsgpack.unpackb(data)
        if type_ == PATCHED:
            for at in range(span.start, span.start + span.length):
                item = items[at]
                if isinstance(item, list):
                    items[at] = patched(item, self._items(Span(item[0], item[1], 1))[0])
        return items[span.start : span.start + span.length]

    # -- values, and what they are known by

    def trace(self, channels: dict[str, Form], versions: dict[str, Any], others: Iterable[Form]) -> Known:
        """What is to be known of a stored checkpoint: its channels, and the writes beside it."""
        known = Known(channels, versions)
        for channel, form in channels.items():
            traced = self._trace(form, known.addresses)
            if traced is not None:
                known.places[channel] = {None: traced, **self._part_traces(form, known.addresses)}
        for form in others:
            self._trace(form, known.addresses)
            self._part_traces(form, known.addresses)
        return known

    def _trace(self, form: Form, addresses: dict[Mark, Span]) -> Trace | None:
        if isinstance(form, bytes):
            return None
        if isinstance(form, list) and form[0] != ITEM:
            return self._trace_list(unflat(form[1:]), addresses)
        if isinstance(form, int):
            span = Span(form, 0, 1, WHOLE, len(self._row(form)[1]))
        else:
            span = Span(form[1], form[2], 1)
        mark = self._marks(span)[0]
        addresses.setdefault(mark, span)
        return mark, span

    def _part_traces(self, form: Form, addresses: dict[Mark, Span]) -> dict[str | None, Trace]:
        if not isinstance(form, int):
            return {}
        kind, data = self._row(form)
        if split_kind(kind)[0] != PARTS:
            return {}
        traced = {
            name: self._trace(part, addresses) for name, part in forms_in_parts(ormsgpack.unpackb(data))
        }
        return {name: trace for name, trace in traced.items() if trace is not None}

    def _trace_list(self, spans: list[Span], addresses: dict[Mark, Span]) -> Spans:
        marks: list[Mark] = []
        sized: list[Span] = []
        for span in spans:
            kind, data = self._row(span.row)
            type_, level = split_kind(kind)
            # An index is short whatever it stands for; never take it for little content.
            size = _LARGE if type_ in (INDEX, PARTS) else len(data)
            sized.append(span._replace(level=level, size=size))
            marks += self._marks(span)
        at = len(marks)
        for span in reversed(spans):
            if len(marks) - at >= _TAIL:
                break
            at -= span.length
            for offset in range(span.length):
                mark = marks[at + offset]
                if type(mark) is tuple or (type(mark) in (str, bytes) and len(mark) >= INLINE):
                    addresses.setdefault(mark, Span(span.row, span.start + offset, 1))
        return Spans(marks, sized)

    def _marks(self, span: Span) -> list[Mark]:
        """What the elements of a span are known by."""
        kind, data = self._row(span.row)
        type_, _ = split_kind(kind)
        if type_ == INDEX:
            return [
                mark
                for inner in cut(read_index(data), span.start, span.length)
                for mark in self._marks(inner)
            ]
        if type_ == BLOCK:
            return [
                plain_mark(value) for value in self._wire.decode(data)[span.start : span.start + span.length]
            ]
        if type_ == PARTS:
            return [(ormsgpack.unpackb(data)[0],)]
        return [self._mark(item) for item in self._items(span)]

    def _mark(self, data: bytes) -> Mark:
        value = self._wire.decode(data)
        mark = plain_mark(value)
        return self._wire.mark_stored(value, data) if mark is None and value is not None else mark


def referred(forms: Iterable[Form], fetch: Fetch) -> Contents:
    """Every row that is needed for these forms. Of plain content the bytes do not matter."""
    found: Contents = {}
    todo = {span.row for form in forms for span in spans_of(form)}
    while todo:
        inner: set[int] = set()
        for row, kind, data in fetch(todo):
            found[row] = kind, data
            inner.update(span.row for span in inner_spans(kind, data))
        todo = inner - found.keys()
    return found
