"""A run as an object: laziness, answers, projections, errors at each door, stopping."""

from __future__ import annotations

import asyncio
from typing import TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.config import get_stream_writer
from perdure.errors import GraphDrained
from perdure.func import entrypoint, task
from perdure.runtime import RunControl, get_runtime
from perdure.stream import (
    CheckpointsTransformer,
    CustomTransformer,
    DebugTransformer,
    TasksTransformer,
    UpdatesTransformer,
)
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}
GIVEN = {"a": ["0"]}
DOORS = ("values", "messages", "lifecycle", "subgraphs", "raw", "output", "interrupted", "interrupts")


def two(chain, **kw):
    return chain(("one", lambda s: {"a": ["1"]}), ("two", lambda s: {"b": 2}), **kw)


def read(run, door):
    """Whatever a door gives, read to its end."""
    if door == "raw":
        return list(run)
    given = getattr(run, door)
    return given if door in ("output", "interrupted", "interrupts") else list(given)


# the start -----------------------------------------------------------------------------------


def test_opening_runs_nothing(runs, chain):
    """The run starts with the first thing that is read, not before."""
    ran = []
    run = runs.open(chain(("one", ran.append)), GIVEN)
    assert ran == []
    assert run.output == GIVEN
    assert ran == [GIVEN]


def test_bad_input_surfaces_where_it_is_read(runs, chain):
    """What is wrong with input or config is raised at the first pull."""
    run = runs.open(two(chain, saver=InMemorySaver()), GIVEN)
    with pytest.raises(ValueError, match="thread_id"):
        _ = run.output


@pytest.mark.parametrize("keyword", ["stream_mode", "subgraphs"])
def test_what_the_run_decides_is_refused_at_the_call(chain, keyword):
    """Modes and depth follow from the projections; naming them is an error, before any await."""
    workflow = two(chain)
    with pytest.raises(TypeError, match=keyword):
        workflow.stream_events(GIVEN, version="v3", **{keyword: True})
    with pytest.raises(TypeError, match=keyword):
        workflow.astream_events(GIVEN, version="v3", **{keyword: True})


@pytest.mark.parametrize("version", ["v1", "v2", "v9"])
def test_other_versions_are_not_there_for_sync_callers(chain, version):
    """Only v3 exists by the sync method."""
    with pytest.raises(NotImplementedError, match=version):
        two(chain).stream_events(GIVEN, version=version)


def test_misspelt_keywords_are_named(runs, chain):
    """An unknown keyword is an error, not silence."""
    with pytest.raises(TypeError, match="durabilty"):
        _ = runs.open(two(chain), GIVEN, durabilty="sync").output


def test_keywords_reach_the_run(runs, chain):
    """Context and output keys are passed on."""

    class Context(TypedDict):
        user: str

    seen = []

    def node(state):
        seen.append(get_runtime().context)
        return {"b": 1}

    run = runs.open(chain(("n", node)), GIVEN, context={"user": "ada"}, output_keys=["b"])
    assert list(run.values) == [{"b": 1}]
    assert seen == [{"user": "ada"}]


# answers -------------------------------------------------------------------------------------


def test_output_is_what_invoke_returns(runs, chain):
    """The last values, by the keys of the output schema."""

    class Output(TypedDict):
        b: int

    workflow = two(chain, output=Output)
    run = runs.open(workflow, GIVEN)
    assert run.output == workflow.invoke(GIVEN) == {"b": 2}


def test_answers_are_repeatable(runs, chain):
    """Asking twice gives the same, and runs nothing again."""
    ran = []
    run = runs.open(chain(("one", ran.append)), GIVEN)
    assert (run.output, run.output, run.interrupted, run.interrupts) == (GIVEN, GIVEN, False, [])
    assert len(ran) == 1


def test_an_entrypoints_output_is_its_value(runs):
    """Any value, None included."""

    @entrypoint()
    def flow(x):
        return x or None

    assert [runs.open(flow, given).output for given in (1, "", "x")] == [1, None, "x"]


