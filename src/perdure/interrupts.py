"""The question that a paused run asks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import xxhash

from perdure.warnings import PerdureDeprecatedSinceV10

_NO_ID = "placeholder-id"


@final
@dataclass(init=False, slots=True)
class Interrupt:
    """A question a run is paused on; answer it with `Command(resume=...)`."""

    value: Any
    """What the code that paused wants the outside to know."""
    id: str
    """Names the question in `Command(resume={id: answer})`."""
    response_schema: dict[str, Any] | None
    """JSON schema of the answer, where one was asked for."""

    def __init__(
        self,
        value: Any,
        id: str = _NO_ID,
        response_schema: dict[str, Any] | None = None,
        *,
        ns: Sequence[str] | None = None,
    ) -> None:
        self.value = value
        # Records of before ids existed name the namespace instead.
        self.id = _id_of("|".join(ns)) if ns is not None and id == _NO_ID else id
        self.response_schema = response_schema

    @classmethod
    def from_ns(cls, value: Any, ns: str) -> Interrupt:
        """The first question asked in a task with this checkpoint namespace."""
        return cls(value, _id_of(ns))

    @property
    def interrupt_id(self) -> str:
        """Deprecated name of `id`."""
        warnings.warn(
            "`interrupt_id` is deprecated. Use `id` instead.", PerdureDeprecatedSinceV10, stacklevel=2
        )
        return self.id


def _id_of(ns: str) -> str:
    return xxhash.xxh3_128_hexdigest(ns.encode())
