"""What `@entrypoint` makes out of a function."""

import asyncio
import warnings

import pytest

from perdure.channels import EphemeralValue, LastValue
from perdure.func import entrypoint
from perdure.pregel import Pregel
from perdure.types import RetryPolicy


@entrypoint()
def double(number: int) -> int:
    return number * 2


def test_result_is_a_workflow_object():
    """Decorating a function gives an object with the documented methods."""
    assert isinstance(double, Pregel)
    for method in ("invoke", "ainvoke", "stream", "astream", "stream_events", "astream_events"):
        assert callable(getattr(double, method))


def test_one_node_is_named_after_the_function():
    """The workflow has one node, which carries the function's name."""
    assert list(double.nodes) == ["double"]


def test_graph_name_is_the_documented_default():
    """The workflow's own name is not the function's."""
    assert double.name == "LangGraph"


def test_channels_carry_input_output_and_saved_value():
    """Input, returned value and saved value each have a channel of the documented kind."""
    assert isinstance(double.channels["__start__"], EphemeralValue)
    assert isinstance(double.channels["__end__"], LastValue)
    assert isinstance(double.channels["__previous__"], LastValue)


def test_invoke_reads_the_end_channel():
    """Input goes in at start, output and stream come from end."""
    assert double.input_channels == "__start__"
    assert double.output_channels == "__end__"
    assert double.stream_channels == "__end__"


def test_default_stream_mode_is_updates():
    """A functional workflow streams updates unless asked otherwise."""
    assert double.stream_mode == "updates"


def test_zero_parameters_are_refused():
    """A function without a parameter cannot take the input."""
    with pytest.raises(ValueError, match="at least one parameter"):

        @entrypoint()
        def nothing():
            return 1


def test_generators_are_refused():
    """A generator function cannot be an entrypoint."""
    with pytest.raises(NotImplementedError):

        @entrypoint()
        def counting(n):
            yield n


def test_async_generators_are_refused():
    """An async generator function cannot be an entrypoint."""
    with pytest.raises(NotImplementedError):

        @entrypoint()
        async def counting(n):
            yield n


def test_config_schema_is_an_old_name_for_context_schema():
    """`config_schema=` warns and is taken as `context_schema=`."""

    class Context:
        pass

    with pytest.warns(DeprecationWarning, match="config_schema"):
        decorator = entrypoint(config_schema=Context)

    assert decorator(lambda x: x).context_schema is Context


def test_retry_is_an_old_name_for_retry_policy():
    """`retry=` warns and is taken as `retry_policy=`."""
    calls = []
    with pytest.warns(DeprecationWarning, match="retry"):
        decorator = entrypoint(retry=RetryPolicy(initial_interval=0, jitter=False))

    @decorator
    def flaky(x):
        calls.append(x)
        if len(calls) == 1:
            raise ConnectionError
        return x

    assert flaky.invoke(1) == 1
    assert len(calls) == 2


def test_new_name_wins_over_the_old_one():
    """With both names given, the new one counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decorator = entrypoint(context_schema=dict, config_schema=int)
    assert decorator(lambda x: x).context_schema is dict


def test_unknown_keyword_is_refused():
    """A misspelt parameter of the decorator is not swallowed."""
    with pytest.raises(TypeError, match="chekpointer"):
        entrypoint(chekpointer=None)


def test_async_function_under_sync_invoke_is_refused():
    """An async function cannot run in a sync call; the error names it."""

    @entrypoint()
    async def waits(x):
        return x

    with pytest.raises(TypeError, match='No synchronous function provided to "waits"'):
        waits.invoke(1)


def test_sync_function_under_ainvoke_runs_off_the_loop():
    """A sync function in an async run does not block the event loop's thread."""

    @entrypoint()
    def in_thread(x):
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return x

    assert asyncio.run(in_thread.ainvoke(1)) == 1


def test_awaitable_returned_by_an_async_entrypoint_is_awaited():
    """Returning `gather(...)` gives its results, as the documents' example means."""

    async def square(n):
        return n * n

    @entrypoint()
    async def squares(numbers):
        return asyncio.gather(*(square(n) for n in numbers))

    assert asyncio.run(squares.ainvoke([1, 2, 3])) == [1, 4, 9]
