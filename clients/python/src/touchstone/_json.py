"""Values of Python as JSON."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import os
import uuid
from collections.abc import Mapping, Set
from typing import Any


def dumps(value: Any) -> str:
    """Compact JSON. Raises ``TypeError`` or ``ValueError`` for what JSON cannot hold."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=_plain)


def key(value: Any) -> str:
    """Equal for values that are equal as JSON."""
    return json.dumps(value, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    if callable(dump := getattr(value, "model_dump", None)):  # Pydantic
        return dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (Set, tuple)):
        return list(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, os.PathLike)):
        return str(value)
    if isinstance(value, decimal.Decimal):
        return float(value)
    if callable(item := getattr(value, "item", None)) and getattr(value, "ndim", None) == 0:  # NumPy
        return item()
    if callable(tolist := getattr(value, "tolist", None)):
        return tolist()
    raise TypeError(f"the type {type(value).__qualname__} is not JSON: use str, numbers, dict or list")
