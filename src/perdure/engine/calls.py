"""The call book, pure: which call is this, was it made before, and does the code still match.

A call is known by what it is, not by where it stands: its caller, the branch of the caller
that makes it, its name, the digest of its arguments, and its occurrence among equal calls of
that branch. A *branch* is the caller's body itself, or a coroutine or thread that the body
started; a started one is known by the first call that it makes, so that pipelines side by
side keep their own results whatever their timing.

Where a call stands is recorded too, to notice that the code has changed: when a call that is
not recorded stands at a number where another is recorded, and that one was made while no
other call of its caller was open (so its place was meant, not a matter of timing), the code
and the record have parted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from xxhash import xxh3_128_hexdigest

from perdure.checkpoint.port import CallInfo
from perdure.engine.tasks import ERROR, INTERRUPT, RETURN, SCHEDULED, Error, Outcome, Paused, Value, uuid_of
from perdure.errors import NonDeterminismError
from perdure.slotted import field, slotted
from perdure.types import Interrupt


@slotted
class Call:
    """A call that user code makes."""

    id: str
    caller: str
    branch: str
    seq: int
    index: int
    """Number of the call among all calls of its caller."""
    name: str
    digest: str
    solo: bool
    started: float

    def info(self, ended: float, ns: str | None = None) -> CallInfo:
        """What is stored beside the outcome."""
        return CallInfo(
            self.caller, self.branch, self.seq, self.name, self.digest, self.solo, self.started, ended, ns
        )


class Branch:
    """One line of calls in a caller: its body, or a coroutine or thread that it started."""

    __slots__ = ("asked", "closed", "counts", "first", "id", "occurrence", "parent", "seq")

    def __init__(self, parent: Branch | None = None) -> None:
        self.parent = parent
        self.id: str | None = "" if parent is None else None
        self.first: tuple[str, str, str] = ("", "", "")
        """By what a started line is known: its parent, and the first that it calls or asks."""
        self.occurrence = 0
        self.seq = 0
        self.asked = 0
        self.counts: dict[tuple[str, str], int] = {}
        self.closed: BaseException | None = None if parent is None else parent.closed

    def close(self, signal: BaseException) -> None:
        """No further call may start on this line, nor on those that wait for it."""
        branch: Branch | None = self
        while branch is not None:
            branch.closed = branch.closed or signal
            branch = branch.parent


class CallBook:
    """Gives the calls of one attempt at a caller's body their identity."""

    __slots__ = ("caller", "count", "firsts", "keyed", "lock", "root")

    def __init__(self, caller: str) -> None:
        self.caller = caller
        self.root = Branch()
        self.count = 0
        self.firsts: dict[tuple[str, str, str], int] = {}
        self.keyed: dict[tuple[str, str], int] = {}
        self.lock = threading.Lock()

    def place(
        self, branch: Branch, name: str, digest: str, *, key: str | None, solo: bool, now: float
    ) -> Call:
        """The identity of the next call on `branch`.

        Args:
            key: The name that the user gave this very call; stands for branch and arguments.
        """
        line = self.name(branch, name, digest)
        if key is None:
            counts, what = branch.counts, (name, digest)
        else:
            counts, what, line = self.keyed, (name, key), "key"
        occurrence = counts.get(what, 0)
        counts[what] = occurrence + 1
        seq, index = branch.seq, self.count
        branch.seq += 1
        self.count += 1
        identity = self._identity(line, *what, occurrence)
        return Call(identity, self.caller, branch.id or "", seq, index, name, digest, solo, now)

    def name(self, branch: Branch, name: str, digest: str) -> str:
        """The id of a branch, which gets it from the first that it calls or asks."""
        if branch.id is None:
            with self.lock:
                above = branch.parent.id if branch.parent is not None else None
                branch.first = (above or "", name, digest)
                branch.occurrence = self.firsts.get(branch.first, 0)
                self.firsts[branch.first] = branch.occurrence + 1
                branch.id = _branch_id(branch.first, branch.occurrence)
        return branch.id

    def twins(self, branch: Branch, ledger: Ledger) -> list[str]:
        """Ids of the recorded branches that began as this one did: which is which was timing."""
        found: list[str] = []
        number = 0
        while branch.parent is not None:
            twin = _branch_id(branch.first, number)
            if twin != branch.id:
                if (self.caller, twin, 0) not in ledger.places:
                    break
                found.append(twin)
            number += 1
        return found

    def find(self, call: Call, branch: Branch, ledger: Ledger) -> Outcome | None:
        """The recorded outcome of a call, None when it has to run.

        Lines that began alike are told apart by what they record, not by who came first: a call
        that only a twin has recorded takes that record, and the twin takes this one's place.
        """
        if branch.parent is None:
            return ledger.find(call)
        with self.lock:
            call.id = ledger.exchanged.get(call.id, call.id)
            outcome = ledger.find(call)
            twin = self._elsewhere(call, branch, ledger) if outcome is None else None
            if twin is not None:
                ledger.exchanged[twin] = call.id
                call.id = twin
                outcome = ledger.find(call)
        return outcome

    def _elsewhere(self, call: Call, branch: Branch, ledger: Ledger) -> str | None:
        """Id under which a twin of the branch has recorded this very call, not asked for yet."""
        occurrence = branch.counts[call.name, call.digest] - 1
        for twin in self.twins(branch, ledger):
            identity = self._identity(twin, call.name, call.digest, occurrence)
            if ledger.offers(identity):
                return identity
        return None

    def _identity(self, line: str, name: str, what: str, occurrence: int) -> str:
        text = f"{self.caller}\0{line}\0{name}\0{what}\0{occurrence}"
        return uuid_of(xxh3_128_hexdigest(text.encode()))


