"""Updates that stand for no node: a new input, an end, a copy; and several at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inspection.graphs import Words, adds, asks, chain, fork
from perdure import Send, entrypoint, inspection, interrupt
from perdure.errors import InvalidUpdateError
from perdure.graph import END, START, StateGraph
from perdure.types import StateUpdate


def bulk(drive: Any, workflow: Any, config: Any, supersteps: Any) -> Any:
    if drive.is_async:
        return asyncio.run(inspection.abulk_update_state(workflow, config, supersteps))
    return inspection.bulk_update_state(workflow, config, supersteps)


def seen(drive: Any, workflow: Any, config: Any) -> list[Any]:
    return [
        (s.values, s.next, s.metadata["step"], s.metadata["source"]) for s in drive.history(workflow, config)
    ]


# __end__ ----------------------------------------------------------------------------------------


def test_end_clears_what_is_open(drive: Any, saver: Any, thread: Any) -> None:
    """Nothing is due after it, and values stay."""
    graph = chain("a", "b", "c").compile(saver, interrupt_before=["b"])
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), None, END)
    state = drive.get_state(graph, thread())
    assert (state.values, state.next) == ({"words": ["a"]}, ())
    assert state.metadata["source"] == "update"
    assert drive.invoke(graph, None, thread()) == {"words": ["a"]}


def test_end_counts_what_is_finished(drive: Any, saver: Any, thread: Any) -> None:
    """Of a half-finished step, the finished task's words and edges count; the paused one is given up."""
    graph = fork(y=asks).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), None, END)
    state = drive.get_state(graph, thread())
    assert (state.values, state.next) == ({"words": ["x"]}, ("z",))


def test_end_takes_no_values(drive: Any, saver: Any, thread: Any) -> None:
    """END is no node that could write."""
    graph = chain("a").compile(saver)
    with pytest.raises(InvalidUpdateError, match="Node __end__ does not exist"):
        drive.update_state(graph, thread(), {"words": ["u"]}, END)


# __input__ --------------------------------------------------------------------------------------


def test_input_starts_anew(drive: Any, saver: Any, thread: Any) -> None:
    """It is the checkpoint that `invoke` would make of the input; what was open is given up."""
    graph = chain("a", "b", b=asks).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), {"words": ["in"]}, "__input__")
    state = drive.get_state(graph, thread())
    assert (state.values, state.next) == ({"words": ["a"]}, ("__start__",))
    assert state.metadata == {"source": "input", "step": 2, "parents": {}}
    assert drive.invoke(graph, None, thread())["words"] == ["a", "in", "a"]


def test_input_on_a_fresh_thread(drive: Any, saver: Any, thread: Any) -> None:
    """Step -1, as a run's first input."""
    graph = chain("a").compile(saver)
    drive.update_state(graph, thread(), {"words": ["in"]}, "__input__")
    assert seen(drive, graph, thread()) == [({"words": []}, ("__start__",), -1, "input")]
    assert drive.invoke(graph, None, thread()) == {"words": ["in", "a"]}


def test_input_needs_values(drive: Any, saver: Any, thread: Any) -> None:
    """None is no input."""
    graph = chain("a").compile(saver)
    with pytest.raises(InvalidUpdateError, match="Received no input writes for __start__"):
        drive.update_state(graph, thread(), None, "__input__")


# __copy__ ---------------------------------------------------------------------------------------


def test_a_copy_lies_beside_the_first(drive: Any, saver: Any, thread: Any) -> None:
    """The same values and next, the same parent, the source `fork`; nothing recorded beside it."""
    graph = fork(y=asks).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    first = drive.get_state(graph, thread())
    drive.update_state(graph, thread(), None, "__copy__")
    copy = drive.get_state(graph, thread())
    assert copy.config != first.config
    assert copy.parent_config == first.parent_config
    assert (copy.values, copy.next, copy.interrupts) == ({"words": []}, ("x", "y"), ())
    assert copy.metadata["source"] == "fork"


def test_a_copy_can_be_changed_at_once(drive: Any, saver: Any, thread: Any) -> None:
    """A list of (values, as_node) is applied to the copy; the first stays as it was."""
    graph = fork().compile(saver, interrupt_before=["x"])
    drive.invoke(graph, {"words": []}, thread())
    first = drive.get_state(graph, thread())
    updates = [({"words": ["1"]}, "x"), ({"words": ["2"]}, "y")]
    drive.update_state(graph, thread(), updates, "__copy__")
    changed, copy, before, _ = drive.history(graph, thread())
    assert (changed.values, changed.next) == ({"words": ["1", "2"]}, ("z",))
    assert changed.parent_config == copy.config
    assert [t.result for t in copy.tasks] == [{"words": ["1"]}, {"words": ["2"]}]
    assert before == first


def test_copying_nothing_is_refused(drive: Any, saver: Any, thread: Any) -> None:
    """A thread without checkpoints has none to copy, and a bare dict says not which node."""
    graph = chain("a").compile(saver)
    with pytest.raises(InvalidUpdateError, match="Cannot copy a non-existent checkpoint"):
        drive.update_state(graph, thread(), None, "__copy__")
    drive.invoke(graph, {"words": []}, thread())
    with pytest.raises(InvalidUpdateError, match="list of"):
        drive.update_state(graph, thread(), {"words": ["u"]}, "__copy__")


# several ----------------------------------------------------------------------------------------


