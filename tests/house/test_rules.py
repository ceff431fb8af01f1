"""What the repository keeps to: pinned tools, no addresses, a light import."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

import perdure
from house import documents

PINS = ("requirements-test.txt", "requirements-dev.txt", "benchmarks/requirements.txt")
HEAVY = ("pydantic", "langchain_core", "langsmith", "numpy", "httpx", "requests", "orjson")


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
    code = (
        "import sys, perdure, perdure.func, perdure.graph, perdure.types\n"
        "import perdure.checkpoint.memory, perdure.checkpoint.sqlite, perdure.store.memory\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    environment = {"PYTHONPATH": str(documents.ROOT / "src"), "PATH": ""}
    printed = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert printed == "[]\n"
