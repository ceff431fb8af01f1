"""Lists as slices over immutable segments. Pure.

A list that is kept in many checkpoints is stored as spans: `(row, start, count)` names elements
of a row that was written once. Storing the next version of the list writes one row with what
is new and keeps the spans of what stayed; what stayed is told by the marks of the elements, so
that an element changed in place is seen and one copied without a change is not stored again.

Spans must stay few, for each checkpoint names all of them. Where `FAN` neighbours of the same
level lie side by side they are folded into one span of the next level: a row with their
elements where that is short, else a row that lists the spans (an index). A list that grows by
one element a step so costs a few bytes of index an element, whatever its length, and has about
`FAN` spans a level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import ormsgpack

from perdure.slotted import field, slotted

__all__ = ["FAN", "Mark", "Span", "Spans", "crowded", "cut", "edit", "flat", "join", "read_index", "unflat"]

FAN = 16
_WORTH = 24
"""Bytes from which on naming elements costs less than storing them once more."""

Mark: TypeAlias = Any
"""What an element is known by: itself for plain immutable ones, else a fingerprint."""


class Span(NamedTuple):
    """Some neighbouring elements of one row."""

    row: int
    start: int
    length: int
    level: int = 0
    size: int = 0
    """About how many bytes the elements take."""


@slotted
class Spans:
    """A list as it was stored last."""

    marks: list[Mark] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)


def edit(
    marks: Sequence[Mark], weights: Sequence[int], old: Spans, known: Mapping[Mark, Span]
) -> list[Span | range]:
    """How a list is made of the elements of its last version, of `known` ones and of new ones.

    `weights` are the sizes of the elements in bytes. In the result, which is in the order of the
    list, a range names positions whose elements are new.
    """
    same = _common_prefix(marks, old.marks)
    pieces: list[Span | range] = list(cut(old.spans, 0, same))
    sought = {} if same == len(old.marks) else _first_positions(old.marks, same)
    for source, where, run in _runs(marks, same, old.marks, sought, known):
        if source == "new" or sum(weights[run.start : run.stop]) < _WORTH:
            pieces.append(run)
        elif source == "old":
            pieces.extend(cut(old.spans, where, len(run)))
        else:
            pieces.append(known[marks[run.start]])
    return _join_new(pieces)


def _common_prefix(left: Sequence[Mark], right: Sequence[Mark]) -> int:
    length = min(len(left), len(right))
    if left[:length] == right[:length]:
        return length
    return next(i for i in range(length) if left[i] != right[i])


def _first_positions(marks: Sequence[Mark], start: int) -> dict[Mark, int]:
    return {marks[i]: i for i in range(len(marks) - 1, start - 1, -1)}


def _runs(
    marks: Sequence[Mark],
    start: int,
    old: Sequence[Mark],
    sought: Mapping[Mark, int],
    known: Mapping[Mark, Span],
) -> Iterator[tuple[str, int, range]]:
    """Neighbours that come from one place: (place, position there, positions in the list)."""
    at = start
    while at < len(marks):
        first = at
        where = sought.get(marks[at])
        if where is not None:
            while at < len(marks) and where + at - first < len(old) and old[where + at - first] == marks[at]:
                at += 1
            yield "old", where, range(first, at)
        elif marks[at] in known:
            at += 1
            yield "known", 0, range(first, at)
        else:
            while at < len(marks) and marks[at] not in sought and marks[at] not in known:
                at += 1
            yield "new", 0, range(first, at)


def _join_new(pieces: list[Span | range]) -> list[Span | range]:
    joined: list[Span | range] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, range) and isinstance(last, range):
            joined[-1] = range(last.start, piece.stop)
        else:
            joined.append(piece)
    return joined


# -- spans ---------------------------------------------------------------------------------------


def cut(spans: Sequence[Span], start: int, count: int) -> list[Span]:
    """The spans of `count` elements from `start` on."""
    taken: list[Span] = []
    for span in spans:
        if count <= 0:
            break
        if start >= span.length:
            start -= span.length
            continue
        length = min(span.length - start, count)
        if length == span.length:
            taken.append(span)
        else:
            size = span.size * length // span.length
            taken.append(Span(span.row, span.start + start, length, span.level, size))
        count -= length
        start = 0
    return taken


def join(spans: Sequence[Span]) -> list[Span]:
    """The same elements; neighbours that touch in their row are one span."""
    joined: list[Span] = []
    for span in spans:
        last = joined[-1] if joined else None
        if last is not None and last.row == span.row and last.start + last.length == span.start:
            joined[-1] = Span(
                last.row, last.start, last.length + span.length, last.level, last.size + span.size
            )
        else:
            joined.append(span)
    return joined


def crowded(spans: Sequence[Span]) -> int | None:
    """Where `FAN` neighbours should be folded into one; None where spans are few enough.

    Level by level from the lowest: a run of spans of at most that level may be `FAN` times
    (level + 1) long. Within a run those of the highest levels go first, which keeps the tree of
    indexes as shallow as a B-tree.
    """
    if len(spans) < FAN:
        return None
    for level in range(max(span.level for span in spans) + 1):
        start = 0
        while start < len(spans):
            end = start
            while end < len(spans) and spans[end].level <= level:
                end += 1
            if end - start >= FAN * (level + 1):
                return max(
                    range(start, end - FAN + 1),
                    key=lambda at: (sum(span.level for span in spans[at : at + FAN]), -at),
                )
            start = end + 1
    return None


# -- spans in bytes ------------------------------------------------------------------------------


def flat(spans: Sequence[Span]) -> list[int]:
    """Spans as numbers; rows as steps from the row before, which are short."""
    numbers: list[int] = []
    row = 0
    for span in spans:
        numbers += (span.row - row, span.start, span.length)
        row = span.row
    return numbers


def unflat(numbers: Sequence[int]) -> list[Span]:
    """The reverse of `flat`; levels and sizes are not known."""
    spans: list[Span] = []
    row = 0
    for at in range(0, len(numbers), 3):
        row += numbers[at]
        spans.append(Span(row, numbers[at + 1], numbers[at + 2]))
    return spans


def read_index(data: bytes) -> list[Span]:
    """The spans that an index row lists."""
    return unflat(ormsgpack.unpackb(data))
