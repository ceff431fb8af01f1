"""What a cache must do, and where it keeps what: values by namespace and key, for a while."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from perdure.serde import Codec

__all__ = ["BaseCache", "FullKey", "Namespace", "Serializer"]

ValueT = TypeVar("ValueT")

Namespace: TypeAlias = tuple[str, ...]
FullKey: TypeAlias = tuple[Namespace, str]


class Serializer(Protocol):
    """Turns values into tagged bytes and back."""

    def dumps_typed(self, obj: Any, /) -> tuple[str, bytes]: ...

    def loads_typed(self, data: tuple[str, bytes], /) -> Any: ...


class BaseCache(ABC, Generic[ValueT]):
    """Keeps values by namespace and key; what it loses is only computed again.

    Args:
        serde: How values become bytes; by default as savers do it.
    """

    serde: Serializer

    def __init__(self, *, serde: Serializer | None = None) -> None:
        self.serde = serde or Codec()

    @abstractmethod
    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """The values that are there and have not expired."""

    @abstractmethod
    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """`get` for async callers; never blocks the loop."""

    @abstractmethod
    def set(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        """Keeps values, each for so many seconds; None for ever.

        Raises:
            TypeError: A value cannot be stored.
        """

    @abstractmethod
    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        """`set` for async callers; never blocks the loop."""

    @abstractmethod
    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forgets everything in these namespaces, not in those below them; None for all."""

    @abstractmethod
    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """`clear` for async callers; never blocks the loop."""
