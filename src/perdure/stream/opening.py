"""Opening a run as an object: which transformers it has, what the engine is asked to tell."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

from perdure.context import scope_var
from perdure.stream.channel import StreamChannel
from perdure.stream.feed import modes_for
from perdure.stream.lifecycle import LifecycleTransformer
from perdure.stream.messages import MessagesTransformer
from perdure.stream.modes import BATCHES
from perdure.stream.result import Result, output_keys
from perdure.stream.router import EventRouter, Keep
from perdure.stream.run_stream import AsyncGraphRunStream, GraphRunStream
from perdure.stream.subgraphs import SubgraphTransformer
from perdure.stream.transformer import Factory, checked_factories
from perdure.stream.transformers import ValuesTransformer

_BUILT_IN: tuple[Factory, ...] = (
    ValuesTransformer, MessagesTransformer, LifecycleTransformer, SubgraphTransformer,
)  # fmt: skip


def open_stream(
    workflow: Any, input: Any, config: Any, version: str, options: dict[str, Any]
) -> GraphRunStream:
    """See `Workflow.stream_events`."""
    if version != "v3":
        raise NotImplementedError(
            f"stream_events has version='v3' only, not {version!r}: pass version='v3' (older ones are "
            "LangChain's, for async callers)"
        )
    router, options = _prepared("stream_events", workflow, options, is_async=False)
    parts = workflow.stream(
        input, config, stream_mode=modes_for(router), subgraphs=True, version=BATCHES, **options
    )
    return GraphRunStream(parts, router, result=_result(workflow, router, options))


def aopen_stream(
    workflow: Any, input: Any, config: Any, version: str, options: dict[str, Any]
) -> Coroutine[Any, Any, AsyncGraphRunStream]:
    """See `Workflow.astream_events`."""
    if version != "v3":
        raise NotImplementedError(f"astream_events has version='v3', not {version!r}")
    router, options = _prepared("astream_events", workflow, options, is_async=True)
    parts = workflow.astream(
        input, config, stream_mode=modes_for(router), subgraphs=True, version=BATCHES, **options
    )
    return _given(AsyncGraphRunStream(parts, router, result=_result(workflow, router, options)))


async def _given(run: AsyncGraphRunStream) -> AsyncGraphRunStream:
    return run


def _prepared(
    method: str, workflow: Any, options: dict[str, Any], *, is_async: bool
) -> tuple[EventRouter, dict[str, Any]]:
    taken = [name for name in ("stream_mode", "subgraphs") if name in options]
    if taken:
        raise TypeError(
            f"{method}(version='v3') does not take {' or '.join(taken)}: transformers say what is streamed"
        )
    options = dict(options)
    factories = (
        *_BUILT_IN,
        *checked_factories(getattr(workflow, "stream_transformers", ())),
        *checked_factories(options.pop("transformers", ())),
    )
    router = EventRouter(is_async=is_async, factories=factories, scope=_scope())
    router.keep(_checked_keep(router, options.pop("keep", ())))
    return router, options


def _checked_keep(router: EventRouter, given: bool | str | Iterable[str]) -> Keep:
    """The projections that a caller wants kept.

    Raises:
        ValueError: One is not there, or is nothing that is read item by item.
    """
    if given is True:
        return True
    names = () if given is False else (given,) if isinstance(given, str) else tuple(given)
    channels = [name for name, made in router.extensions.items() if isinstance(made, StreamChannel)]
    for name in names:
        if name not in channels:
            raise ValueError(f"keep={name!r} is no projection of this run; there are {', '.join(channels)}")
    return names


def _scope() -> tuple[str, ...]:
    """Namespace of the graph that runs the code here; `()` outside of runs."""
    scope = scope_var.get()
    if scope is None:
        return ()
    ns = (scope.config.get("configurable") or {}).get("checkpoint_ns")
    return tuple(ns.split("|")) if ns else ()


def _result(workflow: Any, router: EventRouter, options: dict[str, Any]) -> Result:
    return Result(router.scope, output_keys(workflow.program, options))
