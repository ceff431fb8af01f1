"""Ids for rows of content, known before the rows are stored.

Each process takes blocks of ids from the database, so that ids of several processes never meet.
A block counts only when the transaction that took it is committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from perdure.checkpoint import statements as sql
from perdure.checkpoint.sqlite.database import Cursor, Database

__all__ = ["RowIds", "ids_within"]

_BLOCK = 4096
_LOW = 1024
_SMALL_BLOCK = 64


class RowIds:
    """Gives out ids. The next block comes along with a commit before the present one is used up."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._block = iter(range(0))
        self._left = 0
        self._spare: int | None = None

    def take(self) -> int:
        """An id that no other row has or will have. Not to be called within a transaction."""
        with self._lock:
            if not self._left:
                self._begin_block()
            self._left -= 1
            return next(self._block)

    def _begin_block(self) -> None:
        first = self._spare
        self._spare = None
        if first is None:
            with self._database.writing() as cursor:
                first = _reserve(cursor, _BLOCK)
        self._block = iter(range(first, first + _BLOCK))
        self._left = _BLOCK

    def prepare(self) -> None:
        """Takes a first block, if that can be had at once: later calls may come from an event
        loop, which should not wait for the file."""
        if self._left or self._spare is not None:
            return
        taken: list[int] = []
        self._database.write_if_free(lambda cursor: taken.append(_reserve(cursor, _BLOCK)))
        with self._lock:
            if taken and self._spare is None:
                self._spare = taken[0]

    def reserve_spare(self, cursor: Cursor) -> int | None:
        """Takes the next block along if it will soon be needed; `keep` it after the commit."""
        if self._left >= _LOW or self._spare is not None:
            return None
        return _reserve(cursor, _BLOCK)

    def keep(self, spare: int | None) -> None:
        """The block that was reserved may be used."""
        if spare is not None:
            self._spare = spare


def ids_within(cursor: Cursor) -> Callable[[], int]:
    """Gives out ids for rows that the same transaction stores."""

    def ids() -> Iterator[int]:
        while True:
            first = _reserve(cursor, _SMALL_BLOCK)
            yield from range(first, first + _SMALL_BLOCK)

    return ids().__next__


def _reserve(cursor: Cursor, count: int) -> int:
    (first,) = cursor.execute(sql.READ_META, ("next_row",)).fetchone()
    cursor.execute(sql.WRITE_META, (first + count, "next_row"))
    return int(first)
