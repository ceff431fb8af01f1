"""Workflows as plain functions: `@entrypoint` is one, `@task` a step of it."""

from __future__ import annotations

import functools
import inspect
import typing
import warnings
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

from perdure.channels import EphemeralValue, LastValue, Topic
from perdure.context import current_scope
from perdure.engine.action import Action, is_coroutine_function, is_generator_function, name_of
from perdure.engine.keys import namespace_of_task
from perdure.engine.limits import only_async
from perdure.engine.program import Node, Program, Write
from perdure.engine.setup import DURABILITIES, ON_BUSY, ON_DIVERGENCE, checked
from perdure.engine.subgraphs import subgraphs_of
from perdure.engine.tasks import END, PREVIOUS, START, TASKS
from perdure.errors import InvalidUpdateError
from perdure.types import Command, RetryPolicy, Send, TimeoutPolicy
from perdure.warnings import PerdureDeprecatedSinceV05, PerdureDeprecatedSinceV10
from perdure.workflow import Workflow

if TYPE_CHECKING:
    from concurrent.futures import Future

    from perdure.cache.base import BaseCache
    from perdure.memory_policies import CachePolicy

__all__ = ["TaskFunction", "entrypoint", "task"]

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")

Timeout: TypeAlias = float | timedelta | TimeoutPolicy


if TYPE_CHECKING:

    class TaskFuture(Future[T]):
        """What a task call gives: sync code asks `result()`, a coroutine awaits it."""

        def __await__(self) -> Generator[Any, None, T]: ...


class TaskFunction(Generic[P, T]):
    """A step of a workflow. Calling it inside a workflow starts it and returns its future.

    In a sync run, and in sync code of an async run, the future is a
    `concurrent.futures.Future`: ask its `.result()`. In a coroutine it is awaitable.
    """

    def __init__(
        self,
        func: Callable[P, Awaitable[T]] | Callable[P, T],
        *,
        name: str | None = None,
        retry_policy: Sequence[RetryPolicy] = (),
        cache_policy: CachePolicy[Any] | None = None,
        key: str | None = None,
        timeout: TimeoutPolicy | None = None,
    ) -> None:
        self.func = _named(func, name)
        self.action = Action.of(self.func, name or name_of(func), skip_first=False)
        self.retry_policy = tuple(retry_policy)
        self.cache_policy = cache_policy
        self.key = key
        self.timeout = timeout
        if timeout is not None and self.action.asyn is None:
            raise only_async(f"task {self.action.name!r} is a sync function")
        functools.update_wrapper(self, self.func)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[T]:
        """Starts the task, or finds what it returned before the workflow was resumed.

        Raises:
            ContextError: No workflow runs here.
            RuntimeError: The task is async and the workflow runs sync.
            NonDeterminismError: The workflow's code does not match its record.
        """
        future: TaskFuture[T] = current_scope().call(self, args, kwargs)
        return future

    def options(self, *, key: str | None = None) -> TaskFunction[P, T]:
        """The same task with settings for the calls made through it.

        Args:
            key: Names the call in the record, instead of its place and arguments: a call with
                this key finds what an earlier one with this key returned.
        """
        return TaskFunction(
            self.func,
            name=self.action.name,
            retry_policy=self.retry_policy,
            cache_policy=self.cache_policy,
            key=key,
            timeout=self.timeout,
        )

    def clear_cache(self, cache: BaseCache[Any]) -> None:
        """Forgets the results of the task that lie in a cache."""
        cache.clear([namespace_of_task(self.action)])

    async def aclear_cache(self, cache: BaseCache[Any]) -> None:
        """`clear_cache` for async callers."""
        await cache.aclear([namespace_of_task(self.action)])

    def __repr__(self) -> str:
        return f"<task {self.action.name!r}>"


def _named(func: Callable[..., Any], name: str | None) -> Callable[..., Any]:
    """The function under its task's name; a bound method is wrapped, so that its class is left alone."""
    if name is None:
        return func
    if inspect.ismethod(func) or not hasattr(func, "__name__"):
        func = functools.partial(func)
    try:
        setattr(func, "__name__", name)  # noqa: B010 - a partial has no such attribute for type checkers
    except AttributeError:
        func = functools.partial(func)
        setattr(func, "__name__", name)  # noqa: B010
    return func


class _MakeTask(Protocol):
    @overload
    def __call__(self, func: Callable[P, Awaitable[T]], /) -> TaskFunction[P, T]: ...
    @overload
    def __call__(self, func: Callable[P, T], /) -> TaskFunction[P, T]: ...


