"""What a channel is: the place of one key, where several writes become one value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

from perdure.errors import EmptyChannelError
from perdure.typing import MISSING

__all__ = ["MISSING", "BaseChannel", "EmptyChannelError", "Value"]

Value = TypeVar("Value")
UpdateT = TypeVar("UpdateT")
CheckpointT = TypeVar("CheckpointT")


class BaseChannel(ABC, Generic[Value, UpdateT, CheckpointT]):
    """Holds the value of one key, and decides what the writes of a superstep make of it.

    A compiled workflow holds prototypes; a run makes channels of its own from them with
    `from_checkpoint`. A channel without a value is empty: `get` raises EmptyChannelError and
    `checkpoint` gives MISSING.
    """

    __slots__ = ("key", "typ")

    reacts_to_silence: ClassVar[bool] = True
    """Whether an update without values may change the channel. Where it may not, the engine
    leaves the channel alone in supersteps that do not write to it."""

    def __init__(self, typ: Any, key: str = "") -> None:
        self.typ = typ
        self.key = key
        """The name of the channel, for error messages."""

    __hash__ = None  # type: ignore[assignment]  # channels are compared by kind, and change

    @property
    def ValueType(self) -> Any:
        """Type of what `get` returns."""
        return self.typ

    @property
    def UpdateType(self) -> Any:
        """Type of what may be written."""
        return self.typ

    # -- to and from storage

    def copy(self) -> Self:
        """A channel with the same value, independent of this one."""
        return self.from_checkpoint(self.checkpoint())

    def checkpoint(self) -> CheckpointT | Any:
        """What to store, or MISSING when there is nothing to store."""
        try:
            return self.get()
        except EmptyChannelError:
            return MISSING

    @abstractmethod
    def from_checkpoint(self, checkpoint: CheckpointT | Any) -> Self:
        """A channel like this one that holds what was stored; MISSING makes a fresh one."""

    # -- reading

    @abstractmethod
    def get(self) -> Value:
        """The value. Raises EmptyChannelError when there is none."""

    def is_available(self) -> bool:
        """Whether `get` returns a value."""
        try:
            self.get()
        except EmptyChannelError:
            return False
        return True

    # -- the course of a superstep

    @abstractmethod
    def update(self, values: Sequence[UpdateT]) -> bool:
        """Takes the writes of a superstep, in order; returns whether the channel changed.

        Called without values at the end of supersteps that did not write to it. Raises
        InvalidUpdateError for writes that do not go together; the channel is as before then.
        """

    def consume(self) -> bool:
        """Told that a node triggered by it has run; returns whether the channel changed."""
        return False

    def finish(self) -> bool:
        """Told that the run is about to end; returns whether the channel changed."""
        return False
