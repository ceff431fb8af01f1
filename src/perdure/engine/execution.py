"""Calling a workflow: a run is made, driven, and what came of it is handed out.

The four ways differ in who drives (sync, async) and in what is handed out (a result, items).
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.port import Batch, Record
from perdure.context import scope_var
from perdure.engine.drive_sync import SyncDriver
from perdure.engine.frame import Inner
from perdure.engine.guest import NO_VISIT, Visit
from perdure.engine.outcomes import signal_of
from perdure.engine.refusals import unstorable
from perdure.engine.request import Asked, make_run
from perdure.engine.rules import read_channels
from perdure.engine.tasks import ERROR, RETURN, Error, Value
from perdure.engine.workers import Workers
from perdure.errors import GraphInterrupt, ParentCommand, UnstorableError, is_invalid_resume
from perdure.runtime import RunControl
from perdure.slotted import slotted
from perdure.stream.modes import BATCHES, Shape, checked_modes, is_live, printer, shape_for
from perdure.stream.sink import Sink
from perdure.types import GraphOutput
from perdure.warnings import PerdureDeprecatedSinceV10

if TYPE_CHECKING:
    from perdure.workflow import Workflow

_KEYWORDS = (
    "context", "stream_mode", "print_mode", "output_keys", "interrupt_before", "interrupt_after",
    "durability", "control", "subgraphs", "debug", "version", "on_busy", "on_divergence", "checkpoint_during",
)  # fmt: skip
_RUN_KEYWORDS = (
    "context", "output_keys", "interrupt_before", "interrupt_after", "durability", "control", "on_busy",
    "on_divergence",
)  # fmt: skip


@slotted
class Call:
    """What a caller of `invoke` or `stream` said."""

    asked: Asked
    stream_mode: str | Sequence[str] | None = None
    print_mode: str | Sequence[str] = ()
    subgraphs: bool = False
    debug: bool | None = None
    version: str = "v1"

    @classmethod
    def of(cls, method: str, input: Any, config: Mapping[str, Any] | None, options: dict[str, Any]) -> Call:
        """Checks a method's keyword arguments.

        Raises:
            TypeError: One is unknown, or has no usable value.
            ValueError: One has a value that it cannot have.
        """
        if not options:
            return cls(Asked(input, config))
        for name in options:
            if name not in _KEYWORDS:
                known = ", ".join(_KEYWORDS)
                raise TypeError(f"{method}() got an unexpected keyword argument {name!r}; known are {known}")
        durability = _durability(options)
        control = options.get("control")
        if control is not None and not isinstance(control, RunControl):
            raise TypeError(f"control must be a RunControl, not {control!r}")
        version = options.get("version", "v1")
        if version not in ("v1", "v2", BATCHES):
            raise ValueError(f"version must be 'v1' or 'v2', not {version!r}")
        asked = Asked(input, config, **{key: options[key] for key in _RUN_KEYWORDS if key in options})
        asked.durability = durability
        return cls(
            asked,
            options.get("stream_mode"),
            options.get("print_mode", ()),
            bool(options.get("subgraphs", False)),
            options.get("debug"),
            version,
        )


def _durability(options: Mapping[str, Any]) -> str | None:
    durability: str | None = options.get("durability")
    during = options.get("checkpoint_during")
    if during is None:
        return durability
    if durability is not None:
        raise ValueError("Cannot use both `checkpoint_during` and `durability`; use `durability`")
    warnings.warn(
        "`checkpoint_during` is deprecated. Use `durability` instead.",
        PerdureDeprecatedSinceV10,
        stacklevel=4,
    )
    return "async" if during else "exit"


# results -------------------------------------------------------------------------------------


class _Execution:
    """One call under way: the run, where it is nested, and how it is told."""

    def __init__(self, workflow: Workflow, call: Call, sink: Sink | None) -> None:
        if call.asked.output_keys is None and sink is None:
            call.asked.output_keys = workflow.program.output
        self.workflow = workflow
        self.call = call
        self.inner: Inner | None = None
        self.run, self.nested = make_run(workflow.setup, call.asked, sink)

    @property
    def workers(self) -> Workers:
        """The threads of the root run."""
        above = self.run.parent
        if above is not None:
            return above.run.world.workers
        return Workers(self.run.options.max_concurrency)

    def restored(self) -> tuple[bool, Any]:
        """The recorded result of a nested run that finished earlier. Raises its recorded error."""
        if self.nested is None or self.nested.outcome is None:
            return False, None
        outcome = self.nested.outcome
        if isinstance(outcome, Value):
            return True, self._output(outcome.value)
        raise signal_of(outcome)

    def result(self) -> Any:
        """What the caller gets. Raises the pause of a nested run into the code that called it."""
        run = self.run
        value = read_channels(run.shown, run.output_keys)
        if self.nested is not None and run.paused:
            raise self._pause()
        if not run.interrupts:
            return self._output(value)
        if self.call.version == "v2":
            shown = value if isinstance(value, dict) else {}
            return GraphOutput(self._mapped(shown), tuple(run.interrupts))
        return {**(value if isinstance(value, dict) else {}), "__interrupt__": list(run.interrupts)}

    def _output(self, value: Any) -> Any:
        return GraphOutput(self._mapped(value)) if self.call.version == "v2" else value

    def _mapped(self, value: Any) -> Any:
        mapper = self.workflow.program.output_mapper
        return value if mapper is None or not isinstance(value, dict) else mapper(value)

    def _pause(self) -> BaseException:
        assert self.nested is not None
        scope, questions = self.nested.scope, tuple(self.run.interrupts)
        scope.frame.ask(questions)
        return scope.stop(GraphInterrupt(questions))

    def visit(self) -> Visit:
        """What the guest is told of the run through."""
        guest = self.run.guest
        return (guest.visit_run(self.workflow.name) if guest is not None else None) or NO_VISIT

    # a nested run is a call of the run above ---------------------------------------------

    def enter(self, task: Any = None) -> None:
        """The nested run begins: it is one of the open calls of its caller, who waits for it.

        Args:
            task: The asyncio task that it runs in.
        """
        if self.nested is not None:
            self.inner = Inner(Future() if task is None else task.get_loop().create_future(), task)
            self.nested.scope.frame.open.add(self.inner)
            self.nested.scope.frame.run.tell.nested_began(self.run)

    def enter_stream(self) -> None:
        """`enter` for a nested run that goes on as it is read: nobody can wait for that."""
        if self.nested is not None:
            self.nested.scope.frame.inner += 1
            self.nested.scope.frame.run.tell.nested_began(self.run)

    def leave(self) -> None:
        """The nested run has ended, and is on record."""
        if self.inner is not None and self.nested is not None:
            self.nested.scope.frame.open.discard(self.inner)
            if not self.inner.future.done():
                self.inner.future.set_result(None)
        elif self.nested is not None:
            self.nested.scope.frame.inner -= 1

    def failed(self, error: BaseException) -> Batch | None:
        """Notes in the caller's books how a nested run failed, and gives what is stored of it."""
        if self.nested is None:
            return None
        self.nested.scope.frame.run.tell.nested_ended(self.run, error)
        if isinstance(error, Exception) and not is_invalid_resume(error):
            self.nested.scope.frame.failed[self.nested.call.id] = error
            return self._batch(Error(error))
        if not isinstance(error, ParentCommand):  # which the node around the nested run takes up
            self.nested.scope.branch.close(error)
        return None

    def finished(self) -> Batch | None:
        """Notes in the caller's books that a nested run finished, and gives what is stored of it."""
        if self.nested is None:
            return None
        self.nested.scope.frame.run.tell.nested_ended(self.run, None)
        return self._batch(Value(read_channels(self.run.state.channels, self.run.output_keys)))

    def _batch(self, outcome: Value | Error) -> Batch | None:
        """Nothing where the node is the nested run itself: the node's own record says the same."""
        nested = self.nested
        if nested is None or nested.scope.frame.run.saver is None:
            return None
        frame, run = nested.scope.frame, nested.scope.frame.run
        run.ledger.dropped.discard(nested.call.id)
        if frame.keeps and isinstance(outcome, Value):
            run.ledger.outcomes[nested.call.id] = outcome
        if frame.action.nested:
            return None
        write = (RETURN, outcome.value) if isinstance(outcome, Value) else (ERROR, outcome.error)
        info = nested.call.info(run.clock(), self.run.ns)
        path = f"{frame.path_text}, {nested.call.index:010d}"
        return run.journal.call(Record(run.ns, run.checkpoint_id, nested.call.id, [write], path, info))

    @property
    def title(self) -> str:
        """What the user called the workflow."""
        return self.workflow.program.entrypoint or self.workflow.name

    def keep(self, batch: Batch | None) -> None:
        """Stores a batch through the run above."""
        if batch is None or self.run.parent is None:
            return
        try:
            self.run.parent.run.world.keep(batch)
        except UnstorableError as error:
            raise unstorable(f"workflow {self.title!r} returned", error) from error

    async def akeep(self, batch: Batch | None) -> None:
        """`keep` for async callers."""
        if batch is None or self.run.parent is None:
            return
        try:
            await self.run.parent.run.world.akeep(batch)
        except UnstorableError as error:
            raise unstorable(f"workflow {self.title!r} returned", error) from error


