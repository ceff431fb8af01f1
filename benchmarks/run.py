"""Runs the same programs on perdure and on the peer, by turns, and prints medians and ratios.

One process per side stays up and does one program at a time; a round asks both sides for the
same program one after the other, and rounds alternate who goes first. So both meet the same
machine, and a slow minute hurts both.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from catalogue import MODEL, RAW, RAW_LIMIT, SIDES, WORKLOADS, Workload

HERE = Path(__file__).parent
Figures = dict[str, dict[str, list[float]]]
"""Program -> side -> one figure a round."""


class Side:
    """A side's process, started when it is first asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        environment = {**os.environ, "BENCH_ROOT": name, "LANGSMITH_TRACING": "false"}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._read()

    def figure(self, program: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(program + "\n")
        self.process.stdin.flush()
        answer = self._read()
        if "error" in answer:
            raise SystemExit(f"{self.name} failed at {program}: {answer['error']}")
        return float(answer["figure"])

    def _read(self) -> dict[str, object]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of {self.name} ended early, with code {self.process.wait()}")
        return dict(json.loads(line))

    def close(self) -> None:
        self.process.communicate()


@contextlib.contextmanager
def both(sides: Sequence[str]) -> Iterator[dict[str, Side]]:
    running = {name: Side(name) for name in sides}
    try:
        yield running
    finally:
        for side in running.values():
            side.close()


def measure(workloads: Sequence[Workload], sides: Sequence[str], rounds: int) -> Figures:
    figures: Figures = {work.name: {side: [] for side in sides} for work in workloads}
    figures[RAW], figures[MODEL] = {"perdure": []}, {"perdure": []}
    with both(sides) as running:
        for number in range(rounds):
            order = sides if number % 2 == 0 else sides[::-1]
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for work in workloads:
                if not work.alone:
                    for side in order:
                        figures[work.name][side].append(running[side].figure(work.name))
            if "perdure" in sides and any(work.name == "step-sqlite-sync" for work in workloads):
                figures[RAW]["perdure"].append(running["perdure"].figure(RAW))
    for work in workloads:
        if work.alone:
            for _ in range(1 if work.once else rounds):
                with both(sides) as running:
                    for side in sides:
                        figures[work.name][side].append(running[side].figure(work.name))
                    if work.name == "tokens" and "perdure" in sides:
                        figures[MODEL]["perdure"].append(running["perdure"].figure(MODEL))
    return figures


def row(work: Workload, figures: Figures, sides: Sequence[str]) -> list[str]:
    medians = {side: statistics.median(figures[work.name][side]) for side in sides}
    cells = [work.title, *(f"{medians[side]:,.1f} {work.unit}" for side in sides)]
    if len(sides) < 2:
        return cells
    ratio = medians["langgraph"] / medians["perdure"]
    verdict = "" if work.goal is None else ("reached" if ratio >= work.goal else "MISSED")
    goal = "" if work.goal is None else f"{work.goal:g}x"
    return [*cells, f"{ratio:,.1f}x", goal, verdict]


def table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(cells[i]) for cells in rows if i < len(cells)) for i in range(len(rows[0]))]
    lines = []
    for cells in rows:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=False))
        ]
        lines.append("  ".join(padded).rstrip())
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join(lines)


def versions() -> str:
    names = ("perdure", "langgraph", "langgraph-checkpoint-sqlite", "langchain-core")
    found = [f"{name} {importlib.metadata.version(name)}" for name in names]
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}"
    return ", ".join([*found, machine])


def raw_line(figures: Figures) -> str:
    raw = statistics.median(figures[RAW]["perdure"])
    ours = statistics.median(figures["step-sqlite-sync"]["perdure"])
    verdict = "reached" if ours / raw <= RAW_LIMIT else "MISSED"
    return (
        f"A SQLite sync superstep on perdure takes {ours:,.1f} us, a raw insert and commit of the same bytes"
        f" {raw:,.1f} us: {ours / raw:.2f}x (goal: at most {RAW_LIMIT:g}x, {verdict})."
    )


def model_line(figures: Figures) -> str:
    model = statistics.median(figures[MODEL]["perdure"])
    told = [
        f"{side} {statistics.median(figures['tokens'][side]) - model:,.1f} us"
        for side in SIDES
        if figures["tokens"].get(side)
    ]
    return (
        f"Of a sync token's time LangChain's own streaming takes {model:,.1f} us, read without a workflow; "
        f"on top of it come: {', '.join(told)}."
    )


def promises(workloads: Sequence[Workload], sides: Sequence[str]) -> str:
    rows: dict[tuple[str, ...], list[str]] = {}
    for work in workloads:
        said = tuple(f"{side}: {work.promise(side)}" for side in sides)
        rows.setdefault(said, []).append(work.title)
    lines = ["Durability, by what has been promised when a program ends or goes on:"]
    for said, titles in rows.items():
        lines += ["", *(f"  {line}" for line in said), *(f"    - {title}" for title in titles)]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--side", choices=SIDES, help="one side alone, without ratios")
    parser.add_argument("--json", type=Path, help="write all figures here too")
    options = parser.parse_args()
    sides = (options.side,) if options.side else SIDES
    workloads = [work for work in WORKLOADS if options.only in work.name]
    if not workloads:
        parser.error(f"no program's name contains {options.only!r}")

    figures = measure(workloads, sides, options.rounds)
    head = ["median of rounds", *sides, *(["ratio", "goal", ""] if len(sides) == 2 else [])]
    print(versions(), end="\n\n")
    print(table([head, *(row(work, figures, sides) for work in workloads)]), end="\n\n")
    if figures[RAW]["perdure"]:
        print(raw_line(figures), end="\n\n")
    if figures[MODEL]["perdure"]:
        print(model_line(figures), end="\n\n")
    print(promises(workloads, sides))
    if options.json:
        options.json.write_text(json.dumps({"versions": versions(), "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
