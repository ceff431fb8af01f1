"""What our own savers share: the documented methods over rows, whatever place the rows lie in."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

from typing_extensions import override

from perdure.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Config,
    DeltaChannelHistory,
    get_checkpoint_id,
)
from perdure.checkpoint.metadata import get_checkpoint_metadata, matches
from perdure.checkpoint.placing import Known
from perdure.checkpoint.port import Batch, Loaded, NewCheckpoint, Record, Ticket
from perdure.checkpoint.records import (
    Body,
    checkpoint_of,
    forms_of,
    infos_of,
    metadata_of,
    pending,
    read_body,
    writes_of,
)
from perdure.checkpoint.rows import CheckpointRow, Form, RecordRow
from perdure.checkpoint.shelf import Shelf
from perdure.checkpoint.wire import Wire
from perdure.errors import MissingThreadIdError, StoreFormatError
from perdure.serde.codec import Codec
from perdure.slotted import slotted

__all__ = ["Browse", "OwnSaver", "Stored", "Wanted", "address", "everything"]

Wanted: TypeAlias = Callable[[CheckpointRow, Sequence[RecordRow]], Iterable[Form]]
"""Says which values of a checkpoint and its records are to be read."""


def everything(row: CheckpointRow, records: Sequence[RecordRow]) -> Iterable[Form]:
    """All of them."""
    return forms_of(row.body, records)


@slotted
class Stored:
    """A checkpoint as it lies in the store, with the rows that it needs."""

    thread_id: str
    ns: str
    row: CheckpointRow
    records: Sequence[RecordRow]
    """In the order in which they were stored."""
    shelf: Shelf


@slotted
class Browse:
    """What `list` is asked for."""

    thread_id: str | None
    ns: str | None
    checkpoint_id: str | None
    before: str | None
    metadata: Mapping[str, Any] | None


class OwnSaver(BaseCheckpointSaver[int]):
    """Base of the savers that keep rows; a place fulfils the few methods with an underscore.

    The methods that remove something from a thread (`delete_thread`, `delete_for_runs`,
    `copy_thread` for its target, `prune` with `"delete"`) raise ThreadBusyError while a run holds
    it, and leave it as it is, unless the run's own code calls them. Of several threads those that
    are free are done first.
    """

    def __init__(self, *, serde: Any = None) -> None:
        super().__init__(serde=serde)
        self._digest = Codec().digest

    # -- its life, as a block

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._aside(self.close)

    # -- what a place must do

    @abstractmethod
    def close(self) -> None:
        """Lets go of what the saver has opened."""

    @abstractmethod
    def submit(self, batch: Batch, on_done: Callable[[BaseException | None], None] | None = None) -> Ticket:
        """See `port.NativeSaver`."""

    @abstractmethod
    def _find(
        self, thread_id: str, ns: str, checkpoint_id: str | None, wanted: Wanted = everything
    ) -> Stored | None:
        """The checkpoint, or the newest of the namespace, with the wanted values at hand."""

    @abstractmethod
    def _browse(self, asked: Browse) -> Iterator[Stored]:
        """Newest first; holds nothing while the caller looks at one."""

    # -- the documented methods

    @override
    def get_tuple(self, config: Config) -> CheckpointTuple | None:
        thread_id, ns, checkpoint_id = address(config)
        stored = self._find(thread_id, ns, checkpoint_id)
        return None if stored is None else self._shown(stored)

    @override
    def list(
        self,
        config: Config | None,
        *,
        filter: dict[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}; give the greatest number of checkpoints, or None for all")
        return self._listed(_asked(config, before, filter), limit)

    def _listed(self, asked: Browse, limit: int | None) -> Iterator[CheckpointTuple]:
        if limit == 0:
            return
        for number, stored in enumerate(self._browse(asked), 1):
            yield self._shown(stored)
            if number == limit:
                return

    @override
    def put(
        self,
        config: Config,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Config:
        thread_id, ns, parent_id = address(config)
        changed = frozenset(checkpoint["channel_values"]) | frozenset(new_versions)
        merged = get_checkpoint_metadata(config, metadata)
        new = NewCheckpoint(ns, checkpoint, merged, parent_id, seq=0, changed=changed)
        self._remember(thread_id, ns, parent_id)
        self.submit(Batch(thread_id, None, checkpoint=new)).wait()
        return _config(thread_id, ns, checkpoint["id"])

    @override
    def put_writes(
        self, config: Config, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        thread_id, ns, checkpoint_id = address(config)
        if checkpoint_id is None:
            raise MissingThreadIdError(
                "the config of put_writes names no checkpoint: give `checkpoint_id` under "
                'config["configurable"]'
            )
        if writes:
            record = Record(ns, checkpoint_id, task_id, writes, task_path)
            self.submit(Batch(thread_id, None, records=[record])).wait()

    @override
    def get_delta_channel_history(
        self, *, config: Config, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        found: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
        if not found:
            return found
        thread_id, ns, checkpoint_id = address(config)
        at = self._find(thread_id, ns, checkpoint_id, _nothing)
        open_ = set(found)
        visited: set[str] = set()
        while at is not None and open_ and at.row.parent is not None and at.row.parent not in visited:
            visited.add(at.row.parent)
            parent = self._find(thread_id, ns, at.row.parent, _of_channels(open_))
            if parent is None:
                self._check_unbroken(at, open_)
            else:
                self._gather_history(parent, open_, found)
            at = parent
        for history in found.values():
            history["writes"].reverse()
        return found

    def _gather_history(self, stored: Stored, open_: set[str], found: dict[str, DeltaChannelHistory]) -> None:
        forms = read_body(stored.row.body).forms
        entries = [entry for entry in pending(stored.records) if entry.channel in open_]
        for write in reversed(writes_of(entries, stored.shelf, errors_as_text=True)):
            found[write[1]]["writes"].append(write)
        for name in sorted(open_ & forms.keys()):
            found[name]["seed"] = stored.shelf.value(forms[name])
            open_.discard(name)

    def _check_unbroken(self, stored: Stored, open_: set[str]) -> None:
        counters = metadata_of(stored.row, self._wire).get("counters_since_delta_snapshot") or {}
        lost = sorted(open_ & counters.keys())
        if lost:
            raise StoreFormatError(
                f"the history of channel {lost[0]!r} in thread {stored.thread_id!r} is incomplete: "
                f"checkpoint {stored.row.parent!r} was removed; restore a copy of the store, or go on "
                "from a checkpoint that holds a snapshot"
            )

    @override
    def get_next_version(self, current: Any, channel: None = None) -> int:
        if current is None:
            return 1
        if isinstance(current, str):
            # Written by savers that count in text: a number, a point, a random tail.
            return int(current.partition(".")[0]) + 1
        return int(current) + 1

    # -- for the engine

    def digest(self, value: Any) -> str:
        """See `port.NativeSaver`."""
        return self._digest(value)

    def check(self, value: Any) -> None:
        """See `port.NativeSaver`."""
        self._wire.encode(value)

    def _loaded(self, stored: Stored | None, epoch: int, counter: int, newest: str | None) -> Loaded:
        if stored is None:
            return Loaded(None, {}, epoch, counter, newest)
        shown = self._shown(stored, errors_as_text=False)
        return Loaded(shown, infos_of(stored.records), epoch, counter, newest)

    def _traced(self, stored: Stored) -> Known:
        body = read_body(stored.row.body)
        others = [entry.form for entry in pending(stored.records)]
        return stored.shelf.trace(body.forms, dict(body.versions), others)

    @abstractmethod
    def _remember(self, thread_id: str, ns: str, checkpoint_id: str | None) -> None:
        """Makes sure that it is known where the values of this checkpoint lie."""

    def _shown(self, stored: Stored, *, errors_as_text: bool = True) -> CheckpointTuple:
        return shown(stored, read_body(stored.row.body), self._wire, errors_as_text=errors_as_text)


def shown(stored: Stored, body: Body, wire: Wire, *, errors_as_text: bool) -> CheckpointTuple:
    """A stored checkpoint as the port shows it, with whole values."""
    row = stored.row
    writes = writes_of(pending(stored.records), stored.shelf, errors_as_text=errors_as_text)
    return CheckpointTuple(
        _config(stored.thread_id, stored.ns, row.id),
        checkpoint_of(row, body, stored.shelf, wire),
        cast(CheckpointMetadata, metadata_of(row, wire)),
        None if row.parent is None else _config(stored.thread_id, stored.ns, row.parent),
        writes,
    )


# -- configs -------------------------------------------------------------------------------------


def address(config: Config) -> tuple[str, str, str | None]:
    """(thread id, namespace, checkpoint id or None) that a config names."""
    configurable = config.get("configurable") or {}
    thread_id = configurable.get("thread_id")
    if thread_id is None:
        raise MissingThreadIdError
    return str(thread_id), configurable.get("checkpoint_ns") or "", get_checkpoint_id(config)


def _config(thread_id: str, ns: str, checkpoint_id: str) -> Config:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


def _asked(config: Config | None, before: Config | None, filter: Mapping[str, Any] | None) -> Browse:
    earlier = None if before is None else get_checkpoint_id(before)
    if config is None:
        return Browse(None, None, None, earlier, filter)
    thread_id, _, checkpoint_id = address(config)
    return Browse(thread_id, config["configurable"].get("checkpoint_ns"), checkpoint_id, earlier, filter)


def wanted_metadata(asked: Browse, row: CheckpointRow, wire: Wire) -> bool:
    """Whether the filter lets this checkpoint pass."""
    return not asked.metadata or matches(metadata_of(row, wire), asked.metadata)


def _nothing(row: CheckpointRow, records: Sequence[RecordRow]) -> Iterable[Form]:
    return ()


def _of_channels(names: Iterable[str]) -> Wanted:
    wanted = frozenset(names)

    def forms(row: CheckpointRow, records: Sequence[RecordRow]) -> Iterable[Form]:
        yield from (form for name, form in read_body(row.body).forms.items() if name in wanted)
        yield from (entry.form for entry in pending(records) if entry.channel in wanted)

    return forms
