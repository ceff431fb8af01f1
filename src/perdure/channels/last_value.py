"""Channels of keys without reducer: one writer per superstep, the last value stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Self

from typing_extensions import override

from perdure.channels.base import BaseChannel, Value
from perdure.channels.overwrites import WRAPPERS, plain, too_many
from perdure.channels.single import SingleValue
from perdure.errors import EmptyChannelError
from perdure.typing import MISSING

__all__ = ["LastValue", "LastValueAfterFinish"]


class LastValue(SingleValue[Value], Generic[Value]):
    """Keeps the last value; refuses two in one superstep. What a plain key has."""

    __slots__ = ()

    reacts_to_silence: ClassVar[bool] = False

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, LastValue)

    @override
    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        if len(values) != 1:
            raise too_many(self.key, "Use an Annotated key to handle multiple values.")
        value: Any = values[0]
        self.value = plain(value) if type(value) in WRAPPERS else value
        return True


class LastValueAfterFinish(BaseChannel[Value, Value, tuple[Value, bool]], Generic[Value]):
    """Holds its value back until the run is about to end; then once. Triggers deferred nodes."""

    __slots__ = ("finished", "value")

    reacts_to_silence: ClassVar[bool] = False

    def __init__(self, typ: Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.value: Any = MISSING
        self.finished = False

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, LastValueAfterFinish)

    @override
    def from_checkpoint(self, checkpoint: Any) -> Self:
        channel = type(self)(self.typ, self.key)
        if checkpoint is not MISSING:
            channel.value, channel.finished = checkpoint
        return channel

    @override
    def checkpoint(self) -> Any:
        return MISSING if self.value is MISSING else (self.value, self.finished)

    @override
    def get(self) -> Value:
        if not self.is_available():
            raise EmptyChannelError
        return self.value  # type: ignore[no-any-return]

    @override
    def is_available(self) -> bool:
        return self.finished and self.value is not MISSING

    @override
    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        self.value = plain(values[-1])
        self.finished = False
        return True

    @override
    def consume(self) -> bool:
        if not self.finished:
            return False
        self.value = MISSING
        self.finished = False
        return True

    @override
    def finish(self) -> bool:
        if self.finished or self.value is MISSING:
            return False
        self.finished = True
        return True
