"""The history of a thread: every checkpoint, newest first, each as its step began."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inspection.graphs import adds, asks, chain, fork
from perdure import Command, entrypoint, interrupt, task
from perdure.checkpoint.memory import InMemorySaver


def steps(states: list[Any]) -> list[tuple[Any, ...]]:
    return [(s.metadata["source"], s.metadata["step"], s.next) for s in states]


def test_a_run_leaves_one_entry_a_step(drive: Any, saver: Any, thread: Any) -> None:
    """The documented table of a run of two nodes."""
    graph = chain("x", "y").compile(saver)
    drive.invoke(graph, {"words": ["in"]}, thread())
    states = drive.history(graph, thread())
    assert steps(states) == [
        ("loop", 2, ()),
        ("loop", 1, ("y",)),
        ("loop", 0, ("x",)),
        ("input", -1, ("__start__",)),
    ]
    assert [s.values["words"] for s in states] == [["in", "x", "y"], ["in", "x"], ["in"], []]
    assert [t.result for s in states for t in s.tasks] == [{"words": [w]} for w in ("y", "x", "in")]


def test_entries_are_linked(drive: Any, saver: Any, thread: Any) -> None:
    """Each names the one before as its parent; the first has none; each can be looked at by its config."""
    graph = chain("x", "y").compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    states = drive.history(graph, thread())
    assert [s.parent_config for s in states] == [*(s.config for s in states[1:]), None]
    assert [drive.get_state(graph, s.config) for s in states] == states


def test_an_entrypoint_leaves_two_entries_a_run(drive: Any, saver: Any, thread: Any) -> None:
    """Input and end; tasks make no entries of their own."""

    @task
    def double(n: int) -> int:
        return 2 * n

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> int:
        return double(n).result()

    drive.invoke(flow, 1, thread())
    drive.invoke(flow, 5, thread())
    states = drive.history(flow, thread())
    assert [s.metadata["step"] for s in states] == [2, 1, 0, -1]
    assert [s.next for s in states] == [(), ("flow",)] * 2
    assert [s.values for s in states] == [10, 2, 2, None]
    assert [t.result for s in states for t in s.tasks] == [10, 2]
    assert [c.result for s in states for t in s.tasks for c in t.calls] == [10, 2]


def test_limit_and_before(drive: Any, saver: Any, thread: Any) -> None:
    """`limit` counts, `before` is strictly older, an id in the config is that one alone."""
    graph = chain("x", "y").compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    states = drive.history(graph, thread())
    assert drive.history(graph, thread(), limit=2) == states[:2]
    assert drive.history(graph, thread(), limit=0) == []
    assert drive.history(graph, thread(), before=states[1].config) == states[2:]
    assert drive.history(graph, thread(), before=states[1].config, limit=1) == states[2:3]
    assert drive.history(graph, states[1].config) == [states[1]]


def test_filter_compares_metadata(drive: Any, saver: Any, thread: Any) -> None:
    """Entries whose metadata equals what is asked for, own keys included."""
    graph = chain("x").compile(saver)
    drive.invoke(graph, {"words": []}, {**thread(), "metadata": {"who": "me"}})
    drive.invoke(graph, {"words": []}, {**thread(), "metadata": {"who": "you"}})
    found = drive.history(graph, thread(), filter={"source": "input", "who": "me"})
    assert steps(found) == [("input", -1, ("__start__",))]


def test_questions_stay_in_the_history(drive: Any, saver: Any, thread: Any) -> None:
    """An entry shows what its task last asked, also when that has been answered since."""

    def twice(state: Any) -> Any:
        return {"words": [interrupt("one"), interrupt("two")]}

    graph = chain("n", n=twice).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    drive.invoke(graph, Command(resume="1"), thread())
    drive.invoke(graph, Command(resume="2"), thread())
    done, paused, _ = drive.history(graph, thread())
    assert done.interrupts == ()
    assert [q.value for q in paused.interrupts] == ["two"]
    assert paused.tasks[0].result == {"words": ["1", "2"]}


def test_branches_are_all_listed(drive: Any, saver: Any, thread: Any) -> None:
    """A fork adds on top; what it left behind stays."""
    graph = chain("x", "y").compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    before_y = drive.history(graph, thread())[1]
    forked = drive.update_state(graph, before_y.config, {"words": ["f"]}, "x")
    drive.invoke(graph, None, forked)
    states = drive.history(graph, thread())
    assert steps(states)[:3] == [("loop", 3, ()), ("update", 2, ("y",)), ("loop", 2, ())]
    assert states[1].parent_config == before_y.config
    assert states[0].values == {"words": ["x", "f", "y"]}


def test_exit_leaves_one_entry_a_run(drive: Any, saver: Any, thread: Any) -> None:
    """With durability "exit" a run is one entry, its step numbered as if all were there."""
    graph = chain("x", "y").compile(saver)
    drive.invoke(graph, {"words": []}, thread(), durability="exit")
    assert steps(drive.history(graph, thread())) == [("loop", 2, ())]


def test_a_repeated_key_shows_all_its_writes(drive: Any, saver: Any, thread: Any) -> None:
    """A key that a task wrote twice has both under `$writes`; one that wrote nothing shows {}."""

    def twice(state: Any) -> Any:
        return [Command(update={"words": ["1"]}), Command(update={"words": ["2"]})]

    graph = chain("n", "quiet", n=twice, quiet=lambda state: None).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    results = [t.result for s in drive.history(graph, thread())[:3] for t in s.tasks]
    assert results == [{}, {"words": {"$writes": [["1"], ["2"]]}}]


def test_an_open_listing_holds_no_lock(saver: Any, thread: Any) -> None:
    """While one reads the history, the thread can be read, run and updated."""
    graph = chain("x", "y").compile(saver)
    graph.invoke({"words": []}, thread())
    listed = graph.get_state_history(thread())
    newest = next(listed)
    assert graph.get_state(thread()) == newest
    graph.update_state(thread(), {"words": ["u"]}, as_node="y")
    graph.invoke({"words": []}, thread())
    assert len(list(listed)) >= 3


def test_an_open_async_listing_holds_no_lock(saver: Any, thread: Any) -> None:
    """The same with the async methods, on one event loop."""

    async def main() -> int:
        graph = chain("x", "y").compile(saver)
        await graph.ainvoke({"words": []}, thread())
        count = 0
        async for state in graph.aget_state_history(thread()):
            assert await graph.aget_state(state.config) == state
            count += 1
        return count

    assert asyncio.run(main()) == 4


def test_a_listing_saver_that_locks_is_read_first(drive: Any, thread: Any) -> None:
    """A saver of another make may hold a lock while it lists; reading calls in between would hang."""

    class Locking(InMemorySaver):
        listing = False

        def list(self, config: Any, **narrowing: Any) -> Any:
            self.listing = True
            yield from super().list(config, **narrowing)
            self.listing = False

        def get_tuple(self, config: Any) -> Any:
            assert not self.listing, "would hang here"
            return super().get_tuple(config)

    graph = chain("x", x=asks).compile(Locking())
    drive.invoke(graph, {"words": []}, thread())
    assert len(drive.history(graph, thread())) == 2


@settings(max_examples=30, deadline=None)
@given(plan=st.lists(st.sampled_from(["run", "update", "fork", "ask"]), max_size=8), pick=st.randoms())
def test_history_and_states_agree(plan: list[str], pick: Any) -> None:
    """Whatever was done to a thread: every entry reads the same by its config, and the newest is the
    thread as it stands."""
    graph = fork(y=asks).compile(InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke({"words": []}, config)
    for do in plan:
        states = list(graph.get_state_history(config))
        if do == "run":
            graph.invoke({"words": [do]}, config)
        elif do == "ask":
            graph.invoke(None, config)
        elif do == "update":
            graph.update_state(config, {"words": [do]}, as_node=pick.choice(["x", "y", "z"]))
        else:
            graph.update_state(pick.choice(states).config, {"words": [do]}, as_node="x")
    states = list(graph.get_state_history(config))
    assert [graph.get_state(s.config) for s in states] == states
    live = graph.get_state(config)
    assert live.config == states[0].config
    assert len({s.config["configurable"]["checkpoint_id"] for s in states}) == len(states)


@pytest.mark.parametrize("nodes", [1, 3])
def test_metadata_of_the_caller_is_kept(drive: Any, saver: Any, thread: Any, nodes: int) -> None:
    """Keys of the run's metadata and plain configurable values lie beside the engine's own."""
    names = [f"n{i}" for i in range(nodes)]
    graph = chain(*names, **{name: adds(name) for name in names}).compile(saver)
    drive.invoke(graph, {"words": []}, {**thread(user="u"), "metadata": {"m": 1}})
    assert all(s.metadata["user"] == "u" and s.metadata["m"] == 1 for s in drive.history(graph, thread()))
