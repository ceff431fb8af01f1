"""Messages and documents of LangChain."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from perdure.serde import Codec, Registry

pytestmark = pytest.mark.langchain

VALUES: list[Any] = [
    HumanMessage("hi", id="1", name="ann"),
    SystemMessage([{"type": "text", "text": "be kind"}]),
    AIMessage("", tool_calls=[{"name": "f", "args": {"x": (1,)}, "id": "c"}], response_metadata={"n": 1}),
    AIMessageChunk("to", id="2"),
    ToolMessage("42", tool_call_id="c", artifact={"rows": {(1, 2)}}),
    RemoveMessage(id="1"),
    Document("text", id="d", metadata={"page": 1}),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("codec", [Codec(), Codec(Registry(strict=True))], ids=["default", "strict"])
def test_a_message_comes_back_as_it_was(codec: Codec, value: Any) -> None:
    """Class, content, ids and calls are those that went in; strict registries know them too."""
    read = codec.decode(codec.encode({"messages": [value]}))["messages"][0]
    assert read == value
    assert (type(read), read.model_fields_set) == (type(value), value.model_fields_set)


def test_messages_are_read_before_langchain_is_imported() -> None:
    """The reader of a message need not have thought of LangChain."""
    data = Codec().encode([HumanMessage("hi"), Document("text")])
    code = f"from perdure.serde import Codec; print(*(type(v).__name__ for v in Codec().decode({data!r})))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": "src"},
    )
    assert done.stdout.split() == ["HumanMessage", "Document"]