def test_a_thread_can_be_written_without_running(drive: Any, saver: Any, thread: Any) -> None:
    """Updates in the names of input, START and nodes make the history that a run makes."""
    graph = chain("a", "b").compile(saver)
    for _ in range(2):
        drive.invoke(graph, {"words": ["in"]}, thread("run"))
    turn = [
        [StateUpdate({"words": ["in"]}, "__input__")],
        [StateUpdate({"words": ["in"]}, START)],
        [StateUpdate({"words": ["a"]}, "a")],
        [StateUpdate({"words": ["b"]}, "b")],
    ]
    bulk(drive, graph, thread("written"), turn * 2)
    ran, written = seen(drive, graph, thread("run")), seen(drive, graph, thread("written"))
    assert [entry[:3] for entry in written] == [entry[:3] for entry in ran]


def test_packets_are_filled_in_their_order(drive: Any, saver: Any, thread: Any) -> None:
    """Several updates of one node fill its tasks one after another, in one checkpoint."""
    made: StateGraph[Any] = StateGraph(Words)
    made.add_node("p", lambda given: {"words": [given]}).add_node("end", adds("end")).add_edge("p", "end")
    made.add_conditional_edges(START, lambda state: [Send("p", "1"), Send("p", "2")], ["p"])
    graph = made.compile(saver, interrupt_before=["p"])
    drive.invoke(graph, {"words": []}, thread())
    bulk(drive, graph, thread(), [[({"words": ["u1"]}, "p"), ({"words": ["u2"]}, "p")]])
    after, before, _ = drive.history(graph, thread())
    assert [t.result for t in before.tasks] == [{"words": ["u1"]}, {"words": ["u2"]}]
    assert (after.values, after.next) == ({"words": ["u1", "u2"]}, ("end",))


def test_the_last_config_is_returned(drive: Any, saver: Any, thread: Any) -> None:
    """Each inner sequence is one checkpoint, the next one's parent."""
    graph = chain("a", "b").compile(saver)
    config = bulk(drive, graph, thread(), [[({"words": ["1"]}, "a")], [({"words": ["2"]}, "b")]])
    second, first = drive.history(graph, thread())
    assert config == second.config
    assert second.parent_config == first.config
    assert second.values == {"words": ["1", "2"]}


@pytest.mark.parametrize(
    ("supersteps", "error", "message"),
    [
        ([], ValueError, "No supersteps provided"),
        ([[]], ValueError, "No updates provided"),
        ([[({"words": []},), ({"words": []}, "a")]], InvalidUpdateError, "as_node is required when applying"),
        ([[({"words": []}, "a"), (None, END)]], InvalidUpdateError, "cannot be combined"),
        ([[({"words": []}, "__input__"), ({"words": []}, "a")]], InvalidUpdateError, "cannot be combined"),
        ([[(None, "__copy__"), ({"words": []}, "a")]], InvalidUpdateError, "cannot be combined"),
    ],
)
def test_bulk_refusals(
    drive: Any, saver: Any, thread: Any, supersteps: Any, error: type[Exception], message: str
) -> None:
    """What cannot be meant is refused, by its reason."""
    graph = chain("a").compile(saver)
    with pytest.raises(error, match=message):
        bulk(drive, graph, thread(), supersteps)


# entrypoints ------------------------------------------------------------------------------------


def test_an_entrypoint_takes_the_value_as_returned_and_saved(drive: Any, saver: Any, thread: Any) -> None:
    """It is what `values` shows and what the next run gets as `previous`."""

    @entrypoint(checkpointer=saver)
    def flow(n: int, *, previous: Any) -> Any:
        return n, previous

    drive.invoke(flow, 1, thread())
    drive.update_state(flow, thread(), "given")
    assert drive.get_state(flow, thread()).values == "given"
    assert drive.invoke(flow, 2, thread()) == (2, "given")


def test_an_entrypoint_takes_both_apart(drive: Any, saver: Any, thread: Any) -> None:
    """`entrypoint.final` says what is shown and what is saved."""

    @entrypoint(checkpointer=saver)
    def flow(n: int, *, previous: Any) -> Any:
        return previous

    drive.update_state(flow, thread(), entrypoint.final(value="shown", save="saved"))
    assert drive.get_state(flow, thread()).values == "shown"
    assert drive.invoke(flow, 2, thread()) == "saved"


def test_an_update_ends_a_paused_entrypoint(drive: Any, saver: Any, thread: Any) -> None:
    """The value stands for the run: nothing is due, the question is gone."""

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> Any:
        return interrupt("go on?")

    drive.invoke(flow, 1, thread())
    drive.update_state(flow, thread(), "done")
    state = drive.get_state(flow, thread())
    assert (state.values, state.next, state.interrupts) == ("done", (), ())
    assert drive.history(flow, thread())[1].tasks[0].result == "done"


def test_an_entrypoint_takes_an_input(drive: Any, saver: Any, thread: Any) -> None:
    """As `__input__` the value is what the function is called with next."""

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> int:
        return n + 1

    drive.update_state(flow, thread(), 5, "__input__")
    assert drive.get_state(flow, thread()).next == ("flow",)
    assert drive.invoke(flow, None, thread()) == 6


def test_each_entrypoint_has_its_own_saved_value(drive: Any, saver: Any, thread: Any) -> None:
    """An update of one leaves what another of the same thread has saved."""

    @entrypoint(checkpointer=saver)
    def one(n: int, *, previous: Any) -> Any:
        return entrypoint.final(value=previous, save=f"one{n}")

    @entrypoint(checkpointer=saver)
    def two(n: int, *, previous: Any) -> Any:
        return entrypoint.final(value=previous, save=f"two{n}")

    drive.update_state(one, thread(), "u1")
    drive.invoke(two, 1, thread())
    drive.update_state(one, thread(), "u2")
    assert drive.invoke(two, 2, thread()) == "two1"
    drive.update_state(two, thread(), "u3")
    assert drive.invoke(one, 3, thread()) == "u2"
    assert drive.invoke(two, 4, thread()) == "u3"
