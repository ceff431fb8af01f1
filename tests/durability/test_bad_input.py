"""What a run is given that it cannot work with: typed errors that say what to do."""

import sqlite3
import threading
from typing import TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import (
    NewerFormatError,
    NotADatabaseError,
    ReadOnlyDatabaseError,
    SaverClosedError,
    StoreFormatError,
    UnstorableError,
)
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.types import interrupt

T = {"configurable": {"thread_id": "t"}}
DURABILITIES = ["sync", "async", "exit"]


class State(TypedDict, total=False):
    a: object


class Opaque:
    """Nothing that can be stored."""


def plain(saver):
    @task
    def work(x):
        return x

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return work(x).result()

    return workflow


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_unstorable_task_result_names_task_and_path(drive, saver, durability):
    """The error tells which task returned it, where inside, and of which type it is."""
    after = []

    @task
    def fetch():
        return {"rows": [1, {"conn": threading.Lock()}]}

    @task
    def use(rows):
        after.append(rows)

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return use(fetch().result()).result()

    with pytest.raises(UnstorableError) as caught:
        drive.invoke(workflow, 1, T, durability=durability)
    text = str(caught.value)
    assert "fetch" in text
    assert "['rows'][1]['conn']" in text
    assert "lock" in text
    assert after == []


def test_unstorable_is_a_type_error(drive, saver):
    """Callers may catch the documented class."""

    @task
    def fetch():
        return Opaque()

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return fetch().result()

    with pytest.raises(TypeError, match="Opaque"):
        drive.invoke(workflow, 1, T)


def test_unstorable_error_carries_path_and_type(drive, saver):
    """Path and type can be read from the error."""

    @task
    def fetch():
        return [0, {"k": Opaque()}]

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return fetch().result()

    with pytest.raises(UnstorableError) as caught:
        drive.invoke(workflow, 1, T)
    assert caught.value.path == "[1]['k']"
    assert "Opaque" in caught.value.type_name


@pytest.mark.parametrize("durability", DURABILITIES)
def test_unstorable_output_names_the_entrypoint(drive, saver, durability):
    """An entrypoint's return value must be storable."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return {"result": Opaque()}

    with pytest.raises(UnstorableError) as caught:
        drive.invoke(workflow, 1, T, durability=durability)
    assert "workflow" in str(caught.value)
    assert "['result']" in str(caught.value)


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_unstorable_input_fails_before_the_body_runs(drive, saver, durability):
    """An entrypoint's input must be storable."""
    ran = []

    @entrypoint(checkpointer=saver)
    def workflow(x):
        ran.append(1)
        return 1

    with pytest.raises(UnstorableError, match="input") as caught:
        drive.invoke(workflow, {"deep": [Opaque()]}, T, durability=durability)
    assert "['deep'][0]" in str(caught.value)
    assert ran == []


def test_unstorable_node_result_names_the_node(drive, saver):
    """A node's write must be storable."""
    builder = StateGraph(State)
    builder.add_node("fetch", lambda state: {"a": [Opaque()]})
    builder.add_edge(START, "fetch")
    with pytest.raises(UnstorableError) as caught:
        drive.invoke(builder.compile(checkpointer=saver), {}, T)
    assert "fetch" in str(caught.value)
    assert "Opaque" in str(caught.value)


def test_without_saver_nothing_must_be_storable(drive):
    """Where nothing is stored anything may be returned."""

    @task
    def fetch():
        return Opaque()

    @entrypoint()
    def workflow(x):
        return fetch().result()

    assert isinstance(drive.invoke(workflow, Opaque()), Opaque)


def test_after_an_unstorable_result_the_thread_goes_on(drive, saver):
    """With the program mended the same thread resumes; finished tasks are kept."""
    broken, ran = [True], []

    @task
    def first():
        ran.append("first")
        return 1

    @task
    def second():
        ran.append("second")
        return Opaque() if broken[0] else 2

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [first().result(), second().result()]

    with pytest.raises(UnstorableError):
        drive.invoke(workflow, 1, T)
    broken[0] = False
    assert drive.invoke(workflow, None, T) == [1, 2]
    assert ran == ["first", "second", "second"]


def test_body_may_catch_an_unstorable_result(drive, saver):
    """It fails where it was returned: at the call, as an error the body can handle."""

    @task
    def fetch():
        return Opaque()

    @entrypoint(checkpointer=saver)
    def workflow(x):
        try:
            fetch().result()
        except TypeError:
            return "caught"

    assert drive.invoke(workflow, 1, T, durability="sync") == "caught"


@pytest.mark.parametrize("config", [None, {}, {"configurable": {}}, {"configurable": {"x": 1}}])
def test_missing_thread_id_is_named(drive, saver, config):
    """With a saver the config must name a thread; the error says which key is missing."""
    with pytest.raises(ValueError, match="thread_id"):
        drive.invoke(plain(saver), 1, config)


