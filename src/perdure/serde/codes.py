"""Numbers that stand for kinds of values in stored bytes.

A number is for ever: it may be retired, never given to another kind. They start at 32, out of
reach of the few low numbers that other writers of msgpack use.
"""

from __future__ import annotations

from typing import Final

# Kinds made of other values. The payload is the number of the part that holds those.
TUPLE: Final = 32
SET: Final = 33
FROZENSET: Final = 34
PAIRS: Final = 35
"""A dict with keys that are not plain text: key, value, key, value ..."""
DEEP_LIST: Final = 36
DEEP_DICT: Final = 37
"""Like a plain list or dict, in a part of its own because it lies deep."""
ORDERED_DICT: Final = 38
DEFAULT_DICT: Final = 39
COUNTER: Final = 40
DEQUE: Final = 41
CHAIN_MAP: Final = 42
NAMESPACE: Final = 43
SLICE: Final = 44
RANGE: Final = 45
FRACTION: Final = 46
ZONED_DATETIME: Final = 47
ZONED_TIME: Final = 48
TIMEZONE: Final = 49
PATTERN: Final = 50
ARRAY: Final = 51
MEMORYVIEW: Final = 52
MAPPING_PROXY: Final = 53
STRUCT_TIME: Final = 54

OBJECT: Final = 60
"""An instance of a data class: name of the class, attributes."""
MODEL: Final = 61
"""A pydantic model: name, fields, names of the fields that were set, extra, private."""
ENUM: Final = 62
NAMED_TUPLE: Final = 63
BUILTIN: Final = 64
"""An instance of a subclass of a built-in: name, content, attributes."""
ERROR: Final = 65
TYPE: Final = 66
REGISTERED: Final = 67

NUMPY_ARRAY: Final = 70
NUMPY_OBJECTS: Final = 71
NUMPY_SCALAR: Final = 72
NUMPY_TEXT: Final = 73
GUEST: Final = 74
"""A value of another library that one text or number tells fully."""

# Kinds told fully by their payload.
BIG_INT: Final = 90
TEXT: Final = 91
"""Text with lone surrogates, which msgpack cannot hold."""
BYTEARRAY: Final = 92
COMPLEX: Final = 93
DECIMAL: Final = 94
DATETIME: Final = 95
DATE: Final = 96
TIME: Final = 97
TIMEDELTA: Final = 98
ZONE_INFO: Final = 99
UUID: Final = 100
PATH: Final = 101
IP_ADDRESS: Final = 102
ELLIPSIS: Final = 103
NOT_IMPLEMENTED: Final = 104
UTC: Final = 105

OPAQUE: Final = 126
"""In digests alone: a value that cannot be stored, by the name of its type."""
