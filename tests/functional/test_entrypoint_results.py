"""What a caller gets from an entrypoint: results, `final`, `previous`, pauses."""

import asyncio
from typing import Any

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.errors import EmptyInputError
from perdure.func import entrypoint, task
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}


@pytest.mark.parametrize("value", [0, "", False, [], {}, {"a": 1}, "text", 1.5, [1, [2]]])
def test_any_value_is_a_result(drive, value):
    """Whatever the function returns, falsy values included, is what invoke returns."""

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(x):
        return x

    assert drive.invoke(workflow, value, T) == value


def test_none_is_a_legal_result(drive):
    """Returning None writes None, so that `previous` becomes None."""

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(x, *, previous="unset"):
        return None if x == "clear" else [x, previous]

    assert drive.invoke(workflow, 1, T) == [1, None]
    assert drive.invoke(workflow, "clear", T) is None
    assert drive.invoke(workflow, 2, T) == [2, None]


def test_none_is_no_input(drive):
    """None means resume; a fresh thread has nothing to resume."""

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(x):
        return x

    with pytest.raises(EmptyInputError, match="no input"):
        drive.invoke(workflow, None, T)


def test_without_saver_anything_goes_in_and_out(drive):
    """Values that cannot be stored are fine where nothing is stored."""
    thing = object()

    @entrypoint()
    def workflow(x):
        return x

    assert drive.invoke(workflow, thing) is thing


def test_without_saver_previous_is_always_none(drive):
    """`previous` needs a saver."""

    @entrypoint()
    def workflow(x, *, previous=None):
        return previous

    drive.invoke(workflow, 1)
    assert drive.invoke(workflow, 1) is None


def test_previous_is_the_last_returned_value(drive, saver):
    """The documented counter: 1, then 1 + 2."""

    @entrypoint(checkpointer=saver)
    def workflow(number, *, previous=None):
        return number + (previous or 0)

    assert drive.invoke(workflow, 1, T) == 1
    assert drive.invoke(workflow, 2, T) == 3


def test_previous_belongs_to_the_thread(drive, saver):
    """Another thread starts from nothing."""

    @entrypoint(checkpointer=saver)
    def workflow(number, *, previous=None):
        return number + (previous or 0)

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, 2, {"configurable": {"thread_id": "other"}}) == 2


def test_final_parts_the_saved_from_the_returned_value(drive, saver):
    """The documented example: 0, then 6."""

    @entrypoint(checkpointer=saver)
    def workflow(number: int, *, previous: Any = None) -> entrypoint.final[int, int]:
        return entrypoint.final(value=previous or 0, save=2 * number)

    assert drive.invoke(workflow, 3, T) == 0
    assert drive.invoke(workflow, 1, T) == 6


def test_state_shows_the_returned_not_the_saved_value(drive, saver):
    """`get_state().values` is what the caller got."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return entrypoint.final(value="shown", save="kept")

    drive.invoke(workflow, 1, T)
    assert drive.get_state(workflow, T).values == "shown"


def test_final_takes_keywords_only_and_is_frozen():
    """`entrypoint.final` is a frozen value with two named parts."""
    with pytest.raises(TypeError):
        entrypoint.final(1, 2)
    both = entrypoint.final(value=1, save=2)
    assert (both.value, both.save) == (1, 2)
    with pytest.raises(AttributeError):
        both.value = 3
    assert both == entrypoint.final(value=1, save=2)


def test_final_annotation_needs_two_arguments():
    """`entrypoint.final[int]` lacks the type of the saved value."""
    with pytest.raises(TypeError):

        @entrypoint()
        def workflow(x) -> entrypoint.final[int]:
            return entrypoint.final(value=1, save=2)


def test_bare_final_annotation_is_any(drive):
    """An unparameterised annotation is accepted."""

    @entrypoint()
    def workflow(x) -> entrypoint.final:
        return entrypoint.final(value=1, save=2)

    assert drive.invoke(workflow, 0) == 1


def test_failed_run_keeps_previous(drive, saver):
    """A run that fails does not spoil what the next one finds."""

    @entrypoint(checkpointer=saver)
    def counter(step, *, previous=None):
        if step < 0:
            raise ValueError(step)
        return (previous or 0) + step

    drive.invoke(counter, 2, T)
    with pytest.raises(ValueError, match="-1"):
        drive.invoke(counter, -1, T)
    assert drive.invoke(counter, 3, T) == 5


def test_previous_is_the_same_after_a_resume(drive, saver):
    """A pause does not change `previous`, neither for the resume nor in between."""
    seen = []

    @entrypoint(checkpointer=saver)
    def workflow(x, *, previous=None):
        seen.append(previous)
        return interrupt("?") if x == "ask" else x

    drive.invoke(workflow, "first", T)
    drive.invoke(workflow, "ask", T)
    drive.invoke(workflow, Command(resume="answer"), T)
    drive.invoke(workflow, "last", T)
    assert seen == [None, "first", "first", "answer"]


def test_previous_is_kept_per_entrypoint_name(drive, saver):
    """Two entrypoints on one thread do not read each other's saved value."""

    @entrypoint(checkpointer=saver)
    def one(x, *, previous=None):
        return [x, previous]

    @entrypoint(checkpointer=saver)
    def two(x, *, previous=None):
        return [x, previous]

    drive.invoke(one, 1, T)
    assert drive.invoke(two, 2, T) == [2, None]
    assert drive.invoke(one, 3, T) == [3, [1, None]]


