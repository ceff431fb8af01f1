"""A cache in the memory of this process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from typing_extensions import override

from perdure.cache.base import BaseCache, FullKey, Namespace, Serializer, ValueT

__all__ = ["InMemoryCache"]

_Entry = tuple[str, bytes, float | None]
"""Tag, bytes, and the time at which it expires."""


class InMemoryCache(BaseCache[ValueT]):
    """Keeps values until the process ends. Safe to use from several threads.

    Values are kept as bytes: who gets one may change it.

    Args:
        serde: How values become bytes; by default as savers do it.
        max_size: How many values are kept; then the one goes that was not used for longest.
    """

    def __init__(self, *, serde: Serializer | None = None, max_size: int = 10_000) -> None:
        super().__init__(serde=serde)
        if max_size < 1:
            raise ValueError(f"max_size must be at least 1, not {max_size}")
        self.max_size = max_size
        self._entries: OrderedDict[FullKey, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    @override
    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        found: dict[FullKey, _Entry] = {}
        now = time.time()
        with self._lock:
            for key in keys:
                entry = self._entries.get(key)
                if entry is None:
                    continue
                if entry[2] is not None and entry[2] <= now:
                    del self._entries[key]
                else:
                    self._entries.move_to_end(key)
                    found[key] = entry
        return {key: self.serde.loads_typed(entry[:2]) for key, entry in found.items()}

    @override
    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        return self.get(keys)

    @override
    def set(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        now = time.time()
        fresh: dict[FullKey, _Entry] = {
            key: (*self.serde.dumps_typed(value), None if ttl is None else now + ttl)
            for key, (value, ttl) in pairs.items()
        }
        with self._lock:
            for key, entry in fresh.items():
                self._entries[key] = entry
                self._entries.move_to_end(key)
            while len(self._entries) > self.max_size:
                self._entries.popitem(last=False)

    @override
    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        self.set(pairs)

    @override
    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        with self._lock:
            if namespaces is None:
                self._entries.clear()
                return
            gone = set(namespaces)
            for key in [key for key in self._entries if key[0] in gone]:
                del self._entries[key]

    @override
    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        self.clear(namespaces)
