"""Reads which module of a package imports which, without running any of it.

Imports under `if TYPE_CHECKING:` do not count: nothing happens there at run time. Imports
inside functions do: moving one there hides a wrong arrow, it does not turn it round.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

Graph = Mapping[str, frozenset[str]]
"""Module -> the modules of the same package that it imports."""


def read(package: Path) -> Graph:
    """The import graph of the package in this folder."""
    files = {_dotted(package, file): file for file in package.rglob("*.py")}
    return {name: frozenset(_imports(name, file, files.keys())) - {name} for name, file in files.items()}


def cycle(graph: Graph) -> list[str]:
    """The modules of one import cycle, first one repeated at the end; [] when there is none."""
    done: set[str] = set()
    for start in sorted(graph):
        found = _walk(graph, start, [], done)
        if found:
            return found
    return []


def _walk(graph: Graph, at: str, path: list[str], done: set[str]) -> list[str]:
    if at in path:
        return [*path[path.index(at) :], at]
    if at in done:
        return []
    for target in sorted(graph.get(at, ())):
        found = _walk(graph, target, [*path, at], done)
        if found:
            return found
    done.add(at)
    return []


def _dotted(package: Path, file: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(name: str, file: Path, modules: Set[str]) -> Iterator[str]:
    here = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in _statements(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            base = _base(here, node)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                if inner in modules:
                    yield inner
                elif base in modules:
                    yield base


def _base(here: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = here.split(".")
    return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield other
                yield from _statements(other)
            continue
        yield node
        yield from _statements(node)
