"""The documents say what is so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from house import documents

README = documents.text("README.md")
README_ZH = documents.text("README.zh-CN.md")
GUARANTEES = documents.text("docs/guarantees.md")


@pytest.mark.parametrize("program", documents.programs(README))
def test_programs_of_the_readme_print_what_they_say(program: str, tmp_path: Path) -> None:
    """Each program of the README runs as it stands and prints the comments below its prints."""
    environment = {"PYTHONPATH": str(documents.ROOT / "src"), "PATH": ""}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == documents.promised_output(program) != []


def test_both_readmes_hold_the_same_programs() -> None:
    """The Chinese README shows the English one's programs, word for word."""
    assert documents.programs(README_ZH) == documents.programs(README)


def test_both_readmes_are_built_alike() -> None:
    """The Chinese README has the English one's headings, items, rows and code, in order."""
    assert documents.outline(README_ZH) == documents.outline(README)


def test_every_guarantee_names_its_proof() -> None:
    """Each row of a table of promises ends with a test."""
    rows = [line for line in GUARANTEES.splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith("| promise ")]
    assert promises
    assert [row for row in promises if not documents.proofs(row.rpartition(" | ")[2])] == []


@pytest.mark.parametrize(("file", "test"), sorted(set(documents.proofs(GUARANTEES))))
def test_the_proofs_exist(file: str, test: str) -> None:
    """A test that docs/guarantees.md names is there."""
    assert f"def {test}" in documents.text(file)
