"""Promises that several rooms keep together: small threads, values that stay what they were, no
trust in clocks."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import TypedDict

from perdure import END, START, MessagesState, StateGraph, entrypoint, interrupt, task
from perdure.checkpoint.sqlite import SqliteSaver


def stored_bytes(file: Path) -> int:
    """Bytes of all values in all tables of a database."""
    with contextlib.closing(sqlite3.connect(file)) as db:
        tables = [name for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
        total = 0
        for table in tables:
            columns = [row[1] for row in db.execute(f'pragma table_info("{table}")')]
            lengths = " + ".join(f'coalesce(length(cast("{column}" as blob)), 0)' for column in columns)
            total += db.execute(f'select coalesce(sum({lengths}), 0) from "{table}"').fetchone()[0]
    return int(total)


class Constant(TypedDict, total=False):
    big: bytes
    n: int


def test_a_value_that_does_not_change_is_stored_once(tmp_path: Path, drive: Any, thread: Any) -> None:
    """Twenty supersteps over one megabyte of constant state keep one copy of it."""
    file = tmp_path / "threads.db"
    builder = StateGraph(Constant)
    builder.add_node("step", lambda state: {"n": state["n"] + 1})
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: "step" if state["n"] < 20 else END)
    with SqliteSaver.from_conn_string(str(file)) as saver:
        drive.invoke(builder.compile(checkpointer=saver), {"big": os.urandom(1_000_000), "n": 0}, thread())
    assert 1_000_000 < stored_bytes(file) < 1_100_000


def test_bytes_per_turn_do_not_grow_with_the_chat(tmp_path: Path, drive: Any, thread: Any) -> None:
    """The last ten of sixty turns store about as much as the first ten."""
    file = tmp_path / "threads.db"
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda state: {"messages": [{"role": "assistant", "content": "a" * 500}]})
    builder.add_edge(START, "answer")
    sizes = [0]
    with SqliteSaver.from_conn_string(str(file)) as saver:
        graph = builder.compile(checkpointer=saver)
        for turn in range(60):
            question = {"role": "user", "content": f"{turn:500}"}
            drive.invoke(graph, {"messages": [question]}, thread())
            sizes.append(stored_bytes(file))
    first, last = sizes[20] - sizes[10], sizes[60] - sizes[50]
    assert last < first * 1.25


def test_a_clock_set_back_hides_nothing(
    saver: Any, drive: Any, thread: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that begins an hour before the last one, by the clock, goes on from what that one left."""

    @entrypoint(checkpointer=saver)
    def counter(step: int, *, previous: int | None = None) -> int:
        return (previous or 0) + step

    assert drive.invoke(counter, 1, thread()) == 1
    now, now_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: now() - 3600)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() - 3600 * 10**9)
    assert drive.invoke(counter, 1, thread()) == 2
    assert drive.invoke(counter, 1, thread()) == 3


def test_the_first_pass_sees_what_a_replay_sees(saver: Any, drive: Any, thread: Any) -> None:
    """A result has the same type and value before it was ever read back as after."""
    seen = []

    @task
    def work() -> Any:
        return {"pairs": {(1, 2)}, "span": range(3), "raw": b"x"}

    @entrypoint(checkpointer=saver)
    def workflow(given: int) -> Any:
        seen.append(work().result())
        return interrupt("go on?")

    drive.invoke(workflow, 1, thread())
    drive.invoke(workflow, None, thread())
    assert seen == [{"pairs": {(1, 2)}, "span": range(3), "raw": b"x"}] * 2
