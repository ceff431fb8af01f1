"""What a step may reach: runtime, context, config."""

import asyncio
from dataclasses import dataclass
from typing import TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.config import get_config, get_store, get_stream_writer
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.runtime import ExecutionInfo, RunControl, Runtime, get_runtime
from perdure.store.memory import InMemoryStore
from perdure.types import interrupt

T = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    out: object


@dataclass
class Context:
    user: str
    level: int = 1


def one_node(node, **compile_options):
    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(**compile_options)


def test_context_reaches_body_and_task(drive):
    """`context=` is seen in the entrypoint and in what it calls."""

    @task
    def inner(runtime: Runtime):
        return runtime.context.user

    @entrypoint(context_schema=Context)
    def workflow(x, runtime: Runtime[Context]):
        return [runtime.context.user, inner().result()]

    assert drive.invoke(workflow, 1, context=Context("ann")) == ["ann", "ann"]


def test_dict_context_becomes_the_schemas_class(drive):
    """With a dataclass as schema a dict is converted."""

    @entrypoint(context_schema=Context)
    def workflow(x, runtime: Runtime[Context]):
        return [type(runtime.context) is Context, runtime.context.level]

    assert drive.invoke(workflow, 1, context={"user": "ann"}) == [True, 1]


def test_bad_context_is_the_constructors_error(drive):
    """A dict that does not fit fails with the class's own error."""

    @entrypoint(context_schema=Context)
    def workflow(x):
        return x

    with pytest.raises(TypeError, match="usr"):
        drive.invoke(workflow, 1, context={"usr": "ann"})


def test_no_context_is_none(drive):
    """Without `context=` there is none, even if the schema has defaults."""

    @entrypoint(context_schema=Context)
    def workflow(x, runtime: Runtime[Context]):
        return runtime.context is None

    assert drive.invoke(workflow, 1) is True


def test_context_is_inherited_by_children(drive):
    """A nested workflow sees its caller's context."""

    @entrypoint()
    def child(x, runtime: Runtime):
        return runtime.context.user

    @entrypoint(context_schema=Context)
    def parent(x):
        return child.invoke(x)

    assert drive.invoke(parent, 1, context=Context("ann")) == "ann"


def test_get_runtime_inside_a_step(drive):
    """`get_runtime()` gives the runtime where no parameter names it."""

    @entrypoint(context_schema=Context)
    def workflow(x):
        return get_runtime(Context).context.user

    assert drive.invoke(workflow, 1, context=Context("ann")) == "ann"


def test_execution_info_is_set_without_a_saver(drive):
    """Every attempt knows which task it is."""
    seen = []

    @entrypoint()
    def workflow(x, runtime: Runtime):
        seen.append(runtime.execution_info)

    drive.invoke(workflow, 1)
    assert isinstance(seen[0], ExecutionInfo)
    assert seen[0].task_id
    assert seen[0].thread_id is None
    assert seen[0].node_attempt == 1


def test_control_is_never_none(drive):
    """A control is there even if the caller gave none."""

    @entrypoint()
    def workflow(x, runtime: Runtime):
        return [isinstance(runtime.control, RunControl), runtime.drain_requested]

    assert drive.invoke(workflow, 1) == [True, False]


def test_runtime_override_and_merge():
    """Runtimes are values: copies with fields replaced."""
    plain = Runtime()
    with_context = plain.override(context="mine")
    assert plain.context is None
    assert with_context.context == "mine"
    assert plain.merge(with_context).context == "mine"
    assert with_context.merge(plain).context == "mine"


def test_patching_execution_info_needs_one():
    """There is nothing to patch outside a run."""
    with pytest.raises(RuntimeError):
        Runtime().patch_execution_info(node_attempt=2)


@pytest.mark.parametrize(
    "door", [get_config, get_store, get_stream_writer, get_runtime, lambda: interrupt("?")]
)
def test_doors_are_closed_outside_a_run(door):
    """What belongs to a run raises outside of one."""
    with pytest.raises(RuntimeError, match="outside of a runnable context"):
        door()


def test_get_config_and_get_store(drive):
    """Inside a run the doors are open, in body and task."""
    store = InMemoryStore()

    @task
    def inner():
        return [get_config()["configurable"]["thread_id"], get_store() is store]

    @entrypoint(checkpointer=InMemorySaver(), store=store)
    def workflow(x):
        return [get_store() is store, *inner().result()]

    assert drive.invoke(workflow, 1, T) == [True, "t", True]


