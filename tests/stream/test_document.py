"""docs/streaming.md says what is so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from house import documents

PROGRAMS = documents.programs(documents.text("docs/streaming.md"))

OPENAI = '''
"""Stands for the `openai` package: an answer in pieces, without a network."""

from types import SimpleNamespace as Thing


class OpenAI:
    def __init__(self):
        self.chat = Thing(completions=Thing(create=self.create))

    def create(self, *, model, messages, stream):
        for text in ("Rayleigh", " ", "scattering", None, "."):
            yield Thing(choices=[Thing(delta=Thing(content=text, tool_calls=None))])
'''


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_print_what_they_say(number: int, tmp_path: Path) -> None:
    """Each program runs as it stands and prints the comments below its prints."""
    program = PROGRAMS[number]
    (tmp_path / "openai.py").write_text(OPENAI)
    path = os.pathsep.join((str(documents.ROOT / "src"), str(tmp_path)))
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={"PYTHONPATH": path, "PATH": ""}, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == documents.promised_output(program) != []
