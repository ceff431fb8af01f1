"""Lines of calls side by side, pure: which of the recorded lines is this one.

A coroutine or thread that a body started is a *line*. It is known by the first that it calls or
asks; of several that begin alike, the number is that of their beginning. Mostly they begin in
the same order again, but that is timing and may change. So a name is a first guess, and what a
line does later tells:

* What is recorded under its own name is its own, an unfinished call too.
* A call that its own name has not, but the name of a twin that has done nothing else than this
  line so far, shows that it is that twin: the two exchange names.
* So does a call where its own name has another recorded, if some twin has nothing against it.

The first call itself shows nothing: all twins make it. Neither does a call that a twin has
recorded which did something else before, or one that several of them make.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeAlias

from xxhash import xxh3_64_hexdigest, xxh3_128_hexdigest

from perdure.slotted import field, slotted

What: TypeAlias = tuple[str, str]
"""Name and digest of a call."""

Identity: TypeAlias = Callable[[str], str]
Known: TypeAlias = Callable[[str], bool]
Asked: TypeAlias = Callable[[str], str | None]


class Branch:
    """One line of calls in a caller: its body, or a coroutine or thread that it started."""

    __slots__ = ("asked", "closed", "counts", "first", "id", "made", "parent", "seq")

    def __init__(self, parent: Branch | None = None) -> None:
        self.parent = parent
        self.id: str | None = "" if parent is None else None
        self.first: tuple[str, str, str] = ("", "", "")
        """By what a started line is known: its parent, and the first that it calls or asks."""
        self.seq = 0
        self.asked = 0
        self.counts: dict[What, int] = {}
        self.made: dict[What, None] = {}
        """What a started line has called."""
        self.closed: BaseException | None = None if parent is None else parent.closed

    @property
    def begins(self) -> bool:
        """It has called or asked at most one thing, by which it is known."""
        return self.seq + self.asked <= 1

    def close(self, signal: BaseException) -> None:
        """No further call may start on this line, nor on those that wait for it."""
        branch: Branch | None = self
        while branch is not None:
            branch.closed = branch.closed or signal
            branch = branch.parent


@slotted
class RecordedLines:
    """What is recorded of started lines, of all callers."""

    calls: dict[tuple[str, str], dict[int, What]] = field(default_factory=dict)
    """Caller and line -> what it called, by number."""
    alike: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Caller and beginning -> the lines that began so."""
    makers: dict[tuple[str, str, str, str], dict[str, None]] = field(default_factory=dict)
    """Caller, beginning, name and digest -> the lines that made such a call."""

    begun: set[str] = field(default_factory=set)
    """Ids of calls of which nothing is recorded but calls inside, and which were not made again."""
    shared: set[tuple[str, str, str, str]] = field(default_factory=set)
    """Caller, beginning, name and digest of calls that several lines have made."""

    def note(self, caller: str, line: str, seq: int, what: What, shared: bool) -> None:
        """A call of a line is on record."""
        calls = self.calls.get((caller, line))
        if calls is None:
            calls = self.calls[caller, line] = {}
            self.alike.setdefault((caller, beginning(line)), []).append(line)
        calls[seq] = what
        makers = self.makers.setdefault((caller, beginning(line), *what), {})
        makers[line] = None
        if shared or len(makers) > 1:
            self.shared.add((caller, beginning(line), *what))

    def fits(self, caller: str, line: str, branch: Branch) -> bool:
        """Whether this may be the recorded line, which then did nothing else so early."""
        calls = self.calls.get((caller, line))
        return not calls or all(what in branch.made for seq, what in calls.items() if seq < branch.seq)


