"""JSON schemas of what a graph takes and gives. Needs pydantic, imported when asked."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NotRequired

import typing_extensions

from perdure.engine.program import Program
from perdure.graph.hints import fields_of, is_model, is_required, is_typeddict, strip
from perdure.graph.schema import managed_of, read_schema

Which = Literal["input", "output", "context"]


def json_schema(program: Program, which: Which) -> dict[str, Any] | None:
    """The JSON schema of a graph's input, output or context; None where no context is declared.

    Classes give their own; for a state that is one value, or a class pydantic does not know, it
    is made from the channels.
    """
    schema = program.schemas.get(which)
    if schema is None:
        return None
    from pydantic import TypeAdapter

    if is_model(schema):
        model: dict[str, Any] = schema.model_json_schema()
        return model
    if is_typeddict(schema):
        return TypeAdapter(_without_managed(schema)).json_schema()
    if which == "context":
        return TypeAdapter(schema).json_schema()
    title = f"{program.name}{which.capitalize()}"
    return _from_fields(schema, title) if fields_of(schema) else _value_schema(schema, title)


def _without_managed(schema: Any) -> Any:
    """The TypedDict without what nobody gives, of the one kind that pydantic takes everywhere."""
    cls = typing_extensions.get_origin(schema) or schema
    fields = {
        key: strip(hint) if is_required(cls, key, hint) else NotRequired[strip(hint)]
        for key, hint in (fields_of(schema) or {}).items()
        if managed_of(hint) is None
    }
    make: Any = typing_extensions.TypedDict  # made at run time, past what a type checker can read
    twin = make(cls.__name__, fields)
    twin.__doc__ = cls.__doc__
    return twin


def _value_schema(schema: Any, title: str) -> dict[str, Any]:
    from pydantic import RootModel

    root: Any = RootModel[schema]
    return {**root.model_json_schema(), "title": title}


def _from_fields(schema: Any, title: str) -> dict[str, Any]:
    from pydantic import ConfigDict, create_model

    read = read_schema(schema)
    fields: dict[str, Any] = {
        key: (channel.UpdateType, _default(schema, key)) for key, channel in read.channels.items()
    }
    model = create_model(title, __config__=ConfigDict(arbitrary_types_allowed=True), **fields)
    described: dict[str, Any] = model.model_json_schema()
    return described


def _default(schema: Any, key: str) -> Any:
    declared = dataclasses.fields(schema) if dataclasses.is_dataclass(schema) else ()
    for field in declared:
        if field.name == key and field.default_factory is not dataclasses.MISSING:
            return field.default_factory()
    return getattr(schema, key, ...)
