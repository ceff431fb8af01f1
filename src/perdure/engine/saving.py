"""A run's state as a checkpoint to store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from perdure.checkpoint.port import NewCheckpoint
from perdure.engine.live import Run
from perdure.engine.refusals import unstorable
from perdure.engine.rules import channel_values
from perdure.engine.tasks import Task
from perdure.errors import UnstorableError


def next_checkpoint(r: Run, number: int, source: str, changed: set[str]) -> NewCheckpoint | None:
    """The run's state as a new checkpoint, which becomes the current one; None without a saver."""
    if r.saver is None:
        return None
    clock = r.clock_ns()
    parent = r.checkpoint_id or None
    identity = r.hold.stamp(clock, parent, r.step)
    metadata = {**r.extra_metadata, "source": source, "step": r.step, "parents": r.ancestors}
    if r.program.entrypoint:
        metadata["entrypoint"] = r.program.entrypoint  # Whose open step it is, for who resumes it.
    checkpoint = {
        "v": 4,
        "id": identity,
        "ts": datetime.fromtimestamp(clock / 1e9, UTC).isoformat(),
        "channel_values": {**r.carried, **channel_values(r.state.channels)},
        "channel_versions": dict(r.state.versions),
        "versions_seen": {name: dict(seen) for name, seen in r.state.seen.items()},
        "updated_channels": sorted(changed),
    }
    fresh = r.unsaved.union(changed)
    r.unsaved = frozenset()
    r.parent_id, r.checkpoint_id, r.metadata = parent, identity, metadata
    return NewCheckpoint(r.ns, checkpoint, metadata, parent, number, fresh)  # type: ignore[arg-type]


def find_unstorable(r: Run, tasks: Sequence[Task]) -> tuple[Task, Exception] | None:
    """The task that wrote a value that cannot be stored, and the error that says so."""
    if r.saver is None:
        return None
    for task in tasks:
        for channel, value in task.writes:
            try:
                r.saver.check(value)
            except UnstorableError as refused:
                what = (
                    f"entrypoint {task.name!r} returned"
                    if r.program.entrypoint
                    else (f"node {task.name!r} wrote to {channel!r}")
                )
                return task, unstorable(what, refused)
    return None
