"""Programs that do not use LangChain do not pay for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import perdure.context

SOURCE = Path(perdure.context.__file__).parents[1]

PROGRAM = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "langchain_core" else find(name, *a)
from perdure.graph.message import add_messages
assert add_messages([], "hi")[0]["role"] == "user"
print(sorted({name.partition(".")[0] for name in sys.modules} & {"langchain_core", "pydantic", "numpy"}))
"""


def output(program: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env)
    return run.stdout.strip()


def test_merging_dicts_imports_no_guest() -> None:
    """Where langchain-core is not installed, merging messages imports none of the guests."""
    assert output(PROGRAM) == "[]"


def test_importing_the_reducer_imports_no_guest() -> None:
    """Even where it is installed, it is imported with the first message and not before."""
    program = "import sys, perdure.graph.message; print('langchain_core' in sys.modules)"
    assert output(program) == "False"
