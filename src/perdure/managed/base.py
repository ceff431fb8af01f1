"""What a managed value is: a state key that is computed, never stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from typing_extensions import TypeIs

__all__ = ["ManagedValue", "ManagedValueMapping", "ManagedValueSpec", "Steps", "is_managed_value"]

V = TypeVar("V")


class Steps(Protocol):
    """Where a run stands among its supersteps."""

    @property
    def step(self) -> int:
        """Number of the superstep that is running."""
        ...

    @property
    def stop(self) -> int:
        """Number of the first superstep that may not run any more."""
        ...


class ManagedValue(ABC, Generic[V]):
    """Computes the value of a state key from where the run stands.

    Put the class into the annotation of the key: `left: Annotated[int, MyValue]`. Nodes read
    such a key like any other and cannot write it.
    """

    @staticmethod
    @abstractmethod
    def get(steps: Steps) -> Any:
        """The value for the superstep that is running."""


ManagedValueSpec: TypeAlias = type[ManagedValue[Any]]
ManagedValueMapping: TypeAlias = dict[str, ManagedValueSpec]


def is_managed_value(value: Any) -> TypeIs[ManagedValueSpec]:
    """Whether an item of an annotation's metadata is the class of a managed value."""
    return isinstance(value, type) and issubclass(value, ManagedValue)
