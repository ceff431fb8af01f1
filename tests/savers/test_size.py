"""What a thread costs on disk: what is new, and little besides."""

from __future__ import annotations

import random
import string
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.port import Batch, NewCheckpoint
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import ThreadBusyError
from savers.makers import checkpoint, new, record

_random = random.Random(7)


def text(length: int) -> str:
    return "".join(_random.choices(string.ascii_letters + string.digits + " ", k=length))


class Chat:
    """A graph of one node that answers, as the engine stores it turn by turn."""

    def __init__(self, saver: SqliteSaver) -> None:
        self.saver = saver

    def turn(self, question: Any, answer: Any) -> None:
        loaded = self.saver.load("chat", "")
        found = loaded.tuple
        self.values: dict[str, Any] = dict(found.checkpoint["channel_values"]) if found else {}
        self.parent = found.checkpoint["id"] if found else None
        self.seq = loaded.counter
        self.batch: dict[str, Any] = {"epoch": loaded.epoch + 1, "claim": True}
        self.commit({"__start__": {"messages": [question]}}, ())
        asked = record(str(self.parent), "start", messages=[question], **{"branch:to:node": None})
        # The channel gives the message its id.
        messages = [*self.values.get("messages", ()), {**question, "id": text(36)}]
        self.commit({"messages": messages, "branch:to:node": None}, [asked])
        answered = record(str(self.parent), "node", messages=[answer])
        self.batch["release"] = True
        self.commit({"messages": [*messages, {**answer, "id": text(36)}]}, [answered])

    def commit(self, changes: dict[str, Any], records: Any) -> None:
        self.seq += 1
        self.values = {**self.values, **changes}
        self.values.pop("branch:to:node" if "branch:to:node" not in changes else "__start__", None)
        made = checkpoint(self.seq, **self.values)
        made["versions_seen"] = {"__input__": {}, "node": {"branch:to:node": self.seq}}
        metadata = {"source": "loop", "step": self.seq, "parents": {}}
        following = NewCheckpoint("", made, metadata, self.parent, self.seq, frozenset(changes))
        self.saver.submit(Batch("chat", records=records, checkpoint=following, **self.batch)).wait()
        self.parent = made["id"]
        self.batch["claim"] = False


def packed_size(saver: SqliteSaver) -> int:
    with closing(saver._database._connect()) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(str(saver._database.name)).stat().st_size


def test_a_long_chat_takes_little_more_than_its_text(tmp_path: Path) -> None:
    """200 turns of 400 kB take at most three times that, and the last turns no more than the first."""
    with SqliteSaver(tmp_path / "chat.db") as saver:
        chat = Chat(saver)
        sizes = [0]
        for turn in range(200):
            chat.turn({"role": "user", "content": text(1000)}, {"role": "ai", "content": text(1000)})
            if turn % 100 == 99:
                sizes.append(packed_size(saver))
        found = saver.load("chat", "").tuple
        assert found is not None
        assert len(found.checkpoint["channel_values"]["messages"]) == 400
    assert sizes[2] <= 3 * 400_000
    assert sizes[2] - sizes[1] <= 1.1 * (sizes[1] - sizes[0])


@pytest.mark.parametrize("element", [lambda n: n, lambda n: f"{n}", lambda n: {"n": n}, lambda n: "x" * 80])
def test_a_growing_list_costs_the_same_each_step(tmp_path: Path, element: Any) -> None:
    """The second half of many steps adds no more to the file than the first, give or take an index."""
    with SqliteSaver(tmp_path / "list.db", synchronous="NORMAL") as saver:
        xs: list[Any] = []
        parent: str | None = None
        sizes = [0]
        for n in range(1, 1201):
            xs = [*xs, element(n)]
            following = new(n, parent, xs=xs)
            saver.submit(Batch("t", 1, claim=n == 1, checkpoint=following)).wait()
            parent = following.checkpoint["id"]
            if n % 600 == 0:
                sizes.append(packed_size(saver))
        found = saver.load("t", "").tuple
        assert found is not None
        assert found.checkpoint["channel_values"]["xs"] == xs
    assert sizes[2] - sizes[1] <= 1.25 * (sizes[1] - sizes[0])


