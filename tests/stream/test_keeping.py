"""Projections that keep what came before their reader, where the caller asks for it."""

from __future__ import annotations

import pytest

from perdure.config import get_message_writer, get_stream_writer
from perdure.func import entrypoint, task
from perdure.stream import CustomTransformer, StreamTransformer, ToolCallTransformer, show_progress
from perdure.stream.router import EventRouter
from stream.events import event

GIVEN = {"a": ["0"]}


def two(chain, **kw):
    return chain(("one", lambda s: {"a": ["1"]}), ("two", lambda s: {"b": 2}), **kw)


@entrypoint()
def speak(words):
    with get_message_writer() as message:
        for word in words:
            message.text(word)
    return len(words)


def texts(run):
    return [str(message.text) for message in run.messages]


def test_a_kept_projection_is_read_after_the_end(runs):
    """The output first, then what led to it."""
    run = runs.open(speak, ["a", "b"], keep=["messages"])
    assert run.output == 2
    assert texts(run) == ["ab"]


@pytest.mark.parametrize("keep", ["values", ("values",), {"values": 1}.keys()])
def test_only_those_that_are_named_are_kept(runs, keep):
    """A single name may stand by itself."""
    run = runs.open(speak, ["a"], keep=keep)
    assert run.output == 1
    assert (list(run.values), list(run.messages), list(run)) == ([1], [], [])


@pytest.mark.parametrize("keep", [(), False])
def test_nothing_is_kept_that_is_not_asked_for(runs, chain, keep):
    """After a run, projections that nobody read hold nothing."""
    run = runs.open(two(chain), GIVEN, keep=keep)
    _ = run.output
    assert [len(projection.items) for projection in run.extensions.values()] == [0] * 4


def test_all_may_be_kept(runs, chain):
    """Every projection, those of transformers included, and the events themselves."""

    def node(state):
        get_stream_writer()("hello")
        return {"b": 1}

    run = runs.open(chain(("n", node)), GIVEN, keep=True, transformers=[CustomTransformer])
    assert run.output["b"] == 1
    assert (len(list(run.values)), list(run.custom)) == (2, ["hello"])
    assert [told["method"] for told in run] == ["values", "custom", "values"]


def test_reading_frees_what_was_kept(runs, chain):
    """A kept projection is read once, too, and holds nothing that was read."""
    run = runs.open(two(chain), GIVEN, keep="values")
    _ = run.output
    values = run.extensions["values"]
    assert len(values.items) == 3
    assert len(list(run.values)) == 3
    assert len(values.items) == 0
    with pytest.raises(RuntimeError, match="already has a subscriber"):
        iter(run.values)


def test_a_late_reader_goes_on_with_the_run(runs, chain):
    """What was kept comes first, the rest as it happens."""
    run = runs.open(two(chain), GIVEN, keep="values")
    events = iter(run)
    next(events), next(events)
    assert [sorted(values) for values in run.values] == [["a"], ["a"], ["a", "b"]]


def test_what_came_before_an_error_is_kept(runs, chain):
    """It is given first, then the error is raised."""

    def fail(state):
        raise ValueError("boom")

    run = runs.open(chain(("bad", fail)), GIVEN, keep="values")
    with pytest.raises(ValueError, match="boom"):
        _ = run.output
    values = iter(run.values)
    assert next(values) == GIVEN
    with pytest.raises(ValueError, match="boom"):
        next(values)


def test_what_an_aborted_run_gave_is_kept(runs, chain):
    """To be read after it was stopped."""
    with runs.open(two(chain), GIVEN, keep="values") as run:
        next(iter(run))
    assert list(run.values) == [GIVEN]


def test_handles_of_graphs_inside_keep_as_well(runs, chain):
    """They may be read after the loop over them, and after the run."""
    outer = chain(("sub", two(chain)))
    run = runs.open(outer, GIVEN, keep=["subgraphs", "values"])
    _ = run.output
    (handle,) = run.subgraphs
    assert [sorted(values) for values in handle.values] == [["a"], ["a"], ["a", "b"]]


def test_kept_projections_are_interleaved_as_they_came(chain):
    """In the order of arrival, also after the run; nothing is lost when the reader stops half-way."""
    keep = ["values", "custom"]
    run = two(chain).stream_events(GIVEN, version="v3", keep=keep, transformers=[CustomTransformer])
    merged = run.interleave("values", "custom")
    assert next(merged) == ("values", GIVEN)
    merged.close()
    _ = run.output
    assert len(list(run.interleave("values", "custom"))) == 2


def test_several_readers_of_what_was_kept(chain):
    """`tee` splits it."""
    run = two(chain).stream_events(GIVEN, version="v3", keep="values")
    _ = run.output
    assert [len(list(reader)) for reader in run.values.tee(2)] == [3, 3]


class Made(StreamTransformer):
    """Makes a projection that is no channel."""

    def init(self):
        return {"made": []}

    def process(self, event):
        return True


@pytest.mark.parametrize("name", ["valeus", "made"])
def test_what_cannot_be_kept_is_named_at_the_call(runs, chain, name):
    """A projection that is not there, or is nothing that is read."""
    known = "there are values, messages, lifecycle, subgraphs$"
    with pytest.raises(ValueError, match=f"keep='{name}' is no projection of this run; {known}"):
        runs.open(two(chain), GIVEN, keep=[name], transformers=[Made])


def test_progress_may_be_watched_and_the_run_read_afterwards(capsys):
    """`show_progress` passes it on."""

    @task
    def say(word):
        get_stream_writer()(word)

    @entrypoint()
    def flow(words):
        for word in words:
            say(word).result()

    run = show_progress(flow, ["a", "b"], keep="custom", transformers=[CustomTransformer])
    assert list(run.custom) == ["a", "b"]


def test_calls_of_tools_keep_what_the_tools_wrote():
    """With the projection of the calls."""
    router = EventRouter(factories=[ToolCallTransformer])
    router.keep(["tool_calls"])
    for told in (
        {"event": "tool-started", "tool_call_id": "1", "tool_name": "add"},
        {"event": "tool-output-delta", "tool_call_id": "1", "delta": "a"},
        {"event": "tool-output-delta", "tool_call_id": "1", "delta": "b"},
        {"event": "tool-finished", "tool_call_id": "1", "output": "ab"},
    ):
        router.push(event("tools", told))
    router.close()
    (call,) = router.extensions["tool_calls"]
    assert (list(call.output_deltas), call.output) == (["a", "b"], "ab")
