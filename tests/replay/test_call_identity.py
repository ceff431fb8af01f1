"""A call is known by what it is, not by where it stands."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.func import entrypoint, task
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}
GO = Command(resume=True)


@pytest.fixture
def ran():
    """What the bodies of tasks noted."""
    return []


def test_finished_call_is_not_run_again(drive, saver, ran):
    """A task that returned before the pause is replayed after it."""

    @task
    def work(i):
        ran.append(i)
        return {"made": i}

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [work(1).result(), interrupt("?"), work(2).result()]

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == [{"made": 1}, True, {"made": 2}]
    assert ran == [1, 2]


@pytest.mark.parametrize("value", [None, 0, "", False, [], {}])
def test_falsy_results_are_replayed(drive, saver, ran, value):
    """A stored None is a result like any other."""

    @task
    def work():
        ran.append(1)
        return value

    @entrypoint(checkpointer=saver)
    def workflow(x):
        result = work().result()
        interrupt("?")
        return [result]

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == [value]
    assert ran == [1]


@pytest.mark.parametrize("value", [(1, 2), {1, 2}, b"bytes", 10**30, {"nested": (1, {2, (3, 4)})}], ids=repr)
def test_results_come_back_as_they_went(drive, saver, value):
    """A replayed result has the type it was returned with."""

    @task
    def work():
        return value

    @entrypoint(checkpointer=saver)
    def workflow(x):
        result = work().result()
        interrupt("?")
        return [type(result).__name__, result == value]

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == [type(value).__name__, True]


def test_equal_calls_are_told_apart_by_occurrence(drive, saver, ran):
    """The same call made three times has three results, in order."""

    @task
    def tick():
        ran.append(1)
        return len(ran)

    @entrypoint(checkpointer=saver)
    def workflow(x):
        first = [tick().result(), tick().result()]
        interrupt("?")
        return [*first, tick().result()]

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == [1, 2, 3]
    assert len(ran) == 3


def test_calls_of_different_tasks_with_equal_arguments(drive, saver, ran):
    """The task's name is part of what a call is."""

    @task
    def one(x):
        ran.append("one")
        return "one"

    @task
    def two(x):
        ran.append("two")
        return "two"

    @entrypoint(checkpointer=saver)
    def workflow(x):
        first = [one(x).result(), two(x).result()]
        interrupt("?")
        return first

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == ["one", "two"]
    assert ran == ["one", "two"]


def test_positional_and_keyword_arguments_count(drive, saver, ran):
    """Calls that differ in a keyword argument are different calls."""

    @task
    def work(a, *, b=0):
        ran.append((a, b))
        return a + b

    @entrypoint(checkpointer=saver)
    def workflow(x):
        first = [work(1, b=2).result(), work(1, b=3).result(), work(1).result()]
        interrupt("?")
        return first

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == [3, 4, 1]
    assert len(ran) == 3


def test_order_of_keywords_and_sets_does_not_count(drive, saver, ran):
    """Equal arguments are equal however they are written."""
    flip = []

    @task
    def work(**kw):
        ran.append(sorted(kw))
        return "done"

    @entrypoint(checkpointer=saver)
    def workflow(x):
        if flip:
            result = work(b={"y", "x", "z"}, a=1).result()
        else:
            result = work(a=1, b={"z", "x", "y"}).result()
        interrupt("?")
        return result

    drive.invoke(workflow, 1, T)
    flip.append(1)
    assert drive.invoke(workflow, GO, T) == "done"
    assert len(ran) == 1


def test_injected_arguments_do_not_count(drive, saver, ran):
    """What perdure injects differs from run to run and is left out."""

    @task
    def work(x, *, config=None, previous=None):
        ran.append(x)
        return config["metadata"].get("run")

    @entrypoint(checkpointer=saver)
    def workflow(x):
        result = work(x).result()
        interrupt("?")
        return result

    drive.invoke(workflow, 1, {**T, "metadata": {"run": "first"}})
    assert drive.invoke(workflow, GO, {**T, "metadata": {"run": "second"}}) == "first"
    assert ran == [1]


