"""Events as a run would tell them, for tests that feed routers by hand."""

from __future__ import annotations

from perdure.stream.protocol import to_protocol_event


def event(mode, data, ns=(), **more):
    """An item of a stream as an event."""
    return to_protocol_event({"type": mode, "ns": tuple(ns), "data": data, **more})


def start(ns, name, id, **more):
    """A task starts."""
    return event("tasks", {"id": id, "name": name, "input": None, "triggers": (), **more}, ns)


def result(ns, name, id, error=None, interrupts=()):
    """A task ends."""
    data = {"id": id, "name": name, "error": error, "result": {}, "interrupts": list(interrupts)}
    return event("tasks", data, ns)


def said(payload, ns=(), run_id="r1", node="model"):
    """A model, or a node, says something."""
    return event("blocks", (payload, {"run_id": run_id, "langgraph_node": node}), ns)


def written(*words, id="m1"):
    """The events of a message of one block of text."""
    yield {"event": "message-start", "role": "ai", "id": id}
    yield {"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}}
    for word in words:
        delta = {"type": "text-delta", "text": word}
        yield {"event": "content-block-delta", "index": 0, "delta": delta}
    yield {"event": "content-block-finish", "index": 0, "content": {"type": "text", "text": "".join(words)}}
    yield {"event": "message-finish"}
