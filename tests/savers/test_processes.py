"""Several processes on one file: leases, kills, forks."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.port import Batch, ThreadChanged
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.checkpoint.sqlite.owners import Owner, Process, is_gone, process_start, this_process
from perdure.errors import ThreadBusyError
from savers.makers import checkpoint, config, first, holding, new

HERE = Path(__file__).parent
DEADLINE = 60.0


class Holder:
    """A process that holds thread `t`."""

    def __init__(self, path: Path, ttl: float = 30.0) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            [sys.executable, HERE / "holding.py", path, str(ttl)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.epoch = int(self.read().split()[1])

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, order: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return self.read()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "threads.db"


@pytest.fixture
def saver(path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver(path) as opened:
        yield opened


@pytest.fixture
def holder(path: Path, saver: SqliteSaver) -> Iterator[Holder]:
    saver.setup()
    made = Holder(path)
    yield made
    made.end()


def claim(saver: SqliteSaver, **values: Any) -> None:
    """Takes thread `t` as a run does, which loads it again when it has changed."""
    for _ in range(2):
        try:
            saver.submit(first("t", saver.load("t", "").epoch + 1, **values)).wait()
            return
        except ThreadChanged:
            continue
    raise AssertionError("the thread changed all the time")


# -- leases --------------------------------------------------------------------------------------


def test_a_thread_of_a_living_process_is_busy(holder: Holder, saver: SqliteSaver) -> None:
    """The error names the process that holds the thread."""
    with pytest.raises(ThreadBusyError, match=f"held by process {holder.process.pid} on "):
        claim(saver)


def test_a_thread_that_was_released_is_free(holder: Holder, saver: SqliteSaver) -> None:
    """Another process may take it at once, and the first cannot write any more."""
    assert holder.ask("release") == "stored"
    claim(saver, n=5)
    assert holder.ask("write") == "LeaseLostError"


def test_a_killed_process_holds_nothing(holder: Holder, saver: SqliteSaver) -> None:
    """After kill -9 the thread can be taken at once, even before anybody has reaped the process."""
    holder.process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, holder.process.pid, os.WEXITED | os.WNOWAIT)
    claim(saver, n=5)
    assert saver.load("t", "").epoch > holder.epoch


def test_a_process_that_ended_holds_nothing(holder: Holder, saver: SqliteSaver) -> None:
    """A process that ended without freeing its thread does not block it."""
    holder.process.communicate()
    claim(saver, n=5)


def test_a_stopped_process_loses_its_thread(path: Path, saver: SqliteSaver) -> None:
    """A process that is stopped past its time to live is taken for gone, and cannot write when it
    goes on."""
    saver.setup()
    holder = Holder(path, ttl=0.3)
    try:
        holder.process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            try:
                claim(saver, n=5)
                break
            except ThreadBusyError:
                continue
        holder.process.send_signal(signal.SIGCONT)
        assert holder.ask("write") == "LeaseLostError"
    finally:
        holder.end()
    assert saver.load("t", "").tuple.checkpoint["channel_values"] == {"n": 5}  # type: ignore[union-attr]


def test_owners_beat_while_they_hold_something(path: Path) -> None:
    """The beat of an owner moves on by itself, and ends with the last lease."""
    with SqliteSaver(path, lease_ttl=0.05) as saver, closing(sqlite3.connect(path)) as other:
        claim(saver)
        began = beat(other)
        deadline = time.monotonic() + DEADLINE
        while beat(other) == began:
            assert time.monotonic() < deadline
        saver.submit(Batch("t", 1, release=True)).wait()
        beating = saver._leases._beating
        if beating is not None:
            beating.join(DEADLINE)
            assert not beating.is_alive()


def beat(connection: sqlite3.Connection) -> Any:
    return connection.execute("SELECT ticks FROM perdure_owner").fetchone()


def test_closing_frees_what_is_held(path: Path, saver: SqliteSaver) -> None:
    """After `close` nothing is held and the owner has signed off."""
    with SqliteSaver(path) as other:
        claim(other)
    claim(saver)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM perdure_owner").fetchone() == (1,)


def test_savers_of_one_process_respect_each_other(path: Path, saver: SqliteSaver) -> None:
    """Two savers on one file are two owners."""
    claim(saver)
    with SqliteSaver(path) as other, pytest.raises(ThreadBusyError):
        claim(other)


def test_a_thread_that_is_held_is_not_deleted_elsewhere(path: Path, saver: SqliteSaver) -> None:
    """Another saver may not delete a thread under a living run, even in code of that run."""
    claim(saver)
    with SqliteSaver(path) as other:
        with holding("t"), pytest.raises(ThreadBusyError):
            other.delete_thread("t")
        saver.submit(Batch("t", 1, checkpoint=new(2, n=1))).wait()
        assert len(list(other.list(config()))) == 2


def test_a_thread_of_a_dead_process_is_deleted(path: Path, saver: SqliteSaver, holder: Holder) -> None:
    """Who is gone holds nothing back, and a run of his that came back could not bring it back."""
    holder.end()
    saver.delete_thread("t")
    assert saver.get_tuple(config()) is None
    assert saver.load("t", "").epoch > holder.epoch


def test_pruning_elsewhere_harms_no_run(path: Path, saver: SqliteSaver) -> None:
    """What another saver removes is stored again where a run still needs it."""
    long = ["long enough to lie in a row of its own " * 3]
    begin = first("t", a=long, b=long)
    saver.submit(begin).wait()
    at = begin.checkpoint.checkpoint["id"]  # type: ignore[union-attr]
    with SqliteSaver(path) as other:
        where = other.put(config(), checkpoint(a=1), {}, {})
        other.prune(["t"])
        saver.submit(Batch("t", 1, checkpoint=new(2, at, changed=(), a=long, b=long))).wait()
        found = other.get_tuple(config())
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": long, "b": long}
        assert other.get_tuple(where) is not None


def test_of_two_claims_at_once_one_wins(path: Path) -> None:
    """However many take a thread at the same instant, one gets it."""
    savers = [SqliteSaver(path) for _ in range(6)]
    epochs = [saver.load("t", "").epoch for saver in savers]
    together = threading.Barrier(len(savers))
    outcomes: list[Any] = []

    def work(saver: SqliteSaver, epoch: int) -> None:
        batch = first("t", epoch + 1)
        together.wait()
        try:
            saver.submit(batch).wait()
            outcomes.append("won")
        except (ThreadBusyError, ThreadChanged):
            outcomes.append("lost")

    threads = [threading.Thread(target=work, args=each) for each in zip(savers, epochs, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for saver in savers:
        saver.close()
    assert sorted(outcomes) == ["lost"] * 5 + ["won"]


HOST = Process("host", "boot", 50, "500")


def test_what_a_lost_owner_wrote_last_is_seen(path: Path, holder: Holder, saver: SqliteSaver) -> None:
    """A claim on a thread whose owner is gone is refused once: the owner may have written since
    the thread was loaded."""
    loaded = saver.load("t", "")
    assert holder.ask("write") == "stored"
    holder.end()
    with pytest.raises(ThreadChanged):
        saver.submit(first("t", loaded.epoch + 1)).wait()
    found = saver.load("t", "")
    assert found.tuple is not None
    assert found.tuple.checkpoint["channel_values"] == {"n": 1}
    saver.submit(first("t", found.epoch + 1)).wait()


@pytest.mark.parametrize(
    ("owner", "gone"),
    [
        (Owner(1, "host", "boot", 50, "500", 30, ticks=100, wall=0), False),
        (Owner(1, "host", "boot", 50, "499", 30, ticks=100, wall=0), True),  # our number, used again
        (Owner(1, "host", "boot", 50, "500", 30, ticks=60, wall=1000), True),  # the beat is old
        (Owner(1, "host", "boot", 2**22 + 1, "5", 30, ticks=100, wall=1000), True),  # no such process
        (Owner(1, "host", "before", 50, "500", 30, ticks=100, wall=990), False),  # another boot
        (Owner(1, "host", "before", 50, "500", 30, ticks=100, wall=969), True),
        (Owner(1, "other", "boot", 50, "500", 30, ticks=0, wall=990), False),  # another machine
        (Owner(1, "other", "boot", 50, "500", 5, ticks=100, wall=990), True),  # its own time to live
    ],
)
def test_when_an_owner_is_gone(owner: Owner, gone: bool) -> None:
    """On this machine its process and its beat tell, elsewhere the beat alone."""
    assert is_gone(owner, HOST, ticks=100, wall=1000) is gone


def test_processes_are_told_apart_by_their_start() -> None:
    """A process knows its own start, and that of others as long as they run."""
    here = this_process()
    assert here.pid == os.getpid()
    assert process_start(here.pid) == here.started
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert process_start(child.pid) != ""
    child.communicate()
    assert process_start(child.pid) == ""


# -- crashes -------------------------------------------------------------------------------------


def test_a_crash_between_any_two_statements(path: Path) -> None:
    """Whenever a process dies while it stores a batch, the thread is as before or as after, and
    the next run goes on."""
    with SqliteSaver(path) as saver:
        saver.submit(first("t", messages=[{"text": "question " * 30}], n=0)).wait()
    runs = 0
    for number in itertools.count():
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        code = subprocess.call([sys.executable, HERE / "crashing.py", path, str(number)], env=environment)
        assert code in (0, 9)
        runs += code == 0
        with SqliteSaver(path) as saver:
            found = saver.load("t", "").tuple
            assert found is not None
            values = found.checkpoint["channel_values"]
            assert (values["n"], len(values["messages"])) == (runs, runs + 1)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        if code == 0:
            break
    assert number > 5


def test_processes_share_a_file(path: Path) -> None:
    """Many processes work on threads of their own in one file, from its very creation."""
    code = (
        "import sys; from savers.makers import *; from perdure.checkpoint.sqlite import SqliteSaver\n"
        "with SqliteSaver(sys.argv[1]) as saver:\n"
        "    where = config(sys.argv[2])\n"
        "    for n in range(30):\n"
        "        where = saver.put(where, checkpoint(xs=['x' * 40] * n), {'n': n}, {})\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(HERE.parent)])}
    processes = [
        subprocess.Popen([sys.executable, "-c", code, path, f"t{n}"], env=environment, stderr=subprocess.PIPE)
        for n in range(4)
    ]
    assert [process.communicate()[1] for process in processes] == [b""] * 4
    with SqliteSaver(path) as saver:
        for n in range(4):
            assert len(list(saver.list(config(f"t{n}")))) == 30


FORK = """
import os, sys
from savers.makers import *
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import SaverClosedError

