"""What stays when threads are pruned, and what the maintenance methods may be asked. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from perdure.checkpoint.records import metadata_of, read_body
from perdure.checkpoint.rows import CheckpointRow
from perdure.checkpoint.wire import Wire
from perdure.errors import ThreadBusyError

__all__ = ["AFTER_THE_RUN", "for_each_free", "kept_of", "run_ids_in", "thread_ids_of"]

AFTER_THE_RUN = "nothing of it was removed: try again when that has ended, or end it first"


def kept_of(checkpoints: Mapping[str, CheckpointRow], head: CheckpointRow | None, wire: Wire) -> set[str]:
    """Ids of the checkpoints of one namespace that stay: the newest, and what its delta
    channels are rebuilt from."""
    if head is None:
        return set()
    kept = {head.id}
    rebuilt = set(metadata_of(head, wire).get("counters_since_delta_snapshot") or ())
    rebuilt -= read_body(head.body).forms.keys()
    row: CheckpointRow | None = head
    while rebuilt and row is not None and row.parent is not None and row.parent not in kept:
        row = checkpoints.get(row.parent)
        if row is not None:
            kept.add(row.id)
            rebuilt -= read_body(row.body).forms.keys()
    return kept


def thread_ids_of(thread_ids: Sequence[str], strategy: str) -> list[str]:
    """The threads to prune, checked."""
    if isinstance(thread_ids, str):
        raise TypeError(f"thread_ids is the text {thread_ids!r}; give a list of thread ids")
    if strategy not in ("keep_latest", "delete"):
        raise ValueError(f"strategy is {strategy!r}; give 'keep_latest' or 'delete'")
    return [str(thread_id) for thread_id in thread_ids]


def run_ids_in(run_ids: Sequence[str]) -> frozenset[str]:
    """The runs whose checkpoints are to go, checked."""
    if isinstance(run_ids, str):
        raise TypeError(f"run_ids is the text {run_ids!r}; give a list of run ids")
    return frozenset(str(run_id) for run_id in run_ids)


def for_each_free(thread_ids: Iterable[str], change: Callable[[str], None]) -> None:
    """Makes a change to each thread; then raises ThreadBusyError if some refused it."""
    busy: ThreadBusyError | None = None
    for thread_id in thread_ids:
        try:
            change(thread_id)
        except ThreadBusyError as error:
            busy = busy or error
    if busy is not None:
        raise busy
