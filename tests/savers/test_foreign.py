"""Savers of other make, driven by the engine through the documented methods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.checkpoint.base import BaseCheckpointSaver
from perdure.checkpoint.memory import InMemorySaver
from perdure.func import entrypoint, task
from savers.makers import checkpoint, config

T = {"configurable": {"thread_id": "t"}}


class Kept(BaseCheckpointSaver[int]):
    """The sync half of the port, on a saver of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = InMemorySaver()
        self.failures = 0

    def get_tuple(self, config: Any) -> Any:
        return self.inner.get_tuple(config)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise OSError("the disk is away")
        return self.inner.put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.inner.put_writes(config, writes, task_id, task_path)


class Pathless(Kept):
    """A saver of the time before tasks had paths."""

    def put_writes(self, config: Any, writes: Any, task_id: str) -> None:  # type: ignore[override]
        self.inner.put_writes(config, writes, task_id)


class AsyncPathless(Kept):
    """The same with an async half of its own."""

    async def aput_writes(self, config: Any, writes: Any, task_id: str) -> None:  # type: ignore[override]
        self.inner.put_writes(config, writes, task_id)


def workflow(saver: Any) -> Any:
    @task
    def double(x: int) -> int:
        return 2 * x

    @entrypoint(checkpointer=saver)
    def doubled(x: int) -> int:
        return double(x).result() + double(x + 1).result()

    return doubled


def ainvoke(saver: Any, x: int) -> Any:
    return asyncio.run(workflow(saver).ainvoke(x, T))


def invoke(saver: Any, x: int) -> Any:
    return workflow(saver).invoke(x, T)


@pytest.mark.parametrize("run", [invoke, ainvoke])
@pytest.mark.parametrize("make", [Kept, Pathless, AsyncPathless])
def test_a_saver_need_not_know_of_task_paths(make: Any, run: Any) -> None:
    """Where `put_writes` has no `task_path`, none is handed over, sync or async."""
    assert run(make(), 1) == 6


def test_default_aput_writes_hands_a_path_on() -> None:
    """The async method that a saver inherits tells its sync twin the path that it is given."""
    saver = Kept()
    at = saver.put(config(), checkpoint(), {}, {})
    asyncio.run(saver.aput_writes(at, [("a", "second")], "first id", "path 2"))
    asyncio.run(saver.aput_writes(at, [("a", "first")], "second id", "path 1"))
    assert [value for _, _, value in saver.get_tuple(at).pending_writes] == ["first", "second"]


@pytest.mark.parametrize("run", [invoke, ainvoke])
def test_a_failed_beginning_leaves_the_thread_free(run: Any) -> None:
    """When storing the first batch fails, the next run may have the thread."""
    saver = Kept()
    saver.failures = 1
    with pytest.raises(OSError, match="the disk is away"):
        run(saver, 1)
    assert run(saver, 2) == 10


def test_a_beginning_that_is_cancelled_leaves_the_thread_free() -> None:
    """A run that is cancelled while its first batch is stored frees the thread itself."""
    stored = asyncio.Event()

    class Slow(Kept):
        async def aput(self, *arguments: Any) -> Any:
            stored.set()
            await asyncio.Event().wait()

    async def run() -> None:
        running = asyncio.create_task(workflow(saver).ainvoke(1, T))
        await stored.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    saver = Slow()
    asyncio.run(run())
    assert invoke(saver, 2) == 10
