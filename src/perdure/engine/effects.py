"""All that a run may ask of the world, and all that an attempt may ask.

The core yields these and is sent the answers; the drivers carry them out. An effect holds
data only.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from perdure.checkpoint.port import Batch, Loaded
from perdure.engine.tasks import Finished, Task
from perdure.slotted import slotted

if TYPE_CHECKING:
    from perdure.engine.action import Action
    from perdure.engine.guest import Moment, Visit
    from perdure.types import CacheKey, RetryPolicy, TimeoutPolicy

T = TypeVar("T")
R = TypeVar("R")


class Effect(Generic[T]):
    """Something asked of the driver; `yield from` gives the typed answer."""

    __slots__ = ()

    def __iter__(self) -> Generator[Effect[Any], Any, T]:
        answer: T = yield self
        return answer


Steps: TypeAlias = Generator[Effect[Any], Any, R]


@slotted
class Load(Effect[Loaded]):
    """Read a thread."""

    thread_id: str
    ns: str
    checkpoint_id: str | None


@slotted
class Start(Effect[None]):
    """Begin these tasks, all at once as far as there is room."""

    tasks: Sequence[Task]


@slotted
class Next(Effect[Finished]):
    """Wait for one of the tasks begun to end. Raises TimeoutError at the step's time limit."""

    deadline: float | None = None
    """Seconds on the driver's monotonic clock."""


@slotted
class Store(Effect[None]):
    """Hand a batch over; it becomes durable in its turn, nobody waits for it here."""

    batch: Batch


@slotted
class Commit(Effect[None]):
    """Hand a batch over and wait until it, and all that was handed over before, is durable."""

    batch: Batch


@slotted
class Cancel(Effect[list[Finished]]):
    """Stop the tasks that still run, wait until they have ended, and tell how.

    Code on threads cannot be stopped. It is waited for if `wait_threads`; otherwise the thread's
    lease is kept until it has ended.
    """

    wait_threads: bool = True


@slotted
class Wait(Effect[None]):
    """Let time pass, in seconds."""

    seconds: float


@slotted
class Now(Effect[tuple[float, int]]):
    """The monotonic clock in seconds, and the wall clock in nanoseconds."""


@slotted
class Invoke(Effect[Any]):
    """Of an attempt: call user code."""

    action: Action
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@slotted
class Tell(Effect[None]):
    """Of an attempt, or of a run: tell the guest of a moment."""

    visit: Visit
    moment: Moment
    value: Any = None


@slotted
class Sleep(Effect[None]):
    """Of an attempt: wait for the calls that it left under way, then back off as the policy says
    after this many attempts."""

    policy: RetryPolicy
    attempt: int


@slotted
class CacheGet(Effect[dict[Any, Any]]):
    """Of an attempt: look into the workflow's cache. Gives what is there, by key."""

    key: CacheKey


@slotted
class CacheSet(Effect[None]):
    """Of an attempt: put a value into the workflow's cache."""

    key: CacheKey
    value: Any


@slotted
class Limit(Effect[Any]):
    """Of an attempt: hold the code that it calls from now on to a time limit.

    Gives the watch. Raises ValueError where code could not be stopped.
    """

    policy: TimeoutPolicy
