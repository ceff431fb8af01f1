"""The time that one attempt may take: how much of it is left, and what counts as progress. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from perdure.errors import NodeTimeoutError

if TYPE_CHECKING:
    from perdure.engine.frame import Frame
    from perdure.policies import TimeoutPolicy


class Watch:
    """Holds one attempt to its time limits. Progress may be told from any thread."""

    __slots__ = ("clock", "dead", "last", "policy", "started")

    def __init__(self, policy: TimeoutPolicy, clock: Callable[[], float]) -> None:
        self.policy = policy
        self.clock = clock
        self.started = self.last = clock()
        self.dead = False
        """The time is over: what the attempt still does counts for nothing."""

    def beat(self) -> None:
        """The code said itself that it makes progress."""
        self.last = self.clock()

    def progress(self) -> None:
        """Something happened that shows progress."""
        if self.policy.refresh_on == "auto":
            self.last = self.clock()

    @property
    def left(self) -> float:
        """Seconds until the first of the limits is reached; zero or less once it is."""
        now = self.clock()
        run, idle = self._limits
        ends = [] if run is None else [self.started + run - now]
        if idle is not None:
            ends.append(self.last + idle - now)
        return min(ends)

    def error(self, name: str) -> NodeTimeoutError:
        """Says which limit was reached; the attempt is dead from now on."""
        self.dead = True
        elapsed = self.clock() - self.started
        run, idle = self._limits
        over = run is not None and elapsed >= run
        return NodeTimeoutError(
            name, elapsed, kind="run" if over else "idle", run_timeout=run, idle_timeout=idle
        )

    @property
    def _limits(self) -> tuple[float | None, float | None]:
        # A coerced policy has seconds.
        return cast("tuple[float | None, float | None]", (self.policy.run_timeout, self.policy.idle_timeout))


def watches_of(frame: Frame | None) -> list[Watch]:
    """The watches that see what a frame does: its own, and those of the code that it runs below."""
    found = []
    while frame is not None:
        if frame.watch is not None:
            found.append(frame.watch)
        frame = frame.caller if frame.caller is not None else frame.run.parent
    return found


def progress(frame: Frame | None) -> None:
    """Something happened in a frame that shows that it, and what it runs below, makes progress."""
    for watch in watches_of(frame):
        watch.progress()


def sign_of_life(watches: list[Watch]) -> Callable[[], None]:
    """What others call when they see that the code of an attempt makes progress."""

    def tell() -> None:
        for watch in watches:
            watch.progress()

    return tell


def heartbeat(watches: list[Watch]) -> Callable[[], None]:
    """What the code of an attempt calls to say that it makes progress."""

    def beat() -> None:
        for watch in watches:
            watch.beat()

    return beat


def watched(write: Callable[[Any], None], watches: list[Watch]) -> Callable[[Any], None]:
    """A stream writer for the code of an attempt: a chunk is progress, one of a dead attempt nothing."""

    def write_chunk(chunk: Any) -> None:
        if any(watch.dead for watch in watches):
            return
        for watch in watches:
            watch.progress()
        write(chunk)

    return write_chunk


def only_async(what: str) -> ValueError:
    """The refusal of a limit that could not be kept."""
    return ValueError(
        f"Time limits are only supported for async nodes, tasks and entrypoints: {what}, and sync code "
        "cannot be stopped. Make it `async def` and run it with ainvoke or astream, or give it no timeout"
    )
