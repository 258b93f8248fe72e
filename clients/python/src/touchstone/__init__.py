"""Evaluate AI agents: verdicts with confidence intervals, baselines, transcripts.

    result = touchstone.evaluate(cases, agent=answer, pass_score=0.8)
    print(result.summary())
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
    from ._errors import BinaryNotFound, InvalidArguments, InvalidCases, TouchstoneError, VerdictNotReached
    from ._evaluate import aevaluate, evaluate
    from ._progress import Progress
    from ._results import Change, Comparison, Difference, Estimate, Failure, Result, Task, Verdict
    from .client import Client, HostError
    from ._types import Answer, Case, Endpoint, Judged, Judgement, Question, ToolCall

# pytest imports this package at every start to load the plugin, so everything else is loaded when it
# is used.
_MODULES = {
    "_errors": ("BinaryNotFound", "InvalidArguments", "InvalidCases", "TouchstoneError", "VerdictNotReached"),
    "_evaluate": ("aevaluate", "evaluate"),
    "_progress": ("Progress",),
    "_results": ("Change", "Comparison", "Difference", "Estimate", "Failure", "Result", "Task", "Verdict"),
    "client": ("Client", "HostError"),
    "_types": ("Answer", "Case", "Endpoint", "Judged", "Judgement", "Question", "ToolCall"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Answer",
    "BinaryNotFound",
    "Case",
    "Change",
    "Client",
    "Comparison",
    "Difference",
    "Endpoint",
    "Estimate",
    "Failure",
    "HostError",
    "InvalidArguments",
    "InvalidCases",
    "Judged",
    "Judgement",
    "Progress",
    "Question",
    "Result",
    "Task",
    "ToolCall",
    "TouchstoneError",
    "Verdict",
    "VerdictNotReached",
    "__version__",
    "aevaluate",
    "evaluate",
]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
