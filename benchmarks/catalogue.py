"""What is measured, in which unit, under which promise, and how much quicker it should be.

Pure data: neither side's library is imported here. `programs.py` holds the program of each
name; both sides run that same text.
"""

from __future__ import annotations

from dataclasses import dataclass

SIDES = ("perdure", "langgraph")

NOTHING = "nothing is stored"
MEMORY = "kept in this process's memory; lost with it"
EXIT = {
    "perdure": "on disk when the run leaves (WAL, FULL)",
    "langgraph": "on disk when the run leaves (WAL, FULL)",
}
ASYNC = {
    "perdure": "on disk when the run returns, written behind it in order (WAL, FULL)",
    "langgraph": "on disk when the run returns, written behind it (WAL, FULL)",
}
SYNC_STEPS = {
    "perdure": "each superstep on disk before the next begins (WAL, FULL)",
    "langgraph": "each superstep on disk before the next begins (WAL, FULL)",
}
SYNC_TASKS = {
    "perdure": "each result on disk before the code that asked for it goes on (WAL, FULL)",
    "langgraph": "results written behind the run, on disk when it returns (WAL, FULL)",
}


@dataclass(frozen=True)
class Workload:
    """One row of the table."""

    name: str
    title: str
    unit: str
    durability: dict[str, str] | str
    goal: float | None = None
    """How many times quicker (or smaller) than the peer it should be at least."""
    alone: bool = False
    """Runs in a process of its own: it loads what the others should not pay for."""
    once: bool = False
    """One round is enough: the figure is a size, or the run is long."""

    def promise(self, side: str) -> str:
        return self.durability if isinstance(self.durability, str) else self.durability[side]


def _supersteps() -> list[Workload]:
    rows = [Workload("step", "superstep of 1,000, no saver", "us", NOTHING, 8)]
    for home in ("memory", "sqlite"):
        for mode, promise in (("exit", EXIT), ("async", ASYNC), ("sync", SYNC_STEPS)):
            durability = MEMORY if home == "memory" else promise
            title = f"superstep of 1,000, {home}, {mode}"
            rows.append(Workload(f"step-{home}-{mode}", title, "us", durability))
    return rows


def _tasks() -> list[Workload]:
    rows = []
    for home in ("none", "sqlite"):
        for shape in ("sequential", "parallel"):
            for way in ("sync", "async"):
                where, promise = ("no saver", NOTHING) if home == "none" else ("sqlite, sync", SYNC_TASKS)
                title = f"task of 500, {shape}, {way}, {where}"
                goal = 8 if home == "none" else None
                rows.append(Workload(f"task-{shape}-{way}-{home}", title, "us", promise, goal))
    return rows


def _streams() -> list[Workload]:
    rows = []
    for mode in ("values", "updates"):
        for way in ("", "-async"):
            title = f"stream({mode}) of 500 supersteps, {'async' if way else 'sync'}"
            rows.append(Workload(f"stream-{mode}{way}", title, "us", NOTHING, 8))
    for way in ("", "-async"):
        title = f"v3, nine projections, 500 supersteps, {'async' if way else 'sync'}"
        rows.append(Workload(f"v3{way}", title, "us", NOTHING, 4))
    for name, title in (
        ("tokens", "token of 1,000 in run.messages, sync"),
        ("tokens-async", "token of 1,000 in run.messages, async"),
        ("tokens-mode", "token of 1,000 in mode messages"),
    ):
        rows.append(Workload(name, title, "us", NOTHING, alone=True))
    return rows


WORKLOADS = (
    *_supersteps(),
    *_tasks(),
    Workload("call", "empty entrypoint call", "us", NOTHING, 20),
    Workload("call-async", "empty entrypoint call, async", "us", NOTHING),
    Workload("resume-memory", "resume behind 500 finished tasks, memory", "ms", MEMORY),
    Workload("resume-sqlite", "resume behind 500 finished tasks, sqlite", "ms", SYNC_TASKS),
    *_streams(),
    Workload("import", "import, CPU with interpreter start", "ms", NOTHING, 10, alone=True),
    Workload("chat-file", "200-turn chat of 400 kB: file", "kB", SYNC_STEPS, alone=True, once=True),
    Workload("chat-turn", "200-turn chat of 400 kB: turn", "us", SYNC_STEPS, alone=True, once=True),
)

RAW = "sqlite-raw"
"""The floor under `step-sqlite-sync`: the bytes that such a step stores, as one plain insert and
commit per step. Measured on perdure's side only."""
RAW_LIMIT = 2.0

MODEL = "tokens-alone"
"""The floor under the `tokens` rows: the same model read by LangChain alone, without a workflow.
Measured in perdure's process only."""