@overload
def task(
    func: None = None,
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy[Any] | None = None,
    timeout: Timeout | None = None,
    **deprecated: Any,
) -> _MakeTask: ...
@overload
def task(func: Callable[P, Awaitable[T]], **options: Any) -> TaskFunction[P, T]: ...
@overload
def task(func: Callable[P, T], **options: Any) -> TaskFunction[P, T]: ...
def task(
    func: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy[Any] | None = None,
    timeout: Timeout | None = None,
    **deprecated: Any,
) -> Any:
    """Makes a function a step whose result is kept: once it has returned, a resumed workflow gets
    its result without running it again.

    Works as `@task`, `@task()`, `@task(name=...)` and `task(function)`, on plain and async
    functions, lambdas, partials, methods and callable objects.

    Args:
        name: Under which the step is recorded; the function's name by default.
        retry_policy: How failures are tried again; the first policy that takes an error decides.
        cache_policy: That results are kept in the workflow's cache, where it has one, and used
            again for equal arguments. What the function closes over does not count.
        timeout: How long an attempt may take; seconds, a timedelta or a TimeoutPolicy. Async
            functions only.

    Raises:
        TypeError: Another keyword argument, or something that cannot be called.
        ValueError: A time limit of a sync function, or one that is not greater than 0.
    """
    policies = _policies(retry_policy, _deprecated_retry(deprecated))
    _refuse_unknown("task", deprecated)
    limit = TimeoutPolicy.coerce(timeout)

    def make(function: Callable[..., Any]) -> TaskFunction[..., Any]:
        if not callable(function):
            raise TypeError(f"@task takes a function, not {function!r}")
        return TaskFunction(
            function, name=name, retry_policy=policies, cache_policy=cache_policy, timeout=limit
        )

    return make if func is None else make(func)


def _deprecated_retry(deprecated: dict[str, Any]) -> Any:
    if "retry" not in deprecated:
        return None
    warnings.warn(
        "`retry` is deprecated. Use `retry_policy` instead.", PerdureDeprecatedSinceV05, stacklevel=3
    )
    return deprecated.pop("retry")


def _policies(given: Any, old: Any) -> tuple[RetryPolicy, ...]:
    chosen = given if given is not None else old
    if chosen is None:
        return ()
    if not isinstance(chosen, Sequence):
        raise TypeError(f"retry_policy must be a RetryPolicy or a sequence of them, not {chosen!r}")
    return (chosen,) if isinstance(chosen, RetryPolicy) else tuple(chosen)


def _refuse_unknown(what: str, given: dict[str, Any]) -> None:
    if given:
        raise TypeError(f"{what}() got an unexpected keyword argument {next(iter(given))!r}")


