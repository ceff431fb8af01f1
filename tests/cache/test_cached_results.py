"""Results of nodes and tasks that are found in a cache."""

from __future__ import annotations

import asyncio
import functools
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from perdure.cache.base import BaseCache
from perdure.cache.memory import InMemoryCache
from perdure.cache.sqlite import SqliteCache
from perdure.errors import UnstorableError
from perdure.func import entrypoint, task
from perdure.graph import END, START, StateGraph
from perdure.types import CachePolicy, Command, RetryPolicy, Send, interrupt

T = {"configurable": {"thread_id": "t"}}
U = {"configurable": {"thread_id": "u"}}


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


@pytest.fixture(params=["memory", "sqlite"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseCache[Any]]:
    if request.param == "memory":
        yield InMemoryCache()
        return
    with SqliteCache(path=tmp_path / "cache.db") as cache:
        yield cache


def one_node(node: Any, policy: CachePolicy[Any] | None = None, name: str = "node") -> StateGraph:
    builder = StateGraph(State).add_node(name, node, cache_policy=policy or CachePolicy())
    return builder.add_edge(START, name)


def calling(*tasks: Any, **options: Any) -> Any:
    """An entrypoint that calls each task with its input."""

    @entrypoint(**options)
    def flow(x):
        return [each(x).result() for each in tasks]

    return flow


# hits -----------------------------------------------------------------------------------------


def test_a_task_is_not_run_again_for_equal_arguments(drive, cache):
    """A second run gets the first one's result; other arguments run."""
    ran = []

    @task(cache_policy=CachePolicy())
    def double(x):
        ran.append(x)
        return 2 * x

    flow = calling(double, cache=cache)
    assert [drive.invoke(flow, x) for x in (1, 1, 2)] == [[2], [2], [4]]
    assert ran == [1, 2]


def test_a_node_is_not_run_again_for_equal_input(drive, cache):
    """Its writes are found and applied."""
    ran = []

    def node(state):
        ran.append(1)
        return {"log": [("a", 1)]}

    workflow = one_node(drive.fn(node)).compile(cache=cache)
    results = [drive.invoke(workflow, {"log": []}) for _ in range(2)]
    assert (results, ran) == ([{"log": [("a", 1)]}] * 2, [1])


def test_a_hit_leads_where_the_node_led(drive, cache):
    """Conditional edges and packets are part of what is kept."""
    ran = []

    def node(state):
        ran.append("node")
        return Command(goto=Send("next", {"log": ["sent"]}))

    def choose(state):
        ran.append("choose")
        return "other"

    builder = one_node(node).add_node("next", lambda state: {"log": state["log"]})
    builder.add_node("other", lambda state: {"log": ["other"]})
    builder.add_conditional_edges("node", choose, ["other", END])
    workflow = builder.compile(cache=cache)
    results = [sorted(drive.invoke(workflow, {"log": []})["log"]) for _ in range(2)]
    assert (results, ran) == ([["other", "sent"]] * 2, ["node", "choose"])


def test_an_async_task_is_cached(cache):
    """Coroutines find their results as functions do."""
    ran = []

    @task(cache_policy=CachePolicy())
    async def double(x):
        ran.append(x)
        return 2 * x

    @entrypoint(cache=cache)
    async def flow(x):
        return await double(x)

    async def main():
        return [await flow.ainvoke(3), await flow.ainvoke(3)]

    assert (asyncio.run(main()), ran) == ([6, 6], [3])


def test_None_is_a_result(drive, cache):
    """A task that returned None is not run again."""
    ran = []

    @task(cache_policy=CachePolicy())
    def nothing(x):
        ran.append(x)

    flow = calling(nothing, cache=cache)
    assert [drive.invoke(flow, 1), drive.invoke(flow, 1), ran] == [[None], [None], [1]]


def test_a_policy_of_the_entrypoint_holds_for_it_and_its_tasks(drive, cache):
    """The function is not run again for an equal input, its tasks not for equal arguments."""
    ran = []

    @task
    def seven(x):
        ran.append("task")
        return 7

    @entrypoint(cache=cache, cache_policy=CachePolicy())
    def flow(x):
        ran.append(x)
        return seven("same").result()

    assert [drive.invoke(flow, x) for x in (1, 2, 1)] == [7, 7, 7]
    assert ran == [1, "task", 2]


def test_defaults_of_a_graph_hold_for_its_nodes(drive, cache):
    """`set_node_defaults(cache_policy=)` caches nodes, but neither handlers nor the input."""
    ran = []

    def bad(state):
        ran.append("bad")
        raise RuntimeError

    def handler(state):
        ran.append("handler")
        return {"log": ["handled"]}

    def good(state):
        ran.append("good")
        return {"log": ["good"]}

    builder = StateGraph(State).add_node("bad", bad, error_handler=handler).add_node("good", good)
    builder.add_edge(START, "good").add_edge("good", "bad").set_node_defaults(cache_policy=CachePolicy())
    workflow = builder.compile(cache=cache)
    for _ in range(2):
        drive.invoke(workflow, {"log": []})
    assert ran == ["good", "bad", "handler", "bad", "handler"]


def test_without_a_cache_policies_do_nothing(drive):
    """A workflow that has no cache runs everything."""
    ran = []

    @task(cache_policy=CachePolicy())
    def work(x):
        ran.append(x)

    flow = calling(work)
    drive.invoke(flow, 1)
    drive.invoke(flow, 1)
    assert ran == [1, 1]


def test_the_time_to_live_is_the_policys(drive, cache):
    """A result with `ttl=0` is never found."""
    ran = []

    @task(cache_policy=CachePolicy(ttl=0))
    def work(x):
        ran.append(x)

    flow = calling(work, cache=cache)
    drive.invoke(flow, 1)
    drive.invoke(flow, 1)
    assert ran == [1, 1]


# keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [str, str.encode])
def test_a_key_function_says_what_is_equal(drive, cache, kind):
    """It gets the task's arguments as they were given, and returns text or bytes."""
    ran = []

    def key(x, *, note=""):
        return kind(str(x % 10))

    @task(cache_policy=CachePolicy(key_func=key))
    def work(x, *, note=""):
        ran.append((x, note))
        return x

    @entrypoint(cache=cache)
    def flow(x):
        return work(x, note="n").result()

    assert [drive.invoke(flow, x) for x in (1, 11, 2)] == [1, 1, 2]
    assert ran == [(1, "n"), (2, "n")]


def test_a_failing_key_function_fails_the_task(drive, cache):
    """Its error is raised as the task's."""

    @task(cache_policy=CachePolicy(key_func=lambda x: str(1 // x)))
    def work(x):
        return x

    with pytest.raises(ZeroDivisionError):
        drive.invoke(calling(work, cache=cache), 0)


def test_lambdas_do_not_share_results(drive, cache):
    """Two lambdas of one line, called with equal arguments, have results of their own."""
    policy = CachePolicy()
    one, two = task(lambda x: x + 1, cache_policy=policy), task(lambda x: x + 2, cache_policy=policy)
    assert drive.invoke(calling(one, two, cache=cache), 1) == [2, 3]


@dataclass
class Adder:
    """A value with a method."""

    n: int

    def add(self, x):
        return self.n + x


def test_partials_and_methods_do_not_share_results(drive, cache):
    """What a partial or a bound method was given beforehand tells them apart."""

    policy = CachePolicy()
    partials = [task(functools.partial(operator.add, n), cache_policy=policy) for n in (1, 2)]
    methods = [task(Adder(n).add, cache_policy=policy) for n in (3, 4)]
    assert drive.invoke(calling(*partials, *methods, cache=cache), 1) == [2, 3, 4, 5]


def test_nodes_of_two_names_do_not_share_results(drive, cache):
    """One function under two names has two results."""
    ran = []

    def node(state):
        ran.append(1)
        return {"log": [len(ran)]}

    for name in ("a", "b"):
        drive.invoke(one_node(node, name=name).compile(cache=cache), {"log": []})
    assert ran == [1, 1]


# what is not kept -----------------------------------------------------------------------------


def test_failures_are_not_cached(drive, cache):
    """A task that failed runs again, and its result is kept then."""
    ran = []

    @task(cache_policy=CachePolicy())
    def flaky(x):
        ran.append(x)
        if len(ran) == 1:
            raise ValueError("once")
        return x

    flow = calling(flaky, cache=cache)
    with pytest.raises(ValueError):
        drive.invoke(flow, 3)
    assert [drive.invoke(flow, 3), drive.invoke(flow, 3), len(ran)] == [[3], [3], 2]


def test_the_result_of_a_retry_is_cached(drive, cache):
    """What the last attempt returned is kept."""
    ran = []

    @task(cache_policy=CachePolicy(), retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    def flaky(x):
        ran.append(x)
        if len(ran) == 1:
            raise ConnectionError
        return x

    flow = calling(flaky, cache=cache)
    assert [drive.invoke(flow, 3), drive.invoke(flow, 3), len(ran)] == [[3], [3], 2]


def test_a_result_that_an_answer_went_into_is_not_cached(drive, cache, saver):
    """The next thread is asked again, by the task as well as by what calls it."""

    @task(cache_policy=CachePolicy())
    def ask(x):
        return interrupt("sure?")

    @entrypoint(cache=cache, checkpointer=saver, cache_policy=CachePolicy())
    def flow(x):
        return ask(x).result()

    for config in (T, U):
        assert drive.invoke(flow, 1, config)["__interrupt__"][0].value == "sure?"
        assert drive.invoke(flow, Command(resume=config["configurable"]["thread_id"]), config) in ("t", "u")


def test_a_node_around_a_subgraph_that_asks_is_not_cached(drive, cache, saver):
    """An answer that a nested run took is an answer all the same."""
    child = StateGraph(State).add_node("ask", lambda state: {"log": [interrupt("sure?")]})
    child.add_edge(START, "ask")
    workflow = one_node(child.compile()).compile(cache=cache, checkpointer=saver)
    for config in (T, U):
        assert "__interrupt__" in drive.invoke(workflow, {"log": []}, config)
        assert drive.invoke(workflow, Command(resume="yes"), config) == {"log": ["yes"]}


def test_a_result_that_cannot_be_stored_is_refused(drive, cache):
    """The error names the task."""

    @task(cache_policy=CachePolicy())
    def work(x):
        return object()

    with pytest.raises(UnstorableError, match="task 'work' with a cache policy returned an object"):
        drive.invoke(calling(work, cache=cache), 1)


class Broken(InMemoryCache[Any]):
    """A cache whose server is away."""

    def get(self, keys):
        raise ConnectionError("away")

    def set(self, pairs):
        raise ConnectionError("away")


def test_a_cache_that_is_away_fails_no_run(drive, caplog):
    """It is logged, and the task runs."""

    @task(cache_policy=CachePolicy())
    def work(x):
        return x

    assert drive.invoke(calling(work, cache=Broken()), 1) == [1]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


# threads --------------------------------------------------------------------------------------


def test_a_hit_is_recorded(drive, cache, saver):
    """What came out of the cache is the thread's, even when the cache has forgotten it."""
    ran, broken = [], [True]

    @task(cache_policy=CachePolicy())
    def work(x):
        ran.append(x)
        return len(ran)

    @entrypoint(cache=cache, checkpointer=saver)
    def flow(x):
        found = work(x).result()
        if broken and len(broken) == 2:
            raise RuntimeError
        return found

    drive.invoke(flow, 1, T)
    broken.append(True)
    with pytest.raises(RuntimeError):
        drive.invoke(flow, 1, U)
    broken.clear()
    cache.clear()
    assert (drive.invoke(flow, None, U), ran) == (1, [1])


def test_the_record_of_a_thread_wins(drive, cache, saver):
    """A finished call of an open task keeps its result, whatever is cached meanwhile."""
    number = [1]

    @task(cache_policy=CachePolicy())
    def work(x):
        return number[0]

    @entrypoint(cache=cache, checkpointer=saver)
    def flow(x):
        return work(x).result(), interrupt("go on?")

    drive.invoke(flow, 1, T)
    work.clear_cache(cache)
    number[0] = 2
    drive.invoke(flow, 1, U)
    assert drive.invoke(flow, Command(resume=True), T) == (1, True)


# streams and clearing -------------------------------------------------------------------------


def test_updates_say_what_was_cached(drive, cache):
    """A chunk from the cache is marked, others are not."""

    @task(cache_policy=CachePolicy())
    def work(x):
        return x

    flow = calling(work, cache=cache)
    mark = {"__metadata__": {"cached": True}}
    name = {"flow": [1]}
    assert drive.stream(flow, 1, stream_mode="updates") == [{"work": 1}, name]
    assert drive.stream(flow, 1, stream_mode="updates") == [{"work": 1} | mark, name]


def test_updates_say_which_node_was_cached(drive, cache):
    """The same for nodes."""
    workflow = one_node(lambda state: {"log": [1]}).compile(cache=cache)
    chunk = {"node": {"log": [1]}}
    assert drive.stream(workflow, {"log": []}, stream_mode="updates") == [chunk]
    mark = {"__metadata__": {"cached": True}}
    assert drive.stream(workflow, {"log": []}, stream_mode="updates") == [chunk | mark]


def clear(drive: Any, thing: Any, *args: Any) -> None:
    if drive.is_async:
        asyncio.run(thing.aclear_cache(*args))
    else:
        thing.clear_cache(*args)


def test_a_tasks_results_can_be_forgotten(drive, cache):
    """`clear_cache` of a task leaves those of others."""
    ran = []

    @task(cache_policy=CachePolicy())
    def one(x):
        ran.append("one")

    @task(cache_policy=CachePolicy())
    def two(x):
        ran.append("two")

    flow = calling(one, two, cache=cache)
    drive.invoke(flow, 1)
    clear(drive, one, cache)
    drive.invoke(flow, 1)
    assert ran == ["one", "two", "one"]


@pytest.mark.parametrize(("nodes", "again"), [(None, ["a", "b"]), (["b"], ["b"]), (["other"], [])])
def test_a_workflows_results_can_be_forgotten(drive, cache, nodes, again):
    """All of them, or those of the nodes named; a name that is no node's is passed over."""
    ran = []

    def make(name):
        def node(state):
            ran.append(name)

        return node

    builder = StateGraph(State)
    for name in ("a", "b"):
        builder.add_node(name, make(name), cache_policy=CachePolicy())
    workflow = builder.add_edge(START, "a").add_edge("a", "b").compile(cache=cache)
    drive.invoke(workflow, {"log": []})
    clear(drive, workflow, nodes)
    drive.invoke(workflow, {"log": []})
    assert ran[2:] == again


def test_without_a_cache_there_is_nothing_to_forget(drive):
    """`clear_cache` says so."""
    with pytest.raises(ValueError, match="No cache is set for 'LangGraph'"):
        clear(drive, one_node(lambda state: None).compile())
