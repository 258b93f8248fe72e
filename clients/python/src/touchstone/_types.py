"""What goes into an evaluation."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, Union

StrPath: TypeAlias = Union[str, "os.PathLike[str]"]
Match: TypeAlias = Literal["exact", "contains"]
Provider: TypeAlias = Literal["openai", "anthropic"]


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET = _Unset()


@dataclass(frozen=True)
class Case:
    """One task: an input, and what makes an answer right.

    An answer is right if it equals ``expected`` (or contains it, see ``match``), meets the criteria
    of ``rubric`` as a judge decides, or meets ``assertions`` (docs/assertions.md). ``threshold`` is
    the score from which the assertions count as met.
    """

    input: Any
    expected: Any = UNSET
    id: str | None = None
    match: Match | None = None
    rubric: Sequence[str] = ()
    assertions: Sequence[Mapping[str, Any]] = ()
    threshold: float | None = None
    tags: Sequence[str] = ()


@dataclass(frozen=True)
class Question:
    """Everything that an agent is asked.

    An agent whose first parameter has this annotation receives it instead of the input alone.
    """

    input: Any
    messages: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[str] = ()
    turn: int = 0
    attachments: Sequence[Mapping[str, Any]] = ()
    response_schema: Mapping[str, Any] | None = None
    definitions: Sequence[Mapping[str, Any]] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The question as the program sent it (docs/agent-commands.md)."""


@dataclass(frozen=True)
class ToolCall:
    """A tool that the agent wants to be called."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True)
class Answer:
    """An answer with more than an output.

    With ``tool_calls``, the agent is asked again with their results. ``refused`` fails the task.
    """

    output: Any = None
    tool_calls: Sequence[ToolCall] = ()
    refused: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True)
class Judged:
    """What a Python judge decides about."""

    task: str
    input: Any
    output: Any
    expected: Any
    """The expected answer, or ``None`` if the case has none."""
    name: str
    """The name of the assertion: ``judge``, unless the suite names checks of its own."""
    config: Any = None
    tool_calls: Sequence[Mapping[str, Any]] = ()
    latency_ms: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True)
class Judgement:
    """The decision of a Python judge, with a score from 0 to 1 and a reason for people."""

    passed: bool
    score: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Endpoint:
    """A model at an endpoint. ``api_key`` is read from the environment if it is not given."""

    url: str
    model: str
    provider: Provider = "openai"
    api_key: str | None = field(default=None, repr=False)


class Frame(Protocol):
    """A DataFrame, of pandas or alike."""

    @property
    def columns(self) -> Any: ...

    @property
    def to_dict(self) -> Callable[..., Any]: ...


Agent: TypeAlias = Callable[[Any], Any]
"""A function of the input, or of a :class:`Question`; it may be async."""
Verdicts: TypeAlias = Union[bool, float, Judgement]
Judge: TypeAlias = Callable[[Judged], Union[Verdicts, Awaitable[Verdicts]]]
Cases: TypeAlias = Union[StrPath, Sequence[Case], Sequence[Mapping[str, Any]], Frame]
