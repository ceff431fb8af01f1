"""A run's state as a checkpoint to store."""

from __future__ import annotations

from datetime import datetime, timezone

from perdure.checkpoint.port import NewCheckpoint
from perdure.engine.live import Run
from perdure.engine.rules import channel_values


def next_checkpoint(r: Run, number: int, source: str, changed: set[str]) -> NewCheckpoint | None:
    """The run's state as a new checkpoint, which becomes the current one; None without a saver."""
    if r.saver is None:
        return None
    clock = r.clock_ns()
    parent = r.checkpoint_id or None
    identity = r.hold.stamp(clock, parent, r.step)
    metadata = {**r.extra_metadata, "source": source, "step": r.step, "parents": r.ancestors}
    checkpoint = {
        "v": 4,
        "id": identity,
        "ts": datetime.fromtimestamp(clock / 1e9, timezone.utc).isoformat(),
        "channel_values": {**r.carried, **channel_values(r.state.channels)},
        "channel_versions": dict(r.state.versions),
        "versions_seen": {name: dict(seen) for name, seen in r.state.seen.items()},
        "updated_channels": sorted(changed),
    }
    fresh = frozenset(changed | r.unsaved)
    r.unsaved = set()
    r.parent_id, r.checkpoint_id, r.metadata = parent, identity, metadata
    return NewCheckpoint(r.ns, checkpoint, metadata, parent, number, fresh)  # type: ignore[arg-type]
