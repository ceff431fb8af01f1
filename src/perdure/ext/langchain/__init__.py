"""LangChain as a guest. Imported only once `langchain_core` has been imported by somebody else.

guest       what LangChain is told of a run, and what user code finds around it
visits      chain runs: a run, a node, a task, a conditional edge begin and end
callbacks   callbacks in their forms: lists of handlers, managers
streaming   handlers that feed the streams `messages` and `tools`
"""

from perdure.ext.langchain.callbacks import join
from perdure.ext.langchain.guest import LangChain, surrounding_config

__all__ = ["LangChain", "join", "surrounding_config"]
