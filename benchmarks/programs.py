"""The programs that both sides run, word for word; BENCH_ROOT names the package they import.

Each program takes a scratch folder and returns one figure in the unit of its catalogue entry.
What is not under test (building, filling, opening files) is done outside the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, TypedDict

ROOT = os.environ["BENCH_ROOT"]
STEPS, TASKS, CALLS, TURNS = 1000, 500, 300, 200

func = importlib.import_module(f"{ROOT}.func")
graph = importlib.import_module(f"{ROOT}.graph")
types = importlib.import_module(f"{ROOT}.types")
memory = importlib.import_module(f"{ROOT}.checkpoint.memory")

Program = Callable[[Path], float]
PROGRAMS: dict[str, Program] = {}
CONFIG = {"configurable": {"thread_id": "bench"}, "recursion_limit": STEPS + 10}
MICRO, MILLI = 1e6, 1e3


def program(name: str) -> Callable[[Program], Program]:
    def keep(run: Program) -> Program:
        PROGRAMS[name] = run
        return run

    return keep


@contextlib.contextmanager
def saver(home: str, folder: Path) -> Iterator[Any]:
    """A saver of that home, fresh: `none`, `memory` or `sqlite`."""
    if home == "sqlite":
        sqlite = importlib.import_module(f"{ROOT}.checkpoint.sqlite")
        with sqlite.SqliteSaver.from_conn_string(str(folder / "bench.db")) as it:
            yield it
    else:
        yield memory.InMemorySaver() if home == "memory" else None


@contextlib.asynccontextmanager
async def async_saver(home: str, folder: Path) -> AsyncIterator[Any]:
    if home == "sqlite":
        aio = importlib.import_module(f"{ROOT}.checkpoint.sqlite.aio")
        async with aio.AsyncSqliteSaver.from_conn_string(str(folder / "bench.db")) as it:
            yield it
    else:
        yield memory.InMemorySaver() if home == "memory" else None


# --- supersteps


class Count(TypedDict):
    n: int


def step(state: Count) -> Count:
    return {"n": state["n"] + 1}


def more(state: Count) -> str:
    return "step" if state["n"] < STEPS else graph.END


def loop(home: str, options: dict[str, Any], folder: Path) -> float:
    builder = graph.StateGraph(Count)
    builder.add_node("step", step)
    builder.add_edge(graph.START, "step")
    builder.add_conditional_edges("step", more)
    with saver(home, folder) as checkpointer:
        counting = builder.compile(checkpointer=checkpointer)
        began = perf_counter()
        result = counting.invoke({"n": 0}, CONFIG, **options)
        took = perf_counter() - began
    assert result == {"n": STEPS}
    return took / STEPS * MICRO


@program("step")
def _(folder: Path) -> float:
    return loop("none", {}, folder)


for _home in ("memory", "sqlite"):
    for _mode in ("exit", "async", "sync"):

        @program(f"step-{_home}-{_mode}")
        def _(folder: Path, home: str = _home, mode: str = _mode) -> float:
            return loop(home, {"durability": mode}, folder)


# --- tasks


@func.task
def double(n: int) -> int:
    return n * 2


@func.task
async def double_async(n: int) -> int:
    return n * 2


def sequential(count: int) -> int:
    return sum([double(n).result() for n in range(count)])


def parallel(count: int) -> int:
    return sum([call.result() for call in [double(n) for n in range(count)]])


async def sequential_async(count: int) -> int:
    return sum([await double_async(n) for n in range(count)])


async def parallel_async(count: int) -> int:
    return sum(await asyncio.gather(*[double_async(n) for n in range(count)]))


EXPECTED = sum(n * 2 for n in range(TASKS))


def run_tasks(body: Callable[[int], int], home: str, folder: Path) -> float:
    with saver(home, folder) as checkpointer:
        flow = func.entrypoint(checkpointer=checkpointer)(body)
        options = {} if home == "none" else {"durability": "sync"}
        began = perf_counter()
        result = flow.invoke(TASKS, CONFIG, **options)
        took = perf_counter() - began
    assert result == EXPECTED
    return took / TASKS * MICRO


def run_tasks_async(body: Callable[[int], Any], home: str, folder: Path) -> float:
    async def main() -> float:
        async with async_saver(home, folder) as checkpointer:
            flow = func.entrypoint(checkpointer=checkpointer)(body)
            options = {} if home == "none" else {"durability": "sync"}
            began = perf_counter()
            result = await flow.ainvoke(TASKS, CONFIG, **options)
            took = perf_counter() - began
        assert result == EXPECTED
        return took / TASKS * MICRO

    return asyncio.run(main())


for _home in ("none", "sqlite"):
    for _shape, _body, _abody in (
        ("sequential", sequential, sequential_async),
        ("parallel", parallel, parallel_async),
    ):

        @program(f"task-{_shape}-sync-{_home}")
        def _(folder: Path, home: str = _home, body: Any = _body) -> float:
            return run_tasks(body, home, folder)

        @program(f"task-{_shape}-async-{_home}")
        def _(folder: Path, home: str = _home, body: Any = _abody) -> float:
            return run_tasks_async(body, home, folder)


# --- calls, resume


@func.entrypoint()
def nothing(given: int) -> int:
    return given


@func.entrypoint()
async def nothing_async(given: int) -> int:
    return given


@program("call")
def _(folder: Path) -> float:
    began = perf_counter()
    for n in range(CALLS):
        nothing.invoke(n)
    return (perf_counter() - began) / CALLS * MICRO


@program("call-async")
def _(folder: Path) -> float:
    async def main() -> float:
        began = perf_counter()
        for n in range(CALLS):
            await nothing_async.ainvoke(n)
        return (perf_counter() - began) / CALLS * MICRO

    return asyncio.run(main())


def resume(home: str, folder: Path) -> float:
    with saver(home, folder) as checkpointer:

        @func.entrypoint(checkpointer=checkpointer)
        def flow(count: int) -> int:
            total = sequential(count)
            return total if types.interrupt("go on?") else 0

        flow.invoke(TASKS, CONFIG, durability="sync")
        began = perf_counter()
        result = flow.invoke(types.Command(resume=True), CONFIG, durability="sync")
        took = perf_counter() - began
    assert result == EXPECTED
    return took * MILLI


@program("resume-memory")
def _(folder: Path) -> float:
    return resume("memory", folder)


@program("resume-sqlite")
def _(folder: Path) -> float:
    return resume("sqlite", folder)


# --- import


@program("import")
def _(folder: Path) -> float:
    code = f"import {ROOT}.func, {ROOT}.graph, {ROOT}.types, {ROOT}.checkpoint.memory"
    # An installer has compiled the peer; here a first import does it, where nothing forbids that.
    writing = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", code], check=True, env=writing)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * MILLI


# --- a long chat


def chat(folder: Path) -> tuple[float, float]:
    """A thread of 200 turns of 2 kB. Returns kB on disk and us a turn."""
    messages = importlib.import_module("langchain_core.messages")

    def answer(state: dict[str, Any]) -> dict[str, Any]:
        turn = len(state["messages"])
        return {"messages": [messages.AIMessage(content=f"{turn:06}" + "a" * 994)]}

    builder = graph.StateGraph(graph.MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(graph.START, "answer")
    with saver("sqlite", folder) as checkpointer:
        talking = builder.compile(checkpointer=checkpointer)
        began = perf_counter()
        for turn in range(TURNS):
            text = messages.HumanMessage(content=f"{turn:06}" + "q" * 994)
            result = talking.invoke({"messages": [text]}, CONFIG, durability="sync")
        took = perf_counter() - began
    assert len(result["messages"]) == TURNS * 2
    size = sum(file.stat().st_size for file in folder.iterdir())
    return size / 1000, took / TURNS * MICRO


@program("chat-file")
def _(folder: Path) -> float:
    return chat(folder)[0]


@program("chat-turn")
def _(folder: Path) -> float:
    return chat(folder)[1]


# --- the floor under a SQLite superstep


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


@program("sqlite-raw")
def _(folder: Path) -> float:
    """One insert and commit per step, of as many bytes as a superstep of this side stores."""
    loop("sqlite", {"durability": "sync"}, folder)
    body = os.urandom(stored_bytes(folder / "bench.db") // STEPS)
    with contextlib.closing(sqlite3.connect(folder / "raw.db", isolation_level=None)) as db:
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = full")
        db.execute("create table record (id integer primary key, body blob)")
        began = perf_counter()
        for _step in range(STEPS):
            db.execute("begin immediate")
            db.execute("insert into record (body) values (?)", (body,))
            db.execute("commit")
        return (perf_counter() - began) / STEPS * MICRO
