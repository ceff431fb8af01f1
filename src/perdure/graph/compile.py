"""A graph that holds together -> the program that the engine runs.

An edge is a channel of its own: a node that has run writes to `branch:to:<node>` for each edge,
and to `join:...` for each join it is part of, and those channels trigger their node. START is
a node like any other: it takes the input and writes its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.channels import (
    EphemeralValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
)
from perdure.constants import END, START, TAG_HIDDEN, TASKS
from perdure.engine.action import Action, can_be_stopped, is_runnable
from perdure.engine.limits import only_async
from perdure.engine.program import Branch, Channels, Node, Program, Write
from perdure.engine.quiet import is_quiet
from perdure.engine.subgraphs import subgraphs_of
from perdure.errors import InvalidUpdateError
from perdure.graph.branch import compile_branch
from perdure.graph.names import DEFAULT_HANDLER, ROOT, join_of, trigger_of
from perdure.graph.nodes import NodeSpec, wanted_ends, wanted_input
from perdure.graph.outputs import pairs_of
from perdure.graph.read import reader
from perdure.graph.schema import Channel, Schema
from perdure.graph.write import Destinations, Ignored, Writer, root_writer, writer
from perdure.managed.base import Steps
from perdure.slotted import slotted
from perdure.types import Command, Send

if TYPE_CHECKING:
    from perdure.graph.builder import StateGraph

    Graph = StateGraph[Any, Any, Any, Any]


def compile_program(graph: Graph, name: str, on_divergence: str) -> Program:
    """Compiles a graph that was checked.

    Raises:
        ValueError: A sync node has a time limit, or a node is named like the default handler.
    """
    specs = _with_default_handler(graph)
    wiring = _Wiring.of(graph, specs)
    nodes = {START: _start_node(graph, wiring)}
    nodes |= {name: _node(graph, wiring, name, spec) for name, spec in specs.items()}
    state, output = graph.declare(graph.state_schema), graph.declare(graph.output_schema)
    return Program(
        name=name,
        nodes=nodes,
        channels=wiring.channels,
        managed=dict(graph.managed),
        write_input=_input_writer(graph.declare(graph.input_schema)),
        write_command=_command_writer(graph, wiring),
        input_channel=START,
        output=ROOT if output.is_root else output.keys,
        stream=ROOT if tuple(graph.channels) == (ROOT,) else tuple(graph.channels),
        trigger_to_nodes=wiring.listeners,
        on_divergence=on_divergence,
        output_mapper=_mapper(output),
        state_mapper=_mapper(state),
        schemas={
            "input": graph.input_schema,
            "output": graph.output_schema,
            "state": graph.state_schema,
            "context": graph.context_schema,
        },
    )


def _with_default_handler(graph: Graph) -> Mapping[str, NodeSpec]:
    action = graph.defaults.error_handler
    if action is None:
        return dict(graph.nodes)
    if DEFAULT_HANDLER in graph.nodes:
        raise ValueError(
            f"Auto-generated default error handler node `{DEFAULT_HANDLER}` already exists; rename that node"
        )
    schema = wanted_input(action, None, graph.state_schema)
    graph.declare(schema)
    handler = NodeSpec(
        runnable=action, input_schema=schema, ends=wanted_ends(action, None), is_error_handler=True
    )
    return {**graph.nodes, DEFAULT_HANDLER: handler}


# -- channels and edges ------------------------------------------------------------------------


@slotted(frozen=True)
class _Wiring:
    """The channels of a program, and which node writes and listens to which of its edges."""

    channels: dict[str, Channel]
    triggers: dict[str, tuple[str, ...]]
    """Node -> the channels that start it, sorted."""
    edges: dict[str, list[Write]]
    """Node -> what it writes to its edges whenever it has run."""
    destinations: Destinations

    @classmethod
    def of(cls, graph: Graph, specs: Mapping[str, NodeSpec]) -> _Wiring:
        reachable = [name for name, spec in specs.items() if not spec.is_error_handler]
        channels = dict(graph.channels)
        channels[START] = EphemeralValue(graph.input_schema)
        channels[TASKS] = Topic(Send)
        triggers = {name: [trigger_of(name)] for name in reachable}
        edges: dict[str, list[Write]] = {name: [] for name in (START, *specs)}
        for name in reachable:
            deferred = specs[name].defer
            channels[trigger_of(name)] = (
                LastValueAfterFinish(Any) if deferred else EphemeralValue(Any, guard=False)
            )
        for start, end in sorted(graph.edges):
            if end != END:
                edges[start].append((trigger_of(end), None))
        for starts, end in sorted(graph.waiting_edges):
            if end == END:
                continue
            join = join_of(starts, end)
            barrier = NamedBarrierValueAfterFinish if specs[end].defer else NamedBarrierValue
            channels[join] = barrier(str, set(starts))
            triggers[end].append(join)
            for start in dict.fromkeys(starts):
                edges[start].append((join, start))
        for key, channel in channels.items():
            channel.key = key
        return cls(
            channels,
            {START: (START,), **{name: tuple(sorted(keys)) for name, keys in triggers.items()}},
            edges,
            Destinations.of(reachable),
        )

    @property
    def listeners(self) -> dict[str, tuple[str, ...]]:
        """Channel -> the nodes that it starts."""
        # Packets start whatever node they name. They are listed so that a deferred node, which
        # waits for the moment when nothing is triggered, waits for them too.
        found: dict[str, tuple[str, ...]] = {TASKS: ()}
        for name, keys in self.triggers.items():
            for key in keys:
                found[key] = (*found.get(key, ()), name)
        return found


# -- nodes -------------------------------------------------------------------------------------


def _start_node(graph: Graph, wiring: _Wiring) -> Node:
    return Node(
        name=START,
        action=Action.of(_given, START),
        triggers=(START,),
        read=_read_input,
        write=_writer(
            graph, wiring, "The input", graph.declare(graph.input_schema).channels, wiring.edges[START]
        ),
        branches=_branches(graph, wiring, START, graph.state_schema),
        hidden=True,
        tags=(TAG_HIDDEN,),
    )


def _given(value: Any) -> Any:
    return value


def _read_input(channels: Channels, steps: Steps) -> Any:
    return channels[START].get()


def _node(graph: Graph, wiring: _Wiring, name: str, spec: NodeSpec) -> Node:
    defaults = graph.defaults
    action = Action.of(spec.runnable, name)
    schema = graph.declare(spec.input_schema)
    subgraphs = subgraphs_of(spec.runnable)
    quiet = bool(subgraphs) or is_runnable(spec.runnable) or isinstance(spec.runnable, Mapping)
    handler = spec.error_handler
    if handler is None and not spec.is_error_handler and defaults.error_handler is not None:
        handler = DEFAULT_HANDLER
    timeout = defaults.timeout if spec.timeout is None else spec.timeout
    cache = spec.cache_policy
    if cache is None and not spec.is_error_handler:
        cache = defaults.cache_policy
    if timeout is not None and not can_be_stopped(action.fn):
        raise only_async(f"node {name!r} is sync, or has a part that is")
    branches = _branches(graph, wiring, name, spec.input_schema)
    return Node(
        name=name,
        action=action,
        triggers=wiring.triggers.get(name, ()),
        read=reader(schema),
        write=_writer(
            graph,
            wiring,
            f"Node {name!r}",
            graph.channels,
            wiring.edges[name],
            None if quiet else Ignored(name),
        ),
        coerce=schema.coerce,
        branches=branches,
        retry=defaults.retry_policy if spec.retry_policy is None else spec.retry_policy,
        cache=cache,
        timeout=timeout,
        error_handler=handler,
        metadata=spec.metadata,
        subgraphs=subgraphs,
        quiet=all(is_quiet(each) for each in (action, *(branch.path for branch in branches))),
    )


def _writer(
    graph: Graph,
    wiring: _Wiring,
    who: str,
    keys: Mapping[str, Channel],
    edges: Sequence[Write],
    ignored: Ignored | None = None,
) -> Writer:
    if tuple(keys) == (ROOT,):
        return root_writer(who, edges=edges, destinations=wiring.destinations)
    return writer(
        who,
        keys=keys,
        computed=graph.managed,
        edges=edges,
        destinations=wiring.destinations,
        ignored=ignored,
    )


def _branches(graph: Graph, wiring: _Wiring, name: str, input_schema: Any) -> tuple[Branch, ...]:
    return tuple(
        compile_branch(name, spec, graph.declare(spec.input_schema or input_schema), wiring.destinations)
        for spec in graph.branches.get(name, {}).values()
    )


# -- in and out --------------------------------------------------------------------------------


def _input_writer(schema: Schema) -> Writer:
    def write_input(value: Any) -> Sequence[Write]:
        if not schema.is_root:
            pairs_of(value, "The input")
        return ((START, value),)

    return write_input


def _command_writer(graph: Graph, wiring: _Wiring) -> Callable[[Command[Any]], Sequence[Write]]:
    write = _writer(graph, wiring, "The input", graph.channels, ())

    def write_command(command: Command[Any]) -> Sequence[Write]:
        if command.graph is not None:
            raise InvalidUpdateError(
                f"There is no parent graph, as {command.graph!r} would be: a Command given as input acts "
                "on the graph that is called"
            )
        return write(command)

    return write_command


def _mapper(schema: Schema) -> Any:
    """Turns a dict of values into the schema's class; None where that is a dict itself."""
    coerce, keys = schema.coerce, schema.keys
    if coerce is None:
        return None

    def to_class(values: Mapping[str, Any]) -> Any:
        return coerce({key: values[key] for key in keys if key in values})

    return to_class
