"""Which nodes run on the thread that hands events out, because they have nothing to tell meanwhile."""

from __future__ import annotations

import functools
import threading

import pytest

from perdure.config import get_stream_writer
from perdure.engine.action import Action
from perdure.engine.quiet import is_brief, is_quiet
from perdure.func import task
from perdure.types import StreamWriter

LIMIT = 3


@task
def work():
    return 1


def helper():
    return work().result()


def with_writer(state, writer: StreamWriter):
    writer("x")


def closed_over(thing):
    return lambda state: thing


def shadowing():
    source = "def node(state):\n    return len(state)\n"
    space = {"len": lambda state: work().result()}
    exec(source, space)
    return space["node"]


@pytest.mark.parametrize(
    "fn",
    [
        lambda state: {"n": state["n"] + 1},
        lambda state: [x * 2 for x in range(len(state))],
        lambda state, step=3: {"n": step},
        lambda state: {"n": LIMIT},
        closed_over(7),
    ],
)
def test_code_that_calls_builtins_alone_is_quiet(fn):
    """It can tell nothing while it runs."""
    assert is_quiet(Action.of(fn, "n"))


@pytest.mark.parametrize(
    "fn",
    [
        helper,
        lambda state: work().result(),
        lambda state: get_stream_writer()("x"),
        lambda state: state.anything(),
        lambda state: state["query"].all(),
        lambda state: [helper() for _ in state],
        lambda state, call=helper: call(),
        lambda state: eval("helper()"),
        lambda state: state["tell"](state),
        lambda state: list(map(state["tell"], [1])),
        lambda state: sorted([1], key=state["tell"]),
        lambda state: max(*state["tell"]),
        with_writer,
        closed_over(helper),
        closed_over([helper]),
        shadowing(),
        functools.partial(helper),
        print,
    ],
)
def test_code_that_may_call_anything_is_not(fn):
    """A task, a writer, a method of who knows what, by whatever way it is reached."""
    assert not is_quiet(Action.of(fn, "n"))


def test_only_quiet_nodes_run_in_the_consumers_thread(chain):
    """Others run on workers, so that what they tell can be handed out."""
    threads = []

    def told(state):
        threads.append(threading.get_ident())

    list(chain(("quiet", lambda s: {"b": 1}), ("told", told)).stream({"a": []}, stream_mode="updates"))
    assert threads != [threading.get_ident()]


def repeats(state):
    while state["n"] < LIMIT:
        pass
    return "a"


def counts(state):
    for _ in state["items"]:
        pass
    return "a"


def locks(state):
    with state["lock"]:
        return "a"


@pytest.mark.parametrize(
    "fn",
    [
        lambda state: "a" if state["n"] < LIMIT else "b",
        lambda state: "a" if len(state["items"]) else "b",
        lambda state: ["a", "b"] if isinstance(state["n"], int) else "b",
        lambda state: {"n": state["n"] and "a"},
    ],
)
def test_code_that_only_looks_at_the_state_is_brief(fn):
    """It may run on an event loop, which it cannot hold up."""
    assert is_brief(Action.of(fn, "n"))


@pytest.mark.parametrize(
    "fn",
    [
        repeats,
        counts,
        lambda state: sum(x * x for x in range(state["n"])),
        lambda state: [x + 1 for x in state["items"]],
        lambda state: input("go?"),
        lambda state: open(state["file"]),  # noqa: SIM115
        lambda state: sorted(state["items"]),
        lambda state: state["user"].orders,
        lambda state: state["choose"](state),
        lambda state: state["query"].all(),
        lambda state: state["user"].type,
        lambda state: max(state["items"], key=state["rank"]),
        locks,
        lambda state: work().result(),
        lambda state: helper(),
        closed_over(helper),
        print,
    ],
)
def test_code_that_loops_waits_or_reaches_out_is_not(fn):
    """Loops, files, attributes that may be worked out, calls of who knows what."""
    assert not is_brief(Action.of(fn, "n"))
