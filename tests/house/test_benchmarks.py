"""The benchmarks run, and their table says what was measured."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from house import documents

FOLDER = documents.ROOT / "benchmarks"
PYTHONPATH = os.pathsep.join([str(FOLDER), str(documents.ROOT / "src")])
ENVIRONMENT = {"PYTHONPATH": PYTHONPATH, "PATH": "", "BENCH_ROOT": "perdure"}


def run(code: str) -> str:
    return subprocess.check_output([sys.executable, "-c", code], env=ENVIRONMENT, text=True)


def test_every_row_has_a_program() -> None:
    """The catalogue and the programs name the same things."""
    code = (
        "import catalogue, programs, stream_programs\n"
        "rows = {work.name for work in catalogue.WORKLOADS} | {catalogue.RAW, catalogue.MODEL}\n"
        "print(sorted(rows ^ programs.PROGRAMS.keys()))"
    )
    assert run(code) == "[]\n"


def test_ratio_and_goal_are_read_from_the_medians() -> None:
    """A row shows both medians, how many times quicker perdure was, and whether that is enough."""
    code = (
        "import run, catalogue\n"
        "work = catalogue.Workload('call', 'a call', 'us', catalogue.NOTHING, 20)\n"
        "figures = {'call': {'perdure': [1.0, 2.0, 9.0], 'langgraph': [30.0, 50.0, 40.0]}}\n"
        "print(run.row(work, figures, catalogue.SIDES))"
    )
    assert run(code) == "['a call', '2.0 us', '40.0 us', '20.0x', '20x', 'reached']\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["step", "step-sqlite-sync", "task-parallel-async-sqlite", "sqlite-raw"])
def test_programs_run_on_perdure(name: str) -> None:
    """A benchmark's program gives the right result here, and a figure."""
    code = (
        f"import pathlib, programs, tempfile\nwith tempfile.TemporaryDirectory() as folder:\n"
        f"    print(programs.PROGRAMS[{name!r}](pathlib.Path(folder)) > 0)"
    )
    assert run(code) == "True\n"
