"""Whose turn it is to make a run go on, when several consumers read from it.

One at a time pulls an event; the others wait until it has come and look whether it was theirs.
A consumer waits only as long as it has nothing to read, so the slowest reader that is asked
sets the pace, and no thread or task exists while nobody waits.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, Protocol, TypeAlias

Ready: TypeAlias = Callable[[], bool]
Waiter: TypeAlias = "asyncio.Future[bool]"


class Waited(Protocol):
    """What async consumers wait for: a channel."""

    waiters: list[Waiter]


class Reader(Protocol):
    """An async consumer of a channel."""

    @property
    def channel(self) -> Waited: ...


class SyncTurn:
    """Takes turns among threads."""

    def __init__(self) -> None:
        self.pump: Callable[[], bool] | None = None
        self._busy = threading.Lock()
        """Held by the thread whose turn it is."""
        self._puller: int | None = None
        self._changed = threading.Condition(threading.Lock())
        self._waiting = 0
        self._turns = 0

    def take(self, ready: Ready | None = None) -> bool:
        """Pulls one event, or waits while another thread does. False when the run has ended.

        Raises:
            RuntimeError: The code that is called to deliver an event asks for the next one.
        """
        if not self._busy.acquire(blocking=False):
            if self._puller == threading.get_ident():
                raise RuntimeError(
                    "this run is waiting for the code that reads from it: a transformer, or a node run in "
                    "place, cannot pull the next event"
                )
            if not self._wait():
                return True
        try:
            if ready is not None and ready():
                return True
            self._puller = threading.get_ident()
            return self.pump is not None and self.pump()
        finally:
            self._pass_on()

    def alone(self, action: Callable[[], None]) -> bool:
        """Carries out an action while nobody pulls, after the event that is being pulled. False
        when it is this thread that pulls: then nothing is done."""
        if self._puller == threading.get_ident():
            return False
        self._busy.acquire()
        self._puller = threading.get_ident()
        try:
            action()
        finally:
            self._pass_on()
        return True

    def _wait(self) -> bool:
        """Waits until another's turn has passed. True when the turn was free by then, and taken."""
        with self._changed:
            self._waiting += 1
            try:
                # Whoever frees the turn from here on sees that somebody waits.
                if self._busy.acquire(blocking=False):
                    return True
                turns = self._turns
                self._changed.wait_for(lambda: self._turns != turns)
                return False
            finally:
                self._waiting -= 1

    def _pass_on(self) -> None:
        self._puller = None
        self._busy.release()
        if self._waiting:
            with self._changed:
                self._turns += 1
                self._changed.notify_all()


_PASSES = 3
"""Passes of the event loop that a consumer gets who has been given something to subscribe to,
before the run goes on for others: enough to start tasks of its own with gather."""


