"""The SQL of the SQLite saver, as data.

| table | holds |
|---|---|
| meta | the format number, the next free block of row ids, the floor of new threads' counts |
| thread | who holds a thread, and its counters |
| owner | a saver of some process that holds threads, and its last beat |
| line | one namespace of a thread: a line of checkpoints |
| checkpoint | a checkpoint, its values referred to |
| record | what a task left behind on a checkpoint |
| value | immutable content (see `rows`) |

Ids that are uuids are kept as their 16 bytes.
"""

from __future__ import annotations

__all__ = ["FORMAT", "MIGRATIONS"]

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE perdure_meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
        "INSERT INTO perdure_meta VALUES ('format', 0), ('next_row', 1), ('floor', 0)",
        """CREATE TABLE perdure_owner (
            key INTEGER PRIMARY KEY AUTOINCREMENT, host TEXT NOT NULL, boot TEXT NOT NULL,
            pid INTEGER NOT NULL, started TEXT NOT NULL, ttl REAL NOT NULL, ticks REAL NOT NULL,
            wall REAL NOT NULL)""",
        """CREATE TABLE perdure_thread (
            key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, epoch INTEGER NOT NULL,
            purge INTEGER NOT NULL, owner INTEGER, counter INTEGER NOT NULL, newest)""",
        "CREATE INDEX perdure_thread_owner ON perdure_thread (owner) WHERE owner IS NOT NULL",
        """CREATE TABLE perdure_line (
            key INTEGER PRIMARY KEY, thread INTEGER NOT NULL, ns TEXT NOT NULL, UNIQUE (thread, ns))""",
        """CREATE TABLE perdure_checkpoint (
            line INTEGER NOT NULL, seq INTEGER NOT NULL, id NOT NULL, parent,
            metadata BLOB NOT NULL, body BLOB NOT NULL, PRIMARY KEY (line, seq)) WITHOUT ROWID""",
        "CREATE UNIQUE INDEX perdure_checkpoint_id ON perdure_checkpoint (line, id)",
        """CREATE TABLE perdure_record (
            line INTEGER NOT NULL, checkpoint NOT NULL, n INTEGER NOT NULL, task NOT NULL,
            path TEXT NOT NULL, body BLOB NOT NULL, info BLOB,
            PRIMARY KEY (line, checkpoint, n)) WITHOUT ROWID""",
        """CREATE TABLE perdure_value (
            id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, data BLOB NOT NULL)""",
    ),
)
"""Migration n leads from format n to format n + 1."""

FORMAT = len(MIGRATIONS)

HAS_TABLES = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'perdure_meta'"
READ_META = "SELECT value FROM perdure_meta WHERE key = ?"
WRITE_META = "UPDATE perdure_meta SET value = ? WHERE key = ?"
RAISE_FLOOR = "UPDATE perdure_meta SET value = max(value, ?) WHERE key = 'floor'"

# -- threads and their owners --------------------------------------------------------------------

READ_THREAD = "SELECT key, epoch, purge, owner, counter, newest FROM perdure_thread WHERE name = ?"
ADD_THREAD = (
    "INSERT INTO perdure_thread (name, epoch, purge, owner, counter, newest) VALUES (?, ?, ?, ?, ?, ?)"
)
CHANGE_THREAD = (
    "UPDATE perdure_thread SET epoch = ?, purge = ?, owner = ?, counter = ?, newest = ? WHERE key = ?"
)
REMOVE_THREAD = "DELETE FROM perdure_thread WHERE key = ?"
ALL_THREADS = "SELECT name FROM perdure_thread"
FREE_THREADS = "UPDATE perdure_thread SET owner = NULL, epoch = epoch + 1 WHERE owner = ?"

