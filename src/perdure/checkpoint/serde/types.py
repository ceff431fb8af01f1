"""What stands in stored checkpoints besides users' values, and the shape of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from perdure.constants import TASKS

__all__ = ["ERROR", "INTERRUPT", "RESUME", "SCHEDULED", "TASKS", "ChannelProtocol"]

ERROR = "__error__"
"""Channel of a task's failure."""
SCHEDULED = "__scheduled__"
"""Channel that says that a task was handed on."""
INTERRUPT = "__interrupt__"
"""Channel of a task's open questions."""
RESUME = "__resume__"
"""Channel of the answers to them."""

ValueT = TypeVar("ValueT", covariant=True)
UpdateT = TypeVar("UpdateT", contravariant=True)
CheckpointT = TypeVar("CheckpointT")


class _DeltaSnapshot(NamedTuple):
    """The whole value of a channel that otherwise stores what each step added."""

    value: Any


@runtime_checkable
class ChannelProtocol(Protocol[ValueT, UpdateT, CheckpointT]):
    """What a saver and the engine may rely on in a channel."""

    @property
    def ValueType(self) -> Any: ...

    @property
    def UpdateType(self) -> Any: ...

    def checkpoint(self) -> CheckpointT | None: ...

    def from_checkpoint(self, checkpoint: CheckpointT | None) -> Self: ...

    def update(self, values: Sequence[UpdateT]) -> bool: ...

    def get(self) -> ValueT: ...

    def consume(self) -> bool: ...
