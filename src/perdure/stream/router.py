"""The router: takes the events of a run, shows each to every transformer, keeps the main log.

It does no I/O and waits for nothing; who reads from its channels makes the run go on through
the turn that the router was given (see `turns`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, Literal, TypeAlias

from perdure.stream.channel import StreamChannel
from perdure.stream.protocol import ProtocolEvent, channel_event
from perdure.stream.transformer import (
    Factory,
    Scope,
    StreamTransformer,
    checked_projections,
    needs_async,
    overrides_async,
)
from perdure.stream.turns import AsyncTurn, Reader, SyncTurn, Waiter

logger = logging.getLogger("perdure")

Keep: TypeAlias = Literal[True] | Collection[str]
"""Projections by name; True for all, and the main log."""

Step: TypeAlias = tuple[
    Callable[[ProtocolEvent], bool], Callable[[ProtocolEvent], Coroutine[Any, Any, bool]] | None
]
"""How a transformer takes an event in sync runs, and, where that differs, in async ones."""


class EventRouter:
    """Feeds the projections of one graph's run.

    Args:
        transformers: Made already; they are not made anew for child graphs.
        factories: Make the transformers of this router, and of those of child graphs.
        scope: Namespace of the graph.
        numbered: Events get a `seq` as they enter the main log; that of a root run only.
        above: The router of the run that this one is a view of.
    """

    def __init__(
        self,
        transformers: Iterable[StreamTransformer] | None = None,
        *,
        is_async: bool = False,
        factories: Iterable[Factory] | None = None,
        scope: Scope = (),
        numbered: bool = True,
        above: EventRouter | None = None,
    ) -> None:
        self.is_async = is_async
        self.scope = scope
        self.numbered = numbered
        self.factories = tuple(factories) if factories is not None else None
        self.extensions: dict[str, Any] = {}
        self.native_keys: set[str] = set()
        self.owners: dict[str, StreamTransformer] = {}
        self.transformers: list[StreamTransformer] = []
        self.channels: list[StreamChannel[Any]] = []
        self.ended = False
        self.error: BaseException | None = None
        self.turn: SyncTurn = above.turn if above is not None else SyncTurn()
        self.aturn: AsyncTurn = above.aturn if above is not None else AsyncTurn()
        self._stamp = 0
        self._seq = 0
        self._held: list[StreamChannel[Any]] = []
        self._keep: Keep = ()
        self.events: StreamChannel[ProtocolEvent] = StreamChannel()
        """The main log."""
        self.events.bind(self)
        made = [factory(scope) for factory in self.factories or ()]
        for transformer in (*_early_first(made), *_early_first(list(transformers or ()))):
            self._register(transformer)
            if transformer.waits and overrides_async(transformer):
                self.aturn.waits = True
        self._steps: dict[str, list[Step]] = {}
        """Method of an event -> what is called with it."""

    # registration -----------------------------------------------------------------------

    def _register(self, transformer: StreamTransformer) -> None:
        if not self.is_async and needs_async(transformer):
            raise RuntimeError(f"{type(transformer).__name__} requires an async run; use astream_events")
        projections = checked_projections(transformer)
        for key in projections:
            if key in self.owners:
                raise ValueError(
                    f"transformers conflict: {type(transformer).__name__} makes {key!r}, as does "
                    f"{type(self.owners[key]).__name__}"
                )
        for key, projection in projections.items():
            self.owners[key] = transformer
            self.extensions[key] = projection
            if transformer.native:
                self.native_keys.add(key)
            if isinstance(projection, StreamChannel):
                self._adopt(projection, native=transformer.native)
        self.transformers.append(transformer)
        transformer.on_register(self)

    def _adopt(self, channel: StreamChannel[Any], *, native: bool) -> None:
        channel.bind(self)
        self.channels.append(channel)
        if channel.name is not None:
            method = channel.name if native else f"custom:{channel.name}"
            channel.forward = lambda item: self._log(channel_event(method, item))

    def transformer_by_key(self, key: str) -> StreamTransformer | None:
        """Who made a projection."""
        return self.owners.get(key)

    def child(self, scope: Scope) -> EventRouter:
        """A router for a child graph, with transformers of its own.

        Raises:
            RuntimeError: This router was given no factories.
        """
        if self.factories is None:
            raise RuntimeError("a child needs transformers of its own: give the router factories")
        child = EventRouter(
            is_async=self.is_async, factories=self.factories, scope=scope, numbered=False, above=self
        )
        child.keep(self._keep)
        return child

    def keep(self, kept: Keep) -> None:
        """Lets projections keep what they are given until somebody reads it, be it after the run's
        end; so do those of child graphs."""
        self._keep = kept
        for name, projection in self.extensions.items():
            if isinstance(projection, StreamChannel):
                projection.keeps = kept is True or name in kept
        self.events.keeps = kept is True

    # events -----------------------------------------------------------------------------

    def push(self, event: ProtocolEvent) -> None:
        """Shows an event to every transformer, then logs it unless one of them objects."""
        if self._held:
            self._release()
        kept = True
        for process, _ in self._steps.get(event["method"]) or self._steps_for(event["method"]):
            if not process(event):
                kept = False
        if kept:
            self._log(event)

    async def apush(self, event: ProtocolEvent) -> None:
        """`push` in async runs."""
        if self._held:
            self._release()
        kept = True
        for process, aprocess in self._steps.get(event["method"]) or self._steps_for(event["method"]):
            if not (process(event) if aprocess is None else await aprocess(event)):
                kept = False
        if kept:
            self._log(event)

    def _steps_for(self, method: str) -> list[Step]:
        steps = self._steps[method] = [
            (transformer.process, transformer.aprocess if overrides_async(transformer) else None)
            for transformer in self.transformers
            if transformer.methods is None or method in transformer.methods
        ]
        return steps

    def _log(self, event: ProtocolEvent) -> None:
        if self.numbered:
            self._seq += 1
            event["seq"] = self._seq
        if not self.events.closed:
            self.events.push(event)

    def note(self, mode: str, ns: tuple[str, ...], data: Any) -> None:
        """Tells the transformers what the protocol has no event for."""
        if self._held:
            self._release()
        for transformer in self.transformers:
            transformer.note(mode, ns, data)

    async def anote(self, mode: str, ns: tuple[str, ...], data: Any) -> None:
        """`note` in async runs."""
        if self._held:
            self._release()
        for transformer in self.transformers:
            await transformer.anote(mode, ns, data)

    def hold(self, channels: Iterable[StreamChannel[Any]]) -> None:
        """Lets new channels keep their items until the next event, so that a consumer who has
        just been given them can subscribe."""
        for channel in channels:
            channel.holds = True
            self._held.append(channel)
        self.aturn.patient = True

    def _release(self) -> None:
        held, self._held = self._held, []
        for channel in held:
            channel.release()

    # the end ----------------------------------------------------------------------------

    def close(self) -> None:
        """Ends every projection well. When a finaliser raises, they all fail with its error,
        which is raised."""
        if self.ended:
            return
        self.ended = True
        errors: list[BaseException] = []
        for transformer in self.transformers:
            try:
                transformer.finalize()
            except BaseException as error:
                errors.append(error)
        self._end(errors)

    async def aclose(self) -> None:
        """`close` in async runs; awaits what transformers scheduled."""
        if self.ended:
            return
        self.ended = True
        errors = await self._scheduled_errors()
        for transformer in self.transformers:
            try:
                await transformer.afinalize()
            except BaseException as error:
                errors.append(error)
        self._end(errors)

    def fail(self, error: BaseException) -> None:
        """Ends every projection with an error."""
        if self.ended:
            return
        self.ended = True
        for transformer in self.transformers:
            try:
                transformer.fail(error)
            except Exception:
                logger.exception("%s.fail() raised", type(transformer).__name__)
        self._end_channels(error)

    async def afail(self, error: BaseException) -> None:
        """`fail` in async runs; cancels what transformers scheduled."""
        if self.ended:
            return
        self.ended = True
        await self._cancel_scheduled()
        for transformer in self.transformers:
            try:
                await transformer.afail(error)
            except Exception:
                logger.exception("%s.afail() raised", type(transformer).__name__)
        self._end_channels(error)

    def _end(self, errors: Sequence[BaseException]) -> None:
        self._end_channels(errors[0] if errors else None)
        if errors:
            raise errors[0]

    def _end_channels(self, error: BaseException | None) -> None:
        self.error = error
        self._release()
        for channel in (*self.channels, self.events):
            if error is None:
                channel.close()
            else:
                channel.fail(error)
        self.aturn.look()

    async def _scheduled_errors(self) -> list[BaseException]:
        errors: list[BaseException] = []
        for task, on_error in self._scheduled():
            try:
                await task
            except asyncio.CancelledError:
                if not task.cancelled():
                    raise
            except Exception as error:
                if on_error == "raise":
                    errors.append(error)
                else:
                    logger.exception("a task that a stream transformer scheduled failed")
        return errors

    async def _cancel_scheduled(self) -> None:
        tasks = [task for task, _ in self._scheduled()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _scheduled(self) -> list[tuple[asyncio.Task[Any], str]]:
        return [entry for transformer in self.transformers for entry in transformer.scheduled]

    # the run goes on --------------------------------------------------------------------

    def stamp(self) -> int:
        """A number larger than all before, for the order of arrival across channels."""
        self._stamp += 1
        return self._stamp

    def bind_pump(self, pump: Callable[[], bool]) -> None:
        """Names what makes a sync run go on by one event; it returns False at the end."""
        self.turn.pump = pump

    def bind_apump(self, pump: Any) -> None:
        """Names the coroutine function that makes an async run go on."""
        self.aturn.pump = pump

    def pull(self, ready: Callable[[], bool] | None = None) -> bool:
        """Makes a sync run go on by one event, unless `ready()`. False when it has ended."""
        return self.turn.take(ready)

    async def apull(self, ready: Callable[[], bool] | None = None, reader: Reader | None = None) -> bool:
        """Makes an async run go on until `ready()`. False when it has ended."""
        return await self.aturn.take(ready, reader)

    def wake(self, waiters: list[Waiter]) -> None:
        """Lets async consumers of a channel go on."""
        self.aturn.wake(waiters)

    def reading(self, reader: Reader) -> None:
        """An async consumer has come."""
        self.aturn.come(reader)

    def done_reading(self, reader: Reader) -> None:
        """An async consumer has left."""
        self.aturn.leave(reader)


def _early_first(transformers: list[StreamTransformer]) -> list[StreamTransformer]:
    return sorted(transformers, key=lambda transformer: not transformer.before_builtins)