def test_with_config_is_a_copy(drive):
    """`with_config` binds values without touching the original."""

    @entrypoint()
    def workflow(x, config=None):
        return config["configurable"].get("user")

    bound = workflow.with_config({"configurable": {"user": "ann"}})
    assert drive.invoke(bound, 1) == "ann"
    assert drive.invoke(workflow, 1) is None


def test_call_config_wins_over_the_bound_one(drive):
    """What a call gives replaces what is bound, key by key."""

    @entrypoint()
    def workflow(x, config=None):
        return [config["configurable"].get("a"), config["configurable"].get("b")]

    bound = workflow.with_config({"configurable": {"a": 1, "b": 2}})
    assert drive.invoke(bound, 1, {"configurable": {"b": 3}}) == [1, 3]


def test_tags_concatenate_and_metadata_merges(drive):
    """Tags and metadata of bound and call config add up."""
    seen = {}

    @entrypoint()
    def workflow(x, config=None):
        seen.update(tags=config.get("tags", []), metadata=config["metadata"])

    bound = workflow.with_config({"tags": ["bound"], "metadata": {"a": 1}})
    drive.invoke(bound, 1, {"tags": ["call"], "metadata": {"b": 2}})
    assert {"bound", "call"} <= set(seen["tags"])
    assert seen["metadata"]["a"] == 1
    assert seen["metadata"]["b"] == 2


def test_node_metadata_names_the_step(drive):
    """A node's config tells step, node, triggers, path and namespace."""
    seen = {}

    def node(state, config):
        seen.update(config["metadata"])
        return {}

    drive.invoke(one_node(node, checkpointer=InMemorySaver()), {"out": 1}, T)
    assert seen["langgraph_step"] == 1
    assert seen["langgraph_node"] == "node"
    assert seen["langgraph_checkpoint_ns"].startswith("node:")
    assert seen["thread_id"] == "t"
    assert "langgraph_triggers" in seen
    assert "langgraph_path" in seen


def test_unknown_top_level_keys_go_to_configurable(drive):
    """A config key nobody knows is the user's own."""

    @entrypoint()
    def workflow(x, config=None):
        return config["configurable"].get("flavour")

    assert drive.invoke(workflow, 1, {"flavour": "mint"}) == "mint"


def test_child_with_its_own_thread_is_independent(drive, saver):
    """A child called with a thread id of its own is a root run on that thread."""

    @entrypoint(checkpointer=saver)
    def child(x, *, previous=None):
        return (previous or 0) + x

    @entrypoint(checkpointer=saver)
    def parent(x):
        return child.invoke(x, {"configurable": {"thread_id": "child"}})

    assert drive.invoke(parent, 1, T) == 1
    assert drive.invoke(parent, 2, T) == 3
    assert drive.get_state(child, {"configurable": {"thread_id": "child"}}).values == 3


def test_thread_id_of_any_type(drive, saver):
    """A number as thread id names the same thread as its text."""

    @entrypoint(checkpointer=saver)
    def workflow(x, *, previous=None):
        return (previous or 0) + x

    drive.invoke(workflow, 1, {"configurable": {"thread_id": 5}})
    assert drive.invoke(workflow, 1, {"configurable": {"thread_id": "5"}}) == 2


def test_ambient_config_reaches_children(drive):
    """A nested workflow inherits configurable values."""

    @entrypoint()
    def child(x, config=None):
        return config["configurable"]["user"]

    @entrypoint()
    def parent(x):
        return child.invoke(x)

    assert drive.invoke(parent, 1, {"configurable": {"user": "ann"}}) == "ann"


def test_variables_set_in_one_task_stay_there(drive):
    """Each task has a context of its own."""
    import contextvars

    var = contextvars.ContextVar("var", default="unset")

    @task
    def sets():
        var.set("set in a task")

    @task
    def looks():
        return var.get()

    @entrypoint()
    def workflow(x):
        sets().result()
        return [looks().result(), var.get()]

    assert drive.invoke(workflow, 1) == ["unset", "unset"]


def test_async_variables_flow_in():
    """The async twin: values set before ainvoke are visible in tasks."""
    import contextvars

    var = contextvars.ContextVar("var", default="unset")

    @task
    async def looks():
        return var.get()

    @entrypoint()
    async def workflow(x):
        return await looks()

    async def main():
        var.set("outside")
        return await workflow.ainvoke(1)

    assert asyncio.run(main()) == "outside"
