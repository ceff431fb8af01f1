"""One SQLite file: its connections, its transactions, and what can be wrong with it."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TypeAlias

from perdure.checkpoint import statements as sql
from perdure.checkpoint.sqlite.forks import PATIENCE, withdraw_on_fork
from perdure.errors import (
    DatabaseLockedError,
    NewerFormatError,
    NotADatabaseError,
    ReadOnlyDatabaseError,
    SaverClosedError,
    StoreFormatError,
)

__all__ = ["Cursor", "Database"]

Cursor: TypeAlias = sqlite3.Cursor

_READERS = 4
_ABANDONED: list[Any] = []
"""Connections that a fork left behind. Closing them here could harm the parent's files."""


class Database:
    """Opens a file when it is first used, and keeps one connection to write and some to read.

    A connection that the user made is used for everything, and never closed. In-memory databases
    have one connection as well.

    Args:
        source: Path, URI, `:memory:`, or an open connection.
        synchronous: `FULL` or `NORMAL`.
        busy_timeout: Seconds to wait while another process writes.
    """

    def __init__(self, source: str | sqlite3.Connection, *, synchronous: str, busy_timeout: float) -> None:
        self._source = source
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._waiting = f"PRAGMA busy_timeout = {int(busy_timeout * 1000)}"
        self._lock = threading.RLock()
        self._readers_lock = threading.Condition(threading.Lock())
        self._reading = 0
        self._withdrawn = False
        self._writer: sqlite3.Connection | None = None
        self._cursor: Cursor | None = None
        self._readers: list[sqlite3.Connection] = []
        self._prepared = False
        self._closed = False
        self._pid = os.getpid()
        self._in_write = False
        self._inode: int | None = None
        withdraw_on_fork(self)

    @property
    def name(self) -> str:
        """What messages call the database."""
        return self._source if isinstance(self._source, str) else "the connection given"

    @property
    def shares_one_connection(self) -> bool:
        """Whether readers have no connections of their own."""
        return not isinstance(self._source, str) or ":memory:" in self._source or self._source == ""

    @property
    def forked(self) -> bool:
        """Whether this process is a child of the one that made the object."""
        return os.getpid() != self._pid

    def reopened(self) -> Database:
        """The same database for a forked child.

        Raises SaverClosedError where there is none: its one connection belongs to the parent.
        """
        _ABANDONED.append(self)
        if isinstance(self._source, str) and not self.shares_one_connection:
            return Database(self._source, synchronous=self._synchronous, busy_timeout=self._busy_timeout)
        raise SaverClosedError(
            f"{self.name} was opened in process {self._pid} and cannot be used in its child "
            f"{os.getpid()}: make a new saver after the fork"
        )

    def close(self) -> None:
        """Closes what was opened here."""
        with self._lock, self._readers_lock:
            self._closed = True
            self._close_connections()

    def _close_connections(self) -> None:
        opened = list(self._readers)
        if self._writer is not None and self._writer is not self._source:
            opened.append(self._writer)
        self._readers.clear()
        self._writer = self._cursor = None
        for connection in opened:
            connection.close()

    def __del__(self) -> None:
        # Says itself what would else be a warning about connections left open.
        if hasattr(self, "_in_write") and not self.forked:
            self.close()

    def check_open(self) -> None:
        """Raises SaverClosedError after `close`."""
        if self._closed:
            raise self._closed_error()

    # -- forks

    def withdraw(self, patience: float) -> bool:
        """Ends what is under way and closes the file, until `resume`: SQLite keeps the locks of a
        process beside its files, and a child would take its parent's for its own.

        Its locks are held until then: one that another thread held would stay locked in the child."""
        if self.forked or not self._lock.acquire(timeout=patience):
            return False
        self._readers_lock.acquire()
        self._withdrawn = True
        self._readers_lock.wait_for(lambda: self._reading == 0, patience)
        if not self.shares_one_connection and not self._in_write:
            with suppress(sqlite3.Error):
                self._close_connections()
        return True

    def resume(self) -> None:
        """Goes on."""
        self._withdrawn = False
        self._readers_lock.notify_all()
        self._readers_lock.release()
        self._lock.release()

    # -- transactions

    @contextmanager
    def writing(self) -> Iterator[Cursor]:
        """A transaction that may write; commits at the end, or rolls back on an error.

        Within one, a second one is part of it.
        """
        with self._lock:
            if self._in_write and self._cursor is not None:
                yield self._cursor
                return
            try:
                try:
                    # From here on: Ctrl-C may strike between any two lines.
                    cursor = self._begin()
                    self._in_write = True
                    yield cursor
                    cursor.connection.commit()
                except BaseException:
                    # What cannot be rolled back any more has been already.
                    if self._writer is not None and self._writer.in_transaction:
                        self._writer.rollback()
                    raise
                finally:
                    self._in_write = False
            except sqlite3.Error as error:
                self._explain(error)

    def write_if_free(self, work: Callable[[Cursor], None]) -> None:
        """Does the work in a transaction, unless that would mean to wait for another process or
        the file cannot be written to."""
        with self._lock:
            try:
                cursor = self._open_writer()
                cursor.execute("PRAGMA busy_timeout = 0")
            except sqlite3.Error as error:
                self._explain(error)
            try:
                with self.writing() as cursor:
                    work(cursor)
            except StoreFormatError:
                pass
            finally:
                cursor.execute(self._waiting)

    def _begin(self) -> Cursor:
        cursor = self._open_writer()
        if cursor.connection.in_transaction:
            if cursor.connection is self._source:
                # What the user left open on a connection of his own goes first.
                cursor.connection.commit()
            else:
                cursor.connection.rollback()
        if not cursor.connection.in_transaction:
            cursor.execute("BEGIN IMMEDIATE")
        return cursor

    @contextmanager
    def reading(self) -> Iterator[Cursor]:
        """One consistent view of the database; where possible without waiting for writers."""
        if self.shares_one_connection:
            with self._lock:
                try:
                    yield self._open_writer()
                except sqlite3.Error as error:
                    self._explain(error)
            return
        try:
            if not self._prepared:
                with self._lock:
                    self._open_writer()
            with self._counted():
                connection = self._take_reader()
                try:
                    yield connection.execute("BEGIN")
                finally:
                    # Also when Ctrl-C struck right after it had begun.
                    if connection.in_transaction:
                        connection.rollback()
                    self._give_reader(connection)
        except sqlite3.Error as error:
            self._explain(error)

    def _take_reader(self) -> sqlite3.Connection:
        with self._readers_lock:
            if self._closed:
                raise self._closed_error()
            if self._readers:
                return self._readers.pop()
        connection = self._connect()
        connection.execute("PRAGMA query_only = 1")
        return connection

    def _give_reader(self, connection: sqlite3.Connection) -> None:
        with self._readers_lock:
            if not self._closed and len(self._readers) < _READERS:
                self._readers.append(connection)
                return
        connection.close()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Counts a reader; a fork waits for those under way, and lets no new ones begin."""
        with self._readers_lock:
            self._readers_lock.wait_for(lambda: not self._withdrawn, PATIENCE)
            self._reading += 1
        try:
            yield
        finally:
            with self._readers_lock:
                self._reading -= 1
                self._readers_lock.notify_all()

    # -- opening

    def _open_writer(self) -> Cursor:
        if self._closed:
            raise self._closed_error()
        if self._cursor is None:
            connection = self._source if isinstance(self._source, sqlite3.Connection) else self._connect()
            # A user's own connection may make rows of another shape.
            cursor = connection.cursor()
            cursor.row_factory = None
            self._writer, self._cursor = connection, cursor
            try:
                self._set_up(cursor)
            except BaseException:
                self._writer = self._cursor = None
                if connection is not self._source:
                    connection.close()
                raise
            self._prepared = True
            if self._inode is None and connection is not self._source:
                self._inode = _inode(self.name)
        return self._cursor

    def check_file(self) -> None:
        """Raises StoreFormatError when the file was deleted or replaced since it was opened: what is
        written now would be lost with it."""
        if self._inode is not None and _inode(self.name) != self._inode:
            raise StoreFormatError(
                f"{self.name} was deleted or replaced while it was open: make a new saver for what is "
                "there now"
            )

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self._source,  # type: ignore[arg-type]
            timeout=self._busy_timeout,
            isolation_level=None,
            check_same_thread=False,
            uri=self.name.startswith("file:"),
        )

    def _set_up(self, cursor: Cursor) -> None:
        if cursor.connection.in_transaction:
            cursor.connection.commit()
        cursor.execute(self._waiting)
        format = self._format(cursor)
        if format > sql.FORMAT:
            raise NewerFormatError(
                f"{self.name} has format {format}, this perdure knows formats up to {sql.FORMAT}: "
                "upgrade perdure, or name another file"
            )
        try:
            self._use_wal(cursor)
            cursor.execute(f"PRAGMA synchronous = {self._synchronous}")
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_READONLY or format < sql.FORMAT:
                raise
        if format < sql.FORMAT:
            self._migrate(cursor)

    def _use_wal(self, cursor: Cursor) -> None:
        # Changing the mode needs the file for oneself, and does not wait for it by itself.
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                cursor.execute("PRAGMA journal_mode = WAL").fetchone()
                return
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    @staticmethod
    def _format(cursor: Cursor) -> int:
        if cursor.execute(sql.HAS_TABLES).fetchone() is None:
            return 0
        row = cursor.execute(sql.READ_META, ("format",)).fetchone()
        return int(row[0]) if row else 0

    def _migrate(self, cursor: Cursor) -> None:
        cursor.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have been here since.
            for number in range(self._format(cursor), sql.FORMAT):
                for statement in sql.MIGRATIONS[number]:
                    cursor.execute(statement)
                cursor.execute(sql.WRITE_META, (number + 1, "format"))
            cursor.connection.commit()
        except BaseException:
            if cursor.connection.in_transaction:
                cursor.connection.rollback()
            raise

    # -- trouble

    def _closed_error(self) -> SaverClosedError:
        return SaverClosedError(
            f"the saver on {self.name} is closed: open a new one, or move the run inside its `with` block"
        )

    def _explain(self, error: sqlite3.Error) -> NoReturn:
        """Raises the error that says what is wrong and what to do."""
        code = _code(error) & 0xFF
        text = str(error)
        if code == sqlite3.SQLITE_NOTADB:
            raise NotADatabaseError(f"{self.name} is not a SQLite database: name another file") from error
        if code == sqlite3.SQLITE_READONLY:
            raise ReadOnlyDatabaseError(
                f"{self.name} cannot be written to: check the rights of the file and its folder"
            ) from error
        if code == sqlite3.SQLITE_CANTOPEN:
            raise StoreFormatError(
                f"{self.name} cannot be opened: check that its folder exists and may be used"
            ) from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise DatabaseLockedError(
                f"{self.name} was locked by another process for {self._busy_timeout:g} s: end that "
                "process or give a greater busy_timeout"
            ) from error
        if code == sqlite3.SQLITE_CORRUPT:
            raise StoreFormatError(f"{self.name} is damaged ({text}): restore a copy") from error
        if "a transaction" in text and not isinstance(self._source, str):
            raise StoreFormatError(
                f"{self.name} is in the middle of a statement ({text}): fetch all rows of its open cursors, "
                "or close them, before a saver uses it"
            ) from error
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in text:
            raise SaverClosedError(f"{self.name} is closed: open a new one and make a new saver") from error
        if isinstance(error, sqlite3.ProgrammingError) and "thread" in text:
            raise StoreFormatError(
                f"{self.name} may be used by one thread only: open it with check_same_thread=False, "
                "or hand over the path of the file"
            ) from error
        raise error


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None  # In memory, or named by a URI.


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) or 0