def _branch_id(first: tuple[str, str, str], occurrence: int) -> str:
    return xxh3_128_hexdigest("\0".join((*first, str(occurrence))).encode())


StillOpen: TypeAlias = Callable[[Sequence[Interrupt]], bool]


@slotted
class Ledger:
    """What is recorded of the calls of one superstep, and what this run adds."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    infos: dict[str, CallInfo] = field(default_factory=dict)
    namespaces: dict[str, str] = field(default_factory=dict)
    """Id of a nested run that has begun -> its namespace."""
    places: dict[tuple[str, str, int], str] = field(default_factory=dict)
    by_caller: dict[str, list[str]] = field(default_factory=dict)
    claimed: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    """Failed calls that are to be tried again."""
    exchanged: dict[str, str] = field(default_factory=dict)
    """Id of a record that another line has taken -> the id that is free for it."""
    retried: set[str] = field(default_factory=set)
    """Callers in which a call was tried again: what follows may rightly differ."""

    @classmethod
    def read(
        cls, writes: Iterable[tuple[str, str, Any]], infos: Mapping[str, CallInfo], still_open: StillOpen
    ) -> Ledger:
        """The ledger of a checkpoint's pending writes.

        Args:
            still_open: Whether a call that asked these questions still waits, and is not to be
                asked again.
        """
        ledger = cls()
        for task_id, channel, value in writes:
            if channel == SCHEDULED:
                ledger._note_scheduled(task_id, value)
            elif task_id not in infos:
                continue
            elif channel == RETURN:
                ledger.outcomes[task_id] = Value(value)
            elif channel == ERROR:
                ledger.outcomes.setdefault(task_id, Error(value))
            elif channel == INTERRUPT and still_open(value):
                ledger.outcomes.setdefault(task_id, Paused(tuple(value)))
        for call_id, info in infos.items():
            ledger.infos[call_id] = info
            ledger.by_caller.setdefault(info.caller, []).append(call_id)
            if call_id in ledger.outcomes:
                ledger.places[info.caller, info.branch, info.seq] = call_id
        return ledger

    def _note_scheduled(self, task_id: str, value: str | list[str]) -> None:
        """Of a nested run: the namespace it has begun in. Of a task that did not finish: the failed
        calls that are to be tried again."""
        if isinstance(value, str):
            self.namespaces[task_id] = value
        else:
            self.dropped.update(value)

    def standing(self, call_id: str) -> Outcome | None:
        """The outcome recorded under this id, unless it is a failure that is to be tried again."""
        outcome = self.outcomes.get(call_id)
        return None if type(outcome) is Error and call_id in self.dropped else outcome

    def offers(self, call_id: str) -> bool:
        """Whether an outcome stands under this id that no call has asked for."""
        return call_id not in self.claimed and self.standing(call_id) is not None

    def find(self, call: Call) -> Outcome | None:
        """The recorded outcome of a call, None when it has to run."""
        outcome = self.standing(call.id)
        if outcome is not None:
            self.claimed.add(call.id)
        elif call.id in self.outcomes:
            self.retried.add(call.caller)
        return outcome

    def divergence(self, call: Call) -> NonDeterminismError | None:
        """The error that shows both calls, when `call` stands where another was recorded.

        Only for calls that are not recorded themselves. An error without a next move when the
        order of the recorded call was a matter of timing is no error: None.
        """
        other = self.places.get((call.caller, call.branch, call.seq))
        if other is None or other == call.id or call.caller in self.retried:
            return None
        info = self.infos[other]
        if not info.solo or other in self.claimed:
            return None
        if info.name == call.name:
            what = f"the recorded call of {info.name!r} had other arguments"
        else:
            what = f"a call of {info.name!r} is recorded there"
        return NonDeterminismError(
            f"call {call.seq} is {call.name!r} (arguments {call.digest[:8] or 'not digested'}), but {what} "
            f"(arguments {info.digest[:8] or 'not digested'}): the code does not do what the record says it "
            "did. Put what may change into a task, name the call with .options(key=...), go on with the "
            "recorded code, or accept the change with on_divergence='warn' or 'allow'"
        )

    def unclaimed(self, caller: str) -> Iterator[str]:
        """Names of finished calls of `caller` that its body did not make this time."""
        for call_id in self.by_caller.get(caller, ()):
            if call_id not in self.claimed and type(self.outcomes.get(call_id)) is Value:
                yield self.infos[call_id].name

    def drop_failures(self, failed: Mapping[str, BaseException], error: BaseException) -> list[str]:
        """Which failed calls of an attempt that ended in `error` are tried again.

        Those whose error is part of it (itself, its cause or context, a member of a group); when
        none is, all.
        """
        named = {id(part) for part in parts_of(error)}
        again = [call_id for call_id, failure in failed.items() if id(failure) in named]
        again = again or list(failed)
        self.dropped.update(again)
        return again


def parts_of(error: BaseException) -> Iterator[BaseException]:
    """An error and everything that it was caused by or consists of."""
    seen: set[int] = set()
    rest: list[BaseException | None] = [error]
    while rest:
        part = rest.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        rest += (part.__cause__, part.__context__)
        if isinstance(part, BaseExceptionGroup):
            rest += part.exceptions
