"""The demo does what it tells: a kill, a replay, a person's answer."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from house import documents

DEMO = documents.ROOT / "examples" / "essay" / "demo.py"
ENVIRONMENT = {"PYTHONPATH": str(documents.ROOT / "src"), "PATH": "", "PYTHONUNBUFFERED": "1"}
REPLAYED = ["outline", "outline", "write", "polish"]
"""By the second process and by the third, in order."""

pytestmark = pytest.mark.slow


def run(stdin: int) -> str:
    command = [sys.executable, str(DEMO)]
    return subprocess.run(
        command, stdin=stdin, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, check=True, timeout=60
    ).stdout


def test_without_a_terminal_it_answers_itself() -> None:
    """Nobody to ask: the essay is approved, and finished tasks show as replayed."""
    shown = run(subprocess.DEVNULL)
    replayed = [line.split()[0] for line in shown.splitlines() if " replayed, on record since " in line]
    assert replayed == REPLAYED
    assert '"is_approved": true' in shown


def test_at_a_terminal_it_asks() -> None:
    """The person's no is what the workflow returns."""
    person, terminal = pty.openpty()
    try:
        os.write(person, b"no\n")
        assert '"is_approved": false' in run(terminal)
    finally:
        os.close(person)
        os.close(terminal)
