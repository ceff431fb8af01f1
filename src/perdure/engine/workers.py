"""Threads that carry out sync user code of a run, and who may start what when.

Waiting holds no worker. A piece of user code takes a *slot* when it starts and gives it back
at its first call, when it may begin to wait; slots are what `max_concurrency` counts. Whoever
waits for a call that nobody has begun runs it himself.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

DEFAULT_LIMIT = 32
"""Pieces of sync user code that run at once, when the caller names no `max_concurrency`."""

_IDLE_SECONDS = 2.0


class Slot:
    """Held by a piece of user code while it runs.

    Args:
        serves: Its thread serves the queue, and gives the slot back itself once the work and what
            belongs to it have ended, unless the code has given it back before.
    """

    __slots__ = ("held", "serves")

    def __init__(self, *, serves: bool = False) -> None:
        self.held = True
        self.serves = serves


class Work(Protocol):
    """Something to carry out once, by whoever claims it first."""

    @property
    def waits(self) -> bool:
        """It may still be claimed."""
        ...

    def claim(self) -> bool:
        """True for the first who asks."""
        ...

    def run(self, slot: Slot) -> None:
        """Carries it out, with a slot that has been taken for it; never raises."""
        ...


class Once:
    """Something that only the first who claims it carries out."""

    __slots__ = ("claimer", "token")

    def __init__(self) -> None:
        self.token = [None]
        self.claimer = 0
        """The thread that carries it out."""

    @property
    def waits(self) -> bool:
        """It may still be claimed."""
        return bool(self.token)

    def claim(self) -> bool:
        """True for the first who asks."""
        try:
            self.token.pop()  # One operation of the interpreter: two threads cannot both succeed.
        except IndexError:
            return False
        self.claimer = threading.get_ident()
        return True


class Workers:
    """The threads and slots of one root run and of all that is nested in it."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit or DEFAULT_LIMIT
        self.active = 0
        """Slots that are taken."""
        self.free = 0
        """Threads that will look at the queue: on their way here, or between two pieces of work."""
        self.queue: deque[Work] = deque()
        self.lock = threading.Lock()
        self.room = threading.Condition(self.lock) if limit is not None else None
        """Told when a slot is freed, under an explicit limit."""

    def submit(self, work: Work) -> None:
        """Queues work and sees to it that a thread comes for it."""
        with self.lock:
            self.queue.append(work)
            wanted = self._wanted()
        if wanted:
            threads.start(self._serve)

    def _wanted(self) -> bool:
        """Whether a thread is to be started, which counts as free from now on. Under the lock."""
        if self.free or not self.queue or self.active >= self.limit:
            return False
        self.free += 1
        return True

    def _serve(self) -> None:
        slot = Slot(serves=True)
        while True:
            with self.lock:
                self.free -= 1
                work = self._next() if self.active < self.limit else None
                if work is None:
                    return
                self.active += 1
                slot.held = True
                wanted = self._wanted()
            if wanted:
                threads.start(self._serve)
            work.run(slot)
            with self.lock:
                self.free += 1
                self._freed(slot)

    def _next(self) -> Work | None:
        while self.queue:
            work = self.queue.popleft()
            if work.claim():
                return work
        return None

    def take(self) -> Slot:
        """Takes a slot for code that runs right here, whether there is room or not."""
        with self.lock:
            self.active += 1
        return Slot()

    def give_back(self, slot: Slot) -> None:
        """Frees a slot, if it has not been freed yet."""
        with self.lock:
            self._freed(slot)
            wanted = self._wanted()
        if wanted:
            threads.start(self._serve)

    def _freed(self, slot: Slot) -> None:
        if slot.held:
            slot.held = False
            self.active -= 1
            if self.room is not None:
                self.room.notify_all()

    def steal(self, work: Work) -> Slot | None:
        """Claims work for the thread that waits for it, and takes a slot; None when another has it.

        Under an explicit limit it waits for room; somebody who has it will end or make a call.
        """
        with self.lock:
            while self.room is not None and self.active >= self.limit:
                if not work.waits:
                    return None
                self.room.wait(0.05)
            if not work.claim():
                return None
            self.active += 1
        return Slot()


class ThreadCache:
    """Threads that are kept a little while for the next one who needs a thread."""

    def __init__(self) -> None:
        self.idle: list[_Thread] = []

    def start(self, function: Callable[[], None]) -> None:
        """Runs a function on another thread, soon."""
        try:
            thread = self.idle.pop()
        except IndexError:
            _Thread(self, function).thread.start()
        else:
            thread.function = function
            thread.bell.release()


class _Thread:
    def __init__(self, cache: ThreadCache, function: Callable[[], None]) -> None:
        self.cache = cache
        self.function: Callable[[], None] | None = function
        self.bell = threading.Lock()
        self.bell.acquire()
        self.thread = threading.Thread(target=self._live, name="perdure-worker", daemon=True)

    def _live(self) -> None:
        while self.function is not None:
            self.function()
            self.function = None
            self.cache.idle.append(self)
            if not self.bell.acquire(timeout=_IDLE_SECONDS):
                try:
                    self.cache.idle.remove(self)
                except ValueError:
                    self.bell.acquire()  # Somebody took this thread at the last moment.


threads = ThreadCache()
"""The process's spare threads."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=threads.idle.clear)
