"""What holds for the SQLite saver: its file, its connections, its errors."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint import statements as sql
from perdure.checkpoint.port import Batch
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.checkpoint.sqlite.aio import AsyncSqliteSaver
from perdure.checkpoint.sqlite.rowids import RowIds
from perdure.checkpoint.sqlite.tables import pack_id, unpack_id
from perdure.errors import (
    NewerFormatError,
    NotADatabaseError,
    ReadOnlyDatabaseError,
    SaverClosedError,
    StoreFormatError,
)
from savers.makers import checkpoint, config, first, new, record

LONG = "long enough to lie in a row of its own " * 3


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "threads.db"


@pytest.fixture
def saver(path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver(path) as opened:
        yield opened


def put(saver: Any, **values: Any) -> Any:
    return saver.put(config(), checkpoint(**values), {}, {})


def held(saver: Any) -> Any:
    return saver.get_tuple(config()).checkpoint["channel_values"]


# -- opening -------------------------------------------------------------------------------------


def test_from_conn_string_opens_and_closes(path: Path) -> None:
    """The documented way to open a saver for a block, by path."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        put(saver, a=1)
    with SqliteSaver.from_conn_string(path) as saver:
        assert held(saver) == {"a": 1}
    with pytest.raises(SaverClosedError):
        saver.get_tuple(config())


def test_async_saver_opens_both_ways(path: Path) -> None:
    """AsyncSqliteSaver serves `async with` and `with`, and its `setup` is awaited."""

    async def run() -> None:
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            await saver.setup()
            await saver.aput(config(), checkpoint(a=1), {}, {})
            assert held(saver) == {"a": 1}

    asyncio.run(run())
    with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        assert held(saver) == {"a": 1}


def test_setup_may_be_called_often(saver: SqliteSaver) -> None:
    """`setup` is not needed and does no harm."""
    saver.setup()
    put(saver, a=1)
    saver.setup()
    assert held(saver) == {"a": 1}


def test_in_memory_databases_are_apart() -> None:
    """Each saver on `:memory:` has threads of its own."""
    with SqliteSaver(":memory:") as one, SqliteSaver(":memory:") as other:
        put(one, a=1)
        assert other.get_tuple(config()) is None


@pytest.mark.parametrize(("synchronous", "number"), [("FULL", 2), ("NORMAL", 1)])
def test_the_file_is_set_up_for_durability(path: Path, synchronous: Any, number: int) -> None:
    """WAL, and FULL unless NORMAL is asked for."""
    with SqliteSaver(path, synchronous=synchronous) as saver, saver._database.writing() as cursor:
        assert cursor.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert cursor.execute("PRAGMA synchronous").fetchone() == (number,)


def test_options_are_checked() -> None:
    """A wrong `synchronous` and a thing that is no connection are refused at once."""
    with pytest.raises(ValueError, match="synchronous is 'OFF'"):
        SqliteSaver(":memory:", synchronous="OFF")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"conn is a builtins\.object"):
        SqliteSaver(object())  # type: ignore[arg-type]


# -- a connection of the user's ------------------------------------------------------------------


def test_a_connection_is_used_and_left_open(path: Path) -> None:
    """The saver works on the connection that it is given and does not close it."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        connection.row_factory = sqlite3.Row
        with SqliteSaver(connection) as saver:
            put(saver, a=1)
            assert asyncio.run(saver.aget(config()))["channel_values"] == {"a": 1}
        assert connection.execute("SELECT 1 AS one").fetchone()["one"] == 1


def test_an_open_transaction_goes_first(path: Path) -> None:
    """What the program left uncommitted on its connection is committed, never rolled back."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        connection.execute("CREATE TABLE mine (x)")
        saver = SqliteSaver(connection)
        saver.setup()
        connection.execute("INSERT INTO mine VALUES (1)")
        assert connection.in_transaction
        put(saver, a=1)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT x FROM mine").fetchall() == [(1,)]


def test_a_connection_of_one_thread_is_explained(path: Path) -> None:
    """A connection that other threads may not use gives an error with the way out."""
    with closing(sqlite3.connect(path)) as connection:
        saver = SqliteSaver(connection)
        put(saver, a=1)
        with pytest.raises(StoreFormatError, match="check_same_thread=False"):
            asyncio.run(saver.aget(config()))


