"""Managed values tell how much of the recursion limit is left."""

from __future__ import annotations

import typing

import pytest

from perdure.engine.program import Standing
from perdure.managed import IsLastStep, RemainingSteps
from perdure.managed.base import ManagedValue, is_managed_value
from perdure.managed.is_last_step import IsLastStepManager, RemainingStepsManager

# A fresh run with recursion_limit=4: the input arrives in step 0, nodes run in steps 1 to 4.
LIMIT = 4


@pytest.mark.parametrize(
    ("step", "remaining", "last"), [(1, 3, False), (2, 2, False), (3, 1, False), (4, 0, True)]
)
def test_remaining_and_last(step: int, remaining: int, last: bool) -> None:
    """The n-th superstep has limit minus n to come, and the last one knows it is the last."""
    steps = Standing(step=step, stop=LIMIT + 1)
    assert RemainingStepsManager.get(steps) == remaining
    assert IsLastStepManager.get(steps) is last


def test_markers_are_annotations() -> None:
    """State keys are annotated with a plain type and the class that computes the value."""
    assert typing.get_args(IsLastStep) == (bool, IsLastStepManager)
    assert typing.get_args(RemainingSteps) == (int, RemainingStepsManager)


@pytest.mark.parametrize(
    ("item", "managed"),
    [(IsLastStepManager, True), (ManagedValue, True), (int, False), ("IsLastStep", False)],
)
def test_managed_values_are_known_by_their_class(item: object, managed: bool) -> None:
    """Among the metadata of an annotation only classes of managed values count."""
    assert is_managed_value(item) is managed