class entrypoint:
    """Makes a function a workflow: it runs on a thread, pauses, fails and goes on where it was.

    Used with parentheses: `@entrypoint()` or `@entrypoint(checkpointer=...)`. The function's first
    parameter is the input. Parameters named `previous` (what was saved by the last run on the
    thread), `store`, `writer`, `config` and `runtime` are filled in.

    Args:
        checkpointer: Saver that keeps threads.
        store: Memory across threads.
        cache: Where results are kept that a cache policy names.
        context_schema: Class of what callers pass as `context=`.
        cache_policy: For the function, and for tasks that name no policy.
        retry_policy: For the function, and for tasks that name no policy.
        timeout: How long an attempt of the function may take; seconds, a timedelta or a
            TimeoutPolicy. Async functions only.
        durability: "sync", "async" or "exit", where the caller names none.
        on_busy: What a second run on a thread does: "reject" or "wait".
        on_divergence: When the function does not match its record: "error", "warn" or "allow".

    Raises:
        ValueError: A setting has a value that it cannot have; the function has no parameter.
        NotImplementedError: The function is a generator.
    """

    @dataclass(frozen=True, kw_only=True)
    class final(Generic[R, S]):
        """Returned by an entrypoint whose caller and whose next run are to get different values."""

        value: R
        """For the caller."""
        save: S
        """For `previous` of the next run on the thread."""

    def __init__(
        self,
        checkpointer: Any = None,
        store: Any = None,
        cache: Any = None,
        context_schema: Any = None,
        cache_policy: CachePolicy[Any] | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        timeout: Timeout | None = None,
        *,
        durability: str | None = None,
        on_busy: str = "reject",
        on_divergence: str = "error",
        **deprecated: Any,
    ) -> None:
        if inspect.isroutine(checkpointer):
            raise TypeError(
                "@entrypoint is used with parentheses: @entrypoint() or @entrypoint(checkpointer=...)"
            )
        self.checkpointer = checkpointer
        self.store = store
        self.cache = cache
        self.cache_policy = cache_policy
        self.retry_policy = _policies(retry_policy, _deprecated_retry(deprecated))
        if "config_schema" in deprecated:
            warnings.warn(
                "`config_schema` is deprecated. Use `context_schema` instead.",
                PerdureDeprecatedSinceV10,
                stacklevel=2,
            )
            old_schema = deprecated.pop("config_schema")
            context_schema = old_schema if context_schema is None else context_schema
        self.context_schema = context_schema
        _refuse_unknown("entrypoint", deprecated)
        self.timeout = TimeoutPolicy.coerce(timeout)
        self.durability = None if durability is None else checked("durability", durability, DURABILITIES)
        self.on_busy = checked("on_busy", on_busy, ON_BUSY)
        self.on_divergence = checked("on_divergence", on_divergence, ON_DIVERGENCE)

    def __call__(self, func: Callable[..., Any]) -> Workflow:
        """Makes `func` a workflow."""
        return Workflow(
            self._program(func),
            checkpointer=self.checkpointer,
            store=self.store,
            cache=self.cache,
            context_schema=self.context_schema,
            durability=self.durability,
            on_busy=self.on_busy,
        )

    def _program(self, func: Callable[..., Any]) -> Program:
        if is_generator_function(func):
            raise NotImplementedError(
                "Generators are not supported in the Functional API: return a value, and write what is to be "
                "streamed with a `writer` parameter"
            )
        if not inspect.signature(func).parameters:
            raise ValueError("Entrypoint function must have at least one parameter: its input")
        name = name_of(func)
        action = Action.of(func, name)
        if action.asyn is not None and is_coroutine_function(func):
            action = Action(name, func, None, _awaiting(func), action.inject)
        if self.timeout is not None and action.asyn is None:
            raise only_async(f"entrypoint {name!r} is a sync function")
        given, returned, saved = _types_of(func)
        node = Node(
            name,
            action,
            (START,),
            read=_read_input,
            write=_write_output,
            retry=self.retry_policy,
            timeout=self.timeout,
            subgraphs=subgraphs_of(func),
        )
        return Program(
            name="LangGraph",
            nodes={name: node},
            channels={
                START: EphemeralValue(given),
                END: LastValue(returned, END),
                PREVIOUS: LastValue(saved, PREVIOUS),
                TASKS: Topic(Send, accumulate=False),
            },
            managed={},
            write_input=_write_input,
            write_command=_refuse_command,
            input_channel=START,
            output=END,
            stream=END,
            trigger_to_nodes={START: (name,)},
            retry=self.retry_policy,
            cache=self.cache_policy,
            on_divergence=self.on_divergence,
            entrypoint=name,
            schemas={"input": given, "output": returned, "context": self.context_schema},
        )


def _awaiting(func: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Awaits what an async entrypoint returns, where that is an awaitable in its turn."""

    @functools.wraps(func)
    async def call(*args: Any, **kwargs: Any) -> Any:
        value = await func(*args, **kwargs)
        while inspect.isawaitable(value):
            value = await value
        return value

    return call


def _read_input(channels: Any, steps: Any) -> Any:
    return channels[START].get()


def _write_input(given: Any) -> Sequence[Write]:
    return () if given is None else ((START, given),)


def _write_output(output: Any) -> Sequence[Write]:
    if isinstance(output, entrypoint.final):
        return ((END, output.value), (PREVIOUS, output.save))
    return ((END, output), (PREVIOUS, output))


def _refuse_command(command: Command[Any]) -> Sequence[Write]:
    if command.update is None and not command.goto:
        return ()
    raise InvalidUpdateError(
        "An entrypoint has no state to update and no node to go to; Command(resume=...) is what it takes, "
        f"not {command!r}"
    )


def _types_of(func: Callable[..., Any]) -> tuple[Any, Any, Any]:
    """Types of the input, of what is returned and of what is saved, as far as they are annotated.

    Raises:
        TypeError: `entrypoint.final` has another number of type arguments than two.
    """
    target = inspect.unwrap(func)
    while isinstance(target, functools.partial):
        target = target.func
    try:
        hints = typing.get_type_hints(target if inspect.isroutine(target) else type(target).__call__)
    except (NameError, TypeError, AttributeError):
        hints = dict(getattr(target, "__annotations__", {}))
    first = next(iter(inspect.signature(func).parameters))
    returned = hints.get("return", Any)
    if returned is entrypoint.final:
        return hints.get(first, Any), Any, Any
    if typing.get_origin(returned) is entrypoint.final:
        arguments = typing.get_args(returned)
        if len(arguments) != 2:
            raise TypeError(
                f"entrypoint.final takes two types, of the value and of what is saved, not {returned}"
            )
        return hints.get(first, Any), arguments[0], arguments[1]
    return hints.get(first, Any), cast(Any, returned), cast(Any, returned)
