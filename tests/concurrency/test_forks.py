"""Processes that are forked in the middle of runs."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, threading
from perdure.engine import live
from perdure.func import entrypoint, task

@task
def work(i):
    return i

@entrypoint()
def workflow(n):
    return sum(future.result() for future in [work(i) for i in range(n)])

workflow.invoke(4)
held = threading.Event()

def hold():
    with live._making:
        held.set()
        threading.Event().wait(0.2)

threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(10)
    os._exit(0 if workflow.invoke(4) == 6 else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_can_run_whatever_its_parents_threads_were_at():
    """A fork while a thread of the parent makes what its nodes share leaves the child able to."""
    program = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert done.stdout == "0\n", done.stderr
