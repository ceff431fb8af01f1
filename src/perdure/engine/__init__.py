"""One run, from input to output: the core without I/O, and its two drivers.

The loop and the drivers are loaded with the first run: programs are also imported to be looked
at, listed or served by somebody else.
"""

from typing import TYPE_CHECKING

from perdure import doors

if TYPE_CHECKING:
    from perdure.engine.execution import Call, ainvoke, astream, invoke, stream

__getattr__, __dir__ = doors.late(
    __name__, {"perdure.engine.execution": ("Call", "ainvoke", "astream", "invoke", "stream")}
)

__all__ = ["Call", "ainvoke", "astream", "invoke", "stream"]
