"""State keys that are computed, not stored."""

from perdure.managed.is_last_step import IsLastStep, RemainingSteps

__all__ = ["IsLastStep", "RemainingSteps"]
