"""Kills the essay workflow half-way, lets it go on, answers its question, and shows the record.

Each start is a real process, the kill is a real SIGKILL, and the database is a plain file that
outlives them all.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import workflow as essay
from perdure.checkpoint.sqlite import SqliteSaver

KILL_AFTER = "write: paragraph 2 of 4"


@dataclass
class Start:
    """One process of the workflow, and the calls that were on record when it began."""

    verb: str
    pid: int
    recorded: list[Any]
    killed: float | None = None


@dataclass
class Stage:
    """The folder that the processes share, and what has happened on it so far."""

    folder: Path
    began: float = field(default_factory=time.time)
    starts: list[Start] = field(default_factory=list)

    @property
    def database(self) -> Path:
        return self.folder / "essay.db"

    @property
    def outside(self) -> Path:
        return self.folder / "outside.log"

    def log(self) -> list[dict[str, Any]]:
        """What the tasks told the outside world."""
        return [json.loads(line) for line in self.outside.read_text().splitlines()]

    def state(self) -> Any:
        """The thread, read from the database by this process."""
        with SqliteSaver.from_conn_string(str(self.database)) as saver:
            return essay.build(saver).get_state(essay.THREAD)

    def recorded(self) -> list[Any]:
        """The calls that need not be done again."""
        calls = [call for task in self.state().tasks for call in task.calls]
        return [call for call in calls if call.state == "finished"]

    @contextlib.contextmanager
    def start(self, verb: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process of the workflow, waited for at the end."""
        recorded = self.recorded()
        program = [sys.executable, essay.__file__, str(self.database), str(self.outside), verb]
        process = subprocess.Popen(program)
        self.starts.append(Start(verb, process.pid, recorded))
        try:
            yield process
        finally:
            process.wait()


def kill_half_way(stage: Stage) -> None:
    """Starts the workflow and kills it in the middle of its second task."""
    with stage.start("start") as process:
        while process.poll() is None and not any(line["what"] == KILL_AFTER for line in stage.log()):
            time.sleep(0.01)
        process.kill()
    stage.starts[-1].killed = time.time()
    if process.returncode != -9:
        raise SystemExit(f"the workflow ended with code {process.returncode} before it was killed")


def run(stage: Stage, verb: str) -> None:
    with stage.start(verb) as process:
        pass
    if process.returncode:
        raise SystemExit(f"`workflow.py {verb}` ended with code {process.returncode}")


def ask(question: dict[str, Any]) -> str:
    """The person's answer, or `yes` when nobody sits at the terminal."""
    print(f"\n  {question['essay']}\n")
    if not sys.stdin.isatty():
        print("  (nobody at the terminal: the answer is yes)")
        return "yes"
    with contextlib.suppress(EOFError):
        return "no" if input(f"  {question['action']} [yes/no] ").strip().lower().startswith("n") else "yes"
    return "yes"


def timeline(stage: Stage) -> Iterator[str]:
    """What ran and what was replayed: the outside log beside the records in the database."""
    log = stage.log()
    for number, start in enumerate(stage.starts, 1):
        yield f"process {number} (pid {start.pid}, {start.verb})"
        for call in start.recorded:
            yield f"           {call.name:8} replayed, on record since {call.ended - stage.began:.2f} s"
        for line in log:
            if line["pid"] == start.pid:
                name, _, what = line["what"].partition(": ")
                yield f"  {line['at'] - stage.began:5.2f} s  {name:8} {what}"
        if start.killed is not None:
            yield f"  {start.killed - stage.began:5.2f} s  kill -9"


def check(stage: Stage) -> str:
    """Says how often each task ran; fails when one ran that had already finished."""
    begun = Counter(line["what"] for line in stage.log())
    times = {name: begun[f"{name}: begin"] for name in ("outline", "write", "polish")}
    if times != {"outline": 1, "write": 2, "polish": 1}:
        raise SystemExit(f"tasks ran as often as this: {times}; a finished one may run only once")
    return "Bodies run: outline once, write twice (killed in the first), polish once."


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # keeps step with the children
    with tempfile.TemporaryDirectory(prefix="perdure-demo-") as folder:
        stage = Stage(Path(folder))
        stage.outside.touch()
        print("An essay in three tasks (▶ begins, ✔ is done). It is killed in the second one:\n")
        kill_half_way(stage)
        print(f"\n  kill -9 {stage.starts[-1].pid}, when `{KILL_AFTER}` was written")
        print(f"\nA new process goes on from {stage.database.name} (↺ is served from the record):\n")
        run(stage, "resume")
        print("\nIt waits for a person, and no process is running. The question is in the database:")
        (question,) = [it.value for task in stage.state().tasks for it in task.interrupts]
        answer = ask(question)
        print("\nA third process takes the answer:\n")
        run(stage, answer)
        print("\nWhat happened, from the database and from the log that the tasks kept outside:\n")
        print("\n".join(timeline(stage)))
        print(f"\n{check(stage)}")


if __name__ == "__main__":
    main()