def test_a_connection_in_the_middle_of_a_statement_is_explained(path: Path) -> None:
    """A connection whose rows are still being read gives an error with the way out."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        connection.executescript("CREATE TABLE mine (x); INSERT INTO mine VALUES (1), (2)")
        rows = connection.execute("SELECT x FROM mine")
        saver = SqliteSaver(connection)
        with pytest.raises(StoreFormatError, match="fetch all rows of its open cursors"):
            put(saver, a=1)
        assert rows.fetchall() == [(1,), (2,)]
        put(saver, a=1)
        assert held(saver) == {"a": 1}


def test_a_closed_connection_is_explained(path: Path) -> None:
    """A connection that the program closed gives SaverClosedError; closing the saver is no error."""
    connection = sqlite3.connect(path, check_same_thread=False)
    saver = SqliteSaver(connection)
    put(saver, a=1)
    connection.close()
    for call in (lambda: saver.get_tuple(config()), lambda: put(saver, a=2)):
        with pytest.raises(SaverClosedError, match="the connection given is closed"):
            call()
    saver.close()


# -- trouble -------------------------------------------------------------------------------------


def test_a_closed_saver_says_so(saver: SqliteSaver) -> None:
    """Every use after `close` fails with the name of the file; closing twice does not."""
    put(saver, a=1)
    saver.close()
    for call in (
        lambda: saver.get_tuple(config()),
        lambda: list(saver.list(None)),
        lambda: put(saver, a=1),
        lambda: saver.load("t", ""),
        lambda: saver.submit(Batch("t", None)),
        lambda: saver.delete_thread("t"),
        saver.setup,
    ):
        with pytest.raises(SaverClosedError, match=r"threads\.db is closed"):
            call()
    saver.close()


def test_a_file_that_is_no_database(path: Path) -> None:
    """Another kind of file is named and left as it is."""
    path.write_bytes(b"something else entirely, and long enough to be read" * 20)
    before = path.read_bytes()
    with SqliteSaver(path) as saver, pytest.raises(NotADatabaseError, match=r"threads\.db is not a SQLite"):
        saver.get_tuple(config())
    assert path.read_bytes() == before


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """A path that cannot be opened is named."""
    message = "check that its folder exists"
    with SqliteSaver(tmp_path / "none" / "x.db") as saver, pytest.raises(StoreFormatError, match=message):
        put(saver, a=1)


def test_a_newer_file_is_refused(path: Path) -> None:
    """A file of a later format is left alone; the error names both formats."""
    with SqliteSaver(path) as saver:
        put(saver, a=1)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE perdure_meta SET value = 99 WHERE key = 'format'")
        connection.commit()
    with SqliteSaver(path) as saver:
        with pytest.raises(NewerFormatError, match=f"format 99, .* up to {sql.FORMAT}: upgrade"):
            saver.get_tuple(config())
        with pytest.raises(NewerFormatError):
            put(saver, a=2)


def test_a_read_only_file_can_be_read(path: Path) -> None:
    """Reading works where writing does not; writing says why."""
    with SqliteSaver(path) as saver:
        put(saver, a=1)
    with SqliteSaver(f"file:{path}?mode=ro") as saver:
        assert held(saver) == {"a": 1}
        assert saver.load("t", "").counter == 1
        with pytest.raises(ReadOnlyDatabaseError, match="check the rights"):
            put(saver, a=2)


def test_rights_of_the_file_are_left_alone(path: Path) -> None:
    """The saver does not change who may read the file."""
    path.touch(mode=0o600)
    with SqliteSaver(path) as saver:
        put(saver, a=1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_lock_that_lasts_is_explained(path: Path) -> None:
    """After busy_timeout the error says who is in the way, not `database is locked`."""
    with SqliteSaver(path, busy_timeout=0.01) as saver, closing(sqlite3.connect(path)) as other:
        saver.setup()
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFormatError, match=r"was locked by another process for 0\.01 s"):
            put(saver, a=1)
        other.rollback()
        put(saver, a=2)
        assert held(saver) == {"a": 2}


def test_a_failed_write_leaves_nothing_behind(path: Path) -> None:
    """What is stored after a failure does not lean on rows that the failure took along."""
    with SqliteSaver(path, busy_timeout=0.01) as saver, closing(sqlite3.connect(path)) as other:
        begin = first("t", a=[LONG])
        saver.submit(begin).wait()
        at = begin.checkpoint.checkpoint["id"]
        other.execute("BEGIN IMMEDIATE")
        lost = saver.submit(Batch("t", 1, records=[record(at, a=["new " * 30])]))
        with pytest.raises(StoreFormatError):
            lost.wait()
        other.rollback()
        saver.submit(Batch("t", 1, checkpoint=new(2, at, a=[LONG, "new " * 30]))).wait()
        assert held(saver) == {"a": [LONG, "new " * 30]}


def test_batches_behind_a_failed_one_stand_alone(saver: SqliteSaver, monkeypatch: Any) -> None:
    """A batch that was encoded before an earlier one failed is stored whole."""
    begin = first("t", a=[LONG])
    saver.submit(begin).wait()
    at = begin.checkpoint.checkpoint["id"]
    refused = saver.submit(Batch("t", 7, records=[record(at, a=["new " * 30])]))
    kept = saver.submit(Batch("t", 1, checkpoint=new(2, at, a=[LONG, "new " * 30])))
    kept.wait()
    assert refused.done
    assert held(saver) == {"a": [LONG, "new " * 30]}


def test_rows_that_are_missing_are_an_error(path: Path) -> None:
    """A file that something else has changed does not give wrong values."""
    with SqliteSaver(path) as saver:
        put(saver, a=LONG)
        with closing(sqlite3.connect(path)) as other:
            other.execute("DELETE FROM perdure_value")
            other.commit()
        with pytest.raises(StoreFormatError, match="is not in the store"):
            saver.get_tuple(config())


# -- several users -------------------------------------------------------------------------------


def test_readers_do_not_wait_for_writers(path: Path) -> None:
    """While another connection holds the file for writing, reads go on."""
    with SqliteSaver(path) as saver, closing(sqlite3.connect(path)) as other:
        put(saver, a=1)
        other.execute("BEGIN IMMEDIATE")
        assert held(saver) == {"a": 1}
        assert len(list(saver.list(None))) == 1
        assert saver.load("t", "").counter == 1
        other.rollback()
        put(saver, a=LONG)


def test_async_methods_do_not_block_their_loop(path: Path) -> None:
    """While a put waits for the file, its loop goes on; the wait ends when the file is free."""

    async def run() -> None:
        with closing(sqlite3.connect(path)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(saver.aput(config(), checkpoint(a=1), {}, {}))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not waiting.done()
            other.rollback()
            await waiting

    with SqliteSaver(path) as saver:
        saver.setup()
        asyncio.run(run())
        assert held(saver) == {"a": 1}


def test_sync_methods_work_on_a_running_loop(saver: SqliteSaver) -> None:
    """Nothing waits for the loop that it blocks."""

    async def run() -> None:
        where = put(saver, a=1)
        saver.put_writes(where, [("a", 2)], "task")
        assert len(list(saver.list(where))) == 1
        saver.delete_thread("t")

    asyncio.run(run())


def test_one_saver_serves_many_loops_and_threads(saver: SqliteSaver) -> None:
    """Threads with loops of their own, and without, share a saver."""
    failed: list[BaseException] = []

    def work(name: str) -> None:
        try:
            where = config(name)
            for n in range(10):
                made = checkpoint(a=[LONG] * n)
                if n % 2:
                    where = asyncio.run(saver.aput(where, made, {"n": n}, {}))
                else:
                    where = saver.put(where, made, {"n": n}, {})
                saver.put_writes(where, [("a", n)], "task")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    for n in range(6):
        found = list(saver.list(config(f"t{n}")))
        assert [each.metadata["n"] for each in found] == [*reversed(range(10))]
        assert all(len(each.checkpoint["channel_values"]["a"]) == each.metadata["n"] for each in found)


def test_savers_on_one_file_see_each_other(path: Path) -> None:
    """What one saver stores another reads, and goes on from, without stale references."""
    with SqliteSaver(path) as one, SqliteSaver(path) as other:
        where = put(one, a=[LONG])
        where = other.put(where, checkpoint(a=[LONG, LONG * 2]), {}, {})
        other.delete_thread("t")
        one.put(where, checkpoint(a=[LONG, LONG * 2, LONG * 3]), {}, {})
        assert held(other) == {"a": [LONG, LONG * 2, LONG * 3]}


def test_a_row_id_is_given_once(path: Path) -> None:
    """Savers on one file never give the same id to two rows."""
    with SqliteSaver(path) as one, SqliteSaver(path) as other:
        ids = [RowIds(saver._database) for saver in (one, other, one)]
        given = [each.take() for _ in range(5000) for each in ids]
    assert len(set(given)) == len(given)


def test_what_waits_together_is_one_transaction(saver: SqliteSaver) -> None:
    """Batches of several threads that lie in the queue share a commit."""
    saver.load("t", "")
    executed: list[str] = []
    saver._database._writer.set_trace_callback(executed.append)  # type: ignore[union-attr]
    tickets = [saver.submit(first(f"t{n}", a=LONG)) for n in range(10)]
    for ticket in tickets:
        ticket.wait()
    assert executed.count("COMMIT") == 1
    assert len(list(saver.list(None))) == 10


# -- the file ------------------------------------------------------------------------------------


def test_migrations_lead_from_nothing_to_now(tmp_path: Path) -> None:
    """A file of every earlier format is led to the present one and then works."""
    shapes = []
    for start in range(sql.FORMAT + 1):
        path = tmp_path / f"{start}.db"
        with closing(sqlite3.connect(path)) as connection:
            for number in range(start):
                for statement in sql.MIGRATIONS[number]:
                    connection.execute(statement)
                connection.execute(sql.WRITE_META, (number + 1, "format"))
            connection.commit()
        with SqliteSaver(path) as saver:
            put(saver, a=1)
            assert held(saver) == {"a": 1}
        with closing(sqlite3.connect(path)) as connection:
            shapes.append(connection.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall())
            assert connection.execute(sql.READ_META, ("format",)).fetchone() == (sql.FORMAT,)
    assert all(shape == shapes[0] for shape in shapes)


def test_other_tables_are_left_alone(path: Path) -> None:
    """The saver lives beside the tables of others in a file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE checkpoints (x)")
        connection.commit()
    with SqliteSaver(path) as saver:
        put(saver, a=1)
        assert held(saver) == {"a": 1}


