"""The documented door to the object that compiled workflows are."""

from perdure.workflow import Pregel

__all__ = ["Pregel"]