class Names:
    """Which started line of an attempt has which name.

    Args:
        caller: Whose lines they are.
    """

    __slots__ = ("caller", "firsts", "holders", "makers", "moved", "naturals", "origins", "used")

    def __init__(self, caller: str) -> None:
        self.caller = caller
        self.firsts: dict[tuple[str, str, str], int] = {}
        self.naturals: dict[str, list[str]] = {}
        """Beginning -> the names that lines got by the order in which they began."""
        self.moved: dict[str, str] = {}
        """Such a name -> the name that the line has instead."""
        self.origins: dict[str, str] = {}
        """The other way round."""
        self.holders: dict[str, Branch] = {}
        self.makers: dict[tuple[str, str, str], dict[Branch, None]] = {}
        """Beginning, name and digest of a call -> the lines that made it."""
        self.used: set[str] = set()
        """Ids of the calls and questions that lines of this attempt have made."""

    def begin(self, branch: Branch, name: str, digest: str) -> str:
        """Names a line by the first that it calls or asks."""
        assert branch.parent is not None
        above = branch.parent.id or ""
        start = xxh3_64_hexdigest(_text(beginning(above), name, digest))
        if self.moved and above:
            above = self._above(above, start)
        branch.first = (above, name, digest)
        number = self.firsts.get(branch.first, 0)
        self.firsts[branch.first] = number + 1
        natural = f"{start}.{xxh3_128_hexdigest(_text(*branch.first))}.{number}"
        self.naturals.setdefault(start, []).append(natural)
        branch.id = self.moved.get(natural, natural)
        self.holders[branch.id] = branch
        return branch.id

    def _above(self, above: str, start: str) -> str:
        """Under whose name a line begins. Where its parent has taken the name of another line, those
        that the other had started keep theirs, and this one gets what is left."""
        balance: Counter[str] = Counter()
        for other in self.started_by(start):
            assert other.parent is not None
            balance[other.first[0]] += 1
            balance[other.parent.id or ""] -= 1
        if balance[above] <= 0:
            return above
        return next((name for name, number in balance.items() if number < 0), above)

    def started_by(self, start: str) -> Iterator[Branch]:
        """The lines that began so in this attempt."""
        for natural in self.naturals.get(start, ()):
            yield self.holders[self.moved.get(natural, natural)]

    def made(self, branch: Branch, what: What) -> Collection[Branch]:
        """Notes a call of a line; gives those that made this very call, also later, and began alike."""
        assert branch.id is not None
        branch.made[what] = None
        makers = self.makers.setdefault((beginning(branch.id), *what), {})
        makers[branch] = None
        return makers

    def started(self, branch: Branch) -> Iterator[str]:
        """The names that lines have which began in this attempt as this one did."""
        assert branch.id is not None
        for natural in self.naturals[beginning(branch.id)]:
            yield self.moved.get(natural, natural)

    def twins(self, branch: Branch, recorded: RecordedLines) -> list[str]:
        """The other names of lines that begin as this one does, started or recorded."""
        if branch.id is None or branch.parent is None:
            return []
        known = recorded.alike.get((self.caller, beginning(branch.id)), ())
        names = dict.fromkeys((*known, *self.started(branch)))
        names.pop(branch.id, None)
        return list(names)

    def unused(self, branch: Branch, identity: Identity, known: Known) -> str:
        """A name under which this call or question was not made yet in this attempt.

        It is the line's own, if another did not make the same when it had that name; else one
        under which the call is recorded, if there is any.
        """
        assert branch.id is not None
        if identity(branch.id) not in self.used:
            return branch.id
        names = [name for name in self.started(branch) if identity(name) not in self.used]
        return next((name for name in names if known(identity(name))), names[0])

    def take(self, branch: Branch, name: str) -> None:
        """Gives a line this name; who had it gets the line's."""
        old = branch.id
        assert old is not None
        if old == name:
            return
        first, second = self.origins.pop(old, old), self.origins.pop(name, name)
        for natural, now in ((first, name), (second, old)):
            self.moved[natural], self.origins[now] = now, natural
        other = self.holders.pop(name, None)
        del self.holders[old]
        branch.id, self.holders[name] = name, branch
        if other is not None:
            other.id, self.holders[old] = old, other

    def recognize(
        self, branch: Branch, what: What, identity: Identity, recorded: RecordedLines, known: Known
    ) -> None:
        """Gives a line the name that the call which it makes now shows to be its own.

        Args:
            identity: Id of the call under the name of a line.
            known: Whether something is recorded under an id.
        """
        assert branch.id is not None
        if identity(branch.id) in self.used:
            return
        fits = self._fits(branch, branch.id, recorded)
        if fits and self._shared(branch, what, recorded):
            return
        lines = [*recorded.makers.get((self.caller, beginning(branch.id), *what), ())]
        if recorded.begun:
            lines += (line for line in self.twins(branch, recorded) if identity(line) in recorded.begun)
        offers = [
            line
            for line in lines
            if not (branch.begins and _parted(line) == _parted(branch.id))
            and identity(line) not in self.used
            and known(identity(line))
        ]
        found = next((line for line in offers if self._fits(branch, line, recorded)), None)
        if found is None and not fits and not branch.begins:
            found = self._left(branch, self.twins(branch, recorded), recorded)
            found = next(iter(offers), None) if found is None else found
        if found is not None:
            self.take(branch, found)

    def recognize_question(
        self, branch: Branch, payload: str, identity: Identity, recorded: RecordedLines, asked: Asked
    ) -> None:
        """Gives a line the name that the question which it asks now shows to be its own.

        Args:
            payload: Digest of the question's payload.
            identity: Id of the question under the name of a line.
            asked: Digest of the payload that is known of a question.
        """
        assert branch.id is not None
        own = asked(identity(branch.id))
        if branch.begins or own == payload:
            return
        twins = [line for line in self.twins(branch, recorded) if identity(line) not in self.used]
        same = (line for line in twins if asked(identity(line)) == payload)
        found = next((line for line in same if self._fits(branch, line, recorded)), None)
        if found is None and own is not None:
            found = self._left(branch, (t for t in twins if asked(identity(t)) is None), recorded)
        if found is not None:
            self.take(branch, found)

    def _shared(self, branch: Branch, what: What, recorded: RecordedLines) -> bool:
        """Whether several of the lines that began alike make this call: it shows nothing then."""
        assert branch.id is not None
        start = beginning(branch.id)
        makers = self.makers[start, *what]
        if branch.begins:
            # Its siblings make it anyway: do the lines that other lines started?
            lines = recorded.makers.get((self.caller, start, *what), ())
            return len({_parted(line) for line in lines}) > 1 or len({line.parent for line in makers}) > 1
        return len(makers) > 1 or (self.caller, start, *what) in recorded.shared

    def _fits(self, branch: Branch, name: str, recorded: RecordedLines) -> bool:
        return recorded.fits(self.caller, name, branch)

    def _left(self, branch: Branch, twins: Iterable[str], recorded: RecordedLines) -> str | None:
        """The name that remains for a line that cannot be the one whose name it has."""
        assert branch.id is not None
        for name in twins:
            other = self.holders.get(name)
            free = other is None or self._fits(other, branch.id, recorded)
            if free and self._fits(branch, name, recorded):
                return name
        return None


def beginning(line: str) -> str:
    """What lines that begin alike, started by lines that began alike, have in common in their names."""
    return line.partition(".")[0]


def _parted(line: str) -> str:
    """What those of them have in common that the same line started."""
    return line.rpartition(".")[0]


def _text(*parts: str) -> bytes:
    return "\0".join(parts).encode()
