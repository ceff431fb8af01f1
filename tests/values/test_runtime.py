"""What a step may reach: runtime, config, store, writer."""

from __future__ import annotations

import threading

import pytest

from perdure import config, runtime
from perdure.errors import ContextError
from perdure.runtime import ExecutionInfo, RunControl, Runtime, get_runtime
from values.scope import NotedScope, inside

INFO = ExecutionInfo("checkpoint", "ns", "task")


# -- RunControl


def test_a_fresh_control_asks_for_nothing() -> None:
    """Nothing is requested before `request_drain`."""
    control = RunControl()
    assert (control.drain_requested, control.drain_reason) == (False, None)
    assert control.between == "supersteps"


def test_the_last_reason_counts() -> None:
    """A drain that was asked for twice has the later reason, and is never taken back."""
    control = RunControl(between="tasks")
    control.request_drain()
    assert control.drain_reason == "shutdown"
    control.request_drain("sigterm")
    assert (control.drain_requested, control.drain_reason) == (True, "sigterm")


def test_an_empty_reason_is_a_request() -> None:
    """A drain without words is a drain."""
    control = RunControl()
    control.request_drain("")
    assert control.drain_requested


def test_a_drain_may_come_from_another_thread() -> None:
    """What a thread asks for is seen by all."""
    control = RunControl()
    thread = threading.Thread(target=control.request_drain, args=("other",))
    thread.start()
    thread.join()
    assert control.drain_reason == "other"


def test_boundaries_have_two_names() -> None:
    """An unknown boundary is refused with those there are."""
    with pytest.raises(ValueError, match="'supersteps' or 'tasks', not 'nodes'"):
        RunControl(between="nodes")  # type: ignore[arg-type]


# -- Runtime


def test_a_runtime_shows_its_controls_drain() -> None:
    """Steps see a drain without knowing the control."""
    control = RunControl()
    given: Runtime[None] = Runtime(control=control)
    assert (given.drain_requested, given.drain_reason) == (False, None)
    control.request_drain("sigterm")
    assert (given.drain_requested, given.drain_reason) == (True, "sigterm")


def test_a_runtime_without_control() -> None:
    """Without a control nothing is drained."""
    assert not runtime.DEFAULT_RUNTIME.drain_requested
    assert runtime.DEFAULT_RUNTIME.drain_reason is None


def test_merge_takes_what_the_other_gives() -> None:
    """What the other leaves empty stays as it was."""
    here: Runtime[str] = Runtime(context="here", previous=1)
    merged = here.merge(Runtime(context="there", execution_info=INFO))
    assert (merged.context, merged.previous, merged.execution_info) == ("there", 1, INFO)
    assert here.merge(Runtime()) == here


def test_merge_takes_false_values() -> None:
    """An empty string or zero is something given."""
    assert Runtime(previous=1).merge(Runtime(previous=0)).previous == 0


def test_override_and_patch_leave_the_original() -> None:
    """Runtimes are values: changes make copies."""
    original: Runtime[None] = Runtime(execution_info=INFO)
    assert original.override(previous=2).previous == 2
    info = original.patch_execution_info(node_attempt=3).execution_info
    assert info is not None and info.node_attempt == 3
    assert original.previous is None and original.execution_info == INFO


def test_there_must_be_info_to_patch() -> None:
    """A runtime outside of any task has no execution info."""
    with pytest.raises(RuntimeError, match="before it has been set"):
        Runtime().patch_execution_info(node_attempt=2)


def test_the_defaults_do_nothing() -> None:
    """Writer and heartbeat can be called without a listener."""
    runtime.DEFAULT_RUNTIME.stream_writer("chunk")
    runtime.DEFAULT_RUNTIME.heartbeat()


# -- doors


def test_doors_lead_to_the_scope() -> None:
    """Config, runtime, store and writer are those of what is running here."""
    from perdure.store.memory import InMemoryStore

    store = InMemoryStore()
    with inside(NotedScope({"tags": ["a"]}, store=store, context=5)) as scope:
        assert config.get_config() == {"tags": ["a"]}
        assert config.get_store() is store
        assert get_runtime().context == 5
        config.get_stream_writer()("chunk")
    assert scope.custom == ["chunk"]


@pytest.mark.parametrize("door", [config.get_config, config.get_store, config.get_stream_writer, get_runtime])
def test_doors_are_closed_outside_of_a_run(door) -> None:
    """Outside of a run there is nothing to reach."""
    with pytest.raises(ContextError, match="outside of a runnable context"):
        door()
