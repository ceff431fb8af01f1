"""When a failed attempt of a task, an entrypoint or a node is made again."""

import asyncio
from typing import TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.runtime import Runtime
from perdure.types import Command, RetryPolicy, interrupt

T = {"configurable": {"thread_id": "t"}}


def at_once(**kw):
    """A policy that does not wait."""
    return RetryPolicy(**{"initial_interval": 0, "jitter": False, **kw})


class State(TypedDict, total=False):
    out: int


def failing(times, error):
    """A function that fails so often, and the list of its attempts."""
    attempts = []

    def function(x):
        attempts.append(x)
        if len(attempts) <= times:
            raise error
        return x

    return function, attempts


def run_task(drive, function, policy):
    work = task(function, retry_policy=policy)

    @entrypoint()
    def workflow(x):
        return work(x).result()

    return drive.invoke(workflow, 1)


def test_defaults_are_the_documented_ones():
    """A policy without arguments has the documented numbers."""
    policy = RetryPolicy()
    assert policy.initial_interval == 0.5
    assert policy.backoff_factor == 2.0
    assert policy.max_interval == 128.0
    assert policy.max_attempts == 3
    assert policy.jitter is True


def test_max_attempts_counts_the_first(drive):
    """Three attempts are one try and two retries."""
    function, attempts = failing(5, ConnectionError("down"))
    with pytest.raises(ConnectionError):
        run_task(drive, function, at_once(max_attempts=3))
    assert len(attempts) == 3


def test_success_within_the_attempts(drive):
    """A task that recovers returns its result."""
    function, attempts = failing(2, ConnectionError("down"))
    assert run_task(drive, function, at_once()) == 1
    assert len(attempts) == 3


def test_no_policy_no_retry(drive):
    """Without a policy the first failure counts."""
    function, attempts = failing(1, ConnectionError("down"))
    with pytest.raises(ConnectionError):
        run_task(drive, function, None)
    assert len(attempts) == 1


@pytest.mark.parametrize(
    "error",
    [
        ValueError(),
        TypeError(),
        ZeroDivisionError(),
        ImportError(),
        KeyError(),
        NameError(),
        SyntaxError(),
        RuntimeError(),
        ReferenceError(),
        OSError(),
        TimeoutError(),
    ],
    ids=lambda e: type(e).__name__,
)
def test_errors_of_the_program_are_not_retried_by_default(error):
    """The default predicate leaves mistakes alone."""
    function, attempts = failing(1, error)
    work = task(function, retry_policy=at_once())

    @entrypoint()
    def workflow(x):
        return work(x).result()

    with pytest.raises(type(error)):
        workflow.invoke(1)
    assert len(attempts) == 1


def test_unknown_errors_are_retried_by_default():
    """Everything the predicate does not know is tried again."""

    class Odd(Exception):
        pass

    function, attempts = failing(1, Odd())
    work = task(function, retry_policy=at_once())

    @entrypoint()
    def workflow(x):
        return work(x).result()

    assert workflow.invoke(1) == 1
    assert len(attempts) == 2


@pytest.mark.parametrize(
    "retry_on",
    [ValueError, (KeyError, ValueError), [KeyError, ValueError], lambda e: isinstance(e, ValueError)],
)
def test_retry_on_class_sequence_or_predicate(retry_on):
    """`retry_on` may be one class, several, or a function."""
    function, attempts = failing(1, ValueError())
    work = task(function, retry_policy=at_once(retry_on=retry_on))

    @entrypoint()
    def workflow(x):
        return work(x).result()

    assert workflow.invoke(1) == 1
    assert len(attempts) == 2


def test_empty_retry_on_never_matches():
    """An empty sequence retries nothing."""
    function, attempts = failing(1, ConnectionError())
    work = task(function, retry_policy=at_once(retry_on=()))

    @entrypoint()
    def workflow(x):
        return work(x).result()

    with pytest.raises(ConnectionError):
        workflow.invoke(1)
    assert len(attempts) == 1


def test_first_matching_policy_is_used():
    """Of several policies the first that matches decides; attempts are counted together."""
    errors = [ValueError(), KeyError(), ValueError()]
    attempts = []

    def function(x):
        attempts.append(x)
        if errors:
            raise errors.pop(0)
        return x

    policies = [
        at_once(max_attempts=4, retry_on=ValueError),
        at_once(max_attempts=4, retry_on=KeyError),
    ]
    work = task(function, retry_policy=policies)

    @entrypoint()
    def workflow(x):
        return work(x).result()

    assert workflow.invoke(1) == 1
    assert len(attempts) == 4


