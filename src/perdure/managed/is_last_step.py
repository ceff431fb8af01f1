"""How much of the recursion limit is left, for nodes that want to end in good order."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import override

from perdure.managed.base import ManagedValue, Steps

__all__ = ["IsLastStep", "IsLastStepManager", "RemainingSteps", "RemainingStepsManager"]


class IsLastStepManager(ManagedValue[bool]):
    """Whether the superstep that is running is the last one the recursion limit allows."""

    @staticmethod
    @override
    def get(steps: Steps) -> bool:
        return steps.step >= steps.stop - 1


class RemainingStepsManager(ManagedValue[int]):
    """How many supersteps may follow the one that is running."""

    @staticmethod
    @override
    def get(steps: Steps) -> int:
        return max(0, steps.stop - steps.step - 1)


IsLastStep = Annotated[bool, IsLastStepManager]
RemainingSteps = Annotated[int, RemainingStepsManager]
