"""A cache in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from typing_extensions import override

from perdure.cache.base import BaseCache, FullKey, Namespace, Serializer, ValueT

__all__ = ["SqliteCache"]

T = TypeVar("T")

_TABLE = """
CREATE TABLE IF NOT EXISTS cached_results (
    ns TEXT NOT NULL, key TEXT NOT NULL, expiry REAL, encoding TEXT NOT NULL, val BLOB NOT NULL,
    PRIMARY KEY (ns, key)
) WITHOUT ROWID
"""
_AT_ONCE = 250
"""Keys of one statement: each takes two of the 999 parameters that any SQLite accepts."""


class SqliteCache(BaseCache[ValueT]):
    """Keeps values in a file. Safe to use from several threads, and by several processes.

    What has expired goes whenever something is stored.

    Args:
        path: Of the file; `:memory:` for none.
        serde: How values become bytes; by default as savers do it.
    """

    def __init__(self, *, path: str | os.PathLike[str], serde: Serializer | None = None) -> None:
        super().__init__(serde=serde)
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            os.fspath(path), check_same_thread=False, isolation_level=None, timeout=30.0
        )
        self._connection.execute("PRAGMA journal_mode = WAL")
        # A value that a power cut takes is computed again.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(_TABLE)

    @override
    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        asked = {(_text(ns), key): (ns, key) for ns, key in keys}
        rows: list[Any] = []
        with self._lock:
            for part in _parts(list(asked)):
                marks = ", ".join(["(?, ?)"] * len(part))
                rows += self._connection.execute(
                    "SELECT ns, key, encoding, val FROM cached_results "
                    f"WHERE (ns, key) IN (VALUES {marks}) AND (expiry IS NULL OR expiry > ?)",
                    [*(text for pair in part for text in pair), time.time()],
                )
        return {asked[ns, key]: self.serde.loads_typed((tag, val)) for ns, key, tag, val in rows}

    @override
    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        return await _on_thread(self.get, keys)

    @override
    def set(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        now = time.time()
        rows = [
            (_text(ns), key, None if ttl is None else now + ttl, *self.serde.dumps_typed(value))
            for (ns, key), (value, ttl) in pairs.items()
        ]
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.execute("DELETE FROM cached_results WHERE expiry <= ?", (now,))
                self._connection.executemany(
                    "INSERT OR REPLACE INTO cached_results VALUES (?, ?, ?, ?, ?)", rows
                )
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @override
    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        await _on_thread(self.set, pairs)

    @override
    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        with self._lock:
            if namespaces is None:
                self._connection.execute("DELETE FROM cached_results")
            for ns in namespaces or ():
                self._connection.execute("DELETE FROM cached_results WHERE ns = ?", (_text(ns),))

    @override
    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        await _on_thread(self.clear, namespaces)

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self._connection.close()


def _text(namespace: Namespace) -> str:
    """A namespace as text, another for every other one: each part follows its length."""
    return "".join(f"{len(part)}:{part}" for part in namespace)


def _parts(keys: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    for start in range(0, len(keys), _AT_ONCE):
        yield keys[start : start + _AT_ONCE]


async def _on_thread(function: Callable[..., T], *args: Any) -> T:
    # Only programs that are async already pay for the import.
    import asyncio

    return await asyncio.to_thread(function, *args)