READ_OWNER = "SELECT key, host, boot, pid, started, ttl, ticks, wall FROM perdure_owner WHERE key = ?"
IDLE_OWNERS = (
    "SELECT key, host, boot, pid, started, ttl, ticks, wall FROM perdure_owner "
    "WHERE NOT EXISTS (SELECT 1 FROM perdure_thread WHERE owner = perdure_owner.key)"
)
ADD_OWNER = (
    "INSERT INTO perdure_owner (host, boot, pid, started, ttl, ticks, wall) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
BEAT = "UPDATE perdure_owner SET ticks = ?, wall = ? WHERE key = ?"
REMOVE_OWNER = "DELETE FROM perdure_owner WHERE key = ?"

# One statement checks that a run still holds the thread, and counts on.
ADVANCE = (
    "UPDATE perdure_thread SET counter = ?, newest = CASE WHEN newest >= ? THEN newest ELSE ? END "
    "WHERE name = ? AND epoch = ? AND owner = ? AND purge = ? AND counter < ?"
)
STILL_HELD = "SELECT 1 FROM perdure_thread WHERE name = ? AND epoch = ? AND owner = ? AND purge = ?"

# -- writing -------------------------------------------------------------------------------------

READ_LINE = "SELECT key FROM perdure_line WHERE thread = ? AND ns = ?"
ADD_LINE = "INSERT INTO perdure_line (thread, ns) VALUES (?, ?)"
ADD_VALUE = "INSERT INTO perdure_value (id, kind, data) VALUES (?, ?, ?)"
ADD_RECORD = (
    "INSERT INTO perdure_record (line, checkpoint, n, task, path, body, info) "
    "SELECT ?, ?, ifnull(max(n), 0) + 1, ?, ?, ?, ? "
    "FROM perdure_record WHERE line = ? AND checkpoint = ?"
)
ADD_CHECKPOINT = (
    "INSERT INTO perdure_checkpoint (line, seq, id, parent, metadata, body) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (line, id) DO NOTHING"
)
CHANGE_CHECKPOINT = (
    "UPDATE perdure_checkpoint SET parent = ?, metadata = ?, body = ? WHERE line = ? AND seq = ?"
)
FIND_BODY = "SELECT seq, body FROM perdure_checkpoint WHERE line = ? AND id = ?"

# -- reading -------------------------------------------------------------------------------------

FIND_LINE = (
    "SELECT l.key FROM perdure_thread t JOIN perdure_line l ON l.thread = t.key WHERE t.name = ? AND l.ns = ?"
)
READ_NEWEST = (
    "SELECT id, parent, seq, metadata, body FROM perdure_checkpoint WHERE line = ? ORDER BY seq DESC LIMIT 1"
)
READ_CHECKPOINT = "SELECT id, parent, seq, metadata, body FROM perdure_checkpoint WHERE line = ? AND id = ?"
READ_LINE_CHECKPOINTS = "SELECT id, parent, seq, metadata, body FROM perdure_checkpoint WHERE line = ?"
READ_RECORDS = (
    "SELECT task, path, body, info FROM perdure_record WHERE line = ? AND checkpoint = ? ORDER BY n"
)
SEQ_IN_THREAD = (
    "SELECT c.seq FROM perdure_thread t JOIN perdure_line l ON l.thread = t.key "
    "JOIN perdure_checkpoint c ON c.line = l.key AND c.id = ? WHERE t.name = ? LIMIT 1"
)


def read_values(count: int) -> str:
    """Reads this many rows of content."""
    return f"SELECT id, kind, data FROM perdure_value WHERE id IN ({', '.join('?' * count)})"


BROWSE = (
    "SELECT t.name, l.ns, c.line, c.id, c.parent, c.seq, c.metadata, c.body FROM perdure_thread t "
    "JOIN perdure_line l ON l.thread = t.key JOIN perdure_checkpoint c ON c.line = l.key"
)


def browse(conditions: list[str], order: str) -> str:
    """Reads a page of checkpoints. The texts are those of this module, never a user's."""
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"{BROWSE}{where} ORDER BY {order} LIMIT ?"


IN_THREAD = "t.name = ?"
IN_NAMESPACE = "l.ns = ?"
WITH_ID = "c.id = ?"
BEFORE_SEQ = "c.seq < ?"
BEFORE_ID = "c.id < ?"
BY_SEQ = "c.seq DESC, c.line DESC"
PAST_SEQ = "(c.seq, c.line) < (?, ?)"
BY_ID = "c.id DESC, c.line DESC"
PAST_ID = "(c.id, c.line) < (?, ?)"

# -- maintenance ---------------------------------------------------------------------------------

LINES_OF = "SELECT key, ns FROM perdure_line WHERE thread = ?"
REMOVE_LINES = "DELETE FROM perdure_line WHERE thread = ?"
REMOVE_CHECKPOINTS = (
    "DELETE FROM perdure_checkpoint WHERE line IN (SELECT key FROM perdure_line WHERE thread = ?)"
)
REMOVE_RECORDS = "DELETE FROM perdure_record WHERE line IN (SELECT key FROM perdure_line WHERE thread = ?)"
REMOVE_CHECKPOINT = "DELETE FROM perdure_checkpoint WHERE line = ? AND id = ?"
REMOVE_RECORDS_AT = "DELETE FROM perdure_record WHERE line = ? AND checkpoint = ?"
REMOVE_VALUE = "DELETE FROM perdure_value WHERE id = ?"
RECORDED_AT = "SELECT DISTINCT checkpoint FROM perdure_record WHERE line = ?"
READ_LINE_RECORDS = "SELECT checkpoint, task, path, body, info FROM perdure_record WHERE line = ? ORDER BY n"
COPY_VALUE = "INSERT INTO perdure_value (id, kind, data) SELECT ?, kind, data FROM perdure_value WHERE id = ?"


def read_references(count: int) -> str:
    """Reads this many rows of content, those of plain content (see `rows.REFERRING`) empty."""
    return (
        "SELECT id, kind, CASE WHEN kind & 7 IN (2, 4, 5) THEN data ELSE x'' END "
        f"FROM perdure_value WHERE id IN ({', '.join('?' * count)})"
    )
