"""How a run begins: what the input means for the thread as it was found.

a new input     what was open is given up; the input becomes the first checkpoint
None            goes on where the thread stopped
Command         answers, updates and goto's are recorded beside what is open, then goes on
a nested run    goes on if it had begun in this superstep of the run above, else starts anew
an old checkpoint is addressed: a copy of it becomes the head of a new line
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from xxhash import xxh3_128_hexdigest

from perdure.checkpoint.base import CheckpointTuple, PendingWrite, get_checkpoint_metadata
from perdure.checkpoint.port import Batch, Loaded, NewCheckpoint, Record
from perdure.engine.answers import Answers, is_answer_map
from perdure.engine.calls import Ledger
from perdure.engine.handlers import restore_handlers
from perdure.engine.hold import Hold
from perdure.engine.journal import journal_for
from perdure.engine.live import Run
from perdure.engine.program import Program, Write
from perdure.engine.rules import apply_writes, next_tasks, open_state, pass_breakpoints
from perdure.engine.saving import next_checkpoint
from perdure.engine.tasks import (
    ERROR,
    ERROR_SOURCE,
    INTERRUPT,
    NO_WRITES,
    NULL_TASK,
    PREVIOUS,
    RESUME,
    SCHEDULED,
    START,
    Paused,
    Task,
    Value,
    uuid_of,
)
from perdure.errors import EmptyInputError, InvalidUpdateError, NonDeterminismError, UnknownInterruptError
from perdure.serde.digest import digest
from perdure.slotted import field, slotted
from perdure.types import Command, Interrupt
from perdure.typing import MISSING

logger = logging.getLogger("perdure")

_TRIGGER = "branch:to:"
_SPECIAL = frozenset((ERROR, INTERRUPT, RESUME, SCHEDULED, NO_WRITES, ERROR_SOURCE))


@slotted
class Opening:
    """What is to be stored before the first task starts."""

    records: list[Record] = field(default_factory=list)
    checkpoint: NewCheckpoint | None = None
    fork: NewCheckpoint | None = None
    resumed: bool = False
    values: bool = True
    """The state is told to who listens."""

    def batches(self, r: Run) -> Iterator[Batch]:
        """The batches that claim the thread and begin the run; none where nothing will run."""
        if r.parent is not None and r.hold is r.parent.run.hold:
            yield from self._nested(r)
            return
        if not (r.tasks or self.records or self.checkpoint or self.fork):
            return
        late = r.options.durability == "exit" and self.fork is None
        yield Batch(
            r.hold.thread_id,
            r.hold.epoch,
            claim=True,
            records=() if late else self.records,
            checkpoint=None if late else (self.fork or self.checkpoint),
        )
        if late:
            self._hold_back(r)

    def _nested(self, r: Run) -> Iterator[Batch]:
        if r.options.durability == "exit":
            self._hold_back(r)
        elif self.records or self.checkpoint:
            yield r.journal.batch(self.records, self.checkpoint)

    def _hold_back(self, r: Run) -> None:
        for record in self.records:
            r.journal.call(record)
        if self.checkpoint is not None:
            for _ in r.journal.step((), self.checkpoint, last=False):
                raise AssertionError("an exit journal stores nothing on the way")

    def announce(self, r: Run) -> None:
        """Tells who listens how the run begins."""
        if self.values and not (self.resumed and r.program.entrypoint):
            r.tell.values_at_start(self.resumed)
        if r.saver is not None and r.tasks:
            r.tell.checkpoint_at_start()


def open_run(r: Run, loaded: Loaded | None, head: CheckpointTuple | None) -> Opening:
    """Decides what the run's input means; sets the run up accordingly.

    Raises:
        EmptyInputError: There is nothing to run.
        UnknownInterruptError: A Command answers a question that is not open.
        RuntimeError: A Command answers, but without a saver no question was kept; or it does not
            say which of several questions.
        InvalidUpdateError: The input does not fit the workflow.
    """
    found = loaded.tuple if loaded is not None else None
    restore(r, loaded, found)
    command = r.input if isinstance(r.input, Command) else None
    if command is not None:
        _check_command(r, command)
    if found is None and (r.input is None or (command is not None and command.resume is not None)):
        if command is not None:
            raise UnknownInterruptError(
                f"thread {r.thread_id!r} has no checkpoint, so no question is open on it; check the thread id"
            )
        where = f"thread {r.thread_id!r} has" if r.saver is not None else "without a saver there is"
        raise EmptyInputError(f"Received no input for {START}: {where} nothing to go on with; give an input")
    if found is not None and (r.continues or r.input is None or command is not None):
        superseded = head is not None and head.checkpoint["id"] != r.checkpoint_id
        return _go_on(r, loaded, found, command, superseded)
    return _start(r, command)


def _check_command(r: Run, command: Command[Any]) -> None:
    if command.graph == Command.PARENT and r.parent is None:
        raise InvalidUpdateError("There is no parent graph: a Command given as input cannot address one")
    if command.resume is None and command.update is None and not command.goto:
        raise EmptyInputError(
            "Received empty Command input: give resume, update or goto; to answer with None, "
            "name the question: Command(resume={interrupt_id: None})"
        )
    if r.saver is None and command.resume is not None:
        raise RuntimeError("Cannot use Command(resume=...) without checkpointer: no question was kept")


def restore(r: Run, loaded: Loaded | None, found: CheckpointTuple | None) -> None:
    """Sets the run up as its thread was left."""
    if loaded is not None and r.thread_id is not None:
        above = r.parent.run if r.parent is not None else None
        nested = above is not None and above.saver is r.saver and above.thread_id == r.thread_id
        r.hold = above.hold if nested and above is not None else Hold.on(r.thread_id, loaded)
        keep = r.parent is None or r.stateful
        r.journal = journal_for(r.options.durability, r.hold, root=not nested, keep=keep)
        r.journal.first = list(r.announcements)
        r.extra_metadata = get_checkpoint_metadata(r.config, {})
    r.ledger_ = None
    r.unsaved = frozenset()
    if found is None:
        r.state = open_state(r.program, None)
        r.step, r.checkpoint_id, r.parent_id = -1, "", None
        r.metadata = r.carried = {}
        r.previous = None
        return
    checkpoint = found.checkpoint
    r.state = open_state(r.program, checkpoint)
    r.step = int((found.metadata or {}).get("step", -2)) + 1
    r.checkpoint_id = checkpoint["id"]
    r.parent_id = _id_of(found.parent_config)
    r.metadata = dict(found.metadata)
    r.carried = {k: v for k, v in checkpoint["channel_values"].items() if k not in r.state.channels}
    if r.program.entrypoint:
        _own_previous(r)
        if PREVIOUS in r.state.channels and r.state.channels[PREVIOUS].is_available():
            r.previous = r.state.channels[PREVIOUS].get()


def _own_previous(r: Run) -> None:
    """Each entrypoint of a thread has its own saved value: puts another's aside, takes ours out.

    Whose it is follows from who last ran.
    """
    name = r.program.entrypoint
    ran = {node: seen[START] for node, seen in r.state.seen.items() if START in seen}
    owner = max(ran, key=lambda node: ran[node]) if ran else name
    if owner == name:
        return
    channel = r.state.channels[PREVIOUS]
    aside, mine = f"{PREVIOUS}:{owner}", f"{PREVIOUS}:{name}"
    carried = dict(r.carried)
    r.state.channels[PREVIOUS] = channel.from_checkpoint(carried.pop(mine, MISSING))
    if channel.is_available():
        carried[aside] = channel.get()
        r.state.versions[aside] = r.state.versions[PREVIOUS]
    r.carried, r.unsaved = carried, r.unsaved | {aside, PREVIOUS}


def _id_of(config: Any) -> str | None:
    return config["configurable"].get("checkpoint_id") if config else None


def _start(r: Run, command: Command[Any] | None) -> Opening:
    """A new input, on a fresh thread or over what was open."""
    writes = _input_writes(r, command)
    if not writes:
        raise EmptyInputError(f"Received no input for {START}")
    opening = Opening()
    opening.checkpoint = take_input(r, writes)
    if r.saver is None:
        r.checkpoint_id = uuid_of(os.urandom(16).hex())
    r.step += 1
    # The input's own step (START of a graph) comes on top of those that the limit counts.
    r.stop = r.step + r.options.recursion_limit + (0 if r.program.entrypoint else 1)
    if r.parent is None:
        r.answers_ = None
    r.tasks = _planned(r)
    return opening


def take_input(r: Run, writes: Sequence[Write]) -> NewCheckpoint | None:
    """Gives up what is open, and makes an input the next checkpoint; None without a saver."""
    open_tasks = _planned(r, read=False) if r.checkpoint_id else []
    number = r.hold.number() if r.saver is not None else r.step + 2
    changed = apply_writes(r.program, r.state, open_tasks, r.next_version(number), writes)
    return next_checkpoint(r, number, "input", changed)


def _input_writes(r: Run, command: Command[Any] | None) -> Sequence[Write]:
    if command is None:
        return r.program.write_input(r.input)
    if command.goto:
        return list(r.program.write_command(command))
    return r.program.write_input(command.update)


def _planned(r: Run, *, read: bool = True) -> list[Task]:
    return next_tasks(r.program, r.state, r.checkpoint_id, r.ns, r, read=read)


def _go_on(
    r: Run, loaded: Loaded | None, found: CheckpointTuple, command: Command[Any] | None, superseded: bool
) -> Opening:
    """Goes on from a stored checkpoint."""
    opening = Opening(resumed=True)
    pending = list(found.pending_writes or ())
    infos: Mapping[str, Any] = loaded.infos if loaded is not None else {}
    above = r.parent.run if r.parent is not None else None
    r.resuming = above.resuming if above is not None else True
    floating: list[Any] = []
    if superseded:
        _fork(r, opening)
        pending, infos = [], {}
        if command is not None and command.resume is not None:
            floating = list(command.resume.values()) if is_answer_map(command.resume) else [command.resume]
    r.reruns = r.input is None if above is None else above.reruns
    if above is None:
        r.answers_ = Answers.read(digest, recorded_answers(pending), floating)
    if r.resuming:
        pass_breakpoints(r.state)
    null = writes_of_no_task(pending)
    fresh = list(r.program.write_command(command)) if command is not None and r.parent is None else []
    if null or fresh:
        number = r.hold.number()
        r.unsaved |= apply_writes(
            r.program, r.state, [], r.next_version(number), [*null, *fresh], advance=False
        )
    r.stop = r.step + r.options.recursion_limit
    r.tasks = _planned(r)
    if not r.tasks:
        _refuse_lost_nodes(r)
    elif r.program.entrypoint:
        _refuse_other_entrypoint(r)
    restore_tasks(r.program, r.tasks, pending)
    if fresh:
        opening.records.append(Record(r.ns, r.checkpoint_id, NULL_TASK, [*null, *fresh]))
    if command is not None and command.resume is not None and above is None and not superseded:
        _answer(r, command.resume, begun=bool(infos))
        opening.records.append(Record(r.ns, r.checkpoint_id, NULL_TASK, [(RESUME, r.answers.stored())]))
    r.ledger_ = Ledger.read(pending, infos, lambda asked: not (r.reruns or r.answers.answer_any(asked)))
    _leave_paused(r)
    return opening


def _refuse_lost_nodes(r: Run) -> None:
    """A thread that waits for a node which a deploy has removed is not finished."""
    lost = [key.removeprefix(_TRIGGER) for key in r.carried if key.startswith(_TRIGGER)]
    if lost:
        raise InvalidUpdateError(
            f"thread {r.thread_id!r} waits for node {lost[0]!r}, which this workflow does not have; put it "
            "back, or say where to go on with update_state(config, values, as_node=...)"
        )


def _refuse_other_entrypoint(r: Run) -> None:
    """A step that another function has begun is not gone on with by this one, which would do all again."""
    begun_by = r.metadata.get("entrypoint", r.program.entrypoint)
    if begun_by == r.program.entrypoint or r.on_divergence == "allow":
        return
    text = (
        f"thread {r.thread_id!r} is open in entrypoint {begun_by!r}; {r.program.entrypoint!r} would do again "
        "what that has finished. Go on with the function under its old name, start anew with an input, or "
        "accept it with on_divergence='allow'"
    )
    if r.on_divergence == "error":
        raise NonDeterminismError(text)
    logger.warning("%s", text)


def _fork(r: Run, opening: Opening) -> None:
    """Makes a copy of the addressed checkpoint the head of a new line."""
    number = r.hold.number()
    updated = r.state.updated
    if updated is None:
        # Not known what changed last: everything that may trigger a node.
        updated = {key for key in r.program.trigger_to_nodes if r.state.channels[key].is_available()}
    opening.fork = next_checkpoint(r, number, "fork", updated)
    r.step += 1


def recorded_answers(pending: Iterable[PendingWrite]) -> Mapping[str, Sequence[Any]]:
    """The table of answers beside a root run's checkpoint."""
    return next((value for task, channel, value in pending if task == NULL_TASK and channel == RESUME), {})