def invoke(workflow: Workflow, call: Call) -> Any:
    """Runs a workflow to its end; see `Workflow.invoke`."""
    if _wants_items(call):
        return list(stream(workflow, lambda: call))
    execution = _Execution(workflow, call, None)
    known, value = execution.restored()
    if known:
        return value
    visit = execution.visit()
    execution.enter()
    try:
        visit.tell("begin")
        for _ in SyncDriver(execution.run, execution.workers).drive():
            pass  # Without listeners there are no events.
        result = execution.result()
        if execution.nested is not None:
            execution.keep(execution.finished())
    except BaseException as error:
        execution.keep(execution.failed(error))
        visit.tell("fail", error)
        raise
    finally:
        execution.leave()
    execution.run.close()
    visit.tell("end", result)
    return result


async def ainvoke(workflow: Workflow, call: Call) -> Any:
    """Runs a workflow to its end; see `Workflow.ainvoke`."""
    from asyncio import current_task  # Programs without a loop never load it.

    from perdure.engine.drive_async import AsyncDriver

    if _wants_items(call):
        return [item async for item in astream(workflow, lambda: call)]
    execution = _Execution(workflow, call, None)
    known, value = execution.restored()
    if known:
        return value
    visit = execution.visit()
    execution.enter(current_task())
    try:
        await visit.atell("begin")
        async for _ in AsyncDriver(execution.run, execution.workers).drive():
            pass  # Without listeners there are no events.
        result = execution.result()
        if execution.nested is not None:
            await execution.akeep(execution.finished())
    except BaseException as error:
        await execution.akeep(execution.failed(error))
        await visit.atell("fail", error)
        raise
    finally:
        execution.leave()
    execution.run.close()
    await visit.atell("end", result)
    return result


