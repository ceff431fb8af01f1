"""Conditional edges: a user's function that says where to go, and what its answer means."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from perdure.constants import END, START
from perdure.engine.action import Action, is_runnable, name_of
from perdure.engine.program import Branch, Channels, Write
from perdure.engine.quiet import is_brief
from perdure.graph.hints import input_class, literal_targets
from perdure.graph.read import reader
from perdure.graph.schema import Schema
from perdure.graph.write import Destinations
from perdure.managed.base import Steps
from perdure.slotted import replace, slotted
from perdure.types import Send

_UNNAMED = "condition"


@slotted(frozen=True)
class BranchSpec:
    """A conditional edge as it was added."""

    name: str
    path: Any
    ends: Mapping[Hashable, str] | None
    """What `path` may return -> node; None when it names nodes itself."""
    input_schema: Any = None
    """The class that `path` wants, where its annotation says so."""

    @classmethod
    def of(cls, path: Any, path_map: Mapping[Hashable, str] | Sequence[str] | None) -> BranchSpec:
        """Reads name, map and input class from what the user gave."""
        if isinstance(path_map, Mapping):
            ends: Mapping[Hashable, str] | None = dict(path_map)
        elif path_map is not None:
            ends = {name: name for name in path_map}
        else:
            ends = {name: name for name in literal_targets(path)} or None
        return cls(_name_of(path), path, ends, input_class(path))


def _name_of(path: Any) -> str:
    if is_runnable(path):
        return str(path.get_name())
    name = getattr(path, "__name__", None)
    return name if isinstance(name, str) and name != "<lambda>" else _UNNAMED


def compile_branch(node: str, spec: BranchSpec, schema: Schema, destinations: Destinations) -> Branch:
    """Prepares a conditional edge.

    Args:
        schema: What `path` is called with: the class it wants, else the node's input schema.
    """
    where = f"Branch {spec.name!r} of node {node!r}"
    path = Action.of(spec.path, spec.name if spec.name != _UNNAMED else name_of(spec.path))
    return Branch(
        name=spec.name,
        path=replace(path, brief=is_brief(path)),
        read=_argument(schema, inferred=spec.input_schema is not None),
        route=_router(where, spec.ends, destinations),
    )


def _argument(schema: Schema, *, inferred: bool) -> Callable[[Channels, Steps, Any], Any]:
    """Reads the argument of a path function. Where it names no class of its own, keys of the
    node's output that its input does not have are laid beneath the state."""
    read_state, coerce = reader(schema), schema.coerce

    def read(channels: Channels, steps: Steps, output: Any) -> Any:
        state = read_state(channels, steps)
        if coerce is not None:
            return coerce(state)
        if not inferred and isinstance(output, dict) and isinstance(state, dict):
            return {**output, **state}
        return state

    return read


def _router(
    where: str, ends: Mapping[Hashable, str] | None, destinations: Destinations
) -> Callable[[Any], Sequence[Write]]:
    triggers = destinations.triggers

    def route(result: Any) -> Sequence[Write]:
        writes: list[Write] = []
        for answer in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(answer, Send):
                writes.append(destinations.packet(answer, where))
                continue
            target = answer if ends is None else _mapped(where, ends, answer)
            if isinstance(target, Send):
                writes.append(destinations.packet(target, where))
            elif target is None or target == START:
                raise ValueError(f"{where} did not return a valid destination: it returned {answer!r}")
            elif target != END:
                if not isinstance(target, str) or target not in triggers:
                    raise ValueError(
                        f"{where} did not return a valid destination: it returned "
                        f"{destinations.unknown(target)}"
                    )
                writes.append(triggers[target])
        return writes

    return route


def _mapped(where: str, ends: Mapping[Hashable, str], answer: Any) -> Any:
    try:
        return ends[answer]
    except (KeyError, TypeError):  # TypeError: what cannot be hashed is no key either
        known = ", ".join(map(repr, ends))
        raise KeyError(
            f"{where} returned {answer!r}, which its path map does not have; it has {known}"
        ) from None
