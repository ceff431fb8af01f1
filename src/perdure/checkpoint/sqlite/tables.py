"""Rows to and from the tables of a SQLite database. No decisions are made here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from perdure.checkpoint import statements as sql
from perdure.checkpoint.port import Batch
from perdure.checkpoint.records import Encoded, forms_of
from perdure.checkpoint.rows import CheckpointRow, Form, RecordRow
from perdure.checkpoint.shelf import Fetch
from perdure.checkpoint.sqlite.database import Cursor
from perdure.ids import task_uuid
from perdure.slotted import field, slotted

__all__ = [
    "Keys",
    "ThreadRow",
    "advance",
    "checkpoint_row",
    "fetch_references",
    "fetch_values",
    "line_key",
    "pack_id",
    "read_checkpoint",
    "read_records",
    "read_thread",
    "unpack_id",
    "write_checkpoint",
    "write_record",
    "write_rows",
    "write_thread",
]

PackedId: TypeAlias = bytes | str
_CHUNK = 200


@lru_cache(maxsize=1024)
def pack_id(id: str) -> PackedId:
    """The 16 bytes of a uuid; any other text as it is."""
    if len(id) == 36 and id[8] == id[13] == id[18] == id[23] == "-":
        digits = id.replace("-", "")
        try:
            packed = bytes.fromhex(digits)
        except ValueError:
            return id
        if packed.hex() == digits:
            return packed
    return id


def unpack_id(packed: PackedId) -> str:
    return task_uuid(packed.hex()) if isinstance(packed, bytes) else packed


class ThreadRow(NamedTuple):
    """A row of the table of threads."""

    key: int | None
    """None for a thread that is not stored."""
    epoch: int
    purge: int
    """How often something was removed: rows that were seen before may be gone."""
    owner: int | None
    counter: int
    newest: str | None


def read_thread(cursor: Cursor, thread_id: str) -> ThreadRow:
    """The thread's row, or the one that a new thread would get."""
    row = cursor.execute(sql.READ_THREAD, (thread_id,)).fetchone()
    if row is None:
        (floor,) = cursor.execute(sql.READ_META, ("floor",)).fetchone()
        return ThreadRow(None, floor, floor, None, 0, None)
    key, epoch, purge, owner, counter, newest = row
    return ThreadRow(key, epoch, purge, owner, counter, None if newest is None else unpack_id(newest))


def write_thread(cursor: Cursor, thread_id: str, thread: ThreadRow) -> int:
    """Stores the row; returns the thread's key."""
    newest = None if thread.newest is None else pack_id(thread.newest)
    counts = thread.epoch, thread.purge, thread.owner, thread.counter, newest
    if thread.key is not None:
        cursor.execute(sql.CHANGE_THREAD, (*counts, thread.key))
        return thread.key
    key = cursor.execute(sql.ADD_THREAD, (thread_id, *counts)).lastrowid
    assert key is not None
    return key


def line_key(cursor: Cursor, thread: int, ns: str) -> int:
    """The key of a namespace of a thread, which is added if need be."""
    row = cursor.execute(sql.READ_LINE, (thread, ns)).fetchone()
    if row is not None:
        return int(row[0])
    key = cursor.execute(sql.ADD_LINE, (thread, ns)).lastrowid
    assert key is not None
    return key


# -- writing -------------------------------------------------------------------------------------


@slotted
class Keys:
    """What a thread and its namespaces are called in the database."""

    thread: int
    purge: int
    """The names hold as long as the thread has this count of purges."""
    lines: dict[str, int] = field(default_factory=dict)


def advance(cursor: Cursor, keys: Keys, batch: Batch, owner: int | None, row: CheckpointRow | None) -> bool:
    """Checks that a run still holds its thread; counts its checkpoint, if there is one."""
    condition = batch.thread_id, batch.epoch, owner, keys.purge
    if row is None:
        return cursor.execute(sql.STILL_HELD, condition).fetchone() is not None
    newest = pack_id(row.id)
    return cursor.execute(sql.ADVANCE, (row.seq, newest, newest, *condition, row.seq)).rowcount == 1


def write_rows(cursor: Cursor, keys: Keys, encoded: Encoded, ns: str) -> list[Form]:
    """Stores the rows of a batch. `ns` is the namespace of its checkpoint, if it has one.

    Returns the forms of a checkpoint of the same id that was replaced.
    """
    if encoded.rows:
        cursor.executemany(sql.ADD_VALUE, encoded.rows)
    for record_ns, record in encoded.records:
        write_record(cursor, _line(cursor, keys, record_ns), record)
    if encoded.checkpoint is None:
        return []
    return write_checkpoint(cursor, _line(cursor, keys, ns), encoded.checkpoint)


def _line(cursor: Cursor, keys: Keys, ns: str) -> int:
    found = keys.lines.get(ns)
    if found is None:
        found = keys.lines[ns] = line_key(cursor, keys.thread, ns)
    return found


def write_record(cursor: Cursor, line: int, record: RecordRow) -> None:
    where = line, pack_id(record.checkpoint_id)
    cursor.execute(sql.ADD_RECORD, (*where, pack_id(record.task_id), *record[2:], *where))


def write_checkpoint(cursor: Cursor, line: int, row: CheckpointRow) -> list[Form]:
    """Stores a checkpoint; returns the forms of the one that it replaced, if any."""
    id, parent = pack_id(row.id), None if row.parent is None else pack_id(row.parent)
    values = line, row.seq, id, parent, row.metadata, row.body
    if cursor.execute(sql.ADD_CHECKPOINT, values).rowcount == 1:
        return []
    seq, body = cursor.execute(sql.FIND_BODY, (line, id)).fetchone()
    cursor.execute(sql.CHANGE_CHECKPOINT, (parent, row.metadata, row.body, line, seq))
    return forms_of(body, ())


# -- reading -------------------------------------------------------------------------------------


def read_checkpoint(cursor: Cursor, line: int, checkpoint_id: str | None) -> CheckpointRow | None:
    """The checkpoint, or the newest of the line."""
    if checkpoint_id is None:
        row = cursor.execute(sql.READ_NEWEST, (line,)).fetchone()
    else:
        row = cursor.execute(sql.READ_CHECKPOINT, (line, pack_id(checkpoint_id))).fetchone()
    return None if row is None else checkpoint_row(*row)


def checkpoint_row(
    id: PackedId, parent: PackedId | None, seq: int, metadata: bytes, body: bytes
) -> CheckpointRow:
    return CheckpointRow(unpack_id(id), None if parent is None else unpack_id(parent), seq, metadata, body)


def read_records(cursor: Cursor, line: int, checkpoint_id: str) -> list[RecordRow]:
    """What was recorded on a checkpoint, in the order of storing."""
    rows = cursor.execute(sql.READ_RECORDS, (line, pack_id(checkpoint_id)))
    return [RecordRow(checkpoint_id, unpack_id(task), *rest) for task, *rest in rows]


def fetch_values(cursor: Cursor) -> Fetch:
    """Reads rows of content by their ids."""
    return _fetch(cursor, sql.read_values)


def fetch_references(cursor: Cursor) -> Fetch:
    """The same where only references between rows matter."""
    return _fetch(cursor, sql.read_references)


def _fetch(cursor: Cursor, query: Callable[[int], str]) -> Fetch:
    def fetch(ids: Collection[int]) -> Iterator[tuple[int, int, bytes]]:
        wanted: Iterator[int] = iter(ids)
        while chunk := list(islice(wanted, _CHUNK)):
            rows: list[Any] = cursor.execute(query(len(chunk)), chunk).fetchall()
            yield from rows

    return fetch
