"""Every sentence of the two pages that promises behaviour, as one test each.

The letters are those of the checklist: D for durable execution, F for the Functional API.
"""

import asyncio
import random
import threading
from typing import TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.errors import GraphDrained
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.runtime import RunControl
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}
GO = Command(resume=True)


class State(TypedDict, total=False):
    urls: list[str]
    trail: list[str]


@pytest.fixture
def ran():
    return []


def sequence(*nodes, saver=None):
    builder = StateGraph(State)
    builder.add_sequence(nodes)
    builder.add_edge(START, nodes[0][0])
    return builder.compile(checkpointer=saver)


def passing(ran, name):
    def node(state):
        ran.append(name)
        return {"trail": [*state.get("trail", []), name]}

    return name, node


def asking(ran, name="ask"):
    def node(state):
        ran.append(name)
        return {"trail": [*state.get("trail", []), interrupt("?")]}

    return name, node


def test_d1_non_deterministic_work_in_a_task_is_fetched_on_resume(drive, saver):
    """With a saver, a thread id and a task, a random number stays what it was."""

    @task
    def draw():
        return random.random()

    @entrypoint(checkpointer=saver)
    def workflow(x):
        number = draw().result()
        return [number, interrupt(number)]

    asked = drive.invoke(workflow, 1, T)["__interrupt__"][0].value
    assert drive.invoke(workflow, GO, T) == [asked, True]


def test_d1_unfinished_task_runs_again(drive, saver, ran):
    """A task that started and did not finish runs again; only its result is relied on."""
    broken = [True]

    @task
    def work():
        ran.append("started")
        if broken[0]:
            raise ConnectionError("half-way")
        return "done"

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return work().result()

    with pytest.raises(ConnectionError):
        drive.invoke(workflow, 1, T)
    broken[0] = False
    assert drive.invoke(workflow, None, T) == "done"
    assert ran == ["started", "started"]


def test_d2_a_graph_resumes_at_the_start_of_the_stopped_node(drive, saver, ran):
    """Nodes before it do not run again, it runs from its top."""
    graph = sequence(passing(ran, "a"), asking(ran), passing(ran, "b"), saver=saver)
    drive.invoke(graph, {"urls": []}, T)
    assert drive.invoke(graph, GO, T)["trail"] == ["a", True, "b"]
    assert ran == ["a", "ask", "ask", "b"]


def test_d2_a_subgraph_call_resumes_at_the_start_of_its_parent_node(drive, saver, ran):
    """The calling node runs from its top; the child goes on at the stopped child node."""
    child = sequence(passing(ran, "child a"), asking(ran, "child ask"))

    def parent(state):
        ran.append("parent")
        return {"trail": child.invoke({"trail": []})["trail"]}

    graph = sequence(("parent", parent), saver=saver)
    drive.invoke(graph, {"urls": []}, T)
    assert drive.invoke(graph, GO, T)["trail"] == ["child a", True]
    assert ran == ["parent", "child a", "child ask", "parent", "child ask"]


def test_d2_an_entrypoint_resumes_at_its_first_line(drive, saver, ran):
    """The body runs from its top."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        ran.append("first line")
        return interrupt("?")

    drive.invoke(workflow, 1, T)
    drive.invoke(workflow, GO, T)
    assert ran == ["first line", "first line"]


def test_d3_tasks_in_a_node_survive_its_pause(drive, saver, ran):
    """Results of tasks called in a node are kept when the node is interrupted."""

    @task
    def request(url):
        ran.append(url)
        return f"page of {url}"

    def call_api(state):
        futures = [request(url) for url in state["urls"]]
        pages = [future.result() for future in futures]
        interrupt("publish?")
        return {"trail": pages}

    graph = sequence(("call_api", call_api), saver=saver)
    drive.invoke(graph, {"urls": ["a", "b"]}, T)
    assert drive.invoke(graph, GO, T)["trail"] == ["page of a", "page of b"]
    assert sorted(ran) == ["a", "b"]


def test_d3_tasks_in_a_node_survive_its_failure(drive, saver, ran):
    """And when it fails."""
    broken = [True]

    @task
    def request(url):
        ran.append(url)
        return url

    def call_api(state):
        pages = [request(url).result() for url in state["urls"]]
        if broken[0]:
            raise ConnectionError("after the requests")
        return {"trail": pages}

    graph = sequence(("call_api", call_api), saver=saver)
    with pytest.raises(ConnectionError):
        drive.invoke(graph, {"urls": ["a", "b"]}, T)
    broken[0] = False
    assert drive.invoke(graph, None, T)["trail"] == ["a", "b"]
    assert ran == ["a", "b"]


@pytest.mark.parametrize("durability", ["exit", "async", "sync"])
def test_d4_any_execution_method_takes_a_durability(saver, durability):
    """invoke, stream, ainvoke, astream and the v3 events."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return x

    async def main():
        first = await workflow.ainvoke(1, T, durability=durability)
        chunks = [c async for c in workflow.astream(2, T, durability=durability)]
        run = await workflow.astream_events(3, T, version="v3", durability=durability)
        return first, chunks, await run.output()

    assert workflow.invoke(1, T, durability=durability) == 1
    assert list(workflow.stream(2, T, durability=durability)) == [{"workflow": 2}]
    assert workflow.stream_events(3, T, version="v3", durability=durability).output == 3
    assert asyncio.run(main()) == (1, [{"workflow": 2}], 3)


