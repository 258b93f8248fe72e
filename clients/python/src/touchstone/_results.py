"""The result of an evaluation."""

from __future__ import annotations

import enum
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from ._errors import TouchstoneError, VerdictNotReached

if TYPE_CHECKING:
    import pandas

Contents: TypeAlias = Mapping[str, Mapping[str, Any]]
"""``input`` and ``expected`` of tasks, by their ids."""
Outcome: TypeAlias = Literal["passed", "failed", "unjudged"]


class Verdict(enum.Enum):
    """Whether the agent reaches the pass score (docs/statistics.md)."""

    PASS = "pass"
    """The whole confidence interval reaches it."""
    FAIL = "fail"
    """The score, or the whole interval, is below it."""
    INCONCLUSIVE = "inconclusive"
    """Some tasks are unjudged, or there are too few tasks to tell."""


@dataclass(frozen=True)
class Estimate:
    """A number with its confidence interval. ``low`` and ``high`` are ``None`` if it has none."""

    value: float
    low: float | None
    high: float | None
    method: str | None = None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} [{max(self.low, 0):.2f}, {min(self.high, 1):.2f}]"


@dataclass(frozen=True)
class Difference(Estimate):
    """A difference of two scores, from -1 to 1."""

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:+.2f}"
        return f"{self.value:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


@dataclass(frozen=True)
class Task:
    """The outcome of one task in one trial."""

    id: str
    outcome: Outcome
    score: float | None
    """``None`` if the task is unjudged."""
    reason: str | None = None
    """Why it did not pass, as an error code."""
    latency_ms: int | None = None
    cost_usd: float | None = None
    trial: int = 1
    input: Any = field(default=None, compare=False, repr=False)
    """Of the case; ``None`` for tasks of a pack folder."""
    expected: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Failure:
    """A task that failed or is unjudged, with its content."""

    id: str
    outcome: Outcome
    score: float | None
    input: Any = None
    expected: Any = None
    actual: Any = None
    reason: str | None = None
    differences: Sequence[Mapping[str, Any]] = ()
    assertions: Sequence[Mapping[str, Any]] = ()
    """Each assertion of the task, with what it expected and found."""
    transcript: Sequence[Mapping[str, Any]] = ()
    exception: BaseException | None = field(default=None, compare=False)
    """What the agent or the judge raised in this process."""
    trial: int = 1

    @property
    def traceback(self) -> str | None:
        if self.exception is None:
            return None
        return "".join(traceback.format_exception(self.exception))

    def __str__(self) -> str:
        from ._display import failure_text

        return failure_text(self)


@dataclass(frozen=True)
class Change:
    """A task that changed from the baseline."""

    id: str
    turn: str
    """``broke`` or ``fixed``, or another change that the program names."""
    baseline: float | None
    candidate: float | None


@dataclass(frozen=True)
class Comparison:
    """The paired comparison with the baseline."""

    baseline_run_id: str
    """The file, if the baseline is a log of Inspect."""
    difference: Difference
    """Score of this run minus that of the baseline, over the same tasks."""
    verdict: str
    """``regressed``, ``not_worse`` or ``inconclusive`` (docs/statistics.md)."""
    changes: tuple[Change, ...] = ()
    report: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def regressed(self) -> bool:
        """Whether this run is significantly worse than the baseline."""
        return self.verdict == "regressed"

    @property
    def broke(self) -> tuple[str, ...]:
        return tuple(change.id for change in self.changes if change.turn == "broke")

    @property
    def fixed(self) -> tuple[str, ...]:
        return tuple(change.id for change in self.changes if change.turn == "fixed")


