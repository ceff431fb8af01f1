"""Whatever the order in which things happen, nothing is lost, doubled or out of place."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from perdure.stream import LifecycleTransformer, StreamChannel, StreamTransformer, SubgraphTransformer
from perdure.stream.router import EventRouter
from perdure.stream.run_stream import AsyncGraphRunStream, GraphRunStream
from stream.events import event, result, start

NAMES = ("a", "b", "c")
SCRIPTS = st.lists(st.tuples(st.sampled_from(NAMES), st.integers()), max_size=30)


class Three(StreamTransformer):
    """Three channels."""

    def __init__(self, scope=()):
        super().__init__(scope)
        self.channels = {name: StreamChannel() for name in NAMES}

    def init(self):
        return dict(self.channels)

    def process(self, event):
        return True


@given(SCRIPTS, st.sets(st.sampled_from(NAMES), min_size=1), st.lists(st.integers(0, 3), max_size=30))
def test_interleaved_items_come_in_order_of_arrival(script, read, bursts):
    """However many items each pull brings, the merged order is the order in which they were pushed."""
    three = Three()
    router = EventRouter([three])
    steps, sizes = iter(script), iter(bursts)

    def pump():
        for _ in range(1 + next(sizes, 0)):
            step = next(steps, None)
            if step is None:
                router.close()
                return False
            three.channels[step[0]].push(step[1])
        return True

    router.bind_pump(pump)
    told = list(GraphRunStream(None, router).interleave(*read))
    assert told == [step for step in script if step[0] in read]


@given(SCRIPTS)
def test_async_readers_each_get_all_of_theirs(script):
    """Tasks that read side by side lose nothing, whoever makes the run go on."""

    async def main():
        three = Three()
        router = EventRouter([three], is_async=True)
        steps = iter(script)

        async def pump():
            step = next(steps, None)
            if step is None:
                await router.aclose()
                return False
            if step[1] % 2:
                await asyncio.sleep(0)
            three.channels[step[0]].push(step[1])
            return True

        router.bind_apump(pump)
        AsyncGraphRunStream(None, router)

        async def everything(items):
            return [item async for item in items]

        return await asyncio.gather(*(everything(channel) for channel in three.channels.values()))

    told = asyncio.run(main())
    assert told == [[item for name, item in script if name == mine] for mine in NAMES]


@st.composite
def runs(draw):
    """Events of graphs in graphs: each starts, may hold others, may tell values, and may end."""
    events, count = [], 0

    def graph(ns, depth):
        nonlocal count
        for _ in range(draw(st.integers(0, 2))):
            count += 1
            name, id = draw(st.sampled_from("xyz")), str(count)
            events.append(start(ns, name, id))
            if depth < 3 and draw(st.booleans()):
                inner = (*ns, f"{name}:{id}")
                events.append(event("values", {"n": count}, inner, interrupts=()))
                graph(inner, depth + 1)
            if draw(st.booleans()):
                events.append(result(ns, name, id))

    graph((), 0)
    return events


@given(runs())
def test_every_graph_that_starts_ends_once(events):
    """Lifecycle and handles agree, and nothing is open after the run."""
    lifecycle, subgraphs = LifecycleTransformer(), SubgraphTransformer()
    factories = [
        lambda scope: lifecycle if not scope else LifecycleTransformer(scope),
        lambda scope: subgraphs if not scope else SubgraphTransformer(scope),
    ]
    router = EventRouter(factories=factories)
    told, handles = iter(lifecycle.channel), iter(subgraphs.channel)
    for item in events:
        router.push(item)
    router.close()
    open_graphs = []
    seen = set()
    for payload in told:
        ns = tuple(payload["namespace"])
        if payload["event"] == "started":
            assert ns not in seen
            seen.add(ns)
            open_graphs.append(ns)
        else:
            open_graphs.remove(ns)
    assert open_graphs == []
    reached = [handle.path for handle in handles]
    assert reached == [ns for ns in dict.fromkeys(reached) if len(ns) == 1 and ns in seen]
