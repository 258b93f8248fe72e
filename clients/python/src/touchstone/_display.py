"""Results as text and as HTML for notebooks. All values of the evaluation are escaped."""

from __future__ import annotations

import html as escaping
import json
from typing import Any

from ._results import Failure, Result, Verdict

MAX_ROWS = 200
MAX_TEXT = 2000
SHOWN_FAILURES = 10
SHOWN_NOTES = 3
_COLORS = {Verdict.PASS: "#1a7f37", Verdict.FAIL: "#cf222e", Verdict.INCONCLUSIVE: "#9a6700"}
_OUTCOME_COLORS = {"passed": "#1a7f37", "failed": "#cf222e", "unjudged": "#9a6700"}


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


def _headline(result: Result) -> str:
    counts = ", ".join(
        f"{n} {outcome}" for outcome in ("passed", "failed", "unjudged") if (n := sum(it.outcome == outcome for it in result.tasks))
    )
    return f"{result.verdict.name}  score {result.score} (pass score {result.pass_score:g}), {counts}"


def failure_text(failure: Failure) -> str:
    title = f"{failure.id}: {failure.outcome}"
    if failure.reason:
        title += f" ({failure.reason})"
    lines = [title, f"  input     {_value(failure.input)}"]
    if failure.expected is not None:
        lines.append(f"  expected  {_value(failure.expected)}")
    if failure.outcome == "failed" or failure.actual is not None:
        lines.append(f"  actual    {_value(failure.actual)}")
    for assertion in failure.assertions:
        if not assertion.get("holds"):
            lines.append(f"  assertion {assertion.get('expected')}: {_value(assertion.get('found'))}")
    if failure.exception is not None:
        lines.append(f"  raised    {type(failure.exception).__name__}: {failure.exception}")
    return "\n".join(lines)


def summary(result: Result) -> str:
    lines = [_headline(result), *(f"  {reason}" for reason in result.reasons)]
    compared = result.comparison
    if compared is not None:
        lines.append(f"  against the baseline {compared.difference}: {compared.verdict.replace('_', ' ')}")
        for word, ids in (("broke", compared.broke), ("fixed", compared.fixed)):
            if ids:
                lines.append(f"  {word}: {', '.join(ids)}")
    else:
        lines += [f"  {note}" for note in result.notes if note.startswith("no comparison")]
    if result.count("unjudged"):
        # The program repeats a note for each attempt, such as that of a shell about a missing command.
        lines += [f"  note: {note}" for note in list(dict.fromkeys(result.notes))[:SHOWN_NOTES]]
    for failure in result.failures[:SHOWN_FAILURES]:
        lines += ["", failure_text(failure)]
    more = len(result.failures) - SHOWN_FAILURES
    if more > 0:
        lines += ["", f"and {more} more in result.failures"]
    return "\n".join(lines)


def _e(value: Any) -> str:
    return escaping.escape(_value(value))


def html(result: Result) -> str:
    color = _COLORS[result.verdict]
    parts = [
        f'<div><p><strong style="color:{color}">{result.verdict.name}</strong> '
        f"score {_e(str(result.score))}, pass score {result.pass_score:g}, "
        f"{result.count('passed')} of {len(result.tasks)} tasks passed</p>"
    ]
    if result.reasons:
        parts.append("<ul>" + "".join(f"<li>{_e(reason)}</li>" for reason in result.reasons) + "</ul>")
    if result.comparison is not None:
        compared = result.comparison
        parts.append(
            f"<p>Against the baseline {compared.difference}: {_e(compared.verdict.replace('_', ' '))}, "
            f"{len(compared.broke)} broke, {len(compared.fixed)} fixed</p>"
        )
    parts.append("<table><thead><tr><th>Task</th><th>Outcome</th><th>Score</th><th>Reason</th><th>Latency</th></tr></thead><tbody>")
    for task in result.tasks[:MAX_ROWS]:
        score = "" if task.score is None else f"{task.score:.2f}"
        latency = "" if task.latency_ms is None else f"{task.latency_ms} ms"
        parts.append(
            f'<tr><td>{_e(task.id)}</td><td style="color:{_OUTCOME_COLORS[task.outcome]}">{_e(task.outcome)}</td>'
            f"<td>{score}</td><td>{_e(task.reason or '')}</td><td>{latency}</td></tr>"
        )
    parts.append("</tbody></table>")
    if len(result.tasks) > MAX_ROWS:
        parts.append(f"<p>and {len(result.tasks) - MAX_ROWS} more tasks</p>")
    for failure in result.failures[:SHOWN_FAILURES]:
        parts.append(
            f"<details><summary>{_e(failure.id)}: {_e(failure.outcome)}</summary><pre>{escaping.escape(failure_text(failure))}"
            f"{_transcript(failure)}</pre></details>"
        )
    parts.append("</div>")
    return "".join(parts)


def _transcript(failure: Failure) -> str:
    if not failure.transcript:
        return ""
    steps = [_e({key: value for key, value in step.items() if key != "at"}) for step in failure.transcript[:50]]
    return "\n\ntranscript\n" + "\n".join(steps)