def test_a_question_shows_with_the_state_so_far(runs, chain):
    """A paused run says so, shows its questions, and the state without them."""
    workflow = chain(("one", lambda s: {"b": 1}), ("ask", lambda s: interrupt("?")), saver=InMemorySaver())
    run = runs.open(workflow, GIVEN, T)
    assert run.output == {"a": ["0"], "b": 1}
    assert run.interrupted is True
    assert [question.value for question in run.interrupts] == ["?"]


def test_pause_and_resume_of_an_entrypoint(runs):
    """The documented way: run to the question, look at it, answer it in a second run."""

    @entrypoint(checkpointer=InMemorySaver())
    def essay(topic):
        text = write(topic).result()
        return {"essay": text, "ok": interrupt({"essay": text})}

    @task
    def write(topic):
        return f"about {topic}"

    run = runs.open(essay, "cats", T)
    assert run.output == {}
    assert run.interrupts[0].value["essay"] == "about cats"
    assert runs.open(essay, Command(resume=True), T).output == {"essay": "about cats", "ok": True}


def test_a_breakpoint_is_an_interruption_without_questions(runs, chain):
    """A static pause shows as interrupted, with nothing to answer."""
    run = runs.open(two(chain, saver=InMemorySaver()), GIVEN, T, interrupt_before=["two"])
    assert (run.interrupted, run.interrupts) == (True, [])
    assert run.output == {"a": ["0", "1"]}


# projections ---------------------------------------------------------------------------------


def test_values_end_with_the_output(runs, chain):
    """The last of the values is the output."""
    run = runs.open(two(chain), GIVEN)
    values = list(run.values)
    assert values == [{"a": ["0"]}, {"a": ["0", "1"]}, {"a": ["0", "1"], "b": 2}]
    assert values[-1] == run.output


@pytest.mark.parametrize("when", ["before the end", "after the end"])
def test_a_projection_is_read_once(runs, chain, when):
    """A second reader of one projection is refused, also when the first has finished."""
    run = runs.open(two(chain), GIVEN)
    first = iter(run.values)
    if when == "after the end":
        list(first)
    with pytest.raises(RuntimeError, match="already has a subscriber"):
        iter(run.values)


def test_what_nobody_subscribed_to_is_gone(runs, chain):
    """A projection that is touched after the run is empty; one subscribed before has it all."""
    run = runs.open(two(chain), GIVEN)
    _ = run.output
    assert list(run.values) == []
    run = runs.open(two(chain), GIVEN)
    values = iter(run.values)
    _ = run.output
    assert len(list(values)) == 3


def test_optional_projections(runs, chain):
    """Transformers add projections, as attributes and in `extensions`."""

    def node(state):
        get_stream_writer()("hello")
        return {"b": 1}

    transformers = [
        UpdatesTransformer, CustomTransformer, TasksTransformer, CheckpointsTransformer, DebugTransformer,
    ]  # fmt: skip
    run = runs.open(chain(("n", node), saver=InMemorySaver()), GIVEN, T, transformers=transformers)
    names = ("updates", "custom", "tasks", "checkpoints", "debug")
    readers = {name: iter(getattr(run, name)) for name in names}
    assert set(names) < set(run.extensions)
    _ = run.output
    told = {name: list(reader) for name, reader in readers.items()}
    assert told["updates"] == [{"n": {"b": 1}}]
    assert told["custom"] == ["hello"]
    assert [t["name"] for t in told["tasks"]] == ["n", "n"]
    assert [c["next"] for c in told["checkpoints"]] == [["__start__"], ["n"], []]
    assert len(told["debug"]) == 5


def test_transformers_of_the_workflow_come_first(runs, chain):
    """Those given to compile and those of the call are both there."""
    workflow = two(chain, transformers=[UpdatesTransformer])
    run = runs.open(workflow, GIVEN, transformers=[TasksTransformer])
    assert list(run.extensions)[-2:] == ["updates", "tasks"]


