"""What a function gets by naming a parameter."""

import asyncio
import warnings
from typing import Any

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.func import entrypoint, task
from perdure.runtime import Runtime
from perdure.store.base import BaseStore
from perdure.store.memory import InMemoryStore
from perdure.types import StreamWriter

T = {"configurable": {"thread_id": "t"}}


def test_keyword_only_parameters_are_injected(drive):
    """All five injectables arrive as keyword-only parameters."""
    store = InMemoryStore()
    got = {}

    @entrypoint(checkpointer=InMemorySaver(), store=store)
    def workflow(
        x: int,
        *,
        previous: Any = None,
        store: BaseStore,
        writer: StreamWriter,
        config=None,
        runtime: Runtime,
    ):
        got.update(previous=previous, store=store, writer=writer, config=config, runtime=runtime)
        return x

    assert drive.invoke(workflow, 7, T) == 7
    assert got["previous"] is None
    assert got["store"] is store
    assert got["config"]["configurable"]["thread_id"] == "t"
    assert isinstance(got["runtime"], Runtime)
    got["writer"]("nobody listens")


def test_positional_or_keyword_parameters_are_injected(drive):
    """An injectable need not be keyword-only."""

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(x, previous):
        return (previous or 0) + x

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, 2, T) == 3


def test_first_parameter_is_the_input_whatever_its_name(drive):
    """Also a first parameter called `config` takes the input."""

    @entrypoint()
    def workflow(config):
        return config

    assert drive.invoke(workflow, "input") == "input"


def test_store_is_none_without_a_store(drive):
    """Asking for a store where there is none is no error."""

    @entrypoint()
    def workflow(x, *, store: BaseStore | None):
        return store is None

    assert drive.invoke(workflow, 1) is True


def test_store_can_be_used_in_entrypoint_and_task(drive):
    """What a task puts into the store the entrypoint finds."""
    store = InMemoryStore()

    @task
    def remember(text, *, store: BaseStore):
        store.put(("notes",), "k", {"text": text})

    @entrypoint(store=store)
    def workflow(text, *, store: BaseStore):
        remember(text).result()
        return store.get(("notes",), "k").value

    assert drive.invoke(workflow, "hello") == {"text": "hello"}


def test_writer_feeds_the_custom_stream(drive):
    """What is written with the writer comes out in mode `custom`."""

    @entrypoint()
    def workflow(x, *, writer: StreamWriter):
        writer({"progress": x})
        return x

    assert drive.stream(workflow, 5, stream_mode="custom") == [{"progress": 5}]


def test_config_with_another_annotation_warns_and_is_not_injected(drive):
    """A `config` parameter that is typed as something else is the user's own."""
    with pytest.warns(UserWarning, match="The 'config' parameter should be typed as"):

        @entrypoint()
        def workflow(x, config: int = 3):
            return config

    assert drive.invoke(workflow, 1) == 3


def test_other_annotation_mismatches_leave_the_default(drive):
    """A parameter whose annotation does not fit is an ordinary one."""

    @entrypoint()
    def workflow(x, *, store: int = 4, writer: int = 5):
        return store, writer

    assert tuple(drive.invoke(workflow, 1)) == (4, 5)


def test_error_is_only_for_handlers(drive):
    """A parameter `error` outside an error handler keeps its default."""

    @entrypoint()
    def workflow(x, *, error: str = "mine"):
        return error

    assert drive.invoke(workflow, 1) == "mine"


def test_tasks_are_injected_too(drive):
    """A task gets config, runtime and writer by name."""

    @task
    def inner(x, *, config=None, runtime: Runtime, writer: StreamWriter):
        writer("from the task")
        return config["configurable"]["thread_id"], runtime.execution_info.thread_id

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(x):
        return inner(x).result()

    assert tuple(drive.invoke(workflow, 1, T)) == ("t", "t")


def test_what_the_caller_passes_wins_over_injection(drive):
    """A keyword argument given at the call is not replaced."""

    @task
    def inner(x, *, previous=None, writer=None):
        return previous, writer

    @entrypoint()
    def workflow(x):
        return inner(x, previous="mine", writer="also mine").result()

    assert tuple(drive.invoke(workflow, 1)) == ("mine", "also mine")


def test_previous_is_visible_in_tasks_and_in_the_runtime(drive):
    """`previous` can be named by a task, and the runtime shows it."""

    @task
    def inner(*, previous=None, runtime: Runtime):
        return previous, runtime.previous

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(x):
        return [x, *inner().result()] if x else "first"

    drive.invoke(workflow, 0, T)
    assert drive.invoke(workflow, 1, T) == [1, "first", "first"]


def test_extra_parameter_without_default_is_pythons_error(drive):
    """A parameter nobody can fill fails at the call with TypeError."""

    @entrypoint()
    def workflow(x, unknown):
        return x

    with pytest.raises(TypeError, match="unknown"):
        drive.invoke(workflow, 1)


def test_async_functions_are_injected():
    """Injection works the same in async functions and tasks."""

    @task
    async def inner(*, config=None):
        return config["configurable"]["thread_id"]

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(x, *, writer: StreamWriter, config=None):
        writer(1)
        return await inner(), config["configurable"]["thread_id"]

    assert tuple(asyncio.run(workflow.ainvoke(1, T))) == ("t", "t")


def test_no_warning_for_an_unannotated_config():
    """`config` without annotation is taken silently."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @entrypoint()
        def workflow(x, *, config):
            return config is not None

    assert workflow.invoke(1) is True


@pytest.mark.langchain
def test_config_annotated_as_runnable_config_is_injected(drive):
    """The documented annotation, in each of its spellings, is accepted."""
    from langchain_core.runnables import RunnableConfig

    @entrypoint(checkpointer=InMemorySaver())
    def plain(x, config: RunnableConfig):
        return config["configurable"]["thread_id"]

    @entrypoint(checkpointer=InMemorySaver())
    def optional(x, config: RunnableConfig | None = None):
        return config["configurable"]["thread_id"]

    @entrypoint(checkpointer=InMemorySaver())
    def text(x, config: "RunnableConfig"):
        return config["configurable"]["thread_id"]

    assert [drive.invoke(w, 1, T) for w in (plain, optional, text)] == ["t", "t", "t"]