@dataclass(frozen=True, repr=False)
class Result:
    """The result of an evaluation. Ask ``passed`` or ``verdict``: a result has no truth value."""

    run_ids: tuple[str, ...]
    verdict: Verdict
    reasons: tuple[str, ...]
    """Why the verdict is not a pass."""
    score: Estimate
    pass_rate: Estimate | None
    pass_score: float
    tasks: tuple[Task, ...]
    failures: tuple[Failure, ...]
    comparison: Comparison | None = None
    """``None`` without a baseline, or if it could not be compared; ``notes`` say why."""
    cost_usd: float | None = None
    """``None`` if the cost is unknown."""
    duration_ms: int | None = None
    notes: tuple[str, ...] = ()
    exit_code: int = 0
    report: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The report of the program (the first run's, if there are trials)."""
    statistics: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """All statistics (docs/statistics.md)."""

    @property
    def run_id(self) -> str:
        return self.run_ids[0]

    @property
    def passed(self) -> bool:
        return self.verdict is Verdict.PASS

    def count(self, outcome: Outcome) -> int:
        return sum(task.outcome == outcome for task in self.tasks)

    def raise_for_verdict(self, *, inconclusive: bool = True) -> None:
        """Raises ``VerdictNotReached`` unless the verdict is a pass.

        With ``inconclusive=False``, an inconclusive verdict is accepted too.
        """
        if self.passed or (self.verdict is Verdict.INCONCLUSIVE and not inconclusive):
            return
        raise VerdictNotReached(self.summary(), self)

    def summary(self) -> str:
        """The scorecard and the failures as text."""
        from ._display import summary

        return summary(self)

    def to_pandas(self) -> pandas.DataFrame:
        """One row per task and trial. Needs pandas."""
        try:
            import pandas
        except ImportError as cause:
            raise TouchstoneError("to_pandas needs pandas", remedy="pip install pandas") from cause
        content = {(failure.id, failure.trial): failure for failure in self.failures}
        rows: list[dict[str, Any]] = []
        for task in self.tasks:
            failure = content.get((task.id, task.trial))
            rows.append(
                {
                    "id": task.id,
                    "trial": task.trial,
                    "outcome": task.outcome,
                    "score": task.score,
                    "reason": task.reason,
                    "latency_ms": task.latency_ms,
                    "cost_usd": task.cost_usd,
                    "input": failure.input if failure else task.input,
                    "expected": failure.expected if failure else task.expected,
                    "actual": failure.actual if failure else None,
                }
            )
        return pandas.DataFrame(rows)

    def _repr_html_(self) -> str:
        from ._display import html

        return html(self)

    def __repr__(self) -> str:
        passed, all_tasks = self.count("passed"), len(self.tasks)
        return f"<Result {self.verdict.value}: score {self.score}, {passed} of {all_tasks} tasks passed, {self.run_id}>"

    def __bool__(self) -> NoReturn:
        raise TypeError("a Result has no truth value: use result.passed or result.verdict")


def estimate(found: Mapping[str, Any] | None) -> Estimate | None:
    if found is None or found.get("value") is None:
        return None
    return Estimate(found["value"], found.get("low"), found.get("high"), found.get("method"))


def tasks_of(report: Mapping[str, Any], trial: int, contents: Contents) -> list[Task]:
    numbers = {task["taskId"]: task for task in report["summary"]["tasks"]}
    tasks = []
    for task in report["tasks"]:
        found = numbers.get(task["taskId"], {})
        unjudged = task["outcome"] == "unjudged"
        tasks.append(
            Task(
                id=task["taskId"],
                outcome=task["outcome"],
                score=None if unjudged else found.get("score"),
                reason=task.get("reason"),
                latency_ms=found.get("latencyMs"),
                cost_usd=found.get("costUsd"),
                trial=trial,
                **contents.get(task["taskId"], {}),
            )
        )
    return tasks


def failure_of(document: Mapping[str, Any], trial: int, exception: BaseException | None) -> Failure:
    expected = document.get("expected")
    if isinstance(expected, Mapping) and set(expected) == {"strategy", "value"}:
        expected = expected["value"]
    unjudged = document["outcome"] == "unjudged"
    return Failure(
        id=document["taskId"],
        outcome=document["outcome"],
        score=None if unjudged else document.get("score"),
        input=document.get("input"),
        expected=expected,
        actual=document.get("actual"),
        reason=document.get("reason"),
        differences=tuple(document.get("differences", ())),
        assertions=tuple(document.get("assertions", ())),
        transcript=tuple(document.get("transcript", ())),
        exception=exception,
        trial=trial,
    )


def comparison_of(document: Mapping[str, Any], baseline: str) -> Comparison | None:
    score = document.get("score")
    if score is None:  # No task was judged in both.
        return None
    regression = document.get("regression") or {}
    changes = []
    for change in document.get("changes", ()):
        before, after = change.get("baseline") or {}, change.get("candidate") or {}
        changes.append(Change(change["taskId"], change["turn"], before.get("score"), after.get("score")))
    return Comparison(
        baseline_run_id=baseline,
        difference=Difference(score["difference"], score.get("low"), score.get("high")),
        verdict=regression.get("verdict", "inconclusive"),
        changes=tuple(changes),
        report=document,
    )
