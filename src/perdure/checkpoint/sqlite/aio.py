"""The async name of the SQLite saver, which serves sync and async callers alike."""

from __future__ import annotations

from typing_extensions import override

from perdure.checkpoint.sqlite.saver import SqliteSaver

__all__ = ["AsyncSqliteSaver"]


class AsyncSqliteSaver(SqliteSaver):
    """SqliteSaver under the name that async programs know.

    It may be made with or without a running loop and used from several. Its sync methods work
    anywhere, also on a loop's own thread, which they block for the time of a commit.
    """

    @override
    async def setup(self) -> None:  # type: ignore[override]  # programs await it
        """Makes the tables. Nothing needs it: they are made on first use."""
        await self._aside(super().setup)
