"""What every test may ask for: a driver, a saver, a thread.

**One body for sync and async.** A test that takes `drive` runs twice, through `invoke` and
through `ainvoke`; it calls the workflow by `drive` alone:

    def test_a_finished_task_is_not_run_again(drive, saver, thread):
        '''A task that returned before the pause is replayed after it.'''
        ran = []

        @task
        def fetch(n):
            ran.append(n)
            return n

        @entrypoint(checkpointer=saver)
        def flow(n):
            return fetch(n).result(), interrupt("go on?")

        paused = drive.invoke(flow, 1, thread())
        assert paused["__interrupt__"][0].value == "go on?"
        assert drive.invoke(flow, Command(resume=True), thread()) == (1, True)
        assert ran == [1]

Plain functions serve both drivers (an async run sends them to worker threads). To have a
function that makes no calls be a coroutine under the async driver, wrap it with `drive.fn`:

    builder.add_node("count", drive.fn(lambda state: {"n": state["n"] + 1}))

A body that is a coroutine by nature takes no `drive`; it runs under plain `asyncio.run`.

**Savers.** A test that takes `saver` runs on memory and on a SQLite file. `thread("a")` is the
config that names thread a; `thread()` names a default one.

**LangChain.** Tests that need it carry `@pytest.mark.langchain` (or `pytestmark`), and import it
inside the test or in a file named `test_langchain*.py`. With PERDURE_TEST_WITHOUT_LANGCHAIN=1
its import is blocked and those tests are deselected.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

WITHOUT_LANGCHAIN = os.environ.get("PERDURE_TEST_WITHOUT_LANGCHAIN", "0") not in ("", "0")

collect_ignore_glob = ["**/test_langchain*.py"] if WITHOUT_LANGCHAIN else []


class BlockedImports:
    """An import finder for which some packages are not installed."""

    def __init__(self, *packages: str) -> None:
        self.packages = packages

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in self.packages:
            raise ModuleNotFoundError(f"No module named {name!r} (blocked for this run)", name=name)
        return None


def pytest_configure(config: pytest.Config) -> None:
    if WITHOUT_LANGCHAIN:
        sys.meta_path.insert(0, BlockedImports("langchain_core", "langchain", "langsmith"))


def pytest_report_header(config: pytest.Config) -> str:
    return f"langchain_core: {'blocked' if WITHOUT_LANGCHAIN else 'importable'}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not WITHOUT_LANGCHAIN:
        return
    needing = [item for item in items if item.get_closest_marker("langchain")]
    if needing:
        items[:] = [item for item in items if item not in set(needing)]
        config.hook.pytest_deselected(items=needing)


class SyncDrive:
    """Calls a workflow by its sync methods."""

    name = "sync"
    is_async = False

    def fn(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function as this driver's users write it: plain here, a coroutine in AsyncDrive."""
        return function

    def invoke(self, workflow: Any, input: Any, config: Any = None, **kw: Any) -> Any:
        return workflow.invoke(input, config, **kw)

    def stream(self, workflow: Any, input: Any, config: Any = None, **kw: Any) -> list[Any]:
        """Every item of the stream, read to its end."""
        return list(workflow.stream(input, config, **kw))

    def get_state(self, workflow: Any, config: Any, **kw: Any) -> Any:
        return workflow.get_state(config, **kw)

    def history(self, workflow: Any, config: Any, **kw: Any) -> list[Any]:
        return list(workflow.get_state_history(config, **kw))

    def update_state(self, workflow: Any, config: Any, values: Any, *args: Any, **kw: Any) -> Any:
        return workflow.update_state(config, values, *args, **kw)

    def bulk_update_state(self, workflow: Any, config: Any, supersteps: Any) -> Any:
        return workflow.bulk_update_state(config, supersteps)


class AsyncDrive:
    """Calls a workflow by its async methods, each call on an event loop of its own."""

    name = "async"
    is_async = True

    def fn(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def coroutine(*args: Any, **kw: Any) -> Any:
            return function(*args, **kw)

        return coroutine

    def invoke(self, workflow: Any, input: Any, config: Any = None, **kw: Any) -> Any:
        return asyncio.run(workflow.ainvoke(input, config, **kw))

    def stream(self, workflow: Any, input: Any, config: Any = None, **kw: Any) -> list[Any]:
        async def read() -> list[Any]:
            return [item async for item in workflow.astream(input, config, **kw)]

        return asyncio.run(read())

    def get_state(self, workflow: Any, config: Any, **kw: Any) -> Any:
        return asyncio.run(workflow.aget_state(config, **kw))

    def history(self, workflow: Any, config: Any, **kw: Any) -> list[Any]:
        async def read() -> list[Any]:
            return [state async for state in workflow.aget_state_history(config, **kw)]

        return asyncio.run(read())

    def update_state(self, workflow: Any, config: Any, values: Any, *args: Any, **kw: Any) -> Any:
        return asyncio.run(workflow.aupdate_state(config, values, *args, **kw))

    def bulk_update_state(self, workflow: Any, config: Any, supersteps: Any) -> Any:
        return asyncio.run(workflow.abulk_update_state(config, supersteps))


Drive = SyncDrive | AsyncDrive


@pytest.fixture(params=[SyncDrive, AsyncDrive], ids=["sync", "async"])
def drive(request: pytest.FixtureRequest) -> Drive:
    """Calls workflows by their sync methods, then by their async ones."""
    driver: Drive = request.param()
    return driver


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A fresh saver: in memory, then on a SQLite file."""
    if request.param == "memory":
        from perdure.checkpoint.memory import InMemorySaver

        yield InMemorySaver()
    else:
        yield from _sqlite(tmp_path / "threads.db")


@pytest.fixture
def sqlite_saver(tmp_path: Path) -> Iterator[Any]:
    """A fresh saver on a SQLite file."""
    yield from _sqlite(tmp_path / "threads.db")


def _sqlite(path: Path) -> Iterator[Any]:
    from perdure.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(str(path)) as saver:
        yield saver


@pytest.fixture
def thread() -> Callable[..., dict[str, Any]]:
    """Makes the config that names a thread; further keywords go beside `thread_id`."""

    def config(name: str = "t", **configurable: Any) -> dict[str, Any]:
        return {"configurable": {"thread_id": name, **configurable}}

    return config
