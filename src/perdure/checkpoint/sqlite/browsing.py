"""Reading many checkpoints, page by page, holding nothing in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from perdure.checkpoint import statements as sql
from perdure.checkpoint.own import Browse, Stored, everything, wanted_metadata
from perdure.checkpoint.rows import Form
from perdure.checkpoint.shelf import Contents, Shelf
from perdure.checkpoint.sqlite.database import Cursor
from perdure.checkpoint.sqlite.tables import checkpoint_row, fetch_values, pack_id, read_records
from perdure.checkpoint.wire import Wire

__all__ = ["pages"]

_FIRST_PAGE = 16
_LARGEST_PAGE = 256


def pages(
    reading: Callable[[], AbstractContextManager[Cursor]], asked: Browse, wire: Wire
) -> Iterator[Stored]:
    """Checkpoints newest first. Each page is read in one view of the database."""
    size = _FIRST_PAGE
    past: tuple[Any, int] | None = None
    while True:
        with reading() as cursor:
            rows = _page(cursor, asked, past, size)
            found = _with_values(cursor, [row for row in rows if _wanted(row, asked, wire)], wire)
        yield from found
        if len(rows) < size:
            return
        last = rows[-1]
        past = (last[3] if asked.thread_id is None else last[5]), last[2]
        size = min(size * 2, _LARGEST_PAGE)


def _page(cursor: Cursor, asked: Browse, past: tuple[Any, int] | None, size: int) -> list[tuple[Any, ...]]:
    conditions: list[str] = []
    values: list[Any] = []

    def add(condition: str, *bound: Any) -> None:
        conditions.append(condition)
        values.extend(bound)

    if asked.thread_id is not None:
        add(sql.IN_THREAD, asked.thread_id)
    if asked.ns is not None:
        add(sql.IN_NAMESPACE, asked.ns)
    if asked.checkpoint_id is not None:
        add(sql.WITH_ID, pack_id(asked.checkpoint_id))
    if asked.before is not None:
        before = pack_id(asked.before)
        seq = cursor.execute(sql.SEQ_IN_THREAD, (before, asked.thread_id)).fetchone()
        if seq is None:
            add(sql.BEFORE_ID, before)
        else:
            add(sql.BEFORE_SEQ, seq[0])
    by_id = asked.thread_id is None
    if past is not None:
        add(sql.PAST_ID if by_id else sql.PAST_SEQ, *past)
    query = sql.browse(conditions, sql.BY_ID if by_id else sql.BY_SEQ)
    return cursor.execute(query, (*values, size)).fetchall()


def _wanted(row: tuple[Any, ...], asked: Browse, wire: Wire) -> bool:
    return wanted_metadata(asked, checkpoint_row(*row[3:]), wire)


def _with_values(cursor: Cursor, rows: list[tuple[Any, ...]], wire: Wire) -> list[Stored]:
    contents: Contents = {}
    forms: list[Form] = []
    found: list[Stored] = []
    shelf = Shelf(wire, contents)
    for thread_id, ns, line, *rest in rows:
        checkpoint = checkpoint_row(*rest)
        records = read_records(cursor, line, checkpoint.id)
        forms += everything(checkpoint, records)
        found.append(Stored(thread_id, ns, checkpoint, records, shelf))
    Shelf(wire, contents, fetch_values(cursor)).gather(forms)
    return found
