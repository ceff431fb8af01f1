"""Every way to make a task out of a callable."""

import asyncio
import functools

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.func import entrypoint, task
from perdure.types import RetryPolicy

T = {"configurable": {"thread_id": "t"}}


def run(drive, body):
    """The result of calling `body` inside a workflow."""

    @entrypoint()
    def workflow(x):
        return body(x)

    return drive.invoke(workflow, 1)


def add_one(x):
    """Adds one."""
    return x + 1


def test_bare_decorator(drive):
    """`@task` without parentheses."""

    @task
    def work(x):
        return x + 1

    assert run(drive, lambda x: work(x).result()) == 2


def test_called_decorator(drive):
    """`@task()` with empty parentheses."""

    @task()
    def work(x):
        return x + 1

    assert run(drive, lambda x: work(x).result()) == 2


def test_as_a_function(drive):
    """`task(fn)`."""
    assert run(drive, lambda x: task(add_one)(x).result()) == 2


def test_lambda(drive):
    """A lambda can be a task."""
    work = task(lambda x: x + 1)
    assert run(drive, lambda x: work(x).result()) == 2


def test_partial(drive):
    """A partial can be a task."""
    work = task(functools.partial(lambda a, b: a + b, 1))
    assert run(drive, lambda x: work(x).result()) == 2


def test_callable_object(drive):
    """An object with `__call__` can be a task."""

    class Adder:
        def __call__(self, x):
            return x + 1

    work = task(Adder())
    assert run(drive, lambda x: work(x).result()) == 2


def test_bound_method(drive):
    """A bound method can be a task."""

    class Adder:
        step = 1

        def add(self, x):
            return x + self.step

    work = task(Adder().add)
    assert run(drive, lambda x: work(x).result()) == 2


def test_name_is_shown_in_streams(drive):
    """`name=` replaces the function's name."""

    @task(name="other")
    def work(x):
        return x

    @entrypoint()
    def workflow(x):
        return work(x).result()

    assert drive.stream(workflow, 1)[0] == {"other": 1}


def test_name_on_a_bound_method_leaves_the_class_alone(drive):
    """Naming a method's task does not rename the method."""

    class Adder:
        def add(self, x):
            return x + 1

    work = task(Adder().add, name="renamed")

    @entrypoint()
    def workflow(x):
        return work(x).result()

    assert drive.stream(workflow, 1)[0] == {"renamed": 2}
    assert Adder.add.__name__ == "add"


def test_task_looks_like_its_function():
    """A task keeps name, docstring and the wrapped function."""
    work = task(add_one)
    assert work.__name__ == "add_one"
    assert work.__doc__ == "Adds one."
    assert work.func is add_one or work.__wrapped__ is add_one


def test_a_single_retry_policy_is_wrapped():
    """`retry_policy` is always a sequence on the task."""
    policy = RetryPolicy()
    assert tuple(task(add_one, retry_policy=policy).retry_policy) == (policy,)
    assert tuple(task(add_one, retry_policy=[policy, policy]).retry_policy) == (policy, policy)


def test_retry_is_an_old_name():
    """`retry=` warns and is taken as `retry_policy=`."""
    policy = RetryPolicy()
    with pytest.warns(DeprecationWarning, match="retry"):
        work = task(add_one, retry=policy)
    assert tuple(work.retry_policy) == (policy,)


def test_keyword_arguments_named_like_options_belong_to_the_function(drive):
    """`timeout=`, `retry_policy=`, `name=` at a call are the user's own."""

    @task
    def work(x, *, timeout, idle_timeout, retry_policy, name, key):
        return [x, timeout, idle_timeout, retry_policy, name, key]

    def body(x):
        return work(x, timeout=2, idle_timeout=3, retry_policy=4, name=5, key=6).result()

    assert run(drive, body) == [1, 2, 3, 4, 5, 6]


def test_defaults_and_keywords_pass_through(drive):
    """A task takes arguments as its function does."""

    @task
    def work(a, b=2, *rest, c=3, **more):
        return [a, b, list(rest), c, more]

    assert run(drive, lambda x: work(1, 5, 6, 7, d=8).result()) == [1, 5, [6, 7], 3, {"d": 8}]


