"""Callbacks in the forms in which configs carry them: None, a list of handlers, a manager."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar

from langchain_core.callbacks.base import BaseCallbackHandler, BaseCallbackManager
from langchain_core.callbacks.manager import AsyncCallbackManager, CallbackManager

Callbacks: TypeAlias = list[BaseCallbackHandler] | BaseCallbackManager | None

M = TypeVar("M", CallbackManager, AsyncCallbackManager)


class Listener(BaseCallbackHandler):
    """A handler of ours: it feeds the stream of one run, and belongs to no other."""

    run_inline = True
    of_models: ClassVar[bool] = False
    """The handler hears of models."""

    @property
    def ignore_chain(self) -> bool:
        """Chain runs are told by visits."""
        return True

    @property
    def ignore_llm(self) -> bool:
        """Whether models are of no interest."""
        return not self.of_models

    @property
    def ignore_chat_model(self) -> bool:
        """Whether chat models are of no interest."""
        return not self.of_models


def join(given: Any, more: Any) -> Any:
    """Callbacks of two configs as one: the handlers of both, beneath the later one's parent."""
    if isinstance(more, BaseCallbackManager):
        inner, others = more, given
    else:
        inner, others = given, more
    joined = inner.copy()
    for handler in _inheritable(others):
        if handler not in joined.handlers:
            joined.add_handler(handler, inherit=True)
    return joined


def with_listeners(callbacks: Any, listeners: Sequence[Listener]) -> Callbacks:
    """The callbacks for a run: those given, with its own listeners instead of another run's."""
    if not callbacks:
        return list(listeners) or None
    if isinstance(callbacks, list):
        return [*_foreign(callbacks), *listeners] or None
    copied = callbacks.copy()
    copied.handlers = [*_foreign(callbacks.handlers), *listeners]
    copied.inheritable_handlers = [*_foreign(callbacks.inheritable_handlers), *listeners]
    return copied  # type: ignore[no-any-return]


def traces(callbacks: Callbacks) -> bool:
    """True when a handler that is not ours wants to hear of chains."""
    handlers = callbacks if isinstance(callbacks, list) else _handlers(callbacks)
    return any(not isinstance(handler, Listener) for handler in handlers)


def configured(
    kind: type[M],
    callbacks: Callbacks,
    config: Mapping[str, Any],
    *,
    tags: Iterable[str] = (),
    metadata: Mapping[str, Any] | None = None,
) -> M:
    """A manager of this kind for code that runs under a config.

    Args:
        tags: For the code's own chain run only.
        metadata: Besides the config's, inherited as well.
    """
    return kind.configure(
        callbacks,
        inheritable_tags=list(config.get("tags") or ()),
        local_tags=list(tags),
        inheritable_metadata={**(config.get("metadata") or {}), **(metadata or {})},
    )


def quiet(listeners: Sequence[Listener], config: Mapping[str, Any]) -> CallbackManager:
    """A manager for code that no chain run is reported of.

    It hands the code's metadata down even where a call brings a config of its own.
    """
    tags: list[str] = list(config.get("tags") or ())
    metadata: dict[str, Any] = dict(config.get("metadata") or {})
    return CallbackManager(
        handlers=list(listeners),
        inheritable_handlers=list(listeners),
        tags=tags,
        inheritable_tags=list(tags),
        metadata=metadata,
        inheritable_metadata=dict(metadata),
    )


def _handlers(callbacks: BaseCallbackManager | None) -> Sequence[BaseCallbackHandler]:
    return () if callbacks is None else callbacks.handlers


def _inheritable(callbacks: Any) -> Sequence[BaseCallbackHandler]:
    return callbacks if isinstance(callbacks, list) else list(callbacks.inheritable_handlers)


def _foreign(handlers: Iterable[BaseCallbackHandler]) -> list[BaseCallbackHandler]:
    return [handler for handler in handlers if not isinstance(handler, Listener)]
