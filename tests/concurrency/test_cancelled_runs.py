"""A run that is cancelled, at whatever moment, frees its thread and keeps what was finished."""

import asyncio
import threading

import pytest

from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import ThreadBusyError
from perdure.func import entrypoint, task
from perdure.graph import END, START, StateGraph

T = {"configurable": {"thread_id": "t"}}


class HeldSaver(SqliteSaver):
    """Commits what async runs queue up to their n-th write; from there on when it is let go."""

    left: int | None = None

    def hold(self, nth):
        self.left, self.reached = nth - 1, asyncio.Event()

    def let_go(self):
        self.left = None
        self.wake()

    def wake(self):
        if self.left == 0:
            self.reached.set()
            return
        if self.left is not None:
            self.left -= 1
        super().wake()


async def ends_cancelled(call):
    with pytest.raises(asyncio.CancelledError):
        await call


def counting(saver):
    @task
    async def work(i):
        return i

    @entrypoint(checkpointer=saver)
    async def workflow(n):
        return [await work(i) for i in range(n)]

    return workflow


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("first", ["cancel", "commit"])
def test_cancel_during_a_commit_frees_the_thread(tmp_path, nth, first):
    """A run cancelled while its n-th write is on its way to the disk leaves a free thread."""

    async def main(saver):
        workflow = counting(saver)
        saver.hold(nth)
        call = asyncio.create_task(workflow.ainvoke(2, T))
        await saver.reached.wait()
        if first == "cancel":
            call.cancel()
            await asyncio.sleep(0)
            saver.let_go()
        else:
            saver.let_go()
            call.cancel()
        await ends_cancelled(call)
        return await workflow.ainvoke(3, T)

    with HeldSaver(tmp_path / "threads.db") as saver:
        assert asyncio.run(main(saver)) == [0, 1, 2]


@pytest.mark.parametrize("turns", range(0, 24, 2))
def test_cancel_after_any_turn_of_the_loop_frees_the_thread(saver, turns):
    """However far a run has come when it is cancelled, its thread takes a new input."""

    async def main():
        workflow = counting(saver)
        call = asyncio.create_task(workflow.ainvoke(2, T))
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        return await workflow.ainvoke(3, T)

    assert asyncio.run(main()) == [0, 1, 2]


def test_call_that_finishes_as_its_run_is_cancelled_has_not_failed(saver):
    """A call that nobody waited for yet is replayed with its value, or runs again."""

    async def main():
        begun, may_end, stuck = asyncio.Event(), asyncio.Event(), [True]

        @task
        async def work():
            begun.set()
            await may_end.wait()
            return "value"

        @entrypoint(checkpointer=saver)
        async def workflow(x):
            future = work()
            if stuck[0]:
                await asyncio.Event().wait()
            return await future

        call = asyncio.create_task(workflow.ainvoke(1, T))
        await begun.wait()
        call.cancel()
        may_end.set()
        await ends_cancelled(call)
        stuck[0] = False
        calls = (await workflow.aget_state(T)).tasks[0].calls
        return [made.error for made in calls if made.error], await workflow.ainvoke(None, T)

    assert asyncio.run(main()) == ([], "value")


def test_sync_body_cancelled_during_a_task_goes_on_behind_it(saver):
    """A sync entrypoint under ainvoke keeps its tasks, the one too that ended after the cancel."""
    ran, reached, opened = [], threading.Event(), threading.Event()

    @task
    def work(i):
        ran.append(i)
        if i == 1:
            reached.set()
            assert opened.wait(30)
        return i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [work(i).result() for i in range(4)]

    async def main():
        call = asyncio.create_task(workflow.ainvoke(1, T))
        assert await asyncio.to_thread(reached.wait, 30)
        call.cancel()
        await asyncio.sleep(0)
        opened.set()
        await ends_cancelled(call)
        return await workflow.ainvoke(None, T, on_busy="wait")

    assert asyncio.run(main()) == [0, 1, 2, 3]
    assert ran == [0, 1, 2, 3]


def test_a_sync_node_with_an_async_edge_keeps_the_thread_until_it_has_ended(saver):
    """Cancelled while its function is on a worker: no other run may begin beside it."""
    begun, may_end, ended = threading.Event(), threading.Event(), []

    def node(state):
        begun.set()
        assert may_end.wait(10)
        ended.append(True)
        return {}

    async def edge(state):
        return END

    builder = StateGraph(dict)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", edge)
    graph = builder.compile(checkpointer=saver)

    async def main():
        call = asyncio.create_task(graph.ainvoke({}, T))
        assert await asyncio.to_thread(begun.wait, 10)
        call.cancel()
        await ends_cancelled(call)
        with pytest.raises(ThreadBusyError):
            await graph.ainvoke(None, T)
        may_end.set()
        await graph.ainvoke(None, T, on_busy="wait")
        return ended

    assert asyncio.run(main()) == [True, True]
