"""The handlers by which a run's listeners learn what models and tools do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.ext.langchain.callbacks import Listener

if TYPE_CHECKING:
    from perdure.engine.live import Run


def listeners_of(run: Run, shown: set[str]) -> list[Listener]:
    """Handlers for the streams that somebody reads of this run."""
    return []