def test_d5_exit_persists_on_success_error_and_pause_only(drive, saver):
    """While a run under exit goes on nothing is in the store; each of its ends is."""
    during = []

    def look(state):
        during.append(saver.get_tuple(T))
        return {"trail": ["looked"]}

    graph = sequence(("look", look), asking([]), saver=saver)
    drive.invoke(graph, {"urls": []}, T, durability="exit")
    assert during == [None]
    assert drive.get_state(graph, T).next == ("ask",)


def test_d6_a_failure_is_resumed_from_the_last_good_point(drive, saver, ran):
    """The same thread and None as input."""
    broken = [True]

    def flaky(state):
        ran.append("flaky")
        if broken[0]:
            raise ConnectionError("down")
        return {"trail": [*state["trail"], "flaky"]}

    graph = sequence(passing(ran, "a"), ("flaky", flaky), saver=saver)
    with pytest.raises(ConnectionError):
        drive.invoke(graph, {"urls": []}, T)
    broken[0] = False
    assert drive.invoke(graph, None, T)["trail"] == ["a", "flaky"]
    assert ran == ["a", "flaky", "flaky"]


def test_d7_a_command_resumes_after_an_interrupt(drive, saver):
    """`interrupt` pauses, `Command(resume=...)` goes on with the value."""
    graph = sequence(asking([]), saver=saver)
    paused = drive.invoke(graph, {"urls": []}, T)
    assert [i.value for i in paused["__interrupt__"]] == ["?"]
    assert drive.invoke(graph, Command(resume="value"), T)["trail"] == ["value"]


def test_d8_a_drain_saves_a_checkpoint_that_resumes(drive, saver, ran):
    """`request_drain(reason)` from any thread; GraphDrained tells the reason."""
    control = RunControl()

    def drained(state):
        outside = threading.Thread(target=control.request_drain, args=("sigterm",))
        outside.start()
        outside.join()
        return {"trail": ["drained"]}

    graph = sequence(("drained", drained), passing(ran, "b"), saver=saver)
    with pytest.raises(GraphDrained) as caught:
        drive.invoke(graph, {"urls": []}, T, control=control)
    assert caught.value.reason == "sigterm"
    assert drive.invoke(graph, None, T)["trail"] == ["drained", "b"]


def test_d9_a_drain_ends_nothing_that_runs():
    """Running asyncio tasks are not cancelled: they finish."""
    finished = []

    async def main():
        control, running, may_end = RunControl(), asyncio.Event(), asyncio.Event()

        async def node(state):
            running.set()
            await may_end.wait()
            finished.append(True)
            return {"trail": ["done"]}

        graph = sequence(("node", node), saver=InMemorySaver())
        call = asyncio.create_task(graph.ainvoke({"urls": []}, T, control=control))
        await running.wait()
        control.request_drain()
        may_end.set()
        return await call

    assert asyncio.run(main())["trail"] == ["done"]
    assert finished == [True]


def test_f4_messages_end_where_nothing_streams_tokens(saver):
    """The loops over `.messages` and their text run and end."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return x

    run = workflow.stream_events("x", T, version="v3")
    assert [token for message in run.messages for token in message.text] == []
    assert run.output == "x"


def test_f7_tasks_run_side_by_side(drive, saver):
    """Several calls are under way at once without blocking."""
    meet = threading.Barrier(3)

    @task
    def call_api(i):
        meet.wait(30)
        return i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [future.result() for future in [call_api(i) for i in range(3)]]

    assert drive.invoke(workflow, 1, T) == [0, 1, 2]


def test_f8_a_task_cannot_be_called_from_the_main_program():
    """It needs an entrypoint, a task or a node around it."""

    @task
    def work():
        return 1

    with pytest.raises(RuntimeError):
        work()


@pytest.mark.parametrize("where", ["input", "output", "task"])
def test_f9_what_is_not_serialisable_is_a_runtime_error(drive, saver, where):
    """With a saver, input, output and task results must be storable."""

    class Opaque:
        pass

    @task
    def work(x):
        return Opaque() if x == "task" else x

    @entrypoint(checkpointer=saver)
    def workflow(x):
        result = work(x).result()
        return Opaque() if x == "output" else result

    with pytest.raises(TypeError):
        drive.invoke(workflow, Opaque() if where == "input" else where, T)


def test_f10_answers_are_matched_by_index(drive, saver):
    """Resume values go to interrupts in their order, task by task."""

    @task
    def ask_twice(name):
        return [name, interrupt(f"{name} 1"), interrupt(f"{name} 2")]

    @entrypoint(checkpointer=saver)
    def workflow(x):
        own = interrupt("own")
        return [own, ask_twice("a").result()]

    given = (1, Command(resume=1), Command(resume=2))
    asked = [drive.invoke(workflow, x, T)["__interrupt__"][0].value for x in given]
    assert asked == ["own", "a 1", "a 2"]
    assert drive.invoke(workflow, Command(resume=3), T) == [1, ["a", 2, 3]]


def test_f11_task_results_make_no_checkpoint(drive, saver):
    """They are kept in the checkpoint of the entrypoint."""

    @task
    def work(i):
        return i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [work(i).result() for i in range(5)] and interrupt("?")

    drive.invoke(workflow, 1, T)
    assert len(drive.history(workflow, T)) == 1


def test_f12_side_effects_outside_tasks_repeat(drive, saver, ran):
    """A body runs again from its first line, with what it does by itself."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        ran.append("outside")
        return interrupt("?")

    drive.invoke(workflow, 1, T)
    drive.invoke(workflow, GO, T)
    assert ran == ["outside"] * 2


def test_f13_a_functional_workflow_is_one_node():
    """There is no graph to show but the entrypoint itself."""

    @entrypoint()
    def workflow(x):
        return x

    assert list(workflow.nodes) == ["workflow"]
