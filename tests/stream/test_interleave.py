"""Several projections of a sync run read as one."""

from __future__ import annotations

import pytest

from perdure.stream import StreamChannel, StreamTransformer
from perdure.stream.router import EventRouter
from perdure.stream.run_stream import GraphRunStream

GIVEN = {"a": ["0"]}


class Two(StreamTransformer):
    """Two channels, and something that is none."""

    def __init__(self, scope=()):
        super().__init__(scope)
        self.a, self.b = StreamChannel(), StreamChannel()

    def init(self):
        return {"a": self.a, "b": self.b, "number": 7}

    def process(self, event):
        return True


def scripted(*script):
    """A run whose pump pushes one (channel, item) at a time; an exception fails it."""
    two = Two()
    router = EventRouter([two])
    steps = iter(script)

    def pump():
        step = next(steps, None)
        if step is None:
            router.close()
        elif isinstance(step, Exception):
            router.fail(step)
        else:
            router.extensions[step[0]].push(step[1])
        return step is not None

    router.bind_pump(pump)
    return GraphRunStream(None, router)


SCRIPT = (("a", 1), ("a", 2), ("b", 1), ("a", 3), ("b", 2))


def test_items_come_as_they_arrived():
    """The order is that of arrival, not one after the other."""
    assert list(scripted(*SCRIPT).interleave("a", "b")) == list(SCRIPT)


def test_what_was_buffered_before_keeps_its_place():
    """Arrival counts, also for what came before the first item was taken."""
    run = scripted(*SCRIPT)
    items = run.interleave("a", "b")
    first = next(items)
    while run._router.pull():
        pass
    assert [first, *items] == list(SCRIPT)


def test_no_names_run_nothing():
    """Nothing to read is the end at once."""
    ran = []
    run = scripted()
    run._router.bind_pump(lambda: ran.append(1))
    assert list(run.interleave()) == []
    assert ran == []


def test_mistakes_are_named_at_the_first_item():
    """A projection that is not there, or is no channel, or is taken."""
    run = scripted(*SCRIPT)
    with pytest.raises(KeyError, match="'zz' is no projection"):
        next(run.interleave("a", "zz"))
    with pytest.raises(TypeError, match="'number' is no StreamChannel"):
        next(run.interleave("a", "number"))
    iter(run.extensions["b"])
    with pytest.raises(RuntimeError, match="already has a subscriber"):
        next(run.interleave("a", "b"))


def test_a_mistake_leaves_the_others_free():
    """What was subscribed before the mistake was found can be read."""
    run = scripted(*SCRIPT)
    with pytest.raises(KeyError):
        next(run.interleave("a", "zz"))
    assert list(run.extensions["a"]) == [1, 2, 3]


def test_closing_gives_the_rest_to_the_next_reader():
    """After a break, the projections go on from where it was."""
    run = scripted(*SCRIPT)
    items = run.interleave("a", "b")
    assert [next(items), next(items)] == [("a", 1), ("a", 2)]
    items.close()
    assert list(run.interleave("a", "b")) == [("b", 1), ("a", 3), ("b", 2)]


def test_an_error_comes_after_what_was_before_it():
    """Items first, then the error, and the subscriptions are free again."""
    run = scripted(("a", 1), ("b", 1), ValueError("boom"))
    items = []
    with pytest.raises(ValueError, match="boom"):
        items.extend(run.interleave("a", "b"))
    assert items == [("a", 1), ("b", 1)]
    with pytest.raises(ValueError, match="boom"):
        list(run.extensions["a"])


def test_built_in_projections_interleave(chain):
    """Values, messages and lifecycle of a real run end together."""
    workflow = chain(("sub", chain(("one", lambda s: {"b": 1}))))
    run = workflow.stream_events(GIVEN, version="v3")
    names = [name for name, _ in run.interleave("values", "messages", "lifecycle")]
    assert names == ["values", "lifecycle", "lifecycle", "values"]
    assert list(run.values) == []
