"""How a node's output becomes writes: closures made once, at compile time.

Order within a node: its state keys, then where its Commands go, then its edges.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from perdure.constants import END, START, TASKS
from perdure.engine.program import Write
from perdure.errors import InvalidUpdateError, ParentCommand
from perdure.graph.names import trigger_of
from perdure.graph.outputs import Pair, commands_of, pairs_of, root_pairs_of
from perdure.slotted import field, slotted
from perdure.types import Command, Send

Writer: TypeAlias = Callable[[Any], Sequence[Write]]


@slotted(frozen=True)
class Destinations:
    """The nodes that a Command or a conditional edge may name."""

    triggers: Mapping[Any, Write]
    """Node name -> the write that starts it."""

    @classmethod
    def of(cls, nodes: Iterable[str]) -> Destinations:
        return cls({name: (trigger_of(name), None) for name in nodes})

    def packet(self, send: Send, who: str) -> Write:
        """The write that sends a packet. Raises InvalidUpdateError when no node takes it."""
        if send.node == END:
            raise InvalidUpdateError(f"{who}: Cannot send a packet to the END node")
        if send.node not in self.triggers:
            raise InvalidUpdateError(f"{who}: a Send goes to {self.unknown(send.node)}")
        return (TASKS, send)

    def unknown(self, target: object) -> str:
        """Text for a target that is none."""
        known = ", ".join(repr(name) for name in self.triggers) or "none"
        return f"{target!r}, which is no node of this graph; its nodes are {known}"


@slotted
class Ignored:
    """Tells once of each key that a node returns and no schema knows."""

    node: str
    told: set[str] = field(default_factory=set)

    def tell(self, keys: Iterable[str]) -> None:
        new = [key for key in dict.fromkeys(keys) if key not in self.told]
        if not new:
            return
        self.told.update(new)
        listed = ", ".join(repr(key) for key in new)
        warnings.warn(
            f"Node {self.node!r} returned {listed}, which no schema of the graph declares: the value is "
            "dropped. Add the key to the state, or correct its spelling.",
            UserWarning,
            stacklevel=3,
        )


def writer(
    who: str,
    *,
    keys: Iterable[str],
    computed: Iterable[str],
    edges: Sequence[Write],
    destinations: Destinations,
    ignored: Ignored | None,
) -> Writer:
    """Makes writes of the output of a node whose state has keys.

    Args:
        who: Where the output comes from, for errors.
        keys: What the node may write.
        computed: Keys of managed values: returned by nodes that pass on what they got, and
            left out without a word.
        edges: Writes of the node's edges, made whatever it returned.
        ignored: Told of unknown keys.
    """
    known = frozenset(keys)
    quiet = known.union(computed)
    edges = tuple(edges)

    def write(output: Any) -> Sequence[Write]:
        if type(output) is dict:
            pairs: Sequence[Pair] = tuple(output.items())
            gotos: Iterable[Write] = ()
        elif output is None:
            return edges
        else:
            gotos = list(_gotos(output, destinations, who))
            pairs = pairs_of(output, who)
        writes = [pair for pair in pairs if pair[0] in known]
        if len(writes) != len(pairs):
            _check_unknown(pairs, quiet, ignored, who)
        writes += gotos
        writes += edges
        return writes

    return write


def root_writer(who: str, *, edges: Sequence[Write], destinations: Destinations) -> Writer:
    """Makes writes of the output of a node whose state is one value."""
    edges = tuple(edges)

    def write(output: Any) -> Sequence[Write]:
        gotos = list(_gotos(output, destinations, who))
        return [*root_pairs_of(output), *gotos, *edges]

    return write


def _check_unknown(pairs: Iterable[Pair], quiet: frozenset[str], ignored: Ignored | None, who: str) -> None:
    unknown = [key for key, _ in pairs if key not in quiet]
    if TASKS in unknown:
        raise InvalidUpdateError(f"{who}: {TASKS!r} is reserved; return Command(goto=Send(...)) instead")
    if ignored is not None:
        ignored.tell(unknown)


def _gotos(output: Any, destinations: Destinations, who: str) -> Iterator[Write]:
    for part in commands_of(output):
        if not isinstance(part, Command):
            continue
        if part.graph is not None:
            raise ParentCommand(part)
        for target in _targets(part.goto):
            if isinstance(target, Send):
                yield destinations.packet(target, who)
            elif target != END:
                yield _trigger(target, destinations, who)


def _targets(goto: Any) -> Iterable[Any]:
    if isinstance(goto, (str, Send)):
        return (goto,)
    return goto if isinstance(goto, (list, tuple)) else (goto,)


def _trigger(target: Any, destinations: Destinations, who: str) -> Write:
    if not isinstance(target, str):
        raise TypeError(f"{who}: In Command.goto, expected a node's name or a Send, got {target!r}")
    write = destinations.triggers.get(target)
    if write is None:
        what = "START, where no node can go" if target == START else destinations.unknown(target)
        raise InvalidUpdateError(f"{who}: Command.goto names {what}")
    return write
