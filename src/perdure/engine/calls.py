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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from xxhash import xxh3_128_hexdigest

from perdure.checkpoint.port import CallInfo
from perdure.engine.lines import Asked, Branch, Identity, Known, Names, RecordedLines
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
    makers: Collection[object] = ()
    """Who made this very call in this attempt, of the lines that began alike."""

    def info(self, ended: float, ns: str | None = None) -> CallInfo:
        """What is stored beside the outcome."""
        return CallInfo(
            self.caller, self.branch, self.seq, self.name, self.digest, self.solo, self.started, ended, ns,
            len(self.makers) > 1,
        )  # fmt: skip


class CallBook:
    """Gives the calls of one attempt at a caller's body their identity."""

    __slots__ = ("caller", "count", "keyed", "lock", "names", "root")

    def __init__(self, caller: str) -> None:
        self.caller = caller
        self.root = Branch()
        self.count = 0
        self.names = Names(caller)
        self.keyed: dict[tuple[str, str], int] = {}
        self.lock = threading.Lock()

    def place(
        self, branch: Branch, name: str, digest: str, *, key: str | None, solo: bool, now: float
    ) -> Call:
        """The identity of the next call on `branch`.

        Args:
            key: The name that the user gave this very call; stands for branch and arguments.
        """
        line = self.name(branch, name, digest if key is None else key)
        if key is None:
            counts, what = branch.counts, (name, digest)
        else:
            counts, what, line = self.keyed, (name, key), "key"
        occurrence = counts.get(what, 0)
        counts[what] = occurrence + 1
        identity = self._identity(line, *what, occurrence)
        seq, index = branch.seq, self.count
        branch.seq += 1
        self.count += 1
        makers: Collection[object] = ()
        if branch.parent is not None:
            with self.lock:
                makers = self.names.made(branch, (name, digest))
                if key is None:
                    identity = self._use(branch, self._identities(branch, name, digest), _nothing)
        return Call(identity, self.caller, branch.id or "", seq, index, name, digest, solo, now, makers)

    def name(self, branch: Branch, name: str, digest: str) -> str:
        """The name of a branch, which gets it from the first that it calls or asks."""
        if branch.id is None:
            with self.lock:
                return self.names.begin(branch, name, digest)
        return branch.id

    def find(self, call: Call, branch: Branch, ledger: Ledger) -> Outcome | None:
        """The recorded outcome of a call, None when it has to run.

        A call that is not recorded under the name of its line may show that the line has
        another one.
        """
        ledger.lines.begun.discard(self.caller)
        if branch.parent is not None and not ledger.knows(call.id):
            what = (call.name, call.digest)
            identity = self._identities(branch, *what)
            with self.lock:
                self.names.used.discard(call.id)
                self.names.recognize(branch, what, identity, ledger.lines, ledger.knows)
                call.id = self._use(branch, identity, ledger.knows)
                call.branch = branch.id or ""
        return ledger.find(call)

    def remember(self, call: Call, ledger: Ledger) -> None:
        """Notes which line made a call that has ended, for another attempt."""
        if call.branch:
            with self.lock:
                what = (call.name, call.digest)
                ledger.lines.note(call.caller, call.branch, call.seq, what, len(call.makers) > 1)

    def asks(
        self, branch: Branch, payload: str, identity: Identity, lines: RecordedLines, asked: Asked
    ) -> str:
        """The name of the started line that asks; see `Names.recognize_question`."""
        self.name(branch, INTERRUPT, payload)
        with self.lock:
            self.names.recognize_question(branch, payload, identity, lines, asked)
            line = self.names.unused(branch, identity, lambda qid: asked(qid) == payload)
            self.names.used.add(identity(line))
        return line

    def has_twins(self, branch: Branch, ledger: Ledger) -> bool:
        """Whether other lines began as this one did: which is which was timing."""
        with self.lock:
            return bool(self.names.twins(branch, ledger.lines))

    def _use(self, branch: Branch, identity: Identity, known: Known) -> str:
        """Id of a call of a started line, which no other call of this attempt has."""
        found = identity(self.names.unused(branch, identity, known))
        self.names.used.add(found)
        return found

    def _identities(self, branch: Branch, name: str, digest: str) -> Identity:
        """The id that the call just placed on a branch has under the name of a line."""
        occurrence = branch.counts[name, digest] - 1
        return lambda line: self._identity(line, name, digest, occurrence)

    def _identity(self, line: str, name: str, what: str, occurrence: int) -> str:
        text = f"{self.caller}\0{line}\0{name}\0{what}\0{occurrence}"
        return uuid_of(xxh3_128_hexdigest(text.encode()))


def _nothing(call_id: str) -> bool:
    """Whether a call is recorded, where nothing is."""
    return False


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
    lines: RecordedLines = field(default_factory=RecordedLines)
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
            if info.branch:
                ledger.lines.note(info.caller, info.branch, info.seq, (info.name, info.digest), info.shared)
            if call_id in ledger.outcomes:
                ledger.places[info.caller, info.branch, info.seq] = call_id
        ledger.lines.begun.update(caller for caller in ledger.by_caller if caller not in infos)
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

    def knows(self, call_id: str) -> bool:
        """Whether a call is recorded under this id, be it as unfinished or to be tried again."""
        return call_id in self.infos or call_id in self.outcomes or call_id in self.lines.begun

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
