"""What a compiled workflow is: nodes, channels, triggers, policies.

A program is frozen. Whatever can be prepared is prepared at compile time: how a node's
input is read from the channels, and how its output becomes writes, are plain functions
here, so that a superstep only calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from perdure.channels.base import BaseChannel
from perdure.managed.base import Steps
from perdure.slotted import field, slotted

if TYPE_CHECKING:
    from perdure.engine.action import Action
    from perdure.types import CachePolicy, Command, RetryPolicy, TimeoutPolicy

Write: TypeAlias = tuple[str, Any]
"""A channel's name and the value written to it."""

Channels: TypeAlias = Mapping[str, "BaseChannel[Any, Any, Any]"]


class Standing(NamedTuple):
    """Where a run that is only looked at would stand; one that runs says so itself."""

    step: int
    stop: int


Read: TypeAlias = Callable[[Channels, Steps], Any]
"""Reads an input from the channels. Raises EmptyChannelError when there is none."""


@slotted(frozen=True)
class Branch:
    """A conditional edge: a user's function that says where to go next."""

    name: str
    path: Action
    """The user's function; called with what `read` gives."""
    read: Callable[[Channels, Steps, Any], Any]
    """(channels with the node's own writes applied, steps, the node's output) -> argument."""
    route: Callable[[Any], Sequence[Write]]
    """What `path` returned -> writes to trigger channels or packets. Raises on bad targets."""


@slotted(frozen=True)
class Node:
    """One step of a program."""

    name: str
    action: Action
    triggers: tuple[str, ...]
    """Channels whose news start the node, sorted."""
    read: Read
    write: Callable[[Any], Sequence[Write]]
    """What the action returned -> writes, edges included. Pure; raises InvalidUpdateError, or
    ParentCommand when the output addresses a parent graph."""
    coerce: Callable[[Any], Any] | None = None
    """Turns what `read` gave into the class that the node's input schema names. Not applied to
    the argument of a Send."""
    branches: tuple[Branch, ...] = ()
    retry: tuple[RetryPolicy, ...] | None = None
    cache: CachePolicy | None = None
    timeout: TimeoutPolicy | None = None
    error_handler: str | None = None
    """Name of the node that takes this one's failures."""
    hidden: bool = False
    """Hidden nodes (START) never show in streams."""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    subgraphs: tuple[Any, ...] = ()
    """Workflows that the action contains or refers to, as far as they can be seen."""
    quiet: bool = False
    """The user's code cannot tell listeners anything while it runs."""


@slotted(frozen=True)
class Program:
    """A compiled workflow, ready to run."""

    name: str
    nodes: Mapping[str, Node]
    channels: Channels
    """Prototypes; a run makes its own from them with `from_checkpoint`."""
    managed: Mapping[str, Any]
    """State keys that are computed, not stored (RemainingSteps ...)."""
    write_input: Callable[[Any], Sequence[Write]]
    """What a caller gave as input -> writes. Raises InvalidUpdateError, or pydantic's error."""
    write_command: Callable[[Command[Any]], Sequence[Write]]
    """A Command given as input -> the writes of its update and its goto."""
    input_channel: str
    """`__start__`."""
    output: str | tuple[str, ...]
    """The channels that `invoke` reads: one name for a bare value, a tuple for a dict."""
    stream: str | tuple[str, ...]
    """The channels that `values` streams and snapshots read."""
    trigger_to_nodes: Mapping[str, tuple[str, ...]]
    retry: tuple[RetryPolicy, ...] = ()
    """For nodes and calls that name no policy of their own."""
    cache: CachePolicy | None = None
    on_divergence: str = "error"
    """`error` | `warn` | `allow`: what to do when the code does not match its record."""
    entrypoint: str = ""
    """Made by @entrypoint: the function's name. Such a program has one node, and keeps the value
    returned apart from the value saved. Empty for graphs."""
    finishers: tuple[str, ...] = field(init=False)
    """Channels that wait for the run to come to its end."""
    consumers: frozenset[str] = field(init=False)
    """Channels that change when the tasks that they triggered have run."""
    output_mapper: Callable[[Any], Any] | None = None
    """Output dict -> instance of the output schema's class (`version="v2"`), where it has one."""
    state_mapper: Callable[[Any], Any] | None = None
    """The same for the whole state."""
    schemas: Mapping[str, Any] = field(default_factory=dict)
    """`input`, `output`, `state`, `context`: the classes the user named."""

    def __post_init__(self) -> None:
        kinds = [(key, type(channel)) for key, channel in self.channels.items()]
        finishers = tuple(key for key, kind in kinds if kind.finish is not BaseChannel.finish)
        consumers = frozenset(key for key, kind in kinds if kind.consume is not BaseChannel.consume)
        object.__setattr__(self, "finishers", finishers)
        object.__setattr__(self, "consumers", consumers)
