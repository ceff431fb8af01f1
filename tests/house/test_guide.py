"""docs/guide.md says what is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from house import documents

GUIDE = documents.text("docs/guide.md")
PROGRAMS = documents.programs(GUIDE)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_print_what_they_say(number: int, tmp_path: Path) -> None:
    """Each program runs as it stands, in an empty folder, and prints the comments below its prints."""
    program = PROGRAMS[number]
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(documents.ROOT / "src"), "PATH": ""},
        text=True,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == documents.promised_output(program) != []


def test_every_section_has_a_program() -> None:
    """A question is answered by something that runs."""
    sections = re.split(r"^##+ ", GUIDE, flags=re.MULTILINE)[1:]
    assert [each.partition("\n")[0] for each in sections if "```python\n" not in each] == []


def test_links_lead_somewhere() -> None:
    """Files that the guide links are there, and so are the headings."""
    for name, heading in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", GUIDE):
        linked = (documents.ROOT / "docs" / name).resolve() if name else documents.ROOT / "docs/guide.md"
        assert linked.is_file()
        titles = re.findall(r"^#+ (.+)$", linked.read_text("utf-8"), flags=re.MULTILINE)
        assert heading in ("", *(title.lower().replace(" ", "-") for title in titles))