def test_unencodable_arguments_count_by_type(drive, saver, ran):
    """A connection or a lock among the arguments does not stop a replay."""

    class Connection:
        pass

    @task
    def work(connection, x):
        ran.append(x)
        return x

    @entrypoint(checkpointer=saver)
    def workflow(x):
        result = work(Connection(), x).result()
        interrupt("?")
        return result

    drive.invoke(workflow, 7, T)
    assert drive.invoke(workflow, GO, T) == 7
    assert ran == [7]


def test_results_of_a_finished_run_are_not_used_again(drive, saver, ran):
    """A new run on the thread makes its calls anew."""

    @task
    def work():
        ran.append(1)
        return len(ran)

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return work().result()

    assert drive.invoke(workflow, 1, T) == 1
    assert drive.invoke(workflow, 1, T) == 2


def test_new_input_discards_the_results_of_an_unfinished_run(drive, saver, ran):
    """A new input starts over."""

    @task
    def work():
        ran.append(1)
        return len(ran)

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [work().result(), interrupt("?")]

    drive.invoke(workflow, 1, T)
    drive.invoke(workflow, 2, T)
    assert drive.invoke(workflow, GO, T) == [2, True]


def test_key_names_a_call(drive, saver, ran):
    """With `options(key=)` the user's name replaces the arguments."""
    prices = [10]

    @task
    def quote(amount):
        ran.append(amount)
        return amount * 2

    @entrypoint(checkpointer=saver)
    def workflow(x):
        result = quote.options(key="the quote")(prices[0]).result()
        interrupt("?")
        return result

    drive.invoke(workflow, 1, T)
    prices[0] = 99
    assert drive.invoke(workflow, GO, T) == 20
    assert ran == [10]


def test_keys_tell_equal_calls_apart(drive, saver, ran):
    """Two calls with the same arguments and different keys keep their own results."""
    order = ["a", "b"]

    @task
    def work():
        ran.append(1)
        return len(ran)

    @entrypoint(checkpointer=saver)
    def workflow(x):
        results = {key: work.options(key=key)().result() for key in order}
        interrupt("?")
        return results

    drive.invoke(workflow, 1, T)
    order.reverse()
    assert drive.invoke(workflow, GO, T) == {"a": 1, "b": 2}
    assert len(ran) == 2


def test_pipelines_keep_their_own_results_whatever_the_timing(saver):
    """Gathered pipelines that finish in another order on replay do not swap results."""
    made = []

    async def main():
        second_may_go = asyncio.Event()

        @task
        async def fetch(item):
            made.append(item)
            if item == "slow":
                await second_may_go.wait()
            return f"data of {item}"

        @task
        async def store(item, data):
            made.append(data)
            if item == "fast":
                second_may_go.set()
            return f"{item} stored {data}"

        async def pipeline(item):
            return await store(item, await fetch(item))

        @entrypoint(checkpointer=saver)
        async def workflow(items):
            results = await asyncio.gather(*(pipeline(item) for item in items))
            interrupt("?")
            return results

        await workflow.ainvoke(["slow", "fast"], T)
        return await workflow.ainvoke(GO, T)

    assert asyncio.run(main()) == ["slow stored data of slow", "fast stored data of fast"]
    assert len(made) == 4


def test_pipelines_with_equal_second_calls_keep_their_branch(saver):
    """Calls that are equal in every argument belong to the coroutine that made them."""

    async def main():
        numbers = iter(range(100))
        second_may_go = asyncio.Event()

        @task
        async def first(item):
            if item == "slow":
                await second_may_go.wait()
            return item

        @task
        async def draw():
            second_may_go.set()
            return next(numbers)

        async def pipeline(item):
            await first(item)
            return item, await draw()

        @entrypoint(checkpointer=saver)
        async def workflow(items):
            results = dict(await asyncio.gather(*(pipeline(item) for item in items)))
            interrupt("?")
            return results

        await workflow.ainvoke(["slow", "fast"], T)
        return await workflow.ainvoke(GO, T)

    assert asyncio.run(main()) == {"fast": 0, "slow": 1}


