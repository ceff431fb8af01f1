"""A node as it was added: the user's callable and what was said about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from perdure.constants import END, START
from perdure.engine.action import is_runnable
from perdure.graph.hints import command_targets, input_class
from perdure.slotted import field, slotted
from perdure.types import RetryPolicy, TimeoutPolicy

if TYPE_CHECKING:
    from perdure.types import CachePolicy, TracePolicy


class Invokable(Protocol):
    """A Runnable or a compiled graph."""

    def invoke(self, input: Any, config: Any = None) -> Any: ...


NodeAction: TypeAlias = Callable[..., Any] | Invokable | Mapping[str, Any]
"""What can be a node: a function (sync or async), a callable object, a Runnable, a compiled
graph, or a dict of Runnables that get the same input."""
Retry: TypeAlias = RetryPolicy | Sequence[RetryPolicy]
Timeout: TypeAlias = float | timedelta | TimeoutPolicy


@slotted(frozen=True, kw_only=True)
class NodeSpec:
    """What `add_node` was told."""

    runnable: Any
    input_schema: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)
    retry_policy: tuple[RetryPolicy, ...] | None = None
    cache_policy: CachePolicy[Any] | None = None
    timeout: TimeoutPolicy | None = None
    trace_policy: TracePolicy | None = None
    error_handler: str | None = None
    """Name of the node that takes this one's failures."""
    ends: tuple[str, ...] | Mapping[str, str] = ()
    """Where its Commands may go, as far as it was said: for checks and drawings."""
    defer: bool = False
    is_error_handler: bool = False


@slotted(frozen=True)
class NodeDefaults:
    """What nodes get that say nothing themselves."""

    retry_policy: tuple[RetryPolicy, ...] | None = None
    cache_policy: CachePolicy[Any] | None = None
    error_handler: NodeAction | None = None
    timeout: TimeoutPolicy | None = None


def retries(policy: Retry | None) -> tuple[RetryPolicy, ...] | None:
    """One policy or several, as a tuple."""
    if policy is None:
        return None
    return (policy,) if isinstance(policy, RetryPolicy) else tuple(policy)


def node_name(action: Any) -> str:
    """The name of a node that is given as its callable alone."""
    name = action.get_name() if is_runnable(action) else getattr(action, "__name__", None)
    return str(name or type(action).__name__)


def check_node_name(name: str, taken: Mapping[str, Any]) -> None:
    """Raises ValueError for a name that a node cannot have."""
    if name in taken:
        raise ValueError(f"Node `{name}` already present.")
    if name in (START, END):
        raise ValueError(f"Node `{name}` is reserved.")
    for character in "|:":
        if character in name:
            raise ValueError(
                f"{character!r} is a reserved character and is not allowed in the node names; "
                f"namespaces of subgraphs are written with it. Rename the node {name!r}"
            )


def wanted_input(action: Any, given: Any, state_schema: Any) -> Any:
    """The schema of a node's input: the one given, the annotation, else the state's."""
    return given or input_class(action) or state_schema


def wanted_ends(
    action: Any, destinations: Mapping[str, str] | Sequence[str] | None
) -> tuple[str, ...] | Mapping[str, str]:
    """Where a node's Commands may go: as it was said, else as its return annotation says."""
    if destinations is None:
        return command_targets(action)
    return dict(destinations) if isinstance(destinations, Mapping) else tuple(destinations)
