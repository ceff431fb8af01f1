"""Looking into workflows inside workflows, and changing them there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inspection.graphs import Words, adds, asks, chain
from perdure import Command, Send
from perdure.graph import START, StateGraph


def child(checkpointer: Any = None) -> Any:
    """Adds c1, then asks."""
    return chain("c1", "c2", c2=asks).compile(checkpointer)


def around(inner: Any, saver: Any, **stops: Any) -> Any:
    return chain("sub", "n", sub=inner).compile(saver, **stops)


# which there are --------------------------------------------------------------------------------


def test_subgraphs_are_listed_by_name(saver: Any) -> None:
    """With `recurse` also those inside; names are joined by a bar."""
    inner = child()
    middle = chain("inner", inner=inner).compile()
    graph = chain("middle", "other", middle=middle).compile(saver)
    assert list(graph.get_subgraphs()) == [("middle", middle)]
    assert list(graph.get_subgraphs(recurse=True)) == [("middle", middle), ("middle|inner", inner)]


def test_async_callers_get_the_same_list(saver: Any) -> None:
    """`aget_subgraphs` takes what `get_subgraphs` takes."""
    middle = chain("inner", inner=child()).compile()
    graph = chain("middle", "other", middle=middle).compile(saver)

    async def listed(**asked: Any) -> list[Any]:
        return [item async for item in graph.aget_subgraphs(**asked)]

    for asked in ({}, {"recurse": True}, {"namespace": "middle|inner"}, {"namespace": "none"}):
        assert asyncio.run(listed(**asked)) == list(graph.get_subgraphs(**asked))


def test_a_namespace_narrows_the_list(saver: Any) -> None:
    """Names are compared whole, so that `ab` is not taken for `a`."""
    one, two = child(), child()
    a, ab = chain("inner", inner=one).compile(), chain("inner", inner=two).compile()
    graph = chain("a", "ab", a=a, ab=ab).compile(saver)
    assert list(graph.get_subgraphs(namespace="a")) == [("a", a)]
    assert list(graph.get_subgraphs(namespace="ab|inner")) == [("ab|inner", two)]
    assert list(graph.get_subgraphs(namespace="ab", recurse=True)) == [("ab", ab), ("ab|inner", two)]
    assert list(graph.get_subgraphs(namespace="b")) == []


def test_a_subgraph_without_state_is_not_listed(saver: Any) -> None:
    """`checkpointer=False` keeps nothing that could be looked at."""
    graph = around(child(False), saver)
    assert list(graph.get_subgraphs()) == []


# looking ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps", [None, True])
def test_a_task_points_to_its_subgraph(drive: Any, saver: Any, thread: Any, keeps: Any) -> None:
    """The config in `state` reads the child as it stands, whether its state outlives the call or not."""
    graph = around(child(keeps), saver)
    drive.invoke(graph, {"words": ["in"]}, thread())
    (sub,) = drive.get_state(graph, thread()).tasks
    assert sub.state == {"configurable": {"thread_id": "t", "checkpoint_ns": f"sub:{sub.id}"}}
    state = drive.get_state(graph, sub.state)
    assert (state.values, state.next) == ({"words": ["in", "c1"]}, ("c2",))
    assert state.interrupts == sub.interrupts


@pytest.mark.parametrize("keeps", [None, True])
def test_subgraphs_can_be_shown_in_place(drive: Any, saver: Any, thread: Any, keeps: Any) -> None:
    """`subgraphs=True` puts the child's snapshot where its config would be."""
    graph = around(child(keeps), saver)
    drive.invoke(graph, {"words": ["in"]}, thread())
    pointer = drive.get_state(graph, thread()).tasks[0].state
    shown = drive.get_state(graph, thread(), subgraphs=True).tasks[0].state
    assert shown == drive.get_state(graph, pointer)


def test_a_childs_config_names_those_above(drive: Any, saver: Any, thread: Any) -> None:
    """`checkpoint_map` holds the checkpoint of every workflow from the root down."""
    graph = around(chain("inner", inner=child()).compile(), saver)
    drive.invoke(graph, {"words": []}, thread())
    root = drive.get_state(graph, thread(), subgraphs=True)
    middle = root.tasks[0].state
    inner = middle.tasks[0].state
    path = [s.config["configurable"] for s in (root, middle, inner)]
    assert inner.config["configurable"]["checkpoint_map"] == {
        step["checkpoint_ns"]: step["checkpoint_id"] for step in path
    }
    assert inner.values == {"words": ["c1"]}
    assert drive.get_state(graph, inner.config).values == inner.values


def test_a_child_that_has_not_begun_is_empty(drive: Any, saver: Any, thread: Any) -> None:
    """Before its node runs there is nothing to show of it."""
    graph = around(child(), saver, interrupt_before=["sub"])
    drive.invoke(graph, {"words": []}, thread())
    state = drive.get_state(graph, thread(), subgraphs=True).tasks[0].state
    assert (state.values, state.next, state.metadata) == ({}, (), None)


def test_a_child_has_a_history(drive: Any, saver: Any, thread: Any) -> None:
    """The child's checkpoints alone, under the parent's."""
    graph = around(child(), saver)
    drive.invoke(graph, {"words": ["in"]}, thread())
    pointer = drive.get_state(graph, thread()).tasks[0].state
    states = drive.history(graph, pointer)
    assert [s.next for s in states] == [("c2",), ("c1",), ("__start__",)]
    assert all("" in s.metadata["parents"] for s in states)
    assert [s.next for s in drive.history(graph, thread())] == [("sub",), ("__start__",)]


