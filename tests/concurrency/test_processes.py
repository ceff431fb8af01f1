"""One run at a time on a thread, across processes that share a SQLite file."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import ThreadBusyError
from perdure.func import entrypoint, task

T = {"configurable": {"thread_id": "t"}}
HOLDER = str(Path(__file__).with_name("holder.py"))
ENV = {**os.environ, "PYTHONPATH": str(Path(perdure.__file__).parents[1])}


@contextmanager
def process(path: str, what: str, ttl: float = 30) -> Iterator[subprocess.Popen[str]]:
    """A holder process, killed at the end if it still runs."""
    command = [sys.executable, HOLDER, path, str(ttl), what]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENV
    ) as started:
        try:
            yield started
        finally:
            started.kill()


@contextmanager
def holding(path: str, ttl: float = 30) -> Iterator[subprocess.Popen[str]]:
    """A process whose run holds thread t and waits for a line."""
    with process(path, "hold", ttl) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holding\n"
        yield holder


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "threads.db")


def same_program(saver: Any) -> Any:
    """The holder's workflow without its wait, and where `first` shows that it ran again."""

    @task
    def first():
        return "first again"

    @task
    def wait():
        return "not waited"

    @entrypoint(checkpointer=saver)
    def hold(x):
        return [first().result(), wait().result(), x]

    return hold


def test_another_process_is_refused(drive, path):
    """The error names the thread and the process that holds it."""
    with holding(path) as holder, SqliteSaver.from_conn_string(path) as saver:
        with pytest.raises(ThreadBusyError, match=str(holder.pid)):
            drive.invoke(same_program(saver), "mine", T)
        out, _ = holder.communicate("go\n", timeout=60)
        assert out == "['first', 'waited', 'held']\n"
        assert drive.get_state(same_program(saver), T).values == ["first", "waited", "held"]


def test_kill_and_resume_at_once(drive, path):
    """After kill -9 the thread is free without waiting, and finished work is kept."""
    with holding(path, ttl=3600) as holder, SqliteSaver.from_conn_string(path) as saver:
        holder.kill()
        holder.wait(60)
        assert drive.invoke(same_program(saver), None, T) == ["first", "not waited", "held"]
    assert Path(f"{path}.log").read_text() == "first\n"


def test_waiting_caller_is_woken_by_a_kill(drive, path):
    """A caller that waits for a process gets the thread when that process dies."""
    with holding(path, ttl=3600) as holder, SqliteSaver.from_conn_string(path) as saver:
        with pytest.raises(ThreadBusyError):
            drive.invoke(same_program(saver), None, T)
        holder.kill()
        result = drive.invoke(same_program(saver), None, T, on_busy="wait")
        assert result == ["first", "not waited", "held"]


def test_stopped_process_cannot_write_after_its_lease(drive, path):
    """A process stopped past its lease finds it lost; what it did since is not stored."""
    with holding(path, ttl=0.5) as holder, SqliteSaver.from_conn_string(path) as saver:
        holder.send_signal(signal.SIGSTOP)
        result = drive.invoke(same_program(saver), None, T, on_busy="wait")
        assert result == ["first", "not waited", "held"]
        holder.send_signal(signal.SIGCONT)
        out, _ = holder.communicate("go\n", timeout=60)
        assert out == "LeaseLostError\n"
        assert drive.get_state(same_program(saver), T).values == ["first", "not waited", "held"]


def test_living_process_keeps_its_lease(drive, path):
    """A slow run that beats is not robbed, however short the lease."""
    with holding(path, ttl=0.2) as holder, SqliteSaver.from_conn_string(path) as saver:
        several_leases_later = time.monotonic() + 4 * 0.2
        while time.monotonic() < several_leases_later:
            with pytest.raises(ThreadBusyError):
                drive.invoke(same_program(saver), None, T)
        out, _ = holder.communicate("go\n", timeout=60)
        assert out == "['first', 'waited', 'held']\n"


def test_no_update_is_lost_between_processes(path):
    """Three processes that count on one thread, waiting for each other, count to thirty."""
    commands = [[sys.executable, HOLDER, path, "30", "count"]] * 3
    started = [
        subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV)
        for c in commands
    ]
    outs = [p.communicate(timeout=100) for p in started]
    assert [out for out, _ in outs] == ["done\n"] * 3, outs

    with SqliteSaver.from_conn_string(path) as saver:

        @entrypoint(checkpointer=saver)
        def counter(step, *, previous=None):
            return previous

        assert counter.invoke(0, T) == 30


def test_processes_on_different_threads_do_not_meet(path):
    """Several processes work on one file at once without an error."""
    started = [
        subprocess.Popen(
            [sys.executable, HOLDER, path, "30", f"thread-{i}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENV,
        )
        for i in range(3)
    ]
    outs = [p.communicate(timeout=100) for p in started]
    assert [out for out, _ in outs] == ["20\n"] * 3, outs