def _wants_items(call: Call) -> bool:
    return bool(call.print_mode) or call.stream_mode not in (None, "values")


# items ---------------------------------------------------------------------------------------


def _opened(workflow: Workflow, call: Call) -> tuple[_Execution, Shape, Callable[[Any], None] | None, Any]:
    """A streamed call: its execution, how items look, what is printed on the way, which are meant."""
    mode = call.stream_mode
    if mode is None:
        mode = "values" if _in_place_of_a_node(call) else workflow.stream_mode
    modes = checked_modes(mode)
    print_modes = checked_modes(call.print_mode) if call.print_mode else ()
    if call.debug or (call.debug is None and workflow.debug):
        print_modes = ("updates", "values")
    wanted = {*modes, *print_modes}
    live = is_live(wanted, depth=call.subgraphs)
    execution = _Execution(workflow, call, Sink(wanted, depth=call.subgraphs, live=live))
    show = printer(print_modes, call.subgraphs) if print_modes else None
    several = not isinstance(mode, str)
    waiting = execution.run.sink.queue if show is None else None
    shape = shape_for(call.version, several=several, depth=call.subgraphs, waiting=waiting)
    return execution, shape, show, frozenset(modes)


def _in_place_of_a_node(call: Call) -> bool:
    """Code of a run streams a workflow under the config that it was given itself."""
    named = (call.asked.config or {}).get("configurable") or {}
    return "checkpoint_ns" in named and scope_var.get() is not None


_UNDER_WAY: set[Any] = set()
"""Drivers of streams. When a stream is thrown away as a part of a cycle, the garbage collector closes
all generators of the cycle by itself, in no order. The one that was read sees to its driver, be it
closed here or by its event loop; the driver must be whole until then."""


def stream(workflow: Workflow, asked: Callable[[], Call]) -> Iterator[Any]:
    """Runs a workflow as it is read; see `Workflow.stream`.

    Args:
        asked: Checks what the caller said, once the first item is read.
    """
    execution, shape, show, modes = _opened(workflow, asked())
    known, value = execution.restored()
    if known:
        if "values" in modes:
            yield shape((execution.run.stream_ns, "values", value))
        return
    visit = execution.visit()
    execution.enter_stream()
    events = SyncDriver(execution.run, execution.workers).drive()
    _UNDER_WAY.add(events)
    try:
        visit.tell("begin")
        for event in events:
            if show is not None:
                show(event)
            if event[1] in modes:
                yield shape(event)
        result = execution.result()
    except BaseException as error:
        execution.keep(execution.failed(error))
        events.close()  # type: ignore[attr-defined]
        visit.tell("fail", error)
        raise
    finally:
        _UNDER_WAY.discard(events)
        events.close()  # type: ignore[attr-defined]
        execution.leave()
    execution.keep(execution.finished())
    execution.run.close()
    visit.tell("end", result)


async def astream(workflow: Workflow, asked: Callable[[], Call]) -> AsyncGenerator[Any, None]:
    """Runs a workflow as it is read; see `stream`."""
    from perdure.engine.drive_async import AsyncDriver

    execution, shape, show, modes = _opened(workflow, asked())
    known, value = execution.restored()
    if known:
        if "values" in modes:
            yield shape((execution.run.stream_ns, "values", value))
        return
    visit = execution.visit()
    execution.enter_stream()
    events = AsyncDriver(execution.run, execution.workers).drive()
    _UNDER_WAY.add(events)
    try:
        await visit.atell("begin")
        async for event in events:
            if show is not None:
                show(event)
            if event[1] in modes:
                yield shape(event)
        result = execution.result()
    except BaseException as error:
        await execution.akeep(execution.failed(error))
        await events.aclose()  # type: ignore[attr-defined]
        await visit.atell("fail", error)
        raise
    finally:
        _UNDER_WAY.discard(events)
        await events.aclose()  # type: ignore[attr-defined]
        execution.leave()
    await execution.akeep(execution.finished())
    execution.run.close()
    await visit.atell("end", result)