def test_wrong_arguments_are_pythons_error(drive):
    """Missing arguments raise TypeError where the result is asked for, at the latest."""

    @task
    def work(a, b):
        return a + b

    with pytest.raises(TypeError, match="'b'"):
        run(drive, lambda x: work(1).result())


def test_arguments_go_by_reference(drive, saver):
    """A task works on the caller's own object."""

    @task
    def fill(target):
        target.append("filled")

    @entrypoint(checkpointer=saver)
    def workflow(x):
        target = []
        fill(target).result()
        return target

    assert drive.invoke(workflow, 1, T) == ["filled"]


def test_arguments_need_not_be_storable(drive, saver):
    """Only results are stored; an argument may be anything."""

    @task
    def ask(connection):
        return connection() + 1

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return ask(lambda: x).result()

    assert drive.invoke(workflow, 1, T) == 2


def test_async_task(saver):
    """An async function can be a task, and is awaited."""

    @task
    async def work(x):
        await asyncio.sleep(0)
        return x + 1

    @entrypoint(checkpointer=saver)
    async def workflow(x):
        return await work(x)

    assert asyncio.run(workflow.ainvoke(1, T)) == 2


def test_async_bound_method_and_callable_object():
    """Async methods and objects with an async `__call__` are async tasks."""

    class Adder:
        async def add(self, x):
            return x + 1

        async def __call__(self, x):
            return x + 2

    by_method, by_object = task(Adder().add), task(Adder())

    @entrypoint()
    async def workflow(x):
        return [await by_method(x), await by_object(x)]

    assert asyncio.run(workflow.ainvoke(1)) == [2, 3]


def test_sync_task_in_an_async_run():
    """A sync task is awaited like an async one and runs off the loop."""

    @task
    def work(x):
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return x + 1

    @entrypoint()
    async def workflow(x):
        return await work(x)

    assert asyncio.run(workflow.ainvoke(1)) == 2


def test_async_task_in_a_sync_run_is_refused():
    """Nothing could await it, so the error says so."""

    @task
    async def work(x):
        return x

    @entrypoint()
    def workflow(x):
        return work(x).result()

    with pytest.raises((RuntimeError, TypeError)):
        workflow.invoke(1)


def test_task_in_plain_code_is_refused():
    """A task cannot be called outside a workflow."""
    with pytest.raises(RuntimeError, match="outside of a runnable context"):
        task(add_one)(1)


def test_task_in_plain_async_code_is_refused():
    """Nor from a coroutine that no workflow runs."""

    @task
    async def work(x):
        return x

    async def main():
        await work(1)

    with pytest.raises(RuntimeError, match="outside of a runnable context"):
        asyncio.run(main())


def test_thread_of_the_users_own_is_told_about_copy_context(drive):
    """A raw thread has no context: it works, or the error names the remedy."""
    from concurrent.futures import ThreadPoolExecutor

    work = task(add_one)

    def body(x):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: work(x).result()).result()

    with pytest.raises(RuntimeError, match="copy_context"):
        run(drive, body)


def test_thread_with_a_copied_context_can_call_tasks(drive):
    """With `contextvars.copy_context()` a thread of the user's own is inside the workflow."""
    import contextvars
    from concurrent.futures import ThreadPoolExecutor

    work = task(add_one)

    def body(x):
        context = contextvars.copy_context()
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(context.run, lambda: work(x).result()).result()

    assert run(drive, body) == 2


def test_a_method_decorated_in_the_class(drive):
    """`@task` on a method, called with the object given explicitly."""

    class Service:
        @task
        def double(self, x):
            return x * 2

    def body(x):
        return Service.double(Service(), x + 1).result()

    assert run(drive, body) == 4


def test_saver_does_not_change_what_a_task_is_given(drive):
    """Mutable defaults and objects reach the function unchanged under a saver."""
    seen = []

    @task
    def look(value):
        seen.append(value)
        return

    thing = {"a": (1, 2), "b": {3}}

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(x):
        look(thing).result()
        return

    drive.invoke(workflow, 1, T)
    assert seen[0] is thing
