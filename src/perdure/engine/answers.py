"""Answers find their question.

Every question of a run has an id that follows from the place that asks it, so one table of
answers, kept with the root run's checkpoint, serves the run and all that is nested in it.
Within a task an answer belongs to a question by its number, as documented; where the code now
asks in another order, an answer that was given by id goes to the question with exactly the
payload that was answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.errors import UnknownInterruptError, mark_invalid_resume
from perdure.slotted import field, slotted
from perdure.types import Interrupt

if TYPE_CHECKING:
    from perdure.engine.frame import Frame

_HEX = frozenset("0123456789abcdef")


@slotted
class Answer:
    """What somebody answered."""

    value: Any
    payload: str
    """Digest of the payload that the question had."""
    by_id: bool


@slotted
class Answers:
    """The answers given in this superstep of the root run, by id of their question."""

    digest: Callable[[Any], str]
    given: dict[str, Answer] = field(default_factory=dict)
    payloads: dict[str, str] = field(default_factory=dict)
    """Id -> payload digest of the questions recorded as open, so that a changed order is seen."""
    floating: list[Any] = field(default_factory=list)
    """Answers to whatever is asked first: a replay from an old checkpoint asks under new ids."""
    moved: bool = False
    """Answers stand under other ids than they were stored under."""
    refused: set[str] = field(default_factory=set)
    """Questions whose answer did not fit the type that they asked for."""
    fresh: str | None = None
    """The one question that was open and is answered now, until its answer is taken."""

    @classmethod
    def read(
        cls, digest: Callable[[Any], str], stored: Mapping[str, Sequence[Any]], floating: list[Any]
    ) -> Answers:
        """The table as it was stored."""
        return cls(digest, {qid: Answer(*entry) for qid, entry in stored.items()}, floating=floating)

    def stored(self) -> dict[str, list[Any]]:
        """The table as it is to be stored."""
        kept = {qid: answer for qid, answer in self.given.items() if qid not in self.refused}
        return {qid: [answer.value, answer.payload, answer.by_id] for qid, answer in kept.items()}

    def open_of(self, questions: Iterable[Interrupt]) -> list[Interrupt]:
        """Those that have no answer yet."""
        return [question for question in questions if question.id not in self.given]

    def answer_any(self, questions: Iterable[Interrupt]) -> bool:
        """True when one of the questions has been answered."""
        return any(question.id in self.given for question in questions)

    def accept(self, resume: Any, questions: Sequence[Interrupt], first_ids: Mapping[str, str]) -> None:
        """Files what a caller gave as `Command(resume=...)` under the questions it answers.

        Args:
            questions: All recorded ones, answered or not.
            first_ids: Id of a task's first question -> id of its open one, which older callers
                may name by it.

        Raises:
            UnknownInterruptError: It answers nothing that is open.
            RuntimeError: Several questions are open, and it does not say which one it answers.
        """
        open_ones = {question.id: question for question in self.open_of(questions)}
        if is_answer_map(resume):
            for qid in resume:
                target = qid if qid in open_ones else first_ids.get(qid, qid)
                if target not in open_ones:
                    raise UnknownInterruptError(
                        _unknown(qid, qid in self.given, open_ones),
                        interrupt_ids=(qid,),
                        pending_ids=tuple(open_ones),
                    )
            for qid, value in resume.items():
                target = qid if qid in open_ones else first_ids[qid]
                self._file(open_ones[target], value, by_id=True)
            return
        cut = _cut_short(resume, open_ones)
        if cut is not None:
            raise UnknownInterruptError(
                f"{cut!r} is the beginning of the id of an open question; give the whole id",
                interrupt_ids=(cut,),
                pending_ids=tuple(open_ones),
            )
        if not open_ones:
            if self.given:
                why = "it has been answered already, and the answer is kept; go on with invoke(None, config)"
            else:
                why = "go on with invoke(None, config), or start anew with an input"
            raise UnknownInterruptError(
                f"no question of this thread is open, so there is nothing to answer: {why}"
            )
        if len(open_ones) > 1:
            listed = ", ".join(f"{q.id} ({q.value!r})" for q in open_ones.values())
            raise RuntimeError(
                "When there are multiple pending interrupts, you must specify the interrupt id when "
                f"resuming: Command(resume={{id: answer}}). Open are {listed}"
            )
        self.fresh = next(iter(open_ones))
        self._file(open_ones[self.fresh], resume, by_id=False)

    def _file(self, question: Interrupt, value: Any, *, by_id: bool) -> None:
        self.given[question.id] = Answer(value, self.digest(question.value), by_id)

    def payload_of(self, qid: str) -> str | None:
        """Digest of the payload of a question that is open or was answered."""
        return self.given[qid].payload if qid in self.given else self.payloads.get(qid)

    def take(self, frame: Frame, line: str, number: int, payload: Any) -> tuple[bool, Any]:
        """The answer to a frame's question; (False, None) when there is none yet. Each attempt at
        the frame gets each answer once.

        Args:
            line: Id of the branch that asks; empty for the body itself.
            number: Number of the question among those of its branch.
        """
        if not self.given and not self.floating:
            return False, None
        own = frame.question_id(line, number)
        if self.floating and own not in self.given:
            self.moved = True
            self.given[own] = Answer(self.floating.pop(0), self.digest(payload), by_id=False)
        found = self._find(frame, line, own, payload) or self._moved(own, payload)
        if found is None:
            return False, None
        self.fresh = None if found == self.fresh else self.fresh
        frame.taken.add(found)
        return True, self.given[found].value

    def _find(self, frame: Frame, line: str, own: str, payload: Any) -> str | None:
        """Id of the question whose answer serves this one."""
        mine = self.given.get(own) if own not in frame.taken else None
        if mine is not None and not mine.by_id:
            return own
        digest = self.digest(payload)
        if mine is not None and mine.payload == digest:
            return own
        others = self._others(frame, line, own)
        for qid in others:
            other = self.given.get(qid)
            if other is not None and qid not in frame.taken and other.by_id and other.payload == digest:
                return qid
        if mine is None or any(self.payloads.get(qid) == digest for qid in others):
            return None
        return own

    def _moved(self, own: str, payload: Any) -> str | None:
        """Lets the answer that was just given serve a question with the same payload under a new
        id: the state of the subgraph that asked was updated meanwhile."""
        if self.fresh is None or own in self.given or self.given[self.fresh].payload != self.digest(payload):
            return None
        self.moved = True
        self.given[own] = self.given.pop(self.fresh)
        self.fresh = None
        return own

    def _others(self, frame: Frame, line: str, own: str) -> list[str]:
        found, number = [], 0
        while (qid := frame.question_id(line, number)) in self.given or qid in self.payloads:
            if qid != own:
                found.append(qid)
            number += 1
        return found

    def check(self, qid: str, value: Any, schema: Any) -> Any:
        """The answer as the type that the question asked for.

        Raises:
            pydantic.ValidationError: It does not fit; the question stays open.
        """
        if schema is None or isinstance(schema, dict):
            return value
        from pydantic import TypeAdapter, ValidationError

        try:
            return TypeAdapter(schema).validate_python(value)
        except ValidationError as error:
            self.refused.add(qid)
            mark_invalid_resume(error)
            raise


def is_answer_map(resume: Any) -> bool:
    """True for {interrupt id: answer}: a dict all of whose keys are 32 lower-case hex digits."""
    return (
        isinstance(resume, dict)
        and bool(resume)
        and all(isinstance(key, str) and len(key) == 32 and _HEX.issuperset(key) for key in resume)
    )


def _cut_short(resume: Any, open_ones: Iterable[str]) -> str | None:
    """A key of an answer that is the beginning of an open question's id: hardly meant as a value."""
    if not isinstance(resume, dict):
        return None
    keys = [key for key in resume if isinstance(key, str) and len(key) >= 6]
    return next((key for key in keys if any(qid.startswith(key) for qid in open_ones)), None)


def _unknown(qid: str, answered: bool, open_ones: Mapping[str, Interrupt]) -> str:
    known = ", ".join(open_ones) or "none"
    state = "has been answered already" if answered else "is not open"
    return f"interrupt {qid} {state} on this thread; open are: {known}. Read get_state(config).interrupts"
