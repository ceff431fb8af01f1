"""Opening a saver for the length of a block."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic

from typing_extensions import TypeVar

__all__ = ["Opened"]

S = TypeVar("S", bound=Any)


class Opened(Generic[S]):
    """A context manager, sync and async, around a saver that it opens and closes."""

    def __init__(self, open: Callable[[], S]) -> None:
        self._open = open
        self._saver: S | None = None

    def __enter__(self) -> S:
        self._saver = self._open()
        return self._saver

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        saver, self._saver = self._saver, None
        if saver is not None:
            saver.close()

    async def __aenter__(self) -> S:
        return self.__enter__()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        saver, self._saver = self._saver, None
        if saver is not None:
            await saver.__aexit__(exc_type, exc, traceback)