def test_custom_data_of_tasks(runs):
    """What tasks and body write is the run's own."""

    @task
    def work():
        get_stream_writer()("task")

    @entrypoint()
    def flow(x):
        get_stream_writer()("body")
        work().result()

    assert list(runs.open(flow, 1, transformers=[CustomTransformer]).custom) == ["body", "task"]


def test_a_projection_that_is_not_there(runs, chain):
    """The error names those that are."""
    run = runs.open(two(chain), GIVEN)
    names = "values, messages, lifecycle, subgraphs"
    expected = rf"has no attribute 'updates' \(registered projections: {names}\)"
    with pytest.raises(AttributeError, match=expected):
        _ = run.updates


def test_extensions_cannot_be_changed(runs, chain):
    """The mapping of projections is read-only, and holds the attributes' objects."""
    run = runs.open(two(chain), GIVEN)
    inner = getattr(run, "inner", run)
    assert inner.extensions["values"] is inner.values
    with pytest.raises(TypeError):
        run.extensions["values"] = None
    with pytest.raises(TypeError):
        del run.extensions["values"]


# raw events ----------------------------------------------------------------------------------


def test_raw_events(runs, chain):
    """Events are dicts of the protocol, numbered from 1."""
    events = list(runs.open(two(chain), GIVEN))
    assert [event["seq"] for event in events] == [1, 2, 3]
    first = events[0]
    assert (first["type"], first["method"]) == ("event", "values")
    assert first["params"]["namespace"] == []
    assert first["params"]["data"] == GIVEN
    assert first["params"]["interrupts"] == ()
    assert isinstance(first["params"]["timestamp"], int)


def test_raw_events_have_what_was_asked_for_only(runs, chain):
    """Custom data makes no events unless a transformer asks for it; tasks never do."""

    def node(state):
        get_stream_writer()("hello")

    plain = list(runs.open(chain(("n", node)), GIVEN))
    asked = list(runs.open(chain(("n", node)), GIVEN, transformers=[CustomTransformer, TasksTransformer]))
    assert {event["method"] for event in plain} == {"values"}
    assert {event["method"] for event in asked} == {"values", "custom"}


def test_raw_events_of_graphs_inside(runs, chain):
    """Namespaces are lists that lead to the graph; its start and end are events too."""
    events = list(runs.open(chain(("sub", two(chain))), GIVEN))
    depths = [(event["method"], len(event["params"]["namespace"])) for event in events]
    assert depths == [
        ("values", 0), ("values", 1), ("lifecycle", 0), ("values", 1), ("values", 1), ("lifecycle", 0),
        ("values", 0),
    ]  # fmt: skip
    assert [event["seq"] for event in events] == list(range(1, 8))


# errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", DOORS)
@pytest.mark.parametrize("kind", [ValueError, AttributeError, RuntimeError])
def test_every_door_raises_the_error_itself(runs, chain, first, kind):
    """Whatever is read, before or after the failure, raises the very exception of the node."""
    error = kind("broken")

    def fail(state):
        raise error

    run = runs.open(chain(("one", lambda s: {"b": 1}), ("bad", fail)), GIVEN)
    for door in (first, *(other for other in DOORS if other != first)):
        with pytest.raises(kind) as raised:
            read(run, door)
        assert raised.value is error


def test_what_came_before_an_error_is_given_first(runs, chain):
    """A reader gets the items, then the error."""

    def fail(state):
        raise ValueError("broken")

    reader = iter(runs.open(chain(("one", lambda s: {"b": 1}), ("bad", fail)), GIVEN).values)
    assert [next(reader), next(reader)] == [{"a": ["0"]}, {"a": ["0"], "b": 1}]
    with pytest.raises(ValueError, match="broken"):
        next(reader)


def test_a_drain_is_raised_after_the_values(runs, chain):
    """A drained run tells its values, then GraphDrained."""
    control = RunControl()

    def node(state):
        control.request_drain()
        return {"b": 1}

    workflow = chain(("one", node), ("two", lambda s: None), saver=InMemorySaver())
    run = runs.open(workflow, GIVEN, T, control=control)
    values = []
    with pytest.raises(GraphDrained):
        values.extend(run.values)
    assert values[-1] == {"a": ["0"], "b": 1}


