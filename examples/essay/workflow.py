"""An essay in three tasks, approved by a person: `workflow.py DATABASE LOG start|resume|yes|no`.

Every start of this program is a process of its own, and shows a timeline of its tasks as they
run; what ties the processes together is the thread in the database. The tasks also write to a
log of their own, as an e-mail or a payment would leave its mark in the outside world: it shows
what was really done, and how often.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from perdure import Command, entrypoint, interrupt, task
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.stream import show_progress

THREAD = {"configurable": {"thread_id": "essay"}}
PARAGRAPHS = 4
SECONDS_A_PARAGRAPH = 0.4


def note(what: str) -> None:
    """Tells the outside world; one write, so that a kill leaves whole lines."""
    line = json.dumps({"at": time.time(), "pid": os.getpid(), "what": what}) + "\n"
    with open(os.environ["ESSAY_LOG"], "ab", buffering=0) as log:
        log.write(line.encode())


@task
def outline(topic: str) -> list[str]:
    """Decide what to say about the topic."""
    note("outline: begin")
    points = ["what it is", "where it lives", "what it eats", "why we like it"][:PARAGRAPHS]
    note("outline: end")
    return [f"The {topic}: {point}" for point in points]


@task
def write(points: list[str]) -> str:
    """Write a paragraph on each point. This is the long one."""
    note("write: begin")
    paragraphs = []
    for number, point in enumerate(points, 1):
        time.sleep(SECONDS_A_PARAGRAPH)  # stands for a call to a language model
        paragraphs.append(f"{point}.")
        note(f"write: paragraph {number} of {len(points)}")
    note("write: end")
    return " ".join(paragraphs)


@task
def polish(draft: str) -> str:
    """Give the draft its last form."""
    note("polish: begin")
    essay = draft.replace("The cat: why we like it.", "And why we like it: it is a cat.")
    note("polish: end")
    return essay


def build(saver: SqliteSaver) -> Any:
    """The workflow, at home in this saver."""

    @entrypoint(checkpointer=saver)
    def workflow(topic: str) -> dict[str, Any]:
        points = outline(topic).result()
        draft = write(points).result()
        essay = polish(draft).result()
        is_approved = interrupt({"essay": essay, "action": "Please approve/reject the essay"})
        return {"essay": essay, "is_approved": is_approved}

    return workflow


GIVEN = {"start": "cat", "resume": None, "yes": Command(resume=True), "no": Command(resume=False)}


def main() -> None:
    database, os.environ["ESSAY_LOG"], verb = sys.argv[1:]
    with SqliteSaver.from_conn_string(database) as saver:
        run = show_progress(build(saver), GIVEN[verb], THREAD, file=sys.stdout, durability="sync")
    for question in run.interrupts:
        note(f"paused: {question.value['action']}")
    if not run.interrupted:
        note(f"returned: {json.dumps(run.output)}")


if __name__ == "__main__":
    main()
