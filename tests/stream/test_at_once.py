"""Items that wait together: they are handed on in one go where nobody else is in between."""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar

import pytest

from perdure.config import get_stream_writer
from perdure.func import entrypoint
from perdure.stream import CustomTransformer, StreamChannel, StreamTransformer
from perdure.stream.modes import BATCHES, shape_for

MANY = 100


@entrypoint()
async def flow(x):
    write = get_stream_writer()
    for n in range(MANY):
        write(n)
    return x


async def opened(*transformers):
    return await flow.astream_events(1, version="v3", transformers=transformers or [CustomTransformer])


async def passes(read):
    """What a coroutine returns, and how often others had a turn meanwhile."""
    task, count = asyncio.ensure_future(read), 0
    while not task.done():
        count += 1
        await asyncio.sleep(0)
    return task.result(), count


async def everything(items):
    return [item async for item in items]


def test_what_is_there_needs_no_turn_of_the_loop():
    """A consumer who is alone gets a hundred items in a few passes."""

    async def run():
        return await passes(everything((await opened()).custom))

    items, count = asyncio.run(run())
    assert items == list(range(MANY))
    assert count < 30


def test_consumers_side_by_side_have_their_turns():
    """Neither gets far ahead of the other."""

    class Twice(CustomTransformer):
        def __init__(self, scope=()):
            super().__init__(scope)
            self.again = StreamChannel()

        def init(self):
            return {**super().init(), "again": self.again}

        def process(self, event):
            if event["method"] == "custom":
                self.again.push(event["params"]["data"])
            return super().process(event)

    async def run():
        run, seen = await opened(Twice), []
        hear = seen.append

        async def note(name):
            async for item in getattr(run, name):
                hear((item, name))

        await asyncio.gather(note("custom"), note("again"))
        return seen

    seen = asyncio.run(run())
    assert [item for item, _ in seen] == sorted(list(range(MANY)) * 2)


def test_a_transformer_that_waits_is_waited_for():
    """Each event is delivered before the next one, in the order in which they came."""

    class Slow(StreamTransformer):
        required_stream_modes = ("custom",)

        def __init__(self, scope=()):
            super().__init__(scope)
            self.slow = StreamChannel()

        def init(self):
            return {"slow": self.slow}

        async def aprocess(self, event):
            if event["method"] == "custom":
                async with asyncio.timeout(10):
                    await asyncio.sleep(0)
                self.slow.push(event["params"]["data"])
            return True

    async def run():
        run = await opened(Slow)
        return await everything(run.extensions["slow"])

    assert asyncio.run(run()) == list(range(MANY))


def test_a_transformer_that_raises_fails_the_run():
    """By its error, after what came before."""

    class Refuses(CustomTransformer):
        def process(self, event):
            if event["params"]["data"] == 50:
                raise ValueError("enough")
            return super().process(event)

    async def run():
        run, seen = await opened(Refuses), []
        hear = seen.append
        with pytest.raises(ValueError, match="enough"):
            async for item in run.custom:
                hear(item)
        with pytest.raises(ValueError, match="enough"):
            await run.output()
        return seen

    assert asyncio.run(run()) == list(range(50))


def test_transformers_run_in_the_context_of_the_run():
    """Not in that of whoever asks."""
    var: ContextVar[str] = ContextVar("var", default="")

    class Looks(CustomTransformer):
        def process(self, event):
            if event["method"] == "custom":
                self.channel.push(var.get())
            return True

    async def run():
        var.set("run")
        run = await opened(Looks)
        var.set("reader")
        return await everything(run.custom)

    assert asyncio.run(run()) == ["run"] * MANY


def test_a_run_may_be_stopped_among_items_that_are_there():
    """What was not read is not given."""

    async def run():
        run, seen = await opened(), []
        async for item in run.custom:
            seen.append(item)
            if item == 50:
                await run.abort()
        return seen

    assert asyncio.run(run()) == list(range(51))


def test_a_run_may_be_stopped_among_items_by_its_only_reader():
    """The same for sync runs."""

    @entrypoint()
    def many(x):
        write = get_stream_writer()
        for n in range(MANY):
            write(n)

    run, seen = many.stream_events(1, version="v3", transformers=[CustomTransformer]), []
    for item in run.custom:
        seen.append(item)
        if item == 50:
            run.abort()
    assert seen == list(range(51))


def test_a_writer_that_is_quicker_than_its_reader_does_not_keep_him_waiting():
    """What comes while items are taken is left for the next time."""

    class Refilled(deque):
        def popleft(self):
            self.append(self[-1])
            return super().popleft()

    event = ((), "custom", "x")
    shape = shape_for(BATCHES, several=True, depth=True, waiting=Refilled([event]))
    assert len(shape(event)) < 1000
