"""Reserved names that appear in programs."""

from __future__ import annotations

import warnings
from typing import Any

from perdure import types
from perdure.warnings import PerdureDeprecatedSinceV10

__all__ = ["CONF", "CONFIG_KEY_CHECKPOINTER", "END", "START", "TAG_HIDDEN", "TAG_NOSTREAM", "TASKS"]

START = "__start__"
"""The node that hands the input to the graph; edges from it say what runs first."""
END = "__end__"
"""Where a path through the graph ends."""
TAG_NOSTREAM = "nostream"
"""Tag of a model whose tokens shall not be streamed."""
TAG_HIDDEN = "langsmith:hidden"
"""Tag of a node that streams and traces leave out."""
CONF = "configurable"
"""Key of a config under which the caller's own values lie."""
TASKS = "__pregel_tasks"
"""Channel of the packets that Send makes."""
CONFIG_KEY_CHECKPOINTER = "__pregel_checkpointer"
"""Key under which a parent's saver was once handed to a subgraph. Never set here."""


def __getattr__(name: str) -> Any:
    """Names that moved to `perdure.types`."""
    if name not in ("Send", "Interrupt"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"Importing `{name}` from `perdure.constants` is deprecated. "
        f"Please use `from perdure.types import {name}` instead.",
        PerdureDeprecatedSinceV10,
        stacklevel=2,
    )
    return getattr(types, name)
