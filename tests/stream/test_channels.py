"""StreamChannel: one subscriber, nothing kept for those who have not come."""

from __future__ import annotations

import asyncio

import pytest

from perdure.stream import StreamChannel
from perdure.stream.router import EventRouter
from perdure.stream.transformer import StreamTransformer


class Holder(StreamTransformer):
    """Hands one channel to a router."""

    def __init__(self, channel):
        super().__init__()
        self.channel = channel

    def init(self):
        return {"items": self.channel}

    def process(self, event):
        return True


def bound(name=None, *, is_async=False):
    """A channel and the router that feeds it."""
    channel = StreamChannel(name)
    return channel, EventRouter([Holder(channel)], is_async=is_async)


@pytest.mark.parametrize("maxlen", [0, -1])
def test_maxlen_is_positive(maxlen):
    """A limit that keeps nothing is refused."""
    with pytest.raises(ValueError, match="positive int or None"):
        StreamChannel(maxlen=maxlen)


def test_an_unbound_channel_cannot_be_read():
    """Without a run there is nothing to come."""
    with pytest.raises(TypeError, match="has not been bound"):
        iter(StreamChannel())


def test_the_kind_of_run_decides_how_to_read():
    """A sync channel is no async iterable, and the other way round; checked at once."""
    with pytest.raises(TypeError, match="bound to sync mode"):
        aiter(bound()[0])
    with pytest.raises(TypeError, match="bound to async mode"):
        iter(bound(is_async=True)[0])


def test_a_channel_is_bound_once():
    """Two runs cannot feed one channel."""
    channel, _ = bound()
    with pytest.raises(RuntimeError, match="already bound"):
        EventRouter([Holder(channel)])


def test_items_before_the_subscriber_are_dropped():
    """Nothing is kept for somebody who may never come."""
    channel, _ = bound()
    channel.push(1)
    reader = iter(channel)
    channel.push(2)
    channel.close()
    assert list(reader) == [2]


def test_reading_empties_the_channel():
    """What has been read is not kept."""
    channel, _ = bound()
    reader = iter(channel)
    channel.push(1)
    assert next(reader) == 1
    assert not channel.items


def test_pushing_after_the_end_is_an_error_only_when_somebody_reads():
    """A producer learns that its reader has been told the end."""
    channel, _ = bound()
    channel.close()
    channel.push(1)
    iter(channel)
    with pytest.raises(RuntimeError, match="Cannot push to a closed StreamChannel"):
        channel.push(2)


def test_an_error_comes_after_the_items():
    """The reader gets what there is, then the error itself."""
    channel, _ = bound()
    reader = iter(channel)
    channel.push(1)
    error = ValueError("x")
    channel.fail(error)
    channel.close()
    assert next(reader) == 1
    with pytest.raises(ValueError, match="x") as raised:
        next(reader)
    assert raised.value is error


def test_a_pump_that_has_nothing_ends_the_reader():
    """A channel that is not closed ends when the run says there is no more."""
    channel, router = bound()
    given = iter([1, 2])

    def pump():
        item = next(given, None)
        if item is not None:
            channel.push(item)
        return item is not None

    router.bind_pump(pump)
    assert list(channel) == [1, 2]


def test_stamps_order_items_across_channels():
    """Every item kept has a number of its own, growing with arrival."""
    first, second = StreamChannel(), StreamChannel()

    class Two(Holder):
        def init(self):
            return {"one": first, "two": second}

    EventRouter([Two(None)])
    iter(first), iter(second)
    first.push("a")
    second.push("b")
    first.push("c")
    stamps = [first.items[0][0], second.items[0][0], first.items[1][0]]
    assert stamps == sorted(set(stamps))
    assert stamps[0] > 0


def test_a_named_channel_shows_in_the_main_log():
    """Items of a named channel are events too, whether or not somebody reads the channel."""
    channel, router = bound("mine")
    events = iter(router.events)
    channel.push("x")
    event = next(events)
    assert (event["method"], event["seq"]) == ("custom:mine", 1)
    assert (event["params"]["namespace"], event["params"]["data"]) == ([], "x")


def test_tee_gives_every_item_to_every_branch():
    """Branches are read at their own pace."""
    channel, _ = bound()
    one, two = channel.tee()
    channel.push(1)
    channel.push(2)
    channel.close()
    assert [next(one), list(two), list(one)] == [1, [1, 2], [2]]


def test_tee_gives_the_error_to_every_branch():
    """Each branch ends with it."""
    channel, _ = bound()
    branches = channel.tee(3)
    channel.push(1)
    channel.fail(ValueError("x"))
    for branch in branches:
        assert next(branch) == 1
        with pytest.raises(ValueError, match="x"):
            next(branch)


def test_atee_gives_items_and_error_to_every_branch():
    """The same for async readers, which may wait at the same time."""

    async def main():
        channel, _ = bound(is_async=True)
        branches = channel.atee(2)
        channel.push(1)
        channel.fail(ValueError("x"))

        async def read(branch):
            items = [await anext(branch)]
            with pytest.raises(ValueError, match="x"):
                await anext(branch)
            return items

        return await asyncio.gather(*map(read, branches))

    assert asyncio.run(main()) == [[1], [1]]


def test_a_split_has_a_branch():
    """Into none is refused."""
    channel, _ = bound()
    with pytest.raises(ValueError, match="at least 1"):
        channel.tee(0)


def test_a_push_from_outside_wakes_an_async_reader():
    """A reader that waits for the run gets what a task of one's own pushes meanwhile."""

    async def main():
        channel, router = bound(is_async=True)
        forever = asyncio.Event()

        async def pump():
            await forever.wait()
            return False

        router.bind_apump(pump)
        reader = asyncio.create_task(anext(aiter(channel)))
        await asyncio.sleep(0)
        channel.push("x")
        item = await reader
        forever.set()
        return item

    assert asyncio.run(main()) == "x"
