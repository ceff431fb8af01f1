"""A process that runs a workflow on a SQLite file and does as its parent says.

Usage: holder.py FILE TTL WHAT. Writes a line when it reaches a place to wait at, goes on when it
reads one, and ends by writing the result or the name of the error.
"""

import sys

from perdure.checkpoint.sqlite import SqliteSaver
from perdure.func import entrypoint, task

path, ttl, what = sys.argv[1:]
T = {"configurable": {"thread_id": "t"}}


@task
def first():
    with open(path + ".log", "a") as log:
        log.write("first\n")
    return "first"


@task
def wait():
    print("holding", flush=True)
    sys.stdin.readline()
    return "waited"


@task
def add(a, b):
    return a + b


with SqliteSaver.from_conn_string(path, lease_ttl=float(ttl)) as saver:

    @entrypoint(checkpointer=saver)
    def hold(x):
        return [first().result(), wait().result(), x]

    @entrypoint(checkpointer=saver, on_busy="wait")
    def counter(step, *, previous=None):
        return add(previous or 0, step).result()

    try:
        if what == "hold":
            print(hold.invoke("held", T))
        elif what == "count":
            for _ in range(10):
                counter.invoke(1, T)
            print("done")
        else:
            total = [counter.invoke(1, {"configurable": {"thread_id": what}}) for _ in range(20)]
            print(total[-1])
    except Exception as error:
        print(type(error).__name__)