# stopping ------------------------------------------------------------------------------------


def test_abort_stops_before_the_next_step(runs, chain):
    """What has been read is kept; nothing more runs; readers end without an error."""
    ran = []
    workflow = chain(("one", lambda s: ran.append(1)), ("two", lambda s: ran.append(2)))
    run = runs.open(workflow, GIVEN, transformers=[UpdatesTransformer])
    values = iter(run.values)
    updates = iter(run.updates)
    assert next(updates) == {"one": None}
    run.abort()
    run.abort()
    assert ran == [1]
    assert (list(updates), list(values)) == ([], [GIVEN])
    assert run.output == GIVEN


def test_abort_before_anything_ran(runs, chain):
    """A run that never started has no output, and no error."""
    ran = []
    run = runs.open(chain(("one", ran.append)), GIVEN)
    run.abort()
    assert (run.output, list(run.values), ran) == (None, [], [])


def test_an_aborted_thread_goes_on(runs, chain):
    """The thread of an aborted run can be resumed."""
    workflow = two(chain, saver=InMemorySaver())
    run = runs.open(workflow, GIVEN, T, transformers=[UpdatesTransformer])
    next(iter(run.updates))
    run.abort()
    assert workflow.invoke(None, T) == {"a": ["0", "1"], "b": 2}


def test_leaving_the_block_aborts(runs, chain):
    """A context manager stops the run, whatever has been read of it."""
    ran = []
    with runs.open(chain(("one", lambda s: ran.append(1)), ("two", lambda s: ran.append(2))), GIVEN) as run:
        next(iter(run.values))
    assert 2 not in ran
    assert list(run) == []


def test_leaving_the_block_by_an_error_raises_it(runs, chain):
    """The error of the block is the caller's to see."""
    with pytest.raises(KeyError, match="mine"), runs.open(two(chain), GIVEN) as run:
        next(iter(run.values))
        raise KeyError("mine")


# inside a run --------------------------------------------------------------------------------


def test_a_run_inside_a_node(runs, chain):
    """A node that opens a run sees that run's own values and lifecycle, at every call."""
    deep = chain(("deep", lambda s: {"b": 7}))
    inner = chain(("n", lambda s: {"b": deep.invoke({})["b"]}))
    seen = []

    def node(state):
        for _ in range(2):
            run = inner.stream_events({"a": []}, version="v3")
            seen.append([kind for kind, _ in run.interleave("values", "lifecycle")])
            seen.append(run.output)

    runs.open(chain(("node", node)), GIVEN).output
    assert seen == [["values", "lifecycle", "lifecycle", "values"], {"a": [], "b": 7}] * 2


def test_a_question_inside_a_nested_run_pauses_the_outer_one(runs, chain):
    """Reading the output of a nested run that asks pauses the node, and resumes with the answer."""
    inner = chain(("ask", lambda s: {"b": interrupt("?")}))

    def node(state):
        return {"b": inner.stream_events({}, version="v3").output["b"]}

    workflow = chain(("node", node), saver=InMemorySaver())
    run = runs.open(workflow, GIVEN, T)
    assert [question.value for question in run.interrupts] == ["?"]
    assert runs.open(workflow, Command(resume=5), T).output == {"a": ["0"], "b": 5}


def test_async_runs_inside_nodes_and_tasks(chain):
    """An async node, and an async task, that open runs see those runs' own values."""
    inner = chain(("n", lambda s: {"b": 1}))

    async def values():
        run = await inner.astream_events({"a": []}, version="v3")
        return [value.get("b") async for value in run.values], (await run.output())["b"]

    @task
    async def work():
        return await values()

    @entrypoint()
    async def flow(x):
        return [await values(), await values(), await work()]

    async def main():
        run = await flow.astream_events(1, version="v3")
        names = [handle.status async for handle in run.subgraphs]
        return names, await run.output()

    names, output = asyncio.run(main())
    assert output == [([None, 1], 1)] * 3
    assert names == ["started"] * 3
