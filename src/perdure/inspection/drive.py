"""Carries out what looking at a thread, or changing it, asks of the world: once for sync callers,
once for async ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from perdure import context
from perdure.checkpoint.foreign import ForeignSaver
from perdure.config import RunnableConfig
from perdure.context import scope_var
from perdure.engine.effects import Commit, Effect, Invoke, Load, Steps
from perdure.errors import ContextError
from perdure.runtime import Runtime
from perdure.slotted import slotted
from perdure.types import StreamWriter

R = TypeVar("R")


@slotted(frozen=True)
class Outside:
    """What routing functions reach when no run is under way: settings, but nothing that runs."""

    config: RunnableConfig
    runtime: Runtime[Any]

    @property
    def writer(self) -> StreamWriter:
        return self.runtime.stream_writer

    def call(self, task: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
        """Refuses: there is no run that the call could be part of."""
        _refuse("calls a task")

    def interrupt(self, value: Any, response_schema: Any = None) -> NoReturn:
        """Refuses: nobody waits for an answer."""
        _refuse("asks a question")

    def write(self, channel: str, value: Any) -> NoReturn:
        """Refuses: only what the update gives is written."""
        _refuse(f"writes to {channel!r}")

    def message(self, message: Any) -> None:
        """Nobody listens."""

    def message_writer(self, id: str | None, about: Mapping[str, Any]) -> NoReturn:
        """Refuses: nobody listens to a message that is spoken here."""
        _refuse("shows a message")

    def new_id(self) -> str:
        """A random id."""
        with _bound(None):
            return context.new_id()

    def holds(self, thread_id: str) -> bool:
        """No: no run is under way."""
        return False


def _refuse(what: str) -> NoReturn:
    raise ContextError(
        f"a routing function {what}, but it runs for update_state, not in a run; "
        "do that in the node, and let the function only choose"
    )


@contextmanager
def _bound(scope: Outside | None) -> Iterator[None]:
    token = scope_var.set(scope)
    try:
        yield
    finally:
        scope_var.reset(token)


def drive(steps: Steps[R], saver: Any, scope: Outside | None = None) -> R:
    """Carries steps out for a sync caller.

    Args:
        scope: What user code sees around it.
    """
    try:
        effect = next(steps)
        while True:
            try:
                answer = _perform(effect, saver, scope)
            except BaseException as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(answer)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        steps.close()


async def adrive(steps: Steps[R], saver: Any, scope: Outside | None = None) -> R:
    """Carries steps out for an async caller; nothing blocks its event loop."""
    try:
        effect = next(steps)
        while True:
            try:
                answer = await _aperform(effect, saver, scope)
            except BaseException as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(answer)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        steps.close()


def _perform(effect: Effect[Any], saver: Any, scope: Outside | None) -> Any:
    if isinstance(effect, Load):
        return saver.load(effect.thread_id, effect.ns, effect.checkpoint_id)
    if isinstance(effect, Commit):
        return saver.submit(effect.batch).wait()
    assert isinstance(effect, Invoke)
    call = effect.action.sync
    if call is None:
        raise TypeError(
            f'No synchronous function provided to "{effect.action.name}". It is an async routing function: '
            "use aupdate_state"
        )
    with _bound(scope):
        return call(*effect.args, **effect.kwargs)


async def _aperform(effect: Effect[Any], saver: Any, scope: Outside | None) -> Any:
    if isinstance(saver, ForeignSaver) and isinstance(effect, Load):
        return await saver.aload(effect.thread_id, effect.ns, effect.checkpoint_id)
    if isinstance(saver, ForeignSaver) and isinstance(effect, Commit) and effect.batch is not None:
        return await saver.acommit(effect.batch)
    if isinstance(effect, Invoke) and effect.action.asyn is not None:
        with _bound(scope):
            return await effect.action.asyn(*effect.args, **effect.kwargs)
    if saver.blocking or isinstance(effect, Invoke):
        from asyncio import to_thread  # Not loaded by programs that never run a loop.

        return await to_thread(_perform, effect, saver, scope)
    return _perform(effect, saver, scope)
