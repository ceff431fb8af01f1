"""Runs as they go: the objects that `stream_events` gives, their projections, and your own.

The names here are loaded when they are first used: a run that nobody watches needs none.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.stream.channel import StreamChannel
    from perdure.stream.lifecycle import LifecyclePayload, LifecycleTransformer, SubgraphStatus
    from perdure.stream.messages import MessagesTransformer
    from perdure.stream.protocol import ProtocolEvent
    from perdure.stream.run_stream import (
        AsyncGraphRunStream,
        AsyncSubgraphRunStream,
        GraphRunStream,
        SubgraphRunStream,
    )
    from perdure.stream.subgraphs import SubgraphTransformer
    from perdure.stream.timeline import TimelineTransformer, show_progress
    from perdure.stream.tool_calls import ToolCallStream, ToolCallTransformer
    from perdure.stream.transformer import StreamTransformer
    from perdure.stream.transformers import (
        CheckpointsTransformer,
        CustomTransformer,
        DebugTransformer,
        TasksTransformer,
        UpdatesTransformer,
        ValuesTransformer,
    )

__all__ = [
    # runs
    "GraphRunStream",
    "AsyncGraphRunStream",
    "SubgraphRunStream",
    "AsyncSubgraphRunStream",
    # projections of your own
    "StreamTransformer",
    "StreamChannel",
    # events
    "ProtocolEvent",
    "LifecyclePayload",
    "SubgraphStatus",
    # projections
    "ValuesTransformer",
    "UpdatesTransformer",
    "CustomTransformer",
    "MessagesTransformer",
    "TasksTransformer",
    "CheckpointsTransformer",
    "DebugTransformer",
    "LifecycleTransformer",
    "SubgraphTransformer",
    "ToolCallTransformer",
    "ToolCallStream",
    # watching a run in the terminal
    "TimelineTransformer",
    "show_progress",
]

_HOMES = {
    "channel": ("StreamChannel",),
    "lifecycle": ("LifecyclePayload", "LifecycleTransformer", "SubgraphStatus"),
    "messages": ("MessagesTransformer",),
    "protocol": ("ProtocolEvent",),
    "run_stream": (
        "AsyncGraphRunStream", "AsyncSubgraphRunStream", "GraphRunStream", "SubgraphRunStream",
    ),
    "subgraphs": ("SubgraphTransformer",),
    "timeline": ("TimelineTransformer", "show_progress"),
    "tool_calls": ("ToolCallStream", "ToolCallTransformer"),
    "transformer": ("StreamTransformer",),
    "transformers": (
        "CheckpointsTransformer", "CustomTransformer", "DebugTransformer", "TasksTransformer",
        "UpdatesTransformer", "ValuesTransformer",
    ),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
