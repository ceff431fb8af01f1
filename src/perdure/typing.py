"""Type variables of the public signatures, and the mark for a value that is not there."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal

from typing_extensions import TypeVar

__all__ = [
    "MISSING",
    "ContextT",
    "ContextT_contra",
    "InputT",
    "Missing",
    "NodeInputT",
    "NodeInputT_contra",
    "OutputT",
    "ResultT",
    "StateT",
    "StateT_co",
    "StateT_contra",
]

# Schemas are TypedDicts, dataclasses, pydantic models or plain types (the state is then one
# value), so the variables carry no bound.
StateT = TypeVar("StateT")
StateT_co = TypeVar("StateT_co", covariant=True)
StateT_contra = TypeVar("StateT_contra", contravariant=True)
ContextT = TypeVar("ContextT", default=None)
ContextT_contra = TypeVar("ContextT_contra", contravariant=True, default=None)
InputT = TypeVar("InputT", default=StateT)
OutputT = TypeVar("OutputT", default=StateT)
ResultT = TypeVar("ResultT")
NodeInputT = TypeVar("NodeInputT")
NodeInputT_contra = TypeVar("NodeInputT_contra", contravariant=True)


class _Mark(Enum):
    MISSING = "MISSING"

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        raise TypeError("MISSING has no truth value; compare it with `is`")


MISSING: Final = _Mark.MISSING
"""There is no value here, where None would be one."""
Missing = Literal[_Mark.MISSING]
"""Type of MISSING, for annotations."""
