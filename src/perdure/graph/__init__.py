"""Graphs: nodes that share a state, and edges that say what runs next."""

from perdure.constants import END, START
from perdure.graph.builder import StateGraph
from perdure.graph.message import MessageGraph, MessagesState, add_messages

__all__ = ["END", "START", "MessageGraph", "MessagesState", "StateGraph", "add_messages"]