def test_threads_keep_their_own_results(drive, saver):
    """Threads with a copied context are branches too."""
    ran = []

    @task
    def fetch(item):
        ran.append(item)
        return f"data of {item}"

    @task
    def draw():
        ran.append("draw")
        return len(ran)

    def pipeline(item, before, after):
        before.wait(10)
        data = fetch(item).result()
        number = draw().result()
        after.set()
        return data, number

    @entrypoint(checkpointer=saver)
    def workflow(order):
        gates = {name: threading.Event() for name in (*order, "end")}
        order = order if not ran else list(reversed(order))
        chain = [*order, "end"]
        gates[order[0]].set()
        contexts = {name: contextvars.copy_context() for name in order}
        with ThreadPoolExecutor(2) as pool:
            futures = {
                name: pool.submit(contexts[name].run, pipeline, name, gates[name], gates[chain[i + 1]])
                for i, name in enumerate(order)
            }
        results = {name: future.result() for name, future in futures.items()}
        return [interrupt("?"), results["a"], results["b"]]

    drive.invoke(workflow, ["a", "b"], T)
    result = drive.invoke(workflow, GO, T)
    assert result == [True, ("data of a", 2), ("data of b", 4)]
    assert len(ran) == 4


def test_parallel_equal_calls_keep_their_occurrence(saver):
    """Equal calls made in a row and gathered come back in the order made."""

    async def main():
        numbers = iter(range(100))

        @task
        async def draw():
            return next(numbers)

        @entrypoint(checkpointer=saver)
        async def workflow(x):
            results = await asyncio.gather(*(draw() for _ in range(5)))
            interrupt("?")
            return results

        await workflow.ainvoke(1, T)
        return await workflow.ainvoke(GO, T)

    assert sorted(asyncio.run(main())) == [0, 1, 2, 3, 4]


def test_nested_calls_belong_to_their_caller(drive, saver):
    """Equal calls made by different tasks are different calls."""
    ran = []

    @task
    def leaf():
        ran.append("leaf")
        return len(ran)

    @task
    def branch(name):
        return [name, leaf().result()]

    @entrypoint(checkpointer=saver)
    def workflow(x):
        first = branch("a").result()
        interrupt("?")
        return [first, branch("b").result()]

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == [["a", 1], ["b", 2]]
    assert len(ran) == 2


def test_calls_of_an_unfinished_task_are_found_too(drive, saver):
    """A task that stopped half-way goes on from its own finished calls."""
    ran = []

    @task
    def leaf(i):
        ran.append(i)
        return i

    @task
    def middle():
        first = leaf(1).result()
        answer = interrupt("?")
        return [first, answer, leaf(2).result()]

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return middle().result()

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == [1, True, 2]
    assert ran == [1, 2]


def test_ids_of_questions_are_the_same_on_replay(drive, saver):
    """A question asked again carries the same id."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return interrupt("?")

    first = drive.invoke(workflow, 1, T)["__interrupt__"]
    again = drive.invoke(workflow, None, T)["__interrupt__"]
    shown = drive.get_state(workflow, T).interrupts
    assert {i.id for i in (*first, *again, *shown)} == {first[0].id}
    assert len(first) == len(again) == len(shown) == 1


def test_restored_calls_are_not_written_again():
    """A replay stores nothing for calls it restored."""
    stored = []

    class Recording(InMemorySaver):
        def put_writes(self, config, writes, task_id, task_path=""):
            stored.extend(value for channel, value in writes if channel == "__return__")
            return super().put_writes(config, writes, task_id, task_path)

    @task
    def work(i):
        return f"result {i}"

    @entrypoint(checkpointer=Recording())
    def workflow(x):
        return [work(1).result(), interrupt("?"), work(2).result()]

    workflow.invoke(1, T)
    workflow.invoke(GO, T)
    assert [v for v in stored if v == "result 1"] == ["result 1"]
