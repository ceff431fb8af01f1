"""How a batch becomes rows, and rows a checkpoint. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, cast

import ormsgpack

from perdure.checkpoint.base import WRITES_IDX_MAP, Checkpoint, PendingWrite
from perdure.checkpoint.placing import Known, Lineage, Placing
from perdure.checkpoint.port import Batch, CallInfo, NewCheckpoint, Record
from perdure.checkpoint.rows import CheckpointRow, Form, RecordRow, Row, renumbered
from perdure.checkpoint.shelf import Shelf
from perdure.checkpoint.wire import Wire
from perdure.slotted import field, slotted, values

__all__ = [
    # to rows
    "Encoded",
    "KnownCheckpoints",
    "encode",
    "needs_lease",
    "stood_on",
    # from rows
    "Body",
    "Entry",
    "checkpoint_of",
    "forms_of",
    "forms_of_record",
    "infos_of",
    "metadata_of",
    "pending",
    "read_body",
    "writes_of",
    # to rows of other ids
    "renumbered_body",
    "renumbered_record",
]

_NAMED = frozenset(Checkpoint.__annotations__)
_CAPACITY = 128


class KnownCheckpoints:
    """What is known of the checkpoints that were read or written last; forgetful."""

    def __init__(self) -> None:
        self._items: dict[tuple[str, str, str], Known] = {}

    def get(self, thread_id: str, ns: str, checkpoint_id: str | None) -> Known | None:
        if checkpoint_id is None:
            return None
        known = self._items.get((thread_id, ns, checkpoint_id))
        return None if known is None or known.lineage.stale else known

    def put(self, thread_id: str, ns: str, checkpoint_id: str, known: Known) -> None:
        key = thread_id, ns, checkpoint_id
        self._items.pop(key, None)
        self._items[key] = known
        if len(self._items) > _CAPACITY:
            self._items.pop(next(iter(self._items)), None)

    def adopt(self, batch: Batch, encoded: Encoded) -> None:
        """Learns what a claim, which is stored now, has kept to itself."""
        if batch.claim:
            for (ns, checkpoint_id), known in encoded.own.items():
                if checkpoint_id is not None:
                    self.put(batch.thread_id, ns, checkpoint_id, known)

    def forget(self, thread_id: str, ns: str, checkpoint_id: str | None) -> None:
        if checkpoint_id is not None:
            self._items.pop((thread_id, ns, checkpoint_id), None)

    def forget_thread(self, thread_id: str) -> None:
        for key in [key for key in list(self._items) if key[0] == thread_id]:
            known = self._items.pop(key, None)
            if known is not None:
                known.lineage.stale = True


@slotted
class Encoded:
    """A batch as rows."""

    rows: list[Row] = field(default_factory=list)
    records: list[tuple[str, RecordRow]] = field(default_factory=list)
    """(namespace, row)."""
    checkpoint: CheckpointRow | None = None
    lineages: list[Lineage] = field(default_factory=list)
    """What must still hold when the rows are stored."""
    own: dict[tuple[str, str | None], Known] = field(default_factory=dict)
    """(namespace, checkpoint id) -> what is known there once this batch is stored."""


def encode(batch: Batch, wire: Wire, known: KnownCheckpoints, take: Callable[[], int]) -> Encoded:
    """The rows of a batch; `known` learns where they will lie.

    Raises what encoding a value raises; then nothing was learnt.
    """
    encoded = Encoded()
    placings: list[Placing] = []
    try:
        for record in batch.records:
            beside = _beside(batch, record.ns, record.checkpoint_id, known, encoded)
            placing = Placing(wire, beside, encoded.rows, take)
            placings.append(placing)
            encoded.records.append((record.ns, _record_row(record, placing)))
            placing.share()
        new = batch.checkpoint
        if new is not None:
            parent = _beside(batch, new.ns, new.parent_id, known, encoded)
            placing = Placing(wire, parent, encoded.rows, take)
            placings.append(placing)
            encoded.checkpoint, born = _checkpoint_row(new, placing, parent, wire, batch.epoch is None)
            known.put(batch.thread_id, new.ns, new.checkpoint["id"], born)
            if not batch.claim:
                known.forget(batch.thread_id, new.ns, new.parent_id)
    except BaseException:
        for placing in placings:
            placing.undo()
        raise
    return encoded


def stood_on(batch: Batch) -> list[tuple[str, str]]:
    """(namespace, id) of the stored checkpoints that a batch refers to."""
    found = {(record.ns, record.checkpoint_id): None for record in batch.records}
    new = batch.checkpoint
    if new is not None and new.parent_id is not None:
        found[new.ns, new.parent_id] = None
    return list(found)


def needs_lease(batch: Batch) -> bool:
    """Whether the thread must be held. One that stores nothing, claims and frees nothing only
    waits for those before it."""
    holds = batch.claim or batch.release or batch.checkpoint is not None or len(batch.records) > 0
    return batch.epoch is not None and holds


def _beside(
    batch: Batch, ns: str, checkpoint_id: str | None, known: KnownCheckpoints, encoded: Encoded
) -> Known:
    found = encoded.own.get((ns, checkpoint_id))
    if found is None:
        found = known.get(batch.thread_id, ns, checkpoint_id)
        if found is None or batch.claim:
            # A claim may be refused, which must not trouble the run that goes on there.
            found = Known() if found is None else found.copy()
            encoded.own[ns, checkpoint_id] = found
            if checkpoint_id is not None and not batch.claim:
                known.put(batch.thread_id, ns, checkpoint_id, found)
    if not any(found.lineage is other for other in encoded.lineages):
        encoded.lineages.append(found.lineage)
    return found


# -- records -------------------------------------------------------------------------------------


def _record_row(record: Record, placing: Placing) -> RecordRow:
    body: list[Any] = []
    for at, (channel, value) in enumerate(record.writes):
        try:
            form = placing.place(value, channel)
        except Exception as error:
            error.add_note(f"written to {channel!r}")
            raise
        body += (WRITES_IDX_MAP.get(channel, at), channel, form)
    info = None if record.info is None else ormsgpack.packb(values(record.info))
    return RecordRow(record.checkpoint_id, record.task_id, record.path, ormsgpack.packb(body), info)


class Entry(NamedTuple):
    """One write that is pending on a checkpoint."""

    path: str
    task_id: str
    idx: int
    channel: str
    form: Form


def pending(records: Iterable[RecordRow]) -> list[Entry]:
    """The writes of these records, which are in the order of storing, in the order of paths.

    The first write of an index stays; of the special channels, which have indexes below 0, the
    last one does.
    """
    entries: dict[tuple[str, int], Entry] = {}
    for record in records:
        body = ormsgpack.unpackb(record.body)
        for at in range(0, len(body), 3):
            key = record.task_id, body[at]
            if body[at] < 0 or key not in entries:
                entries[key] = Entry(record.path, record.task_id, *body[at : at + 3])
    return sorted(entries.values(), key=itemgetter(0, 1, 2))


def infos_of(records: Iterable[RecordRow]) -> dict[str, CallInfo]:
    """Task id -> what lies beside its outcome."""
    return {
        record.task_id: CallInfo(*ormsgpack.unpackb(record.info))
        for record in records
        if record.info is not None
    }


def writes_of(entries: Sequence[Entry], shelf: Shelf, *, errors_as_text: bool) -> list[PendingWrite]:
    """Pending writes as the port shows them; the engine gets recorded errors themselves."""
    writes: list[PendingWrite] = []
    for entry in entries:
        value = shelf.value(entry.form)
        if errors_as_text and entry.channel == "__error__" and isinstance(value, BaseException):
            value = repr(value)
        writes.append((entry.task_id, entry.channel, value))
    return writes


# -- checkpoints ---------------------------------------------------------------------------------


class Body(NamedTuple):
    """A stored checkpoint, its values referred to."""

    v: int
    ts: str
    forms: dict[str, Form]
    versions: dict[str, Any]
    seen: dict[str, dict[str, Any]]
    updated: list[str] | None
    more: dict[str, bytes]
    """Other keys that the checkpoint had."""


def _checkpoint_row(
    new: NewCheckpoint, placing: Placing, parent: Known, wire: Wire, fill: bool
) -> tuple[CheckpointRow, Known]:
    checkpoint = new.checkpoint
    values = checkpoint["channel_values"]
    forms: dict[str, Form] = {}
    places = placing.places
    for channel, value in values.items():
        if channel not in new.changed and channel in parent.forms:
            forms[channel] = parent.forms[channel]
            if channel in parent.places:
                places[channel] = parent.places[channel]
            continue
        try:
            forms[channel] = placing.place(value, channel)
        except Exception as error:
            error.add_note(f"the value of {channel!r}")
            raise
    versions = checkpoint["channel_versions"]
    if fill:
        for channel in _left_out(checkpoint, new.changed, parent):
            forms[channel] = parent.forms[channel]
            if channel in parent.places:
                places[channel] = parent.places[channel]
    updated = checkpoint.get("updated_channels")
    body = Body(
        checkpoint["v"],
        checkpoint["ts"],
        forms,
        versions,
        checkpoint["versions_seen"],
        updated,
        {key: wire.encode(checkpoint[key]) for key in checkpoint.keys() - _NAMED},  # type: ignore[literal-required]
    )
    metadata = wire.encode(dict(new.metadata))
    row = CheckpointRow(checkpoint["id"], new.parent_id, new.seq, metadata, ormsgpack.packb(list(body)))
    return row, Known(forms, dict(versions), places, placing.used, parent.lineage, placing.recent)


def _left_out(checkpoint: Checkpoint, changed: frozenset[str], parent: Known) -> list[str]:
    """Channels whose value the caller left out because it is still the parent's."""
    values, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
    return [
        channel
        for channel in parent.forms
        if channel not in values
        and channel not in changed
        and channel in versions
        and versions[channel] == parent.versions.get(channel)
    ]


