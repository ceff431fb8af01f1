"""What open databases do when their process forks: no transaction is under way at that moment."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

__all__ = ["PATIENCE", "withdraw_on_fork"]

PATIENCE = 5.0
"""Seconds that a fork waits for what is under way, and what begins meanwhile for the fork."""


class _Forkable(Protocol):
    def withdraw(self, patience: float) -> bool:
        """Ends what is under way, and lets nothing begin until `resume`; False if that took too long."""
        ...

    def resume(self) -> None: ...


class _Forks:
    """The databases of this process, and those that one of its forks has stopped."""

    def __init__(self) -> None:
        self.known: weakref.WeakSet[_Forkable] = weakref.WeakSet()
        self.lock = threading.RLock()
        self.stopped: list[_Forkable] = []

    def before(self) -> None:
        self.lock.acquire()
        self.stopped = [database for database in list(self.known) if database.withdraw(PATIENCE)]

    def after(self) -> None:
        for database in self.stopped:
            database.resume()
        self.stopped = []
        self.lock.release()


_forks = _Forks()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forks.before, after_in_parent=_forks.after, after_in_child=_forks.after)


def withdraw_on_fork(database: _Forkable) -> None:
    """Stops the database while its process forks, for as long as it lives."""
    _forks.known.add(database)
