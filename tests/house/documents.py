"""Reads the Markdown documents: their programs, their outline, the tests they name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROOF = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def text(name: str) -> str:
    """A document of the repository."""
    return (ROOT / name).read_text("utf-8")


def programs(document: str) -> list[str]:
    """The Python programs of a document, in order."""
    return [body for language, body in _FENCE.findall(document) if language == "python"]


def promised_output(program: str) -> list[str]:
    """The lines that a program says it prints: the comments right below each print, also an indented one."""
    lines = [line.strip() for line in program.splitlines()]
    promised: list[str] = []
    for number, line in enumerate(lines):
        if line.startswith("print("):
            for below in lines[number + 1 :]:
                if not below.startswith("# "):
                    break
                promised.append(below.removeprefix("# "))
    return promised


def outline(document: str) -> list[str]:
    """What a document is made of, whatever its language: headings, items, rows, code."""
    kinds = {"#": "heading", "- ": "item", "|": "row", "```": "fence"}
    return [
        kind + (line.partition(" ")[0] if kind == "heading" else "")
        for line in _FENCE.sub("```", document).splitlines()
        for start, kind in kinds.items()
        if line.startswith(start)
    ]


def proofs(document: str) -> list[tuple[str, str]]:
    """The tests a document names, as (file, function); the function may be empty."""
    return _PROOF.findall(document)
