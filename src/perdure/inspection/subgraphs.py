"""The workflows that a workflow contains, as far as they can be seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.workflow import Workflow


def get_subgraphs(
    workflow: Workflow, namespace: str | None = None, *, recurse: bool = False
) -> Iterator[tuple[str, Workflow]]:
    """The workflows that nodes contain, as (name, workflow); see `Workflow.get_subgraphs`."""
    for name, node in workflow.program.nodes.items():
        inner = _inside(namespace, name)
        if inner is None or not node.subgraphs:
            continue
        subgraph: Workflow = node.subgraphs[0]
        if not inner:
            yield name, subgraph
        if inner or recurse:
            for below, found in get_subgraphs(subgraph, inner or None, recurse=recurse):
                yield f"{name}|{below}", found


def _inside(namespace: str | None, name: str) -> str | None:
    """What of a namespace lies below a node: empty for the node itself, None when it is another's."""
    if namespace is None or namespace == name:
        return ""
    head, _, rest = namespace.partition("|")
    return rest if head == name else None