@pytest.mark.parametrize(
    "id", ["1f1ed0de-7a34-602c-bffe-0f6cf564e282", "1F1ED0DE-7A34-602C-BFFE-0F6CF564E282", "", "x" * 36, "7"]
)
def test_ids_come_back_from_their_short_form(id: str) -> None:
    """A uuid lies in 16 bytes, any other text as it is."""
    assert unpack_id(pack_id(id)) == id


def test_a_deleted_thread_leaves_no_content(path: Path) -> None:
    """Deleting, pruning and replacing leave no row behind that nothing refers to."""
    with SqliteSaver(path) as saver:
        where = config()
        messages: list[Any] = []
        for n in range(60):
            messages = [*messages[n % 7 == 0 :], {"id": n, "text": LONG}, n]
            saver.put_writes(where, [("a", messages[-2:])], f"task{n}") if n else None
            where = saver.put(where, checkpoint(a=messages, big={"x": LONG * 9, "l": messages}), {}, {})
        again = saver.get_tuple(where).checkpoint
        again["channel_values"] = {"a": [LONG]}
        saver.put(config(), again, {}, {})
        saver.copy_thread("t", "copy")
        saver.prune(["copy"])
        with closing(sqlite3.connect(path)) as connection:
            assert unreferred(connection) == set()
            saver.delete_thread("t")
            saver.delete_thread("copy")
            assert connection.execute("SELECT count(*) FROM perdure_value").fetchone() == (0,)
            assert connection.execute("SELECT count(*) FROM perdure_thread").fetchone() == (0,)


def unreferred(connection: sqlite3.Connection) -> set[int]:
    from perdure.checkpoint.shelf import referred
    from perdure.checkpoint.sqlite.maintenance import _forms
    from perdure.checkpoint.sqlite.tables import fetch_references

    cursor = connection.cursor()
    threads = cursor.execute("SELECT key FROM perdure_thread").fetchall()
    forms = [form for (key,) in threads for form in _forms(cursor, key)]
    rows = {row for (row,) in cursor.execute("SELECT id FROM perdure_value").fetchall()}
    return rows - referred(forms, fetch_references(cursor)).keys()


def test_statements_have_no_numbered_placeholders():
    """Python 3.12 warns of `?1` beside a sequence of values, and 3.14 refuses it."""
    texts = [text for text in vars(sql).values() if isinstance(text, str)]
    assert len(texts) > 30
    assert not [text for text in texts if re.search(r"\?\d", text)]