def read_body(data: bytes) -> Body:
    return Body(*ormsgpack.unpackb(data))


def forms_of(body: bytes, records: Iterable[RecordRow]) -> list[Form]:
    """All forms in a checkpoint and the records beside it."""
    forms = list(read_body(body).forms.values())
    for record in records:
        forms += forms_of_record(record)
    return forms


def forms_of_record(record: RecordRow) -> list[Form]:
    """The forms of a record's writes."""
    forms: list[Form] = ormsgpack.unpackb(record.body)[2::3]
    return forms


def checkpoint_of(row: CheckpointRow, body: Body, shelf: Shelf, wire: Wire) -> Checkpoint:
    """The checkpoint with whole values."""
    checkpoint: dict[str, Any] = {
        "v": body.v,
        "id": row.id,
        "ts": body.ts,
        "channel_values": {channel: shelf.value(form) for channel, form in body.forms.items()},
        "channel_versions": body.versions,
        "versions_seen": body.seen,
        "updated_channels": body.updated,
    }
    for key, data in body.more.items():
        checkpoint[key] = wire.decode(data)
    return cast(Checkpoint, checkpoint)


def metadata_of(row: CheckpointRow, wire: Wire) -> Mapping[str, Any]:
    metadata: Mapping[str, Any] = wire.decode(row.metadata)
    return metadata


def renumbered_body(data: bytes, ids: Mapping[int, int]) -> bytes:
    """A checkpoint's body when the rows of content have got new ids."""
    body = read_body(data)
    forms = {channel: renumbered(form, ids) for channel, form in body.forms.items()}
    return ormsgpack.packb(list(body._replace(forms=forms)))


def renumbered_record(data: bytes, ids: Mapping[int, int]) -> bytes:
    """A record's body when the rows of content have got new ids."""
    body: list[Any] = ormsgpack.unpackb(data)
    body[2::3] = [renumbered(form, ids) for form in body[2::3]]
    return ormsgpack.packb(body)
