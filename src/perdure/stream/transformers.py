"""The projections that every run has, and those one asks for."""

from __future__ import annotations

from typing import Any, ClassVar

from perdure.stream.channel import StreamChannel
from perdure.stream.lifecycle import LifecyclePayload, LifecycleTransformer, SubgraphStatus
from perdure.stream.messages import MessagesTransformer
from perdure.stream.protocol import ProtocolEvent
from perdure.stream.subgraphs import SubgraphTransformer
from perdure.stream.transformer import Scope, StreamTransformer

__all__ = [
    # always there
    "ValuesTransformer",
    "MessagesTransformer",
    "LifecycleTransformer",
    "SubgraphTransformer",
    # where they are asked for
    "UpdatesTransformer",
    "CustomTransformer",
    "TasksTransformer",
    "CheckpointsTransformer",
    "DebugTransformer",
    # what they tell
    "LifecyclePayload",
    "SubgraphStatus",
]


class ModeTransformer(StreamTransformer):
    """Projects the data of one stream mode, of its own graph alone."""

    native: ClassVar[bool] = True
    mode: ClassVar[str]

    def __init__(self, scope: Scope = ()) -> None:
        super().__init__(scope)
        self.channel: StreamChannel[Any] = StreamChannel()
        self._own = list(scope)

    def init(self) -> dict[str, Any]:
        return {self.mode: self.channel}

    def process(self, event: ProtocolEvent) -> bool:
        if event["method"] == self.mode:
            params = event["params"]
            if params["namespace"] == self._own:
                self.channel.push(params["data"])
        return True


class ValuesTransformer(ModeTransformer):
    """`run.values`: the state after each superstep, or an entrypoint's value."""

    mode = "values"
    methods = required_stream_modes = ("values",)


class UpdatesTransformer(ModeTransformer):
    """`run.updates`: what each task wrote, under its name."""

    mode = "updates"
    methods = required_stream_modes = ("updates",)


class CustomTransformer(ModeTransformer):
    """`run.custom`: what user code gave to its stream writer."""

    mode = "custom"
    methods = required_stream_modes = ("custom",)


class CheckpointsTransformer(ModeTransformer):
    """`run.checkpoints`: the checkpoints that were saved."""

    mode = "checkpoints"
    methods = required_stream_modes = ("checkpoints",)


class DebugTransformer(ModeTransformer):
    """`run.debug`: checkpoints and tasks with their step and time."""

    mode = "debug"
    methods = required_stream_modes = ("debug",)


class TasksTransformer(ModeTransformer):
    """`run.tasks`: every task as it starts and as it ends."""

    mode = "tasks"
    methods = required_stream_modes = ("tasks",)
