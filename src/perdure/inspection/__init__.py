"""Looking at threads, and changing them from outside."""

from typing import TYPE_CHECKING

from perdure import doors

if TYPE_CHECKING:
    from perdure.inspection.reading import aget_state, aget_state_history, get_state, get_state_history
    from perdure.inspection.subgraphs import get_subgraphs
    from perdure.inspection.updating import abulk_update_state, aupdate_state, bulk_update_state, update_state

# Most programs only run.
__getattr__, __dir__ = doors.late(
    __name__,
    {
        "perdure.inspection.reading": ("aget_state", "aget_state_history", "get_state", "get_state_history"),
        "perdure.inspection.subgraphs": ("get_subgraphs",),
        "perdure.inspection.updating": (
            "abulk_update_state",
            "aupdate_state",
            "bulk_update_state",
            "update_state",
        ),
    },
)

__all__ = [
    # looking
    "aget_state",
    "aget_state_history",
    "get_state",
    "get_state_history",
    "get_subgraphs",
    # changing
    "abulk_update_state",
    "aupdate_state",
    "bulk_update_state",
    "update_state",
]