def test_interrupted_run_returns_the_interrupt_alone(drive, saver):
    """A paused entrypoint gives a dict with nothing but the questions."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return interrupt({"ask": x})

    result = drive.invoke(workflow, 1, T)
    assert list(result) == ["__interrupt__"]
    assert [i.value for i in result["__interrupt__"]] == [{"ask": 1}]


def test_values_are_none_while_the_first_run_is_unfinished(drive, saver):
    """A thread that has returned nothing yet shows None."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return interrupt("?")

    drive.invoke(workflow, 1, T)
    assert drive.get_state(workflow, T).values is None


def test_update_state_sets_value_and_previous(drive, saver):
    """A value given to update_state is shown and is the next `previous`."""

    @entrypoint(checkpointer=saver)
    def workflow(x, *, previous=None):
        return [x, previous]

    drive.invoke(workflow, 1, T)
    drive.update_state(workflow, T, "patched")
    assert drive.get_state(workflow, T).values == "patched"
    assert drive.invoke(workflow, 2, T) == [2, "patched"]


def test_update_state_takes_a_final(drive, saver):
    """update_state parts value and saved value as a body can."""

    @entrypoint(checkpointer=saver)
    def workflow(x, *, previous=None):
        return [x, previous]

    drive.invoke(workflow, 1, T)
    drive.update_state(workflow, T, entrypoint.final(value="shown", save="kept"))
    assert drive.get_state(workflow, T).values == "shown"
    assert drive.invoke(workflow, 2, T) == [2, "kept"]


def test_one_call_makes_two_checkpoints(drive, saver):
    """Input and result are checkpoints; tasks make none of their own."""

    @task
    def step(i):
        return i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return sum(step(i).result() for i in range(3))

    drive.invoke(workflow, 1, T)
    drive.invoke(workflow, 2, T)
    shape = [(s.metadata["source"], s.metadata["step"]) for s in drive.history(workflow, T)]
    assert shape == [("loop", 2), ("input", 1), ("loop", 0), ("input", -1)]


def test_task_results_lie_on_the_input_checkpoint(drive, saver):
    """A finished task's result is a pending write of the checkpoint the run began with."""

    @task
    def step(i):
        return f"result {i}"

    @entrypoint(checkpointer=saver)
    def workflow(x):
        step(1).result()
        return interrupt("?")

    drive.invoke(workflow, 1, T)
    stored = saver.get_tuple(T)
    assert stored.metadata["source"] == "input"
    assert ("__return__", "result 1") in [(w[1], w[2]) for w in stored.pending_writes]


def test_context_variables_flow_in(drive):
    """A variable set by the caller is seen in the body and in its tasks."""
    import contextvars

    var = contextvars.ContextVar("var", default="unset")

    @task
    def inner():
        return var.get()

    @entrypoint()
    def workflow(x):
        return [var.get(), inner().result()]

    token = var.set("set by the caller")
    try:
        assert drive.invoke(workflow, 1) == ["set by the caller"] * 2
    finally:
        var.reset(token)


def test_async_entrypoint_returns_its_value(saver):
    """The async twin of the plainest program."""

    @task
    async def add(a, b):
        return a + b

    @entrypoint(checkpointer=saver)
    async def workflow(x):
        return await add(x, 1)

    assert asyncio.run(workflow.ainvoke(1, T)) == 2
