"""Which checkpoint of which workflow a config names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.foreign import ForeignSaver, native_of
from perdure.context import scope_var
from perdure.engine.hold import recast
from perdure.engine.live import Run
from perdure.engine.scope import Scope
from perdure.engine.setup import known_keys, merge_configs
from perdure.errors import MissingThreadIdError
from perdure.inspection.subgraphs import get_subgraphs
from perdure.slotted import replace, slotted

if TYPE_CHECKING:
    from perdure.workflow import Workflow


@slotted(frozen=True)
class Address:
    """A thread, a workflow that has a place in it, and maybe one checkpoint."""

    workflow: Workflow
    saver: Any
    """In the form that the engine uses."""
    config: Mapping[str, Any]
    """As the caller gave it, over the workflow's own."""
    thread_id: str
    ns: str
    checkpoint_id: str | None
    """None for the thread as it stands."""

    @property
    def documented(self) -> Any:
        """The saver with its documented methods."""
        return self.saver.saver if isinstance(self.saver, ForeignSaver) else self.saver

    def below(self, subgraph: Workflow, config: Mapping[str, Any]) -> Address:
        """The place, in the same thread, of a workflow inside this one, as a config names it."""
        ns = config["configurable"]["checkpoint_ns"]
        kept = names_of(ns) if subgraph.checkpointer is True else ns
        return replace(self, workflow=subgraph, config=config, ns=kept, checkpoint_id=None)

    def at(self, checkpoint_id: str | None) -> Address:
        """The same place at one checkpoint."""
        return replace(self, checkpoint_id=checkpoint_id)


def locate(workflow: Workflow, config: Mapping[str, Any], *, strict: bool = False) -> Address:
    """What a config names. One that names the namespace of a subgraph names that subgraph.

    Args:
        strict: The namespace must be that of a workflow that is known.

    Raises:
        ValueError: There is no saver; or, if `strict`, no such subgraph.
        MissingThreadIdError: No thread is named.
    """
    saver = _saver_of(workflow)
    merged = merge_configs(workflow.setup.config, known_keys(config))
    named = merged.get("configurable") or {}
    if named.get("thread_id") is None:
        raise MissingThreadIdError(
            "no thread_id was given, so it is not clear which thread is meant; "
            "pass config={'configurable': {'thread_id': ...}}"
        )
    ns = named.get("checkpoint_ns") or ""
    checkpoint_id = named.get("checkpoint_id") or (named.get("checkpoint_map") or {}).get(ns)
    here = Address(workflow, saver, merged, str(named["thread_id"]), ns, checkpoint_id)
    if not ns:
        return here
    names = recast(ns)
    for name, subgraph in get_subgraphs(workflow, names):
        if name == names:
            return here.below(subgraph, merged).at(checkpoint_id)
    if strict:
        known = ", ".join(name for name, _ in get_subgraphs(workflow, recurse=True)) or "none"
        raise ValueError(f"Subgraph {names} not found; the subgraphs of this workflow are: {known}")
    return here


def current_run() -> Run | None:
    """The run whose code calls; None outside of a run."""
    scope = scope_var.get()
    return scope.frame.run if isinstance(scope, Scope) else None


def _saver_of(workflow: Workflow) -> Any:
    """The workflow's own saver; else that of the run whose code asks."""
    given = workflow.checkpointer
    if given is not None and not isinstance(given, bool):
        return native_of(given)
    run = current_run()
    if run is None or run.saver is None:
        raise ValueError(
            "No checkpointer set: without a saver nothing is kept of a thread. "
            "Give one to compile(checkpointer=...) or @entrypoint(checkpointer=...)"
        )
    return run.saver


def names_of(ns: str) -> str:
    """A namespace without task ids, where state lies that outlives a call; second calls and later
    ones keep their number."""
    return "|".join(part.partition(":")[0] for part in ns.split("|"))


def task_ns(ns: str, name: str, task_id: str) -> str:
    """The namespace of what a task calls."""
    return f"{ns}|{name}:{task_id}" if ns else f"{name}:{task_id}"


def config_of(thread_id: str, ns: str, checkpoint_id: str, parents: Mapping[str, str]) -> dict[str, Any]:
    """The config that names a checkpoint.

    Args:
        parents: Namespace -> checkpoint id of the workflows above.
    """
    configurable: dict[str, Any] = {
        "thread_id": thread_id,
        "checkpoint_ns": ns,
        "checkpoint_id": checkpoint_id,
    }
    if parents:
        configurable["checkpoint_map"] = {**parents, ns: checkpoint_id}
    return {"configurable": configurable}
