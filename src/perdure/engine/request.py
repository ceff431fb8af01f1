"""What a caller asked for, as a run to carry out.

Settings come from the workflow, from the run that surrounds the call, and from the call, each
overriding the one before. A workflow that is called by code of a run is *nested* in that run,
unless the call names a thread of its own: then it is a run by itself.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.foreign import native_of
from perdure.checkpoint.port import Record
from perdure.context import scope_var
from perdure.engine.calls import Call
from perdure.engine.guest import guest_of, surroundings
from perdure.engine.hold import recast
from perdure.engine.live import DEFAULT_RECURSION_LIMIT, Options, Run
from perdure.engine.scope import Scope
from perdure.engine.setup import (
    DURABILITIES,
    ON_BUSY,
    ON_DIVERGENCE,
    Setup,
    checked,
    known_keys,
    merge_configs,
)
from perdure.engine.tasks import SCHEDULED, Outcome
from perdure.errors import MissingThreadIdError, ThreadBusyError
from perdure.runtime import RunControl, ServerInfo
from perdure.serde.digest import digest
from perdure.slotted import slotted
from perdure.stream.modes import TypedNamespace
from perdure.stream.sink import DEAF, Relay, Sink

if TYPE_CHECKING:
    from perdure.engine.program import Program

_ADDRESS = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")


@slotted
class Asked:
    """What one call says."""

    input: Any
    config: Mapping[str, Any] | None = None
    context: Any = None
    interrupt_before: Sequence[str] | str | None = None
    interrupt_after: Sequence[str] | str | None = None
    durability: str | None = None
    control: RunControl | None = None
    output_keys: str | Sequence[str] | None = None
    on_busy: str | None = None
    on_divergence: str | None = None


@slotted
class Nested:
    """Where in the run above a nested run belongs."""

    scope: Scope
    call: Call
    outcome: Outcome | None
    """Recorded already: nothing is to run."""


def make_run(setup: Setup, asked: Asked, sink: Sink | None) -> tuple[Run, Nested | None]:
    """The run that a call asks for.

    Raises:
        ValueError: A setting has a value that it cannot have.
        MissingThreadIdError: There is a saver, but no thread id.
        RuntimeError: `checkpointer=True` for a root workflow.
    """
    ambient = _ambient()
    own = known_keys(asked.config)
    scope = ambient if ambient is not None and not _independent(own, ambient) else None
    config = merge_configs(setup.config, _inherited(ambient, independent=scope is None), own)
    above = scope.frame.run if scope is not None else None
    named = config.get("configurable") or {}
    saver, saves_above = _saver(setup, above, named)
    options = _options(setup, asked, config, above, saver)
    run = Run(
        program=setup.program,
        input=asked.input,
        config=config,  # type: ignore[arg-type]
        options=options,
        saver=saver,
        thread_id=_thread_id(named, saver),
        checkpoint_id_asked=named.get("checkpoint_id") if above is None else None,
        context=_context(setup.context_schema, asked.context, above),
        store=above.store if above is not None and above.store is not None else setup.store,
        cache=setup.cache,
        control=asked.control or (above.control if above is not None else RunControl()),
        own_control=above is None or asked.control is not None,
        server_info=_server_info(named) if named else None,
        run_id=str(config["run_id"]) if config.get("run_id") else None,
        parent=scope.frame if scope is not None else None,
        output_keys=_output_keys(setup.program, asked.output_keys),
    )
    if scope is None and ambient is not None:
        _refuse_own_thread(ambient, run)
    nested = None
    if scope is not None:
        nested = _nest(run, scope, setup, saves_above=saves_above)
        run.stream_ns = _stream_ns(run.ns if run.ns else scope.frame.ns)
        run.sink = _listeners(sink, scope.frame.run.sink, run.stream_ns)
    else:
        run.sink = sink or DEAF
    if run.sink is not DEAF:
        run.stream_ns = TypedNamespace.of(run.stream_ns, setup.program)
    run.guest = guest_of(run)
    return run, nested


def _listeners(own: Sink | None, above: Sink, ns: tuple[str, ...]) -> Sink:
    """Who hears of a nested run: who streams it, and the listeners above that want all depths."""
    if not above.depth:
        return own or DEAF
    return above if own is None else Relay(own, above, ns)


def _ambient() -> Scope | None:
    scope = scope_var.get()
    return scope if isinstance(scope, Scope) else None


def _independent(own: Mapping[str, Any], ambient: Scope) -> bool:
    """The call names a thread or checkpoint of its own. The config that the code around was given
    names where that code runs, and does not count."""
    named = own.get("configurable") or {}
    if not any(named.get(key) for key in _ADDRESS):
        return False
    frame = ambient.frame
    same_thread = "thread_id" not in named or str(named["thread_id"]) == str(frame.run.thread_id)
    return not (same_thread and named.get("checkpoint_ns") == frame.ns)


def _refuse_own_thread(ambient: Scope, run: Run) -> None:
    """A run that names the thread of a run around it could only wait for itself."""
    around: Run | None = ambient.frame.run
    while around is not None:
        if run.saver is not None and around.saver is run.saver and around.thread_id == run.thread_id:
            raise ThreadBusyError(
                str(run.thread_id),
                "the run that makes this call (leave the thread id out to run nested in it, or name another)",
            )
        around = around.parent.run if around.parent is not None else None


def _inherited(ambient: Scope | None, *, independent: bool) -> Mapping[str, Any]:
    around = surroundings()
    if ambient is None and not around:
        return {}
    config = merge_configs(ambient.config if ambient is not None else {}, around)
    if ambient is not None and config.get("recursion_limit") == ambient.frame.run.options.recursion_limit:
        config.pop("recursion_limit")
    config.pop("run_id", None)
    config.pop("run_name", None)
    if independent:
        config.pop("configurable", None)
    return config


def _saver(setup: Setup, above: Run | None, named: Mapping[str, Any]) -> tuple[Any, bool]:
    """The saver in the form the engine uses, and whether it is the one of the run above."""
    given = setup.checkpointer
    if above is None:
        if given is True:
            raise RuntimeError(
                "checkpointer=True is for graphs called inside another one, which keep their state with it; "
                "this one is called by itself, give it a saver"
            )
        return (native_of(given) if given else None), False
    if given is False:
        return None, False
    if above.saver is not None:
        return above.saver, True
    known = given not in (None, True) and named.get("thread_id") is not None
    return (native_of(given) if known else None), False


def _thread_id(named: Mapping[str, Any], saver: Any) -> str | None:
    thread_id = named.get("thread_id")
    if thread_id is None:
        if saver is None:
            return None
        raise MissingThreadIdError(
            "Checkpointer requires one or more of the following 'configurable' keys: thread_id, "
            "checkpoint_ns, checkpoint_id; no thread_id was given. Pass config={'configurable': "
            "{'thread_id': ...}}" + _misspelt(named)
        )
    text = str(thread_id)
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError(f"thread_id {text!r} has a lone surrogate, which no database takes; encode it first")
    return text


def _options(setup: Setup, asked: Asked, config: Mapping[str, Any], above: Run | None, saver: Any) -> Options:
    if asked.durability is not None:
        checked("durability", asked.durability, DURABILITIES)
        if saver is None:
            warnings.warn(
                "`durability` has no effect when no checkpointer is present", UserWarning, stacklevel=5
            )
    durability = asked.durability or (above.options.durability if above is not None else setup.durability)
    if durability is None:
        durability = "sync" if saver is None else _default_durability()
    limit = config.get("recursion_limit")
    if limit is None:
        limit = DEFAULT_RECURSION_LIMIT
    if limit < 1:
        raise ValueError(f"recursion_limit must be at least 1, not {limit}")
    if asked.on_busy is not None:
        checked("on_busy", asked.on_busy, ON_BUSY)
    if asked.on_divergence is not None:
        checked("on_divergence", asked.on_divergence, ON_DIVERGENCE)
    return Options(
        durability=durability,
        on_busy=asked.on_busy or setup.on_busy,
        on_divergence=asked.on_divergence or setup.program.on_divergence,
        interrupt_before=asked.interrupt_before or setup.interrupt_before,
        interrupt_after=asked.interrupt_after or setup.interrupt_after,
        recursion_limit=limit,
        max_concurrency=config.get("max_concurrency"),
        step_timeout=setup.step_timeout,
    )


def _misspelt(named: Mapping[str, Any]) -> str:
    """Says which nested keys the caller gave beside the known ones; one may be meant."""
    nested = ((key, value) for key, value in named.items() if isinstance(value, Mapping))
    found = [key for key, value in nested if "thread_id" in value]
    return f"; {found[0]!r} has one, is it misspelt?" if found else ""


def _default_durability() -> str:
    return checked("PERDURE_DURABILITY", os.environ.get("PERDURE_DURABILITY", "sync"), DURABILITIES)


def _context(schema: Any, given: Any, above: Run | None) -> Any:
    if given is None:
        return above.context if above is not None else None
    if isinstance(given, Mapping) and schema is not None and _is_class_schema(schema):
        return schema(**given)
    return given


def _is_class_schema(schema: Any) -> bool:
    if not isinstance(schema, type):
        return False
    pydantic = sys.modules.get("pydantic")
    is_model = pydantic is not None and issubclass(schema, pydantic.BaseModel)
    return dataclasses.is_dataclass(schema) or is_model


def _server_info(named: Mapping[str, Any]) -> ServerInfo | None:
    user = named.get("langgraph_auth_user")
    if "assistant_id" not in named and "graph_id" not in named and user is None:
        return None
    return ServerInfo(str(named.get("assistant_id", "")), str(named.get("graph_id", "")), user)


def _output_keys(program: Program, keys: str | Sequence[str] | None) -> str | tuple[str, ...]:
    if keys is None:
        return program.stream
    if keys is program.output:
        return program.output
    for key in (keys,) if isinstance(keys, str) else keys:
        if key not in program.channels:
            raise ValueError(f"Key {key} not in channels")
    return keys if isinstance(keys, str) else tuple(keys)


def _stream_ns(ns: str) -> tuple[str, ...]:
    return tuple(ns.split("|")) if ns else ()


def _nest(run: Run, scope: Scope, setup: Setup, *, saves_above: bool) -> Nested:
    """Gives a nested run its identity among the calls of its caller, and its namespace."""
    scope = scope.here()
    scope.check_open()
    frame, above = scope.frame, scope.frame.run
    above.world.release_slot(frame)
    saves = above.saver is not None
    name = setup.program.entrypoint or setup.program.name
    call, outcome = scope.place(name, digest(run.input) if saves else "")
    run.stateful = setup.checkpointer is True
    run.continues = call.id in above.ledger.namespaces
    if run.continues:
        run.ns = above.ledger.namespaces[call.id]
        return Nested(scope, call, outcome)
    # Under a run that stores nothing, ids are fresh each time: the child's place has to do without.
    lasting = run.stateful or (run.saver is not None and not saves_above)
    run.ns = _namespace(frame, recast(frame.ns) if lasting else frame.ns)
    if lasting and saves_above:
        above.hold.lasting[run.ns] = above.ns
    above.ledger.namespaces[call.id] = run.ns
    if saves_above:
        record = Record(
            above.ns, above.checkpoint_id, call.id, [(SCHEDULED, run.ns)], frame.path_text,
            call.info(run.clock(), run.ns),
        )  # fmt: skip
        run.announcements = [record]
    return Nested(scope, call, outcome)


def _namespace(frame: Any, base: str) -> str:
    above = frame.run
    taken = set(above.ledger.namespaces.values())
    if above.saver is not None:
        # Parallel graphs that lead to one stateful child keep their states apart.
        taken.update(ns for ns, user in above.hold.lasting.items() if user != above.ns)
    while True:
        ns = base if frame.nested == 0 else f"{base}|{frame.nested}"
        frame.nested += 1
        if ns not in taken:
            return ns
