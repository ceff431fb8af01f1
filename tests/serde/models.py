"""Pydantic models to store."""

from __future__ import annotations

import datetime as dt
from typing import Any, Generic, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field, HttpUrl, PrivateAttr, RootModel, SecretBytes, SecretStr
from pydantic_core import PydanticCustomError

VALIDATED: list[str] = []
T = TypeVar("T")


class Inner(BaseModel):
    at: tuple[int, int]

    @pydantic.field_validator("at")
    @classmethod
    def check(cls, value: Any) -> Any:
        VALIDATED.append("at")
        return value


class User(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str
    age: int = 0
    tags: set[str] = set()
    inner: Inner | None = None
    _seen: list[int] = PrivateAttr(default_factory=list)

    def model_post_init(self, context: Any) -> None:
        VALIDATED.append("post_init")


class Account(BaseModel):
    secret: SecretStr
    key: SecretBytes
    page: HttpUrl
    since: dt.datetime


class Names(RootModel[list[str]]):
    pass


class Page(BaseModel, Generic[T]):
    items: list[T]


class IntPage(Page[int]):
    pass


@pydantic.dataclasses.dataclass
class Shape:
    sides: int


class Before(BaseModel):
    x: int


class After(BaseModel):
    x: int
    y: list[int] = [0]
    z: dict[str, int] = Field(default_factory=dict)
    when: dt.datetime = Field(default_factory=dt.datetime.now)


class Strict(BaseModel):
    x: int = Field(ge=0)
    y: list[int] = []

    @pydantic.field_validator("x")
    @classmethod
    def lucky(cls, value: int) -> int:
        if value == 13:
            raise ValueError("not {13}")
        if value == 14:
            raise PydanticCustomError("after_13", "{found} comes after 13", {"found": 14})
        return value
