"""What a node returned, taken apart: pairs of key and value, and where to go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from perdure.errors import ErrorCode, InvalidUpdateError, create_error_message
from perdure.graph.hints import instance_fields, is_model
from perdure.graph.names import ROOT
from perdure.types import Command, Send

Pair: TypeAlias = tuple[str, Any]

_MISSING = object()


def commands_of(output: Any) -> Sequence[Any]:
    """The parts of an output that contains Commands, in order; nothing if it contains none."""
    if isinstance(output, Command):
        return (output,)
    if isinstance(output, (list, tuple)) and any(isinstance(item, Command) for item in output):
        return output
    return ()


def pairs_of(output: Any, who: str) -> Sequence[Pair]:
    """What an output says of the keys of a state.

    Args:
        who: Where the output came from, for the error.

    Raises:
        InvalidUpdateError: It is no dict, no instance of an annotated class, no Command.
    """
    if output is None:
        return ()
    if isinstance(output, dict):
        return tuple(output.items())
    if isinstance(output, Command):
        return _pairs_of_update(output.update, who)
    parts = commands_of(output)
    if parts:
        return [pair for part in parts for pair in pairs_of(part, who)]
    if not isinstance(output, Send) and instance_fields(output):
        return list(_pairs_of_instance(output))
    raise _bad_output(output, who)


def root_pairs_of(output: Any) -> Sequence[Pair]:
    """What an output says of a state that is one value: any value but None is the new one."""
    if output is None:
        return ()
    parts = commands_of(output)
    if not parts:
        return ((ROOT, output),)
    values = [part.update if isinstance(part, Command) else part for part in parts]
    return [pair for value in values if value is not None for pair in _pairs_of_root_update(value)]


def _pairs_of_root_update(update: Any) -> Sequence[Pair]:
    """A Command may spell the state's one key out; else its update is the value itself."""
    if isinstance(update, dict) and tuple(update) == (ROOT,):
        return tuple(update.items())
    if update and _is_pairs(update) and all(key == ROOT for key, _ in update):
        return tuple(update)
    return ((ROOT, update),)


def _pairs_of_update(update: Any, who: str) -> Sequence[Pair]:
    return tuple(update) if _is_pairs(update) else pairs_of(update, f"{who}, in Command.update")


def _is_pairs(update: Any) -> bool:
    return isinstance(update, (list, tuple)) and all(
        isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in update
    )


def _pairs_of_instance(instance: Any) -> Iterator[Pair]:
    """The fields of an instance. Of a pydantic model, those left at a default of None are no
    writes: a model made to update some keys says nothing of the others."""
    cls = type(instance)
    model = is_model(cls)
    for key in instance_fields(instance):
        value = getattr(instance, key, _MISSING)
        if value is _MISSING:
            continue
        untouched = model and value is None and key not in instance.model_fields_set
        if not untouched or cls.model_fields[key].default is not None:
            yield key, value


def _bad_output(output: Any, who: str) -> InvalidUpdateError:
    packet = isinstance(output, Send)
    advice = "Give a dict of state keys, an instance of a schema class, or a Command"
    if packet:
        advice = "Return it from a conditional edge, or in Command(goto=...)"
    return InvalidUpdateError(
        create_error_message(
            message=f"{who}: Expected dict, got {output}. {advice}.",
            error_code=ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE,
        )
    )
