"""A user's callable, looked at once: how to call it, sync or async, and what it wants injected."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from perdure.slotted import slotted

if TYPE_CHECKING:
    from perdure.engine.frame import Frame

_OPTIONAL_FORMS = ("{0}", "Optional[{0}]", "{0}|None", "None|{0}")
_ACCEPTED = {"config": "RunnableConfig", "writer": "StreamWriter", "store": "BaseStore", "error": "NodeError"}
INJECTABLE = ("config", "writer", "store", "previous", "runtime", "error")


@slotted(frozen=True)
class Action:
    """A callable ready to run: at least one of `sync` and `asyn` is there.

    `inject` names the parameters that the engine fills in, with their position in the
    signature (-1 for keyword-only ones).
    """

    name: str
    fn: Any
    sync: Callable[..., Any] | None
    asyn: Callable[..., Any] | None
    inject: tuple[tuple[str, int], ...] = ()
    nested: bool = False
    """The callable is a workflow: calling it is a nested run."""
    brief: bool = False
    """The callable is sync and so short that it may run on an event loop."""

    @property
    def is_async(self) -> bool:
        """True when there is no way to call it without an event loop."""
        return self.sync is None

    @classmethod
    def of(cls, fn: Any, name: str | None = None, *, skip_first: bool = True) -> Action:
        """Looks at a function, callable object, partial, Runnable or workflow.

        Args:
            skip_first: The first parameter takes the input, whatever its name.

        Raises:
            TypeError: `fn` cannot be called.
        """
        if is_runnable(fn):
            return cls(
                name=name or _runnable_name(fn),
                fn=fn,
                sync=fn.invoke,
                asyn=fn.ainvoke,
                inject=() if is_workflow(fn) else (("config", 1),),
                nested=is_workflow(fn),
            )
        if isinstance(fn, Mapping):
            return cls.of(_parallel(fn), name, skip_first=skip_first)
        if not callable(fn):
            raise TypeError(f"{fn!r} cannot be called; give a function, a Runnable or a compiled graph")
        inject = injections(fn, skip_first=skip_first)
        if is_coroutine_function(fn):
            return cls(name=name or name_of(fn), fn=fn, sync=None, asyn=fn, inject=inject)
        return cls(name=name or name_of(fn), fn=fn, sync=fn, asyn=None, inject=inject)

    def arguments(self, frame: Frame, given: Mapping[str, Any], positional: int) -> dict[str, Any]:
        """Keyword arguments with what is to be injected; what the caller gave wins."""
        if not self.inject:
            return dict(given)
        kwargs = dict(given)
        for key, position in self.inject:
            if key not in kwargs and not 0 <= position < positional:
                kwargs[key] = frame.injected(key)
        return kwargs


def name_of(fn: Any) -> str:
    """The name under which a callable shows: its own, else its class's."""
    if isinstance(fn, functools.partial):
        return name_of(fn.func)
    return getattr(fn, "__name__", None) or type(fn).__name__


def is_coroutine_function(fn: Any) -> bool:
    """True for `async def` functions, partials of them and objects with an async `__call__`."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def is_generator_function(fn: Any) -> bool:
    """True for functions that yield, sync or async."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)


def is_workflow(fn: Any) -> bool:
    """True for compiled graphs and entrypoints."""
    return getattr(type(fn), "__perdure_workflow__", False)


def injections(fn: Any, *, skip_first: bool = True) -> tuple[tuple[str, int], ...]:
    """The parameters of `fn` that the engine fills in.

    Source of the rule: the names and annotations are those that the documented system injects.
    """
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return ()
    found = []
    for position, parameter in enumerate(parameters):
        if parameter.name not in INJECTABLE or (skip_first and position == 0):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            position = -1
        elif parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            continue
        if _wanted(parameter.name, parameter.annotation):
            found.append((parameter.name, position))
    return tuple(found)


def _wanted(name: str, annotation: Any) -> bool:
    if name in ("previous", "runtime"):
        return True
    if annotation is inspect.Parameter.empty:
        return name != "error"
    if _names(annotation, _ACCEPTED[name]):
        return True
    if name == "config":
        warnings.warn(
            "The 'config' parameter should be typed as 'RunnableConfig' or 'RunnableConfig | None', "
            f"not {annotation!r}; nothing is injected",
            UserWarning,
            stacklevel=5,
        )
    return False


def _names(annotation: Any, wanted: str) -> bool:
    """True when an annotation says `wanted` or `wanted | None`, as a class or as text."""
    if isinstance(annotation, str):
        text = annotation.replace(" ", "").replace("typing.", "")
        head, _, tail = text.rpartition(".")
        plain = tail if head and "[" not in text and "|" not in text else text
        return plain in [form.format(wanted) for form in _OPTIONAL_FORMS]
    if wanted == "StreamWriter":
        from perdure.types import StreamWriter

        return bool(annotation == StreamWriter)
    arguments = [a for a in typing.get_args(annotation) if a is not type(None)]
    if arguments and typing.get_origin(annotation) is not None and len(arguments) == 1:
        return _names(arguments[0], wanted)
    return getattr(annotation, "__name__", None) == wanted


def is_runnable(value: Any) -> bool:
    """True for workflows, and for LangChain Runnables when LangChain is loaded."""
    if is_workflow(value):
        return True
    runnables = sys.modules.get("langchain_core.runnables")
    return runnables is not None and isinstance(value, runnables.Runnable)


def can_be_stopped(fn: Any) -> bool:
    """True when cancelling an async call of `fn` stops its code: none of it runs on a thread."""
    if is_workflow(fn) or not is_runnable(fn):
        return is_workflow(fn) or is_coroutine_function(fn)
    runnables = sys.modules["langchain_core.runnables"]
    if isinstance(fn, runnables.RunnableLambda):
        return hasattr(fn, "afunc")
    if isinstance(fn, runnables.RunnableSequence):
        return all(map(can_be_stopped, fn.steps))
    if isinstance(fn, runnables.RunnableParallel):
        return all(map(can_be_stopped, fn.steps__.values()))
    # What does not say how it awaits is called on a thread.
    return bool(type(fn).ainvoke is not runnables.Runnable.ainvoke)


def _runnable_name(fn: Any) -> str:
    get_name = getattr(fn, "get_name", None)
    return str(get_name()) if get_name is not None else name_of(fn)


def _parallel(steps: Mapping[str, Any]) -> Any:
    from langchain_core.runnables import RunnableParallel

    return RunnableParallel(dict(steps))
