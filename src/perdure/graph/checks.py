"""Whether a graph holds together, before it is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.constants import END, START
from perdure.graph.branch import BranchSpec
from perdure.graph.names import RESERVED, is_reserved_key
from perdure.graph.nodes import NodeSpec

if TYPE_CHECKING:
    from perdure.graph.builder import StateGraph


def check_graph(graph: StateGraph[Any, Any, Any, Any]) -> None:
    """Raises ValueError for edges and branches that lead nowhere or come from nowhere."""
    _check_starts(_starts(graph), graph.nodes)
    for start, branches in graph.branches.items():
        for branch in branches.values():
            _check_branch(start, branch, graph.nodes)
    for end in _ends(graph):
        if end not in graph.nodes and end != END:
            raise ValueError(f"Found edge ending at unknown node `{end}`")


def _starts(graph: StateGraph[Any, Any, Any, Any]) -> Iterator[str]:
    yield from sorted(start for start, _ in graph.edges)
    for starts, _ in sorted(graph.waiting_edges):
        yield from starts
    yield from graph.branches


def _ends(graph: StateGraph[Any, Any, Any, Any]) -> Iterator[str]:
    yield from sorted(end for _, end in graph.edges)
    yield from sorted(end for _, end in graph.waiting_edges)
    for spec in graph.nodes.values():
        yield from spec.ends


def _check_starts(starts: Iterable[str], nodes: Mapping[str, NodeSpec]) -> None:
    found = list(starts)
    for start in found:
        if start not in nodes and start != START:
            raise ValueError(f"Found edge starting at unknown node '{start}'")
    if START not in found:
        raise ValueError("Graph must have an entrypoint: add at least one edge from START to another node")


def _check_branch(start: str, branch: BranchSpec, nodes: Mapping[str, NodeSpec]) -> None:
    for end in (branch.ends or {}).values():
        # A map may also hold Sends, which name their node when the branch is taken.
        if isinstance(end, str) and end not in nodes and end != END:
            raise ValueError(f"At '{start}' node, '{branch.name}' branch found unknown target '{end}'")


def check_breakpoints(names: Sequence[str], nodes: Mapping[str, Any]) -> None:
    """Raises ValueError for a static breakpoint at a node that there is not."""
    for name in names:
        if name not in nodes:
            known = ", ".join(nodes)
            raise ValueError(f"Interrupt node `{name}` not found: Node {name} not in nodes {known}")


def check_names(nodes: Iterable[str], keys: Iterable[str]) -> None:
    """Raises ValueError for nodes and state keys named like something of the run's own."""
    for name in nodes:
        if name in RESERVED:
            raise ValueError(f"Node name '{name}' is reserved")
    for key in keys:
        if is_reserved_key(key):
            raise ValueError(f"Channel name '{key}' is reserved")