def test_entrypoint_policy_is_the_default_of_its_tasks(drive):
    """A task without a policy of its own takes the entrypoint's."""
    function, attempts = failing(1, ConnectionError())
    work = task(function)

    @entrypoint(retry_policy=at_once())
    def workflow(x):
        return work(x).result()

    assert drive.invoke(workflow, 1) == 1
    assert len(attempts) == 2


def test_attempt_number_is_shown(drive):
    """`execution_info` tells the attempt and when the first one began."""
    seen = []

    @task(retry_policy=at_once())
    def work(runtime: Runtime):
        info = runtime.execution_info
        seen.append((info.node_attempt, info.node_first_attempt_time))
        if len(seen) < 3:
            raise ConnectionError

    @entrypoint()
    def workflow(x):
        work().result()

    drive.invoke(workflow, 1)
    assert [attempt for attempt, _ in seen] == [1, 2, 3]
    assert len({began for _, began in seen}) == 1


def test_node_is_retried(drive):
    """A node's policy works as a task's; writes of a failed attempt are dropped."""
    function, attempts = failing(2, ConnectionError())

    def node(state):
        return {"out": function(1)}

    builder = StateGraph(State)
    builder.add_node("node", node, retry_policy=at_once())
    builder.add_edge(START, "node")
    assert drive.invoke(builder.compile(), {}) == {"out": 1}
    assert len(attempts) == 3


def test_pause_is_not_retried(drive, saver):
    """A question is no failure."""
    ran = []

    @task(retry_policy=at_once(retry_on=BaseException))
    def ask():
        ran.append(1)
        return interrupt("?")

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return ask().result()

    drive.invoke(workflow, 1, T)
    assert len(ran) == 1


def test_retried_body_finds_its_finished_calls(drive, saver):
    """A second attempt of the body gets the results of the first one's tasks."""
    charged, attempts = [], []

    @task
    def charge(order):
        charged.append(order)
        return f"receipt {order}"

    @entrypoint(checkpointer=saver, retry_policy=at_once())
    def workflow(order):
        receipt = charge(order).result()
        attempts.append(receipt)
        if len(attempts) == 1:
            raise ConnectionError
        return receipt

    assert drive.invoke(workflow, 7, T) == "receipt 7"
    assert charged == [7]
    assert len(attempts) == 2


def test_retried_node_finds_its_finished_calls(drive, saver):
    """The same holds for tasks called in a node."""
    charged, attempts = [], []

    @task
    def charge(i):
        charged.append(i)
        return i

    def node(state):
        total = charge(1).result() + charge(2).result()
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError
        return {"out": total}

    builder = StateGraph(State)
    builder.add_node("node", node, retry_policy=at_once())
    builder.add_edge(START, "node")
    assert drive.invoke(builder.compile(checkpointer=saver), {}, T) == {"out": 3}
    assert sorted(charged) == [1, 2]


def test_answers_survive_a_retry(drive, saver):
    """An attempt after the answer finds the answer at the same question."""
    failures = []

    @entrypoint(checkpointer=saver, retry_policy=at_once())
    def workflow(x):
        answer = interrupt("approve?")
        if not failures:
            failures.append(1)
            raise ConnectionError
        return answer

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, Command(resume="yes"), T) == "yes"


def test_retried_node_resumes_its_subgraph(drive, saver):
    """A node that contains a graph goes on inside it where it failed."""
    ran = []

    def first(state):
        ran.append("first")
        return {"out": 1}

    def second(state):
        ran.append("second")
        if ran.count("second") == 1:
            raise ConnectionError
        return {"out": state["out"] + 1}

    child = StateGraph(State)
    child.add_node("first", first)
    child.add_node("second", second)
    child.add_edge(START, "first")
    child.add_edge("first", "second")
    inner = child.compile()

    builder = StateGraph(State)
    builder.add_node("node", lambda state: inner.invoke({}), retry_policy=at_once())
    builder.add_edge(START, "node")
    assert drive.invoke(builder.compile(checkpointer=saver), {}, T) == {"out": 2}
    assert ran == ["first", "second", "second"]


def test_async_task_is_retried():
    """Async attempts are retried on the loop."""
    attempts = []

    @task(retry_policy=at_once())
    async def work(x):
        await asyncio.sleep(0)
        attempts.append(x)
        if len(attempts) < 3:
            raise ConnectionError
        return x

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(x):
        return await work(x)

    assert asyncio.run(workflow.ainvoke(1, T)) == 1
    assert len(attempts) == 3
