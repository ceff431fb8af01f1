"""Readers and code that misbehave: none hangs a run, cuts another off, hides an error, or leaves
a thread or an asyncio task behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
from typing import TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.config import get_stream_writer
from perdure.engine import execution
from perdure.func import entrypoint, task
from perdure.graph import END, START, StateGraph
from perdure.stream import CustomTransformer, StreamTransformer, TasksTransformer, UpdatesTransformer
from perdure.types import StreamWriter

GIVEN = {"a": ["0"]}
T = {"configurable": {"thread_id": "t"}}


def counting(chain, steps=5, **kw):
    return chain(*((f"n{i}", lambda s, i=i: {"b": i}) for i in range(steps)), **kw)


async def everything(items):
    return [item async for item in items]


async def settled():
    """Lets what is about to end do so, and counts the tasks that are left besides this one."""
    for _ in range(5):
        await asyncio.sleep(0)
    return len(asyncio.all_tasks()) - 1


def test_a_transformer_that_raises_the_end_of_an_iteration_fails_the_run(runs):
    """It is an error as any other, and no end."""
    error = StopAsyncIteration() if runs.is_async else StopIteration()

    class Stops(CustomTransformer):
        def process(self, event):
            if event["method"] == "custom" and event["params"]["data"] == 3:
                raise error
            return super().process(event)

    @entrypoint()
    def flow(count):
        for number in range(count):
            get_stream_writer()(number)

    run = runs.open(flow, 6, transformers=[Stops])
    with pytest.raises(RuntimeError, match=f"raised {type(error).__name__}"):
        list(run.custom)
    with pytest.raises(RuntimeError, match=f"raised {type(error).__name__}"):
        _ = run.output


# threads -------------------------------------------------------------------------------------


def in_threads(*functions):
    """What the functions return, each in a thread of its own."""
    results = [None] * len(functions)

    def work(number, function):
        try:
            results[number] = function()
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return results


def test_two_threads_read_two_projections(chain):
    """Both get everything, whoever makes the run go on."""
    run = counting(chain, 50).stream_events(GIVEN, version="v3", transformers=[UpdatesTransformer])
    values, updates = iter(run.values), iter(run.updates)
    told = in_threads(lambda: list(values), lambda: list(updates), lambda: run.output)
    assert [len(told[0]), len(told[1]), told[2]["b"]] == [51, 50, 49]


def test_two_threads_share_one_reader(chain):
    """Each item goes to one of them."""
    reader = iter(counting(chain, 50).stream_events(GIVEN, version="v3").values)
    one, two = in_threads(lambda: list(reader), lambda: list(reader))
    assert sorted(value.get("b", -1) for value in [*one, *two]) == list(range(-1, 50))


def test_an_error_reaches_every_thread(chain):
    """All who read get the exception."""
    error = ValueError("boom")

    def fail(state):
        raise error

    run = chain(("ok", lambda s: None), ("bad", fail)).stream_events(GIVEN, version="v3")
    values, events = iter(run.values), iter(run)
    assert in_threads(lambda: list(values), lambda: list(events), lambda: run.output) == [error] * 3


def test_a_thread_that_waits_gets_its_item_at_once(chain):
    """A node waits for a reader that is not the one who pulls: nobody is held up by the other."""
    seen = threading.Event()

    def node(state, writer: StreamWriter):
        writer("hello")
        assert seen.wait(10)

    run = chain(("n", node)).stream_events(GIVEN, version="v3", transformers=[CustomTransformer])
    custom, values = iter(run.custom), iter(run.values)

    def read_custom():
        item = next(custom)
        seen.set()
        return item

    told = in_threads(lambda: list(values), read_custom)
    assert told == [[GIVEN], "hello"]


def test_abort_from_another_thread(chain):
    """It waits for the node that runs, and ends the reader without an error."""
    inside, go_on = threading.Event(), threading.Event()
    ran = []

    def node(state):
        inside.set()
        assert go_on.wait(10)

    run = chain(("n", node), ("late", ran.append)).stream_events(GIVEN, version="v3")
    turn = run._router.turn
    alone = turn.alone
    turn.alone = lambda action: (go_on.set(), alone(action))[1]  # The abort has been asked for by then.

    def stop():
        assert inside.wait(10)
        run.abort()

    values, _ = in_threads(lambda: list(run.values), stop)
    assert values == [GIVEN]
    assert ran == []


def test_no_thread_is_left_behind(chain):
    """A run that was read, stopped, failed or dropped leaves no thread that is not idle."""
    before = threading.active_count()

    def fail(state):
        raise ValueError("boom")

    workflow = chain(("n", lambda s: None), ("bad", fail))
    for _ in range(20):
        with workflow.stream_events(GIVEN, version="v3") as run:
            next(iter(run.values))
        with contextlib.suppress(ValueError):
            _ = workflow.stream_events(GIVEN, version="v3").output
        next(iter(workflow.stream_events(GIVEN, version="v3").values))
    gc.collect()
    assert threading.active_count() - before < 10


# sync readers --------------------------------------------------------------------------------


def test_a_reader_that_stops_early_leaves_the_others_whole(runs, chain):
    """A broken-off loop cuts nobody off."""
    run = runs.open(counting(chain), GIVEN, transformers=[UpdatesTransformer])
    updates = iter(run.updates)
    for _ in run.values:
        break
    assert len(list(updates)) == 5
    assert run.output["b"] == 4


def test_a_reader_that_raises_leaves_the_run_to_others(runs, chain):
    """The reader's own error is the reader's; the run goes on when asked."""
    run = runs.open(counting(chain), GIVEN)
    with pytest.raises(KeyError):
        for value in run.values:
            raise KeyError(value["a"])
    assert run.output["b"] == 4


def test_a_run_nobody_reads_is_nothing(chain):
    """Opened and dropped, a run leaves nothing, not even a warning."""
    workflow = counting(chain)
    workflow.stream_events(GIVEN, version="v3")

    async def main():
        await workflow.astream_events(GIVEN, version="v3")
        return await settled()

    assert asyncio.run(main()) == 0
    gc.collect()


def test_a_run_that_is_dropped_half_way_leaves_its_thread_free(chain):
    """Another run may take the thread once the dropped one is gone."""
    workflow = counting(chain, saver=InMemorySaver())
    next(iter(workflow.stream_events(GIVEN, T, version="v3").values))
    gc.collect()
    assert workflow.invoke(None, T)["b"] == 4


@pytest.mark.parametrize("reads", [0, 1, 3, 9])
def test_what_carries_a_run_out_is_kept_until_the_run_has_ended(runs, chain, reads):
    """Be it read to its end, left, or thrown away: no garbage is made of it sooner, or later never."""
    before = set(execution._UNDER_WAY)

    def read():
        values = iter(runs.open(counting(chain, saver=InMemorySaver()), GIVEN, T).values)
        for _ in range(reads):
            next(values, None)
        return len(execution._UNDER_WAY - before)

    assert read() == (reads in (1, 3))
    gc.collect()
    if runs.is_async:
        runs.runner.run(settled())
    assert not execution._UNDER_WAY - before


def test_an_async_run_that_is_dropped_half_way_ends(monkeypatch):
    """Its nodes are cancelled, and another run may take the thread."""
    ignored, cancelled = [], []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)

    @entrypoint(checkpointer=InMemorySaver())
    async def flow(seconds):
        get_stream_writer()("x")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def begin():
        run = await flow.astream_events(60, T, version="v3", transformers=[CustomTransformer])
        await anext(aiter(run.custom))

    async def main():
        await begin()
        await settled()
        gc.collect()
        while not cancelled:
            await asyncio.sleep(0)
        await settled()
        await flow.ainvoke(0, T)

    asyncio.run(asyncio.wait_for(main(), 10))
    assert not ignored


def test_an_interrupt_of_the_keyboard_is_not_swallowed(chain):
    """It leaves the read at once, and later reads as well."""

    def node(state):
        raise KeyboardInterrupt

    run = chain(("n", node)).stream_events(GIVEN, version="v3")
    with pytest.raises(KeyboardInterrupt):
        list(run.values)
    with pytest.raises(KeyboardInterrupt):
        _ = run.output


def test_abort_from_inside_a_transformer(runs, chain):
    """The run stops after the event that is being delivered."""
    run = None

    class Stopper(StreamTransformer):
        def init(self):
            return {}

        def process(self, event):
            if not runs.is_async and event["method"] == "values":
                run.abort()
            return True

    ran = []
    run = runs.open(chain(("n", ran.append)), GIVEN, transformers=[Stopper])
    if runs.is_async:
        next(iter(run.values))
        run.abort()
    assert len(list(run if not runs.is_async else [GIVEN])) == 1
    assert ran == []


# async readers -------------------------------------------------------------------------------


def test_a_cancelled_reader_beside_live_ones(chain):
    """Cancelling one who waits for the run leaves the others whole."""

    async def main():
        go_on = asyncio.Event()

        async def node(state):
            await go_on.wait()
            return {"b": 9}

        run = await chain(("n", node), ("m", lambda s: None)).astream_events(GIVEN, version="v3")
        values = asyncio.create_task(everything(run.values))
        events = asyncio.create_task(everything(run))
        answer = asyncio.create_task(run.output())
        for _ in range(3):
            await asyncio.sleep(0)
        while not events.cancelled():
            events.cancel()
            await asyncio.sleep(0)
        go_on.set()
        told = await values, await answer
        return told, await settled()

    (values, answer), left = asyncio.run(main())
    assert [value.get("b") for value in values] == [None, 9]
    assert answer["b"] == 9
    assert left == 0


def test_a_cancelled_reader_beside_one_that_is_busy(chain):
    """The only one who waits is cancelled while another works on its item: the run survives."""

    async def main():
        go_on = asyncio.Event()

        async def node(state):
            await go_on.wait()
            return {"b": 9}

        run = await chain(("n", node)).astream_events(GIVEN, version="v3")
        values = aiter(run.values)
        first = await anext(values)
        waiting = asyncio.create_task(everything(run))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go_on.set()
        rest = [value async for value in values]
        return first, rest, await settled()

    assert asyncio.run(main()) == (GIVEN, [{"a": ["0"], "b": 9}], 0)


def test_the_last_reader_that_is_cancelled_stops_the_run(chain):
    """Running nodes are cancelled, nothing is left, and later readers are told why."""

    async def main():
        stopped = []
        inside = asyncio.Event()

        async def node(state):
            inside.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.append(True)
                raise

        run = await chain(("n", node)).astream_events(GIVEN, version="v3")
        reader = asyncio.create_task(everything(run.values))
        await inside.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        left = await settled()
        with pytest.raises(RuntimeError, match="the only one who read it was cancelled"):
            await run.output()
        return stopped, left

    assert asyncio.run(main()) == ([True], 0)


def test_abort_reaches_graphs_at_any_depth(chain):
    """A run three levels down is cancelled within its await, while readers are parked."""

    async def main():
        inside, stopped = asyncio.Event(), []

        async def node(state):
            inside.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.append(True)
                raise

        workflow = chain(("n", node))
        for level in range(3):
            workflow = chain((f"level{level}", workflow))
        run = await workflow.astream_events(GIVEN, version="v3")
        readers = [asyncio.create_task(everything(items)) for items in (run.values, run.lifecycle, run)]
        await inside.wait()
        await run.abort()
        await run.abort()
        told = [len(await reader) for reader in readers]
        return stopped, told[0], await run.output(), await settled()

    assert asyncio.run(main()) == ([True], 1, GIVEN, 0)


def test_the_block_stops_the_run(chain):
    """Leaving the context by a timeout cancels what runs, and leaves nothing."""

    async def main():
        async def node(state):
            await asyncio.Event().wait()

        workflow = chain(("n", node))
        with contextlib.suppress(KeyError):
            async with await workflow.astream_events(GIVEN, version="v3") as run:
                await anext(aiter(run.values))
                raise KeyError
        return await settled()

    assert asyncio.run(main()) == 0


def test_many_readers_of_one_run(chain):
    """Any number of tasks on different projections, all whole."""

    async def main():
        run = await counting(chain, 30).astream_events(GIVEN, version="v3", transformers=[UpdatesTransformer])
        branches = run.values.atee(5)
        answers = [run.output() for _ in range(5)]
        told = await asyncio.gather(
            *map(everything, branches), everything(run.updates), everything(run), *answers
        )
        return [len(part) for part in told[:7]], await settled()

    assert asyncio.run(main()) == ([31] * 5 + [30, 61], 0)


def test_a_slow_reader_does_not_hold_the_others_up(chain):
    """One who never comes back leaves the run to those who read."""

    async def main():
        run = await counting(chain, 10).astream_events(GIVEN, version="v3", transformers=[UpdatesTransformer])
        slow = aiter(run.values)
        await anext(slow)
        updates = await everything(run.updates)
        return len(updates), len(await everything(slow))

    assert asyncio.run(main()) == (10, 10)


def test_an_attribute_error_of_a_node_is_not_mistaken_for_a_missing_projection(chain):
    """Awaited answers raise it as it is."""

    def node(state):
        return state.nope

    async def main():
        run = await chain(("n", node)).astream_events(GIVEN, version="v3")
        for answer in (run.output, run.interrupted, run.interrupts):
            with pytest.raises(AttributeError, match="'dict' object has no attribute 'nope'"):
                await answer()

    asyncio.run(main())
    with pytest.raises(AttributeError, match="'dict' object has no attribute 'nope'"):
        _ = chain(("n", node)).stream_events(GIVEN, version="v3").output


# pace and memory -----------------------------------------------------------------------------


def test_nothing_runs_ahead_of_its_reader(runs, chain):
    """No step starts before the items of the one before were taken."""
    ran = []
    workflow = chain(*((f"n{i}", lambda s, i=i: ran.append(i) or {"b": i}) for i in range(5)))
    ahead = [len(ran) - (value.get("b", -1) + 1) for value in runs.open(workflow, GIVEN).values]
    assert ahead == [0] * 6


def test_unread_channels_are_empty_after_a_run(chain):
    """Whoever did not come has nothing waiting."""
    run = counting(chain, 20).stream_events(GIVEN, version="v3", transformers=[UpdatesTransformer])
    for _ in run.values:
        assert not run._router.events.items
    assert [len(channel.items) for channel in run.extensions.values()] == [0] * len(run.extensions)


LONG = 33_400


class Memory:
    """Counts events; notes how many blocks are allocated at the 10,000th and the 100,000th."""

    def __init__(self):
        self.events = 0
        self.allocated = {}

    def count(self):
        self.events += 1
        if self.events in (10_000, 100_000):
            gc.collect()
            self.allocated[self.events] = sys.getallocatedblocks()


def long_sync(graph, config, memory):
    for _ in graph.stream({"n": 0}, config, stream_mode=["values", "tasks"]):
        memory.count()


def long_async(graph, config, memory):
    async def main():
        async for _ in graph.astream({"n": 0}, config, stream_mode=["values", "tasks"]):
            memory.count()

    asyncio.run(main())


def long_v3(graph, config, memory):
    run = graph.stream_events({"n": 0}, config, version="v3", transformers=[TasksTransformer])
    for _ in run.interleave("values", "tasks"):
        memory.count()


def long_v3_async(graph, config, memory):
    async def read(projection):
        async for _ in projection:
            memory.count()

    async def main():
        run = await graph.astream_events({"n": 0}, config, version="v3", transformers=[TasksTransformer])
        await asyncio.gather(read(run.values), read(run.tasks))

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("read_all", [long_sync, long_async, long_v3, long_v3_async])
def test_memory_is_flat_over_a_long_stream(read_all):
    """A hundred thousand events, read one by one, leave nothing behind."""

    class State(TypedDict):
        n: int

    async def astep(state):
        return {"n": state["n"] + 1}

    graph = StateGraph(State)
    graph.add_node("step", astep if "async" in read_all.__name__ else lambda state: {"n": state["n"] + 1})
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["n"] < LONG else END)
    memory = Memory()
    read_all(graph.compile(), {"recursion_limit": LONG + 1}, memory)
    assert memory.events == 3 * LONG + 1
    assert memory.allocated[100_000] - memory.allocated[10_000] < 1_000


def test_a_step_leaves_no_garbage():
    """What a superstep made goes when it ends, and waits for no garbage collector."""

    async def astep(state):
        return {"n": state["n"] + 1}

    class State(TypedDict):
        n: int

    graph = StateGraph(State)
    graph.add_node("step", astep)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["n"] < 200 else END)
    workflow = graph.compile()

    async def main():
        gc.collect()
        gc.disable()
        try:
            async for _ in workflow.astream({"n": 0}, {"recursion_limit": 300}, stream_mode="updates"):
                pass
            return gc.collect()
        finally:
            gc.enable()

    assert asyncio.run(main()) < 200


def test_a_writer_that_never_stops_is_read_to_its_end():
    """A task that writes much more quickly than it is read loses nothing."""

    @entrypoint()
    def flow(count):
        writer = get_stream_writer()
        for number in range(count):
            writer(number)

    run = flow.stream_events(10_000, version="v3", transformers=[CustomTransformer])
    assert list(run.custom) == list(range(10_000))


@pytest.mark.parametrize("error", [StopIteration(3), GeneratorExit()])
def test_what_no_future_can_carry_ends_an_async_run(error):
    """A sync edge that raises it fails the run by a RuntimeError, as an async one does."""

    def route(state):
        raise error

    async def step(state):
        return {"b": 1}

    graph = StateGraph(dict).add_node("step", step).add_edge(START, "step")
    workflow = graph.add_conditional_edges("step", route).compile()

    async def main():
        async with asyncio.timeout(10):
            await everything(workflow.astream({}))

    with pytest.raises(RuntimeError, match=type(error).__name__) as raised:
        asyncio.run(main())
    assert raised.value.__cause__ is error


@pytest.mark.parametrize("called", [False, True])
def test_a_generator_exit_that_a_future_brings_fails_its_task(called):
    """It closes all code that the asyncio task awaits; the run learns of the end all the same."""

    def leave():
        raise GeneratorExit

    async def awaits(x):
        await asyncio.get_running_loop().run_in_executor(None, leave)

    step = task(awaits) if called else awaits

    @entrypoint()
    async def flow(x):
        await step(x)

    async def main():
        async with asyncio.timeout(10):
            run = await flow.astream_events(1, version="v3")
            with pytest.raises(RuntimeError, match="raised GeneratorExit"):
                await run.output()
        return await settled()

    assert asyncio.run(main()) == 0