class AsyncTurn:
    """Takes turns among asyncio tasks: one task pulls while anybody waits."""

    def __init__(self) -> None:
        self.pump: Callable[[], Awaitable[bool]] | None = None
        self.context: Context | None = None
        """In which the run goes on, whoever asks."""
        self.on_abandoned: Callable[[], Awaitable[None]] | None = None
        """Called when the last consumer was cancelled while it waited."""
        self._waiters: set[Waiter] = set()
        self._watching: dict[Waiter, Ready | None] = {}
        """Those of them that look at each event whether it is what they wait for; the others
        wait for a channel."""
        self._flight: asyncio.Task[None] | None = None
        self.patient = False
        """What comes next is something to subscribe to, which takes a consumer a moment."""
        self.at_once: Callable[[], bool] | None = None
        """Delivers an event that is there already, without waiting; False when there is none."""
        self.waits = False
        """Transformers may wait before an event is delivered."""
        self._woken = 0
        """How many were let go on since the last event."""
        self._asking = False
        """The last event was for one consumer at most, and nobody has asked for another one yet."""
        self._readers: dict[int, weakref.ref[Any]] = {}
        self._dropping: asyncio.Future[None] | None = None

    async def take(self, ready: Ready | None = None, reader: Reader | None = None) -> bool:
        """Waits until `ready()`, or, without it, for one event. False when the run has ended.

        A consumer that is cancelled leaves the run to the others; when it was the last one, the
        run is stopped.

        Args:
            reader: Reads a channel, which wakes it.
        """
        if ready is not None and ready():
            return True
        if self.pump is None:
            return False
        while self._is_free() and self.at_once is not None and self.at_once():
            if ready is None or ready():
                return True
        loop = asyncio.get_running_loop()
        waiter: Waiter = loop.create_future()
        self._waiters.add(waiter)
        if reader is None:
            self._watching[waiter] = ready
        else:
            self.come(reader)
            reader.channel.waiters.append(waiter)
        if self._flight is None:
            self._flight = loop.create_task(self._fly(), context=self.context)
        try:
            return await waiter
        except asyncio.CancelledError:
            self._waiters.discard(waiter)
            self._watching.pop(waiter, None)
            if reader is not None:
                self.leave(reader)
            if not self._waiters and not self._readers:
                await self._abandon()
            raise

    async def _fly(self) -> None:
        """Pulls events as long as somebody waits for one."""
        more = False
        try:
            while self._waiters or await self._asked_again():
                more, self._woken = False, 0
                assert self.pump is not None
                more = await self.pump()
                if not more:
                    break
                self.look(stepped=True)
                if self._woken and self._waiters:
                    await self._let_go_on()
        finally:
            self._flight = None
            if not more:
                self._release()

    async def _let_go_on(self) -> None:
        """Gives those who got something a chance to take it up, before more comes for others."""
        passes, self.patient = _PASSES if self.patient else 1, False
        for _ in range(passes):
            await asyncio.sleep(0)

    async def _asked_again(self) -> bool:
        """Lets those who got what they waited for ask for more, which is cheaper than a new task."""
        self._asking = self._woken <= 1
        try:
            await asyncio.sleep(0)
        finally:
            self._asking = False
        return bool(self._waiters)

    def _is_free(self) -> bool:
        """True when who asks now is the only one who is about to read: he may have at once what is
        there, without a pass of the event loop for each event."""
        return not (self._waiters or self.waits or self.patient) and (self._flight is None or self._asking)

    def wake(self, waiters: list[Waiter]) -> None:
        """Lets those go on who wait for a channel that has something now."""
        for waiter in waiters:
            self._let_go(waiter)
        waiters.clear()

    def look(self, *, stepped: bool = False) -> None:
        """Lets those go on who find what they wait for; after a step also those who wait for any."""
        watching = self._watching.items()
        found = [waiter for waiter, ready in watching if (stepped if ready is None else ready())]
        for waiter in found:
            del self._watching[waiter]
            self._let_go(waiter)

    def _let_go(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)
        if not waiter.done():
            waiter.set_result(True)
            self._woken += 1

    def _release(self) -> None:
        waiters, self._waiters = self._waiters, set()
        self._watching.clear()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(False)

    # consumers --------------------------------------------------------------------------

    def come(self, reader: Reader) -> None:
        """A consumer reads, and is expected to go on reading."""
        key = id(reader)
        if key not in self._readers:
            self._readers[key] = weakref.ref(reader, lambda _: self._gone(key))

    def leave(self, reader: Reader) -> None:
        """A consumer does not read on."""
        self._readers.pop(id(reader), None)

    def _gone(self, key: int) -> None:
        self._readers.pop(key, None)
        if self._flight is not None and not self._readers:
            self._flight.get_loop().call_soon_threadsafe(self._drop)

    def _drop(self) -> None:
        """Stops a run that goes on for nobody: its last reader was thrown away."""
        if self._flight is not None and not self._readers and not self._waiters:
            self._dropping = asyncio.ensure_future(self._abandon())

    # stopping ---------------------------------------------------------------------------

    async def _abandon(self) -> None:
        if self.on_abandoned is not None:
            await asyncio.shield(asyncio.ensure_future(self.on_abandoned()))

    async def stop(self) -> None:
        """Cancels the pull that is under way, and waits until it has ended."""
        flight = self._flight
        if flight is None or flight is asyncio.current_task():
            return
        flight.cancel()
        await asyncio.wait([flight])
