"""The handlers by which a run's listeners learn what models and tools do.

A run has handlers of its own, for its own place in the stream: those of the run above are left
out of what it inherits. So a model's tokens appear where the code that called it runs, and a
workflow that nobody watches adds nothing to the streams around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.ext.langchain.callbacks import Listener
from perdure.ext.langchain.tokens import Tokens
from perdure.ext.langchain.tools import ToolCalls

if TYPE_CHECKING:
    from perdure.engine.live import Run
    from perdure.ext.langchain.scan import Shown


def listeners_of(run: Run, shown: Shown) -> list[Listener]:
    """Handlers for the streams that somebody reads of this run.

    Args:
        shown: Ids of the messages that the streams have had; the handlers add to it.
    """
    sink, found = run.sink, list[Listener]()
    if sink.messages or sink.blocks:
        found.append(Tokens(sink, run.stream_ns, shown))
    if sink.tools:
        found.append(ToolCalls(sink, run.stream_ns))
    return found
