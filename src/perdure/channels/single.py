"""What channels have in common that hold one written value."""

from __future__ import annotations

from typing import Any, Generic, Self

from typing_extensions import override

from perdure.channels.base import BaseChannel, Value
from perdure.errors import EmptyChannelError
from perdure.typing import MISSING


class SingleValue(BaseChannel[Value, Value, Value], Generic[Value]):
    """A value or none, stored as it is."""

    __slots__ = ("value",)

    # Every run makes its channels anew, so they are set up here, without a way through the bases.
    def __init__(self, typ: Any, key: str = "") -> None:
        self.typ = typ
        self.key = key
        self.value: Any = MISSING

    @override
    def from_checkpoint(self, checkpoint: Any) -> Self:
        channel = type(self)(self.typ, self.key)
        channel.value = checkpoint
        return channel

    @override
    def checkpoint(self) -> Any:
        return self.value

    @override
    def get(self) -> Value:
        value = self.value
        if value is MISSING:
            raise EmptyChannelError
        return value  # type: ignore[no-any-return]

    @override
    def is_available(self) -> bool:
        return self.value is not MISSING


class GuardedValue(SingleValue[Value], Generic[Value]):
    """A single value, of which several may be written in one superstep where that is allowed."""

    __slots__ = ("guard",)

    def __init__(self, typ: Any, guard: bool = True) -> None:
        self.typ = typ
        self.key = ""
        self.value = MISSING
        self.guard = guard

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, GuardedValue) and (type(other), other.guard) == (type(self), self.guard)

    @override
    def from_checkpoint(self, checkpoint: Any) -> Self:
        channel = type(self)(self.typ, self.guard)
        channel.key = self.key
        channel.value = checkpoint
        return channel
