"""Removing and copying threads, each within a transaction of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from perdure.checkpoint import statements as sql
from perdure.checkpoint.records import (
    forms_of,
    forms_of_record,
    metadata_of,
    renumbered_body,
    renumbered_record,
)
from perdure.checkpoint.retention import kept_of
from perdure.checkpoint.rows import (
    REFERRING,
    CheckpointRow,
    Form,
    RecordRow,
    renumbered_row,
    split_kind,
)
from perdure.checkpoint.shelf import referred
from perdure.checkpoint.sqlite.database import Cursor
from perdure.checkpoint.sqlite.tables import (
    ThreadRow,
    checkpoint_row,
    fetch_references,
    line_key,
    pack_id,
    read_thread,
    unpack_id,
    write_checkpoint,
    write_record,
    write_thread,
)
from perdure.checkpoint.wire import Wire

__all__ = ["copy", "prune", "remove", "remove_runs", "sweep"]


def remove(cursor: Cursor, thread_id: str, thread: ThreadRow, *, keep: bool) -> None:
    """Removes a thread with everything; `keep` leaves its lease to the run that holds it.

    Otherwise a run that holds the thread has lost it: epochs never come back.
    """
    if thread.key is None:
        return
    _remove_values(cursor, referred(_forms(cursor, thread.key), fetch_references(cursor)))
    key = (thread.key,)
    for statement in (sql.REMOVE_RECORDS, sql.REMOVE_CHECKPOINTS, sql.REMOVE_LINES):
        cursor.execute(statement, key)
    if keep:
        write_thread(cursor, thread_id, thread._replace(purge=thread.purge + 1, newest=None))
    else:
        cursor.execute(sql.RAISE_FLOOR, (max(thread.epoch, thread.purge) + 1,))
        cursor.execute(sql.REMOVE_THREAD, key)


def prune(cursor: Cursor, thread_id: str, wire: Wire) -> None:
    """Keeps the newest checkpoint of each namespace."""
    thread = read_thread(cursor, thread_id)
    if thread.key is None:
        return
    before = _forms(cursor, thread.key)
    for line, _ in cursor.execute(sql.LINES_OF, (thread.key,)).fetchall():
        checkpoints = _checkpoints(cursor, line)
        head = max(checkpoints.values(), key=lambda row: row.seq, default=None)
        kept = kept_of(checkpoints, head, wire)
        recorded = {unpack_id(id) for (id,) in cursor.execute(sql.RECORDED_AT, (line,)).fetchall()}
        _remove_checkpoints(cursor, line, (checkpoints.keys() | recorded) - kept)
    sweep(cursor, thread_id, before)


def remove_runs(
    cursor: Cursor,
    thread_id: str,
    run_ids: frozenset[str],
    wire: Wire,
    check: Callable[[Cursor, str, ThreadRow], None],
) -> bool:
    """Removes the checkpoints of some runs from a thread; False where it has none.

    `check` raises what refuses that.
    """
    thread = read_thread(cursor, thread_id)
    if thread.key is None:
        return False
    gone = {
        line: [
            id
            for id, row in _checkpoints(cursor, line).items()
            if metadata_of(row, wire).get("run_id") in run_ids
        ]
        for line, _ in cursor.execute(sql.LINES_OF, (thread.key,)).fetchall()
    }
    if not any(gone.values()):
        return False
    check(cursor, thread_id, thread)
    before = _forms(cursor, thread.key)
    for line, ids in gone.items():
        _remove_checkpoints(cursor, line, ids)
    sweep(cursor, thread_id, before)
    return True


def sweep(cursor: Cursor, thread_id: str, forms: Iterable[Form]) -> None:
    """Drops the content of these forms as far as nothing in the thread refers to it any more."""
    thread = read_thread(cursor, thread_id)
    if thread.key is None:
        return
    fetch = fetch_references(cursor)
    needed = referred(_forms(cursor, thread.key), fetch)
    _remove_values(cursor, referred(forms, fetch).keys() - needed.keys())
    # Savers elsewhere may remember where content lay.
    write_thread(cursor, thread_id, thread._replace(purge=thread.purge + 1))


def copy(cursor: Cursor, source_id: str, target_id: str, take: Callable[[], int]) -> None:
    """Copies a thread; the target must be empty. Content is copied too: threads share none, so
    that each can be removed without a look at the others."""
    source, target = read_thread(cursor, source_id), read_thread(cursor, target_id)
    assert source.key is not None
    key = write_thread(cursor, target_id, target._replace(counter=source.counter, newest=source.newest))
    ids = _copy_values(cursor, _forms(cursor, source.key), take)
    for line, ns in cursor.execute(sql.LINES_OF, (source.key,)).fetchall():
        new_line = line_key(cursor, key, ns)
        for row in _checkpoints(cursor, line).values():
            write_checkpoint(cursor, new_line, row._replace(body=renumbered_body(row.body, ids)))
        for record in _records(cursor, line):
            write_record(cursor, new_line, record._replace(body=renumbered_record(record.body, ids)))


def _copy_values(cursor: Cursor, forms: Iterable[Form], take: Callable[[], int]) -> dict[int, int]:
    rows = referred(forms, fetch_references(cursor))
    ids = {id: take() for id in rows}
    for id, (kind, data) in rows.items():
        if split_kind(kind)[0] in REFERRING:
            cursor.execute(sql.ADD_VALUE, (ids[id], kind, renumbered_row(kind, data, ids)))
        else:
            cursor.execute(sql.COPY_VALUE, (ids[id], id))
    return ids


def _forms(cursor: Cursor, thread: int) -> list[Form]:
    """All forms in a thread."""
    forms: list[Form] = []
    for line, _ in cursor.execute(sql.LINES_OF, (thread,)).fetchall():
        for row in _checkpoints(cursor, line).values():
            forms += forms_of(row.body, ())
        for record in _records(cursor, line):
            forms += forms_of_record(record)
    return forms


def _checkpoints(cursor: Cursor, line: int) -> dict[str, CheckpointRow]:
    rows = cursor.execute(sql.READ_LINE_CHECKPOINTS, (line,)).fetchall()
    return {row.id: row for row in (checkpoint_row(*values) for values in rows)}


def _records(cursor: Cursor, line: int) -> list[RecordRow]:
    rows = cursor.execute(sql.READ_LINE_RECORDS, (line,)).fetchall()
    return [RecordRow(unpack_id(id), unpack_id(task), *rest) for id, task, *rest in rows]


def _remove_checkpoints(cursor: Cursor, line: int, ids: Collection[str]) -> None:
    """Removes checkpoints and what was recorded on them."""
    keys = [(line, pack_id(id)) for id in ids]
    cursor.executemany(sql.REMOVE_CHECKPOINT, keys)
    cursor.executemany(sql.REMOVE_RECORDS_AT, keys)


def _remove_values(cursor: Cursor, rows: Collection[int]) -> None:
    cursor.executemany(sql.REMOVE_VALUE, [(row,) for row in rows])