def test_statements_of_a_step_do_not_grow(tmp_path: Path) -> None:
    """A step late in a thread executes as many statements as an early one."""
    with SqliteSaver(tmp_path / "list.db", synchronous="NORMAL") as saver:
        counts: list[int] = []
        xs: list[Any] = []
        parent: str | None = None
        saver.setup()
        connection = saver._database._writer
        assert connection is not None
        for n in range(1, 401):
            xs = [*xs, {"text": "x" * 100, "n": n}]
            following = new(n, parent, xs=xs)
            executed: list[str] = []
            connection.set_trace_callback(executed.append)
            records = [record(parent, f"task{n}", xs=xs[-1:])] if parent else []
            saver.submit(Batch("t", 1, claim=n == 1, records=records, checkpoint=following)).wait()
            counts.append(len(executed))
            parent = following.checkpoint["id"]
        connection.set_trace_callback(None)
    assert max(counts[10:]) <= max(counts[2:10]) + 3


def test_a_value_that_stays_is_stored_once(tmp_path: Path) -> None:
    """A megabyte that does not change is there once after many steps, its input and write included."""
    big = _random.randbytes(1_000_000)
    with SqliteSaver(tmp_path / "big.db") as saver:
        begin = new(1, __start__={"big": big, "n": 0})
        saver.submit(Batch("t", 1, claim=True, checkpoint=begin)).wait()
        parent = begin.checkpoint["id"]
        for n in range(2, 22):
            changed = {"big", "n"} if n == 2 else {"n"}
            records = [record(parent, f"task{n}", **({"big": big} if n == 2 else {}), n=n)]
            following = new(n, parent, changed=changed, big=big, n=n)
            saver.submit(Batch("t", 1, records=records, checkpoint=following)).wait()
            parent = following.checkpoint["id"]
        assert packed_size(saver) < 1_100_000


def test_claims_that_are_refused_cost_nothing(tmp_path: Path) -> None:
    """A run stores as little as ever while others try to get its thread."""
    xs = [{"text": text(1000)} for _ in range(100)]
    with SqliteSaver(tmp_path / "busy.db", synchronous="NORMAL") as saver:
        saver.submit(Batch("t", 1, claim=True, checkpoint=new(1, xs=xs))).wait()
        for n in range(2, 12):
            loaded = saver.load("t", "")
            at = str(loaded.newest_id)
            with pytest.raises(ThreadBusyError):
                busy = Batch("t", loaded.epoch + 1, claim=True, records=[record(at, xs=[text(100)])])
                saver.submit(busy).wait()
            xs = [*xs, {"text": text(10)}]
            saver.submit(Batch("t", 1, checkpoint=new(n, at, xs=xs))).wait()
        assert packed_size(saver) < 2 * 100_000


def test_a_list_that_slides_costs_what_is_new(tmp_path: Path) -> None:
    """A window over the last messages names the ones that stay."""
    with SqliteSaver(tmp_path / "window.db", synchronous="NORMAL") as saver:
        window: list[Any] = []
        parent: str | None = None
        for n in range(1, 201):
            window = [*window[-19:], {"text": text(1000)}]
            following = new(n, parent, window=window)
            saver.submit(Batch("t", 1, claim=n == 1, checkpoint=following)).wait()
            parent = following.checkpoint["id"]
        assert packed_size(saver) < 2 * 200_000


def test_messages_changed_in_place_are_stored(tmp_path: Path) -> None:
    """A message that a node changed and handed back is stored as it is now, history as it was."""
    with SqliteSaver(tmp_path / "place.db") as saver:
        messages = [{"text": text(200)}, {"text": "draft"}]
        begin = new(1, messages=messages)
        saver.submit(Batch("t", 1, claim=True, checkpoint=begin)).wait()
        messages[1]["text"] = "final"
        following = new(2, begin.checkpoint["id"], messages=messages)
        saver.submit(Batch("t", 1, checkpoint=following)).wait()
        history = [
            found.checkpoint["channel_values"]["messages"][1]["text"]
            for found in saver.list({"configurable": {"thread_id": "t"}})
        ]
        assert history == ["final", "draft"]