def writes_of_no_task(pending: Iterable[PendingWrite]) -> list[Write]:
    """What a Command given as input has put beside a checkpoint."""
    return [(channel, value) for task, channel, value in pending if task == NULL_TASK and channel != RESUME]


def restore_tasks(program: Program, tasks: list[Task], pending: Sequence[PendingWrite]) -> None:
    """Gives the planned tasks what an earlier run of this superstep recorded of them.

    Tasks of error handlers that have taken a failure over are added.
    """
    by_task: dict[str, list[tuple[str, Any]]] = {}
    for task_id, channel, value in pending:
        by_task.setdefault(task_id, []).append((channel, value))
    tasks += restore_handlers(program, tasks, by_task)
    for task in tasks:
        stored = by_task.get(task.id)
        if stored is None or task.outcome is not None:
            continue
        writes = [(channel, value) for channel, value in stored if channel not in _SPECIAL]
        if writes or any(channel == NO_WRITES for channel, _ in stored):
            task.outcome, task.restored = Value(writes), True
        else:
            asked = [value for channel, value in stored if channel == INTERRUPT]
            task.asked = tuple(asked[-1]) if asked else ()
            task.halted = bool(asked) and not task.asked


def _answer(r: Run, resume: Any, *, begun: bool) -> None:
    """Files the answers of a Command.

    A thread that waits at a static breakpoint has no question; a plain answer just goes on.
    """
    questions = [question for task in r.tasks for question in task.asked]
    if not questions and r.tasks and not is_answer_map(resume) and _at_breakpoint(r, begun):
        return
    r.answers.payloads = {question.id: digest(question.value) for question in questions}
    r.answers.accept(resume, questions, _first_ids(r, questions))


def _at_breakpoint(r: Run, begun: bool) -> bool:
    """The run stopped at a static breakpoint: of a graph in it, or ahead of a superstep of which
    nothing has begun, with no record of a task and no question ever answered."""
    if any(task.halted for task in r.tasks):
        return True
    return not r.answers.given and not begun and not any(t.outcome or t.asked for t in r.tasks)


def _first_ids(r: Run, questions: Sequence[Interrupt]) -> dict[str, str]:
    """Id of a node's first question -> its open one, for tasks that ask one after another."""
    found = {}
    for task in r.tasks:
        ns = f"{r.ns}|{task.name}:{task.id}" if r.ns else f"{task.name}:{task.id}"
        still = r.answers.open_of(task.asked)
        if len(still) == 1:
            found[xxh3_128_hexdigest(ns.encode())] = still[0].id
    return found


def _leave_paused(r: Run) -> None:
    """A paused task without a new answer stays as it is while another one is answered."""
    if r.reruns:
        return
    for task in r.tasks:
        if task.asked and task.outcome is None and not r.answers.answer_any(task.asked):
            task.outcome, task.restored = Paused(task.asked), True
