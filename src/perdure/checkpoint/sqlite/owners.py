"""Who holds a thread, and whether that one is still alive.

An owner is one saver object of one process. It says that it lives by a beat, once for all
threads that it holds. It is gone when it said so, when its beat is older than its own time to
live, or when it ran on this host and its process is not there any more: then nobody need wait.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

__all__ = ["Owner", "Process", "is_gone", "process_start", "this_process", "ticks"]


class Process(NamedTuple):
    """A process, told from all others that ever ran."""

    host: str
    boot: str
    """Start of the machine and the world of its process numbers; empty where that is not known."""
    pid: int
    started: str
    """When it started; empty where that is not known."""


class Owner(NamedTuple):
    """A row of the table of owners."""

    key: int
    host: str
    boot: str
    pid: int
    started: str
    ttl: float
    ticks: float
    """Time of the last beat since the machine's start, which no change of the clock moves."""
    wall: float
    """Time of the last beat, for other machines."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def ticks() -> float:
    """Seconds since the machine's start, the same in all of its processes."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def is_gone(owner: Owner, here: Process, ticks: float, wall: float) -> bool:
    """Whether an owner need not be waited for, seen from the process `here`."""
    if owner.host != here.host or owner.boot != here.boot:
        return wall - owner.wall > owner.ttl
    if ticks - owner.ticks > owner.ttl:
        return True
    if owner.pid == here.pid:
        return owner.started != here.started
    return not _is_running(owner.pid, owner.started)


def _is_running(pid: int, started: str) -> bool:
    if started:
        return process_start(pid) == started
    if sys.platform == "win32":
        return True  # only the beat tells
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def process_start(pid: int) -> str:
    """When a process of this machine started; empty if it has ended or that is not known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The name, in parentheses, may hold anything; the state comes first after it.
    fields = stat[stat.rindex(")") + 2 :].split()
    return "" if fields[0] in "ZX" else fields[19]


def this_process() -> Process:
    """The process that runs this."""
    return _process(os.getpid())


@functools.lru_cache(maxsize=1)
def _process(pid: int) -> Process:
    return Process(_host(), _boot(), pid, process_start(pid))


def _host() -> str:
    uname = getattr(os, "uname", None)
    return str(uname().nodename) if uname is not None else os.environ.get("COMPUTERNAME", "")


def _boot() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""
