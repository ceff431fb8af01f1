"""Schemas: how the classes and types that users name become channels, and back."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeAlias, get_origin

from perdure.channels import BaseChannel, BinaryOperatorAggregate, DeltaChannel, LastValue
from perdure.graph.hints import fields_of, is_typeddict, strip
from perdure.graph.names import ROOT
from perdure.managed.base import ManagedValueSpec, is_managed_value
from perdure.slotted import slotted

Channel: TypeAlias = BaseChannel[Any, Any, Any]


@slotted(frozen=True)
class Schema:
    """A schema, read: its keys, and what each of them is made of."""

    type: Any
    """What the user named."""
    channels: Mapping[str, Channel]
    managed: Mapping[str, ManagedValueSpec]
    coerce: Callable[[Mapping[str, Any]], Any] | None
    """Makes an instance of the class from a dict, where the class is not a dict itself."""

    @property
    def is_root(self) -> bool:
        """The state is one value, not a set of keys."""
        return tuple(self.channels) == (ROOT,) and not self.managed

    @property
    def keys(self) -> tuple[str, ...]:
        """The stored keys, in the order of the class."""
        return tuple(self.channels)


def read_schema(schema: Any) -> Schema:
    """Reads a TypedDict, dataclass, pydantic model or other annotated class, or a bare type.

    Raises:
        ValueError: A reducer does not take two arguments.
    """
    fields = fields_of(schema)
    if fields is None:
        return Schema(schema, {ROOT: channel_of(ROOT, schema)}, {}, None)
    channels: dict[str, Channel] = {}
    managed: dict[str, ManagedValueSpec] = {}
    for key, hint in fields.items():
        computed = managed_of(hint)
        if computed is not None:
            managed[key] = computed
        else:
            channels[key] = channel_of(key, hint)
    return Schema(schema, channels, managed, _coercion(schema))


def managed_of(hint: Any) -> ManagedValueSpec | None:
    """The managed value that an annotation names, or None."""
    hint = strip(hint)
    items = hint.__metadata__ if get_origin(hint) is Annotated else (hint,)
    return next((item for item in items if is_managed_value(item)), None)


def _coercion(schema: Any) -> Callable[[Mapping[str, Any]], Any] | None:
    cls = get_origin(schema) or schema
    if is_typeddict(cls) or issubclass(cls, dict):
        return None

    def coerce(values: Mapping[str, Any]) -> Any:
        return schema(**values)

    return coerce


def channel_of(key: str, hint: Any) -> Channel:
    """The channel that an annotation asks for: the one in its metadata, one for the reducer
    that stands last there, else one that keeps the last value."""
    hint = strip(hint)
    annotated = get_origin(hint) is Annotated
    typ = hint.__origin__ if annotated else hint
    metadata = hint.__metadata__ if annotated else ()
    channel = _declared(metadata, typ)
    if channel is None and metadata and callable(metadata[-1]):
        _check_reducer(metadata[-1])
        channel = BinaryOperatorAggregate(typ, metadata[-1])
    if channel is None:
        channel = LastValue(typ)
    channel.key = key
    return channel


def _declared(metadata: Iterable[Any], typ: Any) -> Channel | None:
    for item in metadata:
        if type(item) is DeltaChannel:
            # Made without a type it assumes a list; the annotation knows better.
            kind = typ if item.typ is list else item.typ
            return DeltaChannel(item.reducer, kind, snapshot_frequency=item.snapshot_frequency)
        if isinstance(item, BaseChannel):
            return item.copy()
        if inspect.isclass(item) and issubclass(item, BaseChannel):
            return item(typ)
    return None


def _check_reducer(reducer: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(reducer)
    except ValueError:  # some builtins do not tell; they are taken at their word
        return
    parameters = signature.parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) != 2 and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        names = ", ".join(str(p.replace(annotation=p.empty)) for p in parameters)
        raise ValueError(f"Invalid reducer signature. Expected (a, b) -> c. Got ({names})")


def is_schema_like(schema: Any) -> bool:
    """Whether a value can say what a state looks like: a class, or a type with arguments."""
    return isinstance(schema, (type, typing.TypeVar)) or bool(typing.get_args(schema))
