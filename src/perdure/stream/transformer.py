"""Transformers: code that sees every event of a run and makes projections of them."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

if TYPE_CHECKING:
    from perdure.stream.protocol import ProtocolEvent
    from perdure.stream.router import EventRouter

logger = logging.getLogger("perdure")

Scope: TypeAlias = tuple[str, ...]
Factory: TypeAlias = "Callable[[Scope], StreamTransformer]"
"""Makes a transformer for a graph at a namespace: a class, a lambda, a partial."""


class StreamTransformer(ABC):
    """Base of all projections. Subclass it, and give the class to `compile(transformers=[...])`
    or to `stream_events(transformers=[...])`.

    Args:
        scope: Namespace of the graph whose run is projected; `()` for a root run.
    """

    requires_async: ClassVar[bool] = False
    """Works in async runs only."""
    supports_sync: ClassVar[bool] = False
    """Works in sync runs although async methods are overridden."""
    required_stream_modes: ClassVar[tuple[str, ...]] = ()
    """Modes that the run must be asked for."""
    waits: ClassVar[bool] = True
    """Overridden async methods may wait for something."""
    before_builtins: ClassVar[bool] = False
    """Sees events before the built-in projections do, and may change them."""
    methods: ClassVar[tuple[str, ...] | None] = None
    """Methods of the events that `process` looks at; None for all. A class that overrides
    `process` looks at all unless it says otherwise."""
    native: ClassVar[bool] = False
    """The projections are attributes of the run, not only entries of `run.extensions`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        overrides = "process" in cls.__dict__ or "aprocess" in cls.__dict__
        if overrides and "methods" not in cls.__dict__:
            cls.methods = None

    def __init__(self, scope: Scope = ()) -> None:
        self.scope = scope

    @abstractmethod
    def init(self) -> dict[str, Any]:
        """The projections by name; StreamChannels among them are fed, closed and failed with
        the run."""

    def process(self, event: ProtocolEvent) -> bool:
        """Takes an event; a false result keeps it out of the run's main log."""
        raise NotImplementedError(f"{type(self).__name__} overrides neither process() nor aprocess()")

    async def aprocess(self, event: ProtocolEvent) -> bool:
        """`process` in async runs; the next transformer sees the event afterwards."""
        return self.process(event)

    def finalize(self) -> None:  # noqa: B027 - not every transformer has something to finish
        """The run ended well, or was aborted."""

    async def afinalize(self) -> None:
        """`finalize` in async runs."""
        self.finalize()

    def fail(self, err: BaseException) -> None:  # noqa: B027 - see finalize
        """The run ended with an error."""

    async def afail(self, err: BaseException) -> None:
        """`fail` in async runs."""
        self.fail(err)

    def note(self, mode: str, ns: Scope, data: Any) -> None:  # noqa: B027 - a hook
        """The engine tells what the protocol has no event for: `runs` (a nested run begins or
        ends), `breakpoints` (a run stops at one), and, where it is among the required modes,
        `recorded` (the task with this id, which starts next, is served from the record)."""

    async def anote(self, mode: str, ns: Scope, data: Any) -> None:
        """`note` in async runs."""
        self.note(mode, ns, data)

    def on_register(self, router: EventRouter) -> None:  # noqa: B027 - a hook
        """The transformer was added to a router."""

    def schedule(
        self, coro: Coroutine[Any, Any, Any], *, on_error: Literal["log", "raise"] = "log"
    ) -> asyncio.Task[Any]:
        """Runs a coroutine beside the stream. It is awaited when the run ends well, and
        cancelled when it fails.

        Args:
            on_error: `log` writes an error to the log; `raise` fails the run with it.

        Raises:
            RuntimeError: No event loop runs here.
        """
        try:
            task = asyncio.get_running_loop().create_task(coro)
        except RuntimeError:
            coro.close()
            raise RuntimeError(
                "StreamTransformer.schedule() requires a running event loop; use it in async runs only"
            ) from None
        self.scheduled.append((task, on_error))
        return task

    @property
    def scheduled(self) -> list[tuple[asyncio.Task[Any], str]]:
        """What `schedule` started, and what becomes of its errors."""
        tasks: list[tuple[asyncio.Task[Any], str]] = vars(self).setdefault("_scheduled", [])
        return tasks


_ASYNC_HOOKS = ("aprocess", "afinalize", "afail")


def overrides_async(transformer: StreamTransformer) -> bool:
    """True when an async method does more than call its sync twin."""
    return any(_is_overridden(transformer, name) for name in _ASYNC_HOOKS)


def needs_async(transformer: StreamTransformer) -> bool:
    """True when the transformer cannot serve a sync run."""
    return transformer.requires_async or (overrides_async(transformer) and not transformer.supports_sync)


def _is_overridden(transformer: StreamTransformer, name: str) -> bool:
    return getattr(type(transformer), name) is not getattr(StreamTransformer, name)


def checked_factories(specs: Iterable[Any] | None) -> tuple[Factory, ...]:
    """The transformers a user named, as factories.

    Raises:
        TypeError: One is an instance, which could serve one run only, or cannot be called.
    """
    factories = tuple(specs or ())
    for spec in factories:
        if isinstance(spec, StreamTransformer):
            raise TypeError(
                f"transformers takes classes or factories (scope -> transformer), not the pre-built instance "
                f"{spec!r}"
            )
        if not callable(spec):
            raise TypeError(f"transformers takes classes or factories (scope -> transformer), not {spec!r}")
    return factories


def checked_projections(transformer: StreamTransformer) -> Mapping[str, Any]:
    """What `init()` gave. Raises TypeError unless it is a dict."""
    projections = transformer.init()
    if not isinstance(projections, dict):
        raise TypeError(
            f"{type(transformer).__name__}.init() must return a dict of projections by name, "
            f"not {type(projections).__name__}"
        )
    return projections
