"""What the repository keeps to: pinned tools, no addresses, a light import."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence

import pytest

import perdure
from house import documents

PINS = ("requirements-test.txt", "requirements-dev.txt", "benchmarks/requirements.txt")
HEAVY = ("pydantic", "langchain_core", "langsmith", "numpy", "httpx", "requests", "orjson")
LATE = (
    "asyncio",
    "concurrent.futures",
    "logging",
    "pickle",
    "perdure.engine.execution",
    "perdure.engine.live",
    "perdure.inspection.reading",
    "perdure.inspection.updating",
    "perdure.parts",
    "perdure.stream.modes",
)


@pytest.mark.parametrize("name", PINS)
def test_tools_are_pinned_by_version_alone(name: str) -> None:
    """A requirements file holds exact versions, comments and other such files, nothing else."""
    allowed = re.compile(r"(#.*|-r [\w/.-]+|[\w.\[\]-]+==[\w.]+)?")
    assert [line for line in documents.text(name).splitlines() if not allowed.fullmatch(line)] == []


@pytest.mark.parametrize("name", [*PINS, "pyproject.toml", "Makefile", ".ci/run"])
def test_set_up_records_no_address(name: str) -> None:
    """Where packages come from is the installing machine's business."""
    assert "://" not in documents.text(name)


def test_version_is_said_once() -> None:
    """The package and its metadata carry one version."""
    project = tomllib.loads(documents.text("pyproject.toml"))["project"]
    assert project["version"] == perdure.__version__


def test_import_leaves_guests_alone() -> None:
    """Importing the library loads nothing of LangChain, pydantic, numpy or an HTTP client."""
    modules = "func, graph, types, checkpoint.memory, checkpoint.sqlite, store.memory"
    assert loaded_by(modules, HEAVY) == []


def test_definitions_load_no_engine() -> None:
    """What only runs need, or what looks at threads, is loaded when it is first used."""
    assert loaded_by("func, graph, types, checkpoint.memory", LATE) == []


def loaded_by(modules: str, names: Sequence[str]) -> list[str]:
    """Which of the names a fresh process has loaded after importing these modules of ours."""
    ours = ", ".join(f"perdure.{name}" for name in modules.split(", "))
    code = f"import sys, {ours}\nprint(*[name for name in {tuple(names)!r} if name in sys.modules])"
    environment = {"PYTHONPATH": str(documents.ROOT / "src"), "PATH": ""}
    printed = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    return printed.split()