def value(saver, where):
    return saver.get_tuple(where).checkpoint["channel_values"]["a"]

saver, memory = SqliteSaver(sys.argv[1]), SqliteSaver(":memory:")
where = saver.put(config(), checkpoint(a="before" * 20), {}, {})
memory.put(config(), checkpoint(a=1), {}, {})
child = os.fork()
if child == 0:
    assert value(saver, where) == "before" * 20
    saver.put(where, checkpoint(a="child" * 20), {}, {})
    try:
        memory.get_tuple(config())
    except SaverClosedError as error:
        assert "make a new saver after the fork" in str(error)
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert value(saver, config()) == "child" * 20
saver.put(config(), checkpoint(a="after" * 20), {}, {})
assert value(saver, config()) == "after" * 20
assert value(memory, config()) == 1
"""


def test_a_forked_child_opens_the_file_anew(path: Path) -> None:
    """After fork() the child has connections of its own; what it cannot have it says."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(HERE.parent)])}
    subprocess.run([sys.executable, "-c", FORK, path], env=environment, check=True, timeout=DEADLINE)


def test_a_fork_in_the_middle_of_other_work_hangs_no_child(path: Path) -> None:
    """Children that were forked while threads stored and read use the file at once."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, "-W", "ignore", HERE / "forking.py", path]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=DEADLINE)
    assert done.stdout == f"{[0] * 40} 1\n", done.stderr
