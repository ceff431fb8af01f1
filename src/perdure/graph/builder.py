"""StateGraph: collects nodes and edges, checks them, and compiles them to a workflow."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from perdure.channels import LastValue
from perdure.constants import END, START
from perdure.engine.action import is_runnable
from perdure.engine.setup import ON_BUSY, ON_DIVERGENCE, checked
from perdure.graph import nodes as added
from perdure.graph.branch import BranchSpec
from perdure.graph.checks import check_breakpoints, check_graph, check_names
from perdure.graph.compile import compile_program
from perdure.graph.compiled import CompiledStateGraph
from perdure.graph.names import handler_of
from perdure.graph.nodes import NodeAction, NodeDefaults, NodeSpec, Retry, Timeout
from perdure.graph.schema import Channel, Schema, is_schema_like, read_schema
from perdure.graph.spelling import Renamed, with_renamed
from perdure.managed.base import ManagedValueSpec
from perdure.slotted import replace
from perdure.types import (
    All,
    Checkpointer,
    TimeoutPolicy,
    ensure_valid_checkpointer,
)
from perdure.typing import ContextT, InputT, OutputT, StateT
from perdure.warnings import PerdureDeprecatedSinceV05, PerdureDeprecatedSinceV10

if TYPE_CHECKING:
    from perdure.memory_policies import CachePolicy, TracePolicy
    from perdure.store.base import BaseStore


_OLD_ARGUMENTS: Renamed = {
    "config_schema": ("context_schema", PerdureDeprecatedSinceV10),
    "input": ("input_schema", PerdureDeprecatedSinceV05),
    "output": ("output_schema", PerdureDeprecatedSinceV05),
}
_OLD_NODE_ARGUMENTS: Renamed = {
    "retry": ("retry_policy", PerdureDeprecatedSinceV05),
    "input": ("input_schema", PerdureDeprecatedSinceV05),
}


class StateGraph(Generic[StateT, ContextT, InputT, OutputT]):
    """A graph of nodes that read from and write to one shared state.

    Each node is called with the state and returns what is to be changed in it; edges say what
    runs after it. All methods return the graph, so that calls can be chained; `compile` makes
    the workflow that runs.

        class State(TypedDict):
            words: Annotated[list[str], operator.add]

        graph = StateGraph(State)
        graph.add_node("greet", lambda state: {"words": ["hello"]})
        graph.add_edge(START, "greet")
        graph.compile().invoke({"words": []})   # {"words": ["hello"]}

    Args:
        state_schema: A TypedDict, dataclass or pydantic model whose keys are the state's;
            `Annotated[type, reducer]` says how several writes to a key become one value. A bare
            type makes a state of one value.
        context_schema: The class of the `context` that a run is given.
        input_schema: What a caller may give, if not the whole state.
        output_schema: What `invoke` returns, if not the whole state.

    Raises:
        ValueError: A reducer does not take two arguments, two schemas disagree on a key, or an
            input or output schema has managed values.
    """

    nodes: dict[str, NodeSpec]
    edges: set[tuple[str, str]]
    waiting_edges: set[tuple[tuple[str, ...], str]]
    """Joins: the nodes that all have to be through, and what comes then."""
    branches: defaultdict[str, dict[str, BranchSpec]]
    channels: dict[str, Channel]
    managed: dict[str, ManagedValueSpec]
    schemas: dict[Any, Schema]
    compiled: bool
    defaults: NodeDefaults

    def __init__(
        self,
        state_schema: type[StateT],
        context_schema: type[ContextT] | None = None,
        *,
        input_schema: type[InputT] | None = None,
        output_schema: type[OutputT] | None = None,
        **deprecated: Any,
    ) -> None:
        given = with_renamed(
            "StateGraph",
            {"context_schema": context_schema, "input_schema": input_schema, "output_schema": output_schema},
            deprecated,
            _OLD_ARGUMENTS,
        )
        if not is_schema_like(state_schema):
            warnings.warn(
                f"Invalid state_schema: {state_schema!r}. Expected a class or Annotated[type, reducer]; "
                "the state is taken to be one value",
                UserWarning,
                stacklevel=2,
            )
        self.nodes = {}
        self.edges = set()
        self.waiting_edges = set()
        self.branches = defaultdict(dict)
        self.channels = {}
        self.managed = {}
        self.schemas = {}
        self.compiled = False
        self.defaults = NodeDefaults()
        self.state_schema: Any = state_schema
        self.context_schema: Any = given["context_schema"]
        self.input_schema: Any = given["input_schema"] or state_schema
        self.output_schema: Any = given["output_schema"] or state_schema
        self.declare(self.state_schema)
        self.declare(self.input_schema, computed=False)
        self.declare(self.output_schema, computed=False)

    # -- schemas

    def declare(self, schema: Any, *, computed: bool = True) -> Schema:
        """A schema, read; its keys become keys of the state.

        Args:
            computed: Whether a schema that is new may have managed values.
        """
        key = _schema_key(schema)
        if key in self.schemas:
            return self.schemas[key]
        read = read_schema(schema)
        if read.managed and not computed:
            raise ValueError(
                f"Invalid managed channels detected in {getattr(schema, '__name__', schema)}: "
                f"{', '.join(read.managed)}. Managed channels are not permitted in Input/Output schema."
            )
        for name, channel in read.channels.items():
            self._declare(name, channel)
        for name, value in read.managed.items():
            if name in self.channels:
                raise _conflict(name)
            self.managed[name] = value
        self.schemas[key] = read
        return read

    def _declare(self, name: str, channel: Channel) -> None:
        known = self.channels.get(name)
        if name in self.managed or not (known is None or known == channel or isinstance(channel, LastValue)):
            raise _conflict(name)
        if known is None:
            self.channels[name] = channel

    # -- nodes

    def add_node(
        self,
        node: str | NodeAction,
        action: NodeAction | None = None,
        *,
        defer: bool = False,
        metadata: Mapping[str, Any] | None = None,
        input_schema: type[Any] | None = None,
        retry_policy: Retry | None = None,
        cache_policy: CachePolicy[Any] | None = None,
        error_handler: NodeAction | None = None,
        destinations: Mapping[str, str] | Sequence[str] | None = None,
        timeout: Timeout | None = None,
        trace_policy: TracePolicy | None = None,
        **deprecated: Any,
    ) -> Self:
        """Adds a node.

        Args:
            node: Its name; or the callable itself, which then gives the name.
            action: What it does: a function of the state (sync or async), a callable object, a
                Runnable or a compiled graph.
            defer: Run it only when nothing else is left to run.
            metadata: Shown in streams and traces, beside the run's own.
            input_schema: What it reads, if not the whole state or what its annotation names.
            retry_policy: When a failed attempt is repeated; the first policy that fits is used.
            cache_policy: That results are kept and used again for equal input.
            error_handler: Called with the node's input when it has failed for good; a parameter
                `error: NodeError` tells why.
            destinations: Where its Commands may go, or a dict of those to labels, for checks and
                drawings. The annotation `-> Command[Literal[...]]` says the same.
            timeout: How long an attempt may take; async nodes only.
            trace_policy: What tracers record of it.

        Raises:
            ValueError: The name is taken, reserved or has a reserved character.
            RuntimeError: A name without an action.
        """
        given = with_renamed(
            "StateGraph.add_node",
            {"input_schema": input_schema, "retry_policy": retry_policy},
            deprecated,
            _OLD_NODE_ARGUMENTS,
        )
        name, action = _named(node, action)
        self._warn_if_compiled("a node")
        added.check_node_name(name, self.nodes)
        schema = added.wanted_input(action, given["input_schema"], self.state_schema)
        handler = None
        if error_handler is not None:
            handler = self._add_handler(handler_of(name), error_handler, schema)
        self.declare(schema)
        self.nodes[name] = NodeSpec(
            runnable=action,
            input_schema=schema,
            metadata=dict(metadata or {}),
            retry_policy=added.retries(given["retry_policy"]),
            cache_policy=cache_policy,
            timeout=TimeoutPolicy.coerce(timeout),
            trace_policy=trace_policy,
            error_handler=handler,
            ends=added.wanted_ends(action, destinations),
            defer=defer,
        )
        return self

    def _add_handler(self, name: str, action: NodeAction, input_schema: Any) -> str:
        added.check_node_name(name, self.nodes)
        self.nodes[name] = NodeSpec(
            runnable=action,
            input_schema=input_schema,
            ends=added.wanted_ends(action, None),
            is_error_handler=True,
        )
        return name

    def set_node_defaults(
        self,
        *,
        retry_policy: Retry | None = None,
        cache_policy: CachePolicy[Any] | None = None,
        error_handler: NodeAction | None = None,
        timeout: Timeout | None = None,
    ) -> Self:
        """Says what holds for nodes that say nothing themselves; applied by `compile`.

        Retries and time limits hold for error handlers too. Subgraphs do not inherit anything.
        """
        self._warn_if_compiled("node defaults")
        said: dict[str, Any] = {
            "retry_policy": added.retries(retry_policy),
            "cache_policy": cache_policy,
            "error_handler": error_handler,
            "timeout": TimeoutPolicy.coerce(timeout),
        }
        self.defaults = replace(self.defaults, **{key: v for key, v in said.items() if v is not None})
        return self

    # -- edges

    def add_edge(self, start_key: str | list[str], end_key: str) -> Self:
        """Runs `end_key` after `start_key`; after all of them where it is a list.

        Raises:
            ValueError: It starts at END or ends at START, or a list names a node that is not
                there yet.
        """
        self._warn_if_compiled("an edge")
        starts = [start_key] if isinstance(start_key, str) else list(start_key)
        if not starts:
            raise ValueError(f"An edge to {end_key!r} needs at least one start")
        if END in starts:
            raise ValueError("END cannot be a start node")
        if end_key == START:
            raise ValueError("START cannot be an end node")
        if isinstance(start_key, str):
            self.edges.add((start_key, end_key))
            return self
        for name in [*starts, *([] if end_key == END else [end_key])]:
            if name not in self.nodes:
                raise ValueError(f"Need to add_node `{name}` first")
        self.waiting_edges.add((tuple(starts), end_key))
        return self

    def add_conditional_edges(
        self,
        source: str,
        path: NodeAction,
        path_map: Mapping[Hashable, str] | Sequence[str] | None = None,
    ) -> Self:
        """Runs after `source` what `path` says.

        Args:
            path: A function of the state (sync or async) or a Runnable; returns a node's name, a
                Send, or a list of those.
            path_map: What `path` may return -> node; or a list of the nodes that it may name.
                Without it, `path` may be annotated `-> Literal[...]`.

        Raises:
            ValueError: The node has a branch of this name already.
        """
        self._warn_if_compiled("an edge")
        branch = BranchSpec.of(path, path_map)
        if branch.name in self.branches[source]:
            raise ValueError(f"Branch with name `{branch.name}` already exists for node `{source}`")
        self.branches[source][branch.name] = branch
        if branch.input_schema is not None:
            self.declare(branch.input_schema)
        return self

    def add_sequence(self, nodes: Sequence[NodeAction | tuple[str, NodeAction]]) -> Self:
        """Adds nodes, each after the one before it.

        Args:
            nodes: Callables, or pairs of a name and a callable.

        Raises:
            ValueError: There are none, or two have the same name.
        """
        if not nodes:
            raise ValueError("Sequence requires at least one node.")
        previous: str | None = None
        for item in nodes:
            name, action = item if isinstance(item, tuple) else (added.node_name(item), item)
            if name in self.nodes:
                raise ValueError(
                    f"Node names must be unique: node with the name '{name}' already exists. "
                    "Give two callables of one name (e.g. lambdas) as pairs (name, callable)."
                )
            self.add_node(name, action)
            if previous is not None:
                self.add_edge(previous, name)
            previous = name
        return self

    def set_entry_point(self, key: str) -> Self:
        """Runs `key` first."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(
        self, path: NodeAction, path_map: Mapping[Hashable, str] | Sequence[str] | None = None
    ) -> Self:
        """Runs first what `path` says."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> Self:
        """Ends the path through the graph after `key`."""
        return self.add_edge(key, END)

    # -- to a workflow

    def validate(self, interrupt: Sequence[str] | None = None) -> Self:
        """Checks that the graph holds together.

        Args:
            interrupt: Nodes with a static breakpoint.

        Raises:
            ValueError: There is nothing to start with, or an edge, branch or breakpoint names a
                node that is not there.
        """
        check_graph(self)
        check_breakpoints(interrupt or (), self.nodes)
        return self

    def compile(
        self,
        checkpointer: Checkpointer = None,
        *,
        cache: object | None = None,
        store: BaseStore | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        debug: bool = False,
        name: str | None = None,
        transformers: Sequence[Any] | None = None,
        on_busy: Literal["reject", "wait"] = "reject",
        on_divergence: Literal["error", "warn", "allow"] = "error",
    ) -> CompiledStateGraph[StateT, ContextT, InputT, OutputT]:
        """Makes the workflow that runs. What is added to the graph later does not change it.

        Args:
            checkpointer: Where threads are kept. For a subgraph: None for the parent's, True to
                keep its state between calls, False to keep none.
            cache: Where results are kept that a cache policy names.
            store: Memory across threads.
            interrupt_before: Nodes to pause ahead of; `"*"` for all.
            interrupt_after: Nodes to pause after.
            debug: Prints what the run does.
            name: The workflow's name, `LangGraph` if not given.
            transformers: Projections that each event stream of the workflow gets.
            on_busy: What a second run on a thread does.
            on_divergence: What to do when a node on replay makes other calls than recorded.

        Raises:
            ValueError: See `validate`; or a name is reserved, or a sync node has a time limit.
            TypeError: The checkpointer is none.
        """
        checkpointer = ensure_valid_checkpointer(checkpointer)
        stops = [*_named_stops(interrupt_before), *_named_stops(interrupt_after)]
        self.validate(interrupt=stops)
        check_names(self.nodes, (*self.channels, *self.managed))
        divergence = checked("on_divergence", on_divergence, ON_DIVERGENCE)
        program = compile_program(self, name or "LangGraph", divergence)
        workflow: CompiledStateGraph[StateT, ContextT, InputT, OutputT] = CompiledStateGraph(
            program,
            checkpointer=checkpointer,
            store=store,
            cache=cache,
            interrupt_before=interrupt_before or (),
            interrupt_after=interrupt_after or (),
            debug=debug,
            name=program.name,
            context_schema=self.context_schema,
            stream_mode="updates",
            on_busy=checked("on_busy", on_busy, ON_BUSY),
        )
        workflow.builder = self
        workflow.stream_transformers = _checked_transformers(transformers) if transformers else ()
        self.compiled = True
        return workflow

    def _warn_if_compiled(self, what: str) -> None:
        if self.compiled:
            import logging  # the first run needs it, defining a graph does not

            logging.getLogger("perdure").warning(
                "Adding %s to a graph that has already been compiled. "
                "This will not be reflected in the compiled graph.",
                what,
            )


def _checked_transformers(specs: Sequence[Any]) -> tuple[Any, ...]:
    # Programs without projections of their own never load what streams need.
    from perdure.stream.transformer import checked_factories

    return checked_factories(specs)


def _named(node: str | NodeAction, action: NodeAction | None) -> tuple[str, NodeAction]:
    if not isinstance(node, str):
        return added.node_name(node), node
    if action is None:
        raise RuntimeError(f"Node {node!r} has no action; give add_node a callable besides the name")
    if not (callable(action) or isinstance(action, Mapping) or is_runnable(action)):
        raise TypeError(
            f"node {node!r}: {action!r} cannot be called; give a function, a Runnable or a compiled graph"
        )
    return node, action


def _named_stops(stops: All | Sequence[str] | None) -> Sequence[str]:
    return () if stops is None or stops == "*" else stops


def _conflict(key: str) -> ValueError:
    return ValueError(f"Channel '{key}' already exists with a different type")


def _schema_key(schema: Any) -> Hashable:
    # An annotation with a channel in it cannot be hashed; its text tells as much.
    try:
        hash(schema)
    except TypeError:
        return repr(schema)
    return schema  # type: ignore[no-any-return]