def test_missing_thread_id_of_get_state_is_named(drive, saver):
    """Reading needs a thread too."""
    with pytest.raises(ValueError, match="thread_id"):
        drive.get_state(plain(saver), {"configurable": {}})


def test_reading_without_saver_is_refused(drive):
    """There is no state to get."""
    with pytest.raises(ValueError, match="No checkpointer set"):
        drive.get_state(plain(None), T)


@pytest.mark.parametrize("bad", [object(), "threads.db", InMemorySaver])
def test_bad_checkpointer_is_refused_at_once(bad):
    """What is no saver is refused where it is given."""
    with pytest.raises(TypeError, match="Invalid checkpointer"):
        plain(bad)


def test_closed_saver_says_so(drive, tmp_path):
    """A run on a closed saver is told that it is closed."""
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        workflow = plain(saver)
        drive.invoke(workflow, 1, T)
    with pytest.raises(SaverClosedError, match="closed"):
        drive.invoke(workflow, 1, T)


def test_saver_closed_during_a_run_says_so(drive, tmp_path):
    """Closing the saver under a running task is told as such, and loses nothing stored."""
    path = str(tmp_path / "threads.db")
    ran = []

    def make(saver, close):
        @task
        def work(i):
            ran.append(i)
            if i == 1 and close:
                saver.close()
            return i

        @entrypoint(checkpointer=saver)
        def workflow(x):
            return [work(i).result() for i in range(3)]

        return workflow

    with SqliteSaver.from_conn_string(path) as saver, pytest.raises(SaverClosedError):
        drive.invoke(make(saver, True), 1, T)
    with SqliteSaver.from_conn_string(path) as saver:
        assert drive.invoke(make(saver, False), None, T) == [0, 1, 2]
    assert ran == [0, 1, 1, 2]


def test_file_that_is_no_database(drive, tmp_path):
    """A text file is refused and left as it is."""
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes\n" * 100)
    with pytest.raises(NotADatabaseError), SqliteSaver.from_conn_string(str(path)) as saver:
        drive.invoke(plain(saver), 1, T)
    assert path.read_text() == "these are my notes\n" * 100


def test_read_only_database(drive, tmp_path):
    """A database that cannot be written is told as such."""
    path = tmp_path / "threads.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        drive.invoke(plain(saver), 1, T)
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
    try:
        with pytest.raises(ReadOnlyDatabaseError):
            drive.invoke(plain(SqliteSaver(connection)), 1, T)
    finally:
        connection.close()


def test_folder_that_does_not_exist(drive, tmp_path):
    """A path into nowhere is a clear error that names it."""
    path = str(tmp_path / "missing" / "threads.db")
    with (
        pytest.raises((StoreFormatError, OSError, sqlite3.OperationalError), match="missing"),
        SqliteSaver.from_conn_string(path) as saver,
    ):
        drive.invoke(plain(saver), 1, T)


def test_half_written_transaction_is_no_loss(drive, tmp_path):
    """What a killed writer left uncommitted is not there, and the thread works."""
    path = tmp_path / "threads.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        assert drive.invoke(plain(saver), "kept", T) == "kept"
    copied = tmp_path / "after-the-crash.db"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("begin immediate")
    tables = [row[0] for row in writer.execute("select name from sqlite_master where type = 'table'")]
    for table in tables:
        if not table.startswith("sqlite_"):
            writer.execute(f'delete from "{table}"')
    for suffix in ("", "-wal"):
        source = tmp_path / f"threads.db{suffix}"
        if source.exists():
            (tmp_path / f"after-the-crash.db{suffix}").write_bytes(source.read_bytes())
    writer.execute("rollback")
    writer.close()
    with SqliteSaver.from_conn_string(str(copied)) as saver:
        assert drive.get_state(plain(saver), T).values == "kept"
        assert drive.invoke(plain(saver), "next", T) == "next"


def test_question_cannot_be_unstorable(drive, saver):
    """A question's payload is stored, so it fails where it is asked."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return interrupt({"conn": Opaque()})

    with pytest.raises(UnstorableError, match="Opaque"):
        drive.invoke(workflow, 1, T)


def test_newer_format_is_refused(drive, tmp_path):
    """A file written by a newer perdure is left alone."""
    path = tmp_path / "threads.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        drive.invoke(plain(saver), 1, T)
    writer = sqlite3.connect(path)
    writer.execute("update perdure_meta set value = value + 1000 where key = 'format'")
    writer.commit()
    writer.close()
    with pytest.raises(NewerFormatError), SqliteSaver.from_conn_string(str(path)) as saver:
        drive.invoke(plain(saver), 1, T)
