"""A run's grip on its thread: the lease, and the order in which it adds checkpoints."""

from __future__ import annotations

import threading

from perdure.checkpoint.port import Loaded
from perdure.ids import new_checkpoint_id
from perdure.slotted import field, slotted


@slotted
class Hold:
    """Shared by a root run and the runs nested in it on the same thread."""

    thread_id: str
    epoch: int
    """Epoch of the lease that the run holds, or will ask for."""
    counter: int
    """Greatest number given to a checkpoint of the thread so far."""
    newest_id: str | None
    held: bool = False
    lasting: dict[str, str] = field(default_factory=dict)
    """Namespaces without task ids that are in use in this superstep of the root run, and the
    namespace of the run that uses each."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def on(cls, thread_id: str, loaded: Loaded) -> Hold:
        """The hold that a run would have on a thread it has just loaded."""
        return cls(thread_id, loaded.epoch + 1, loaded.counter, loaded.newest_id)

    def number(self) -> int:
        """The next checkpoint's place in the thread's order."""
        with self.lock:
            self.counter += 1
            return self.counter

    def stamp(self, clock_ns: int, parent: str | None, step: int) -> str:
        """Id of a new checkpoint; greater than all the thread has, whatever the clock says."""
        with self.lock:
            self.newest_id = new_checkpoint_id(clock_ns, parent, self.newest_id, step)
            return self.newest_id


def recast(ns: str) -> str:
    """A namespace without task ids and numbers: the names of nodes, from the root down."""
    parts = (part.partition(":")[0] for part in ns.split("|"))
    return "|".join(part for part in parts if part and not part.isdigit())
