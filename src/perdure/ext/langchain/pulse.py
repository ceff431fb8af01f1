"""Events of LangChain as signs of life: they tell the watches of limited code that it has not stalled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.callbacks.base import BaseCallbackHandler, BaseCallbackManager

from perdure.ext.langchain.callbacks import Callbacks, Listener

_EVENTS = [name for name in dir(BaseCallbackHandler) if name.startswith("on_")]


class Pulse(Listener):
    """Hears of everything below some code that has a time limit."""

    of_models = True

    def __init__(self, tell: Callable[[], None]) -> None:
        self.tell = tell

    @property
    def ignore_chain(self) -> bool:
        """Chains are signs of life, too."""
        return False

    def hear(self, *args: Any, **kwargs: Any) -> None:
        """Something happened."""
        self.tell()


for _name in _EVENTS:
    setattr(Pulse, _name, Pulse.hear)


def with_pulse(callbacks: Callbacks, pulse: Pulse) -> Callbacks:
    """The callbacks, and the pulse besides."""
    if not isinstance(callbacks, BaseCallbackManager):
        return [*(callbacks or ()), pulse]
    copied = callbacks.copy()
    copied.add_handler(pulse, inherit=True)
    return copied