def test_history_points_to_finished_children(drive: Any, saver: Any, thread: Any) -> None:
    """The entry of the step in which a child ran still leads to it."""
    graph = around(child(), saver)
    drive.invoke(graph, {"words": []}, thread())
    drive.invoke(graph, Command(resume="yes"), thread())
    ran = next(s for s in drive.history(graph, thread()) if s.next == ("sub",))
    assert drive.get_state(graph, ran.tasks[0].state).values == {"words": ["c1", "yes"]}


def test_children_side_by_side_are_told_apart(drive: Any, saver: Any, thread: Any) -> None:
    """Each packet of one node has its own child."""
    made: StateGraph[Any] = StateGraph(Words)
    made.add_node("sub", child())
    made.add_conditional_edges(START, lambda s: [Send("sub", {"words": [w]}) for w in ("1", "2")], ["sub"])
    graph = made.compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    tasks = drive.get_state(graph, thread(), subgraphs=True).tasks
    assert [t.state.values["words"] for t in tasks] == [["1", "c1"], ["2", "c1"]]


def test_the_open_one_of_several_runs_is_shown(drive: Any, saver: Any, thread: Any) -> None:
    """A node that runs a child twice points to the run that is under way."""
    inner = child()

    def twice(state: Any) -> Any:
        inner.invoke({"words": ["first"]})
        return inner.invoke({"words": ["second"]})

    async def atwice(state: Any) -> Any:
        await inner.ainvoke({"words": ["first"]})
        return await inner.ainvoke({"words": ["second"]})

    graph = chain("sub", sub=atwice if drive.is_async else twice).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    drive.invoke(graph, Command(resume="yes"), thread())
    (sub,) = drive.get_state(graph, thread(), subgraphs=True).tasks
    assert sub.state.values == {"words": ["second", "c1"]}
    assert [(c.name, c.state) for c in sub.calls] == [("LangGraph", "finished"), ("LangGraph", "paused")]


def test_an_unknown_namespace_shows_nothing(drive: Any, saver: Any, thread: Any) -> None:
    """Reading is no error; there is just nothing under that name."""
    graph = chain("a").compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    unknown = thread(checkpoint_ns="nope:1")
    assert drive.get_state(graph, unknown).values == {}
    assert drive.history(graph, unknown) == []


def test_an_answered_child_question_is_closed(drive: Any, saver: Any, thread: Any) -> None:
    """A child that was answered, and whose next node asks, shows the new question alone."""
    inner = chain("c1", "c2", c1=asks, c2=asks).compile()
    graph = around(inner, saver)
    first = drive.invoke(graph, {"words": []}, thread())["__interrupt__"][0]
    drive.invoke(graph, Command(resume="yes"), thread())
    state = drive.get_state(graph, thread(), subgraphs=True)
    assert [q.value for q in state.interrupts] == ["which?"]
    assert state.interrupts[0].id != first.id
    assert state.tasks[0].state.interrupts == state.interrupts
    assert state.tasks[0].state.next == ("c2",)


# changing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps", [None, True])
def test_an_updated_child_goes_on_as_updated(drive: Any, saver: Any, thread: Any, keeps: Any) -> None:
    """The parent's resume uses the child's new state, and the answer reaches its question."""
    graph = around(child(keeps), saver)
    drive.invoke(graph, {"words": []}, thread())
    pointer = drive.get_state(graph, thread()).tasks[0].state
    config = drive.update_state(graph, pointer, {"words": ["u"]})
    assert drive.get_state(graph, pointer).config == config
    assert drive.get_state(graph, pointer).values == {"words": ["c1", "u"]}
    result = drive.invoke(graph, Command(resume="yes"), thread())
    assert result["words"][-4:] == ["c1", "u", "yes", "n"]


def test_an_update_deep_down(drive: Any, saver: Any, thread: Any) -> None:
    """A grandchild is updated by its own config; the parents above it are kept in its metadata."""
    graph = around(chain("inner", inner=child()).compile(), saver)
    drive.invoke(graph, {"words": []}, thread())
    inner = drive.get_state(graph, thread(), subgraphs=True).tasks[0].state.tasks[0].state
    config = drive.update_state(graph, inner.config, {"words": ["u"]})
    state = drive.get_state(graph, config)
    assert state.metadata["parents"] == inner.metadata["parents"]
    assert state.metadata["source"] == "update"
    assert drive.invoke(graph, Command(resume="yes"), thread())["words"] == ["c1", "u", "yes", "n"]


def test_a_child_can_be_finished_by_an_update(drive: Any, saver: Any, thread: Any) -> None:
    """An update in the name of the paused child node stands for it; the run asks no more."""
    graph = around(child(), saver)
    drive.invoke(graph, {"words": []}, thread())
    pointer = drive.get_state(graph, thread()).tasks[0].state
    drive.update_state(graph, pointer, {"words": ["u"]}, "c2")
    assert drive.invoke(graph, None, thread()) == {"words": ["c1", "u", "n"]}


def test_an_unknown_subgraph_cannot_be_updated(drive: Any, saver: Any, thread: Any) -> None:
    """The error names it, and the ones that are known."""
    graph = around(child(), saver)
    with pytest.raises(ValueError, match=r"Subgraph nope not found; .* sub"):
        drive.update_state(graph, thread(checkpoint_ns="nope:1"), {"words": []})


def test_a_subgraph_reads_with_the_runs_saver(saver: Any, thread: Any) -> None:
    """A child without a saver of its own can look at the thread of the run that it is part of."""
    seen: list[Any] = []

    def look(state: Any) -> Any:
        seen.append(inner.get_state(thread()).metadata)
        return {"words": ["looked"]}

    inner = chain("look", look=look).compile()
    graph = chain("a", "sub", a=adds("a"), sub=inner).compile(saver)
    graph.invoke({"words": []}, thread())
    assert seen[0]["source"] == "loop"
